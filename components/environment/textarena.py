"""Single-player games of TextArena."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from rlcomp.interfaces.adapter import Adapter, world_seed
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example


class TextArena(Adapter):
    """Adapter of a one-player game: ``reset``, ``get_observation``, ``step``, ``close``.

    The observation is the text that is new since the policy's last move. A game that returns
    messages (names that end in ``-raw``) leaves the policy's own move out. The reward of player 0
    at the end of the game is paid with the last turn. The game itself reads the move; most search
    it in square brackets.

    TextArena draws from Python's global generator. Here each game has its own state of it, so that
    games that are played side by side do not influence one another or anything else.

    The arguments are those of :class:`rlcomp.interfaces.adapter.Adapter`; ``name`` is TextArena's
    name, such as ``GuessTheNumber-v0``.

    Raises:
        ConfigError: the pattern has no group, or the wording no ``{observation}``.
        MissingExtra: TextArena is not installed (extra ``games``).

    Source:
        Guertler et al. 2025 (TextArena), arXiv:2504.11442.
    """

    package, extra = "textarena", "games"
    before = ""

    def prepare(self) -> None:
        """Make the game."""
        self.drawn = random.Random(0).getstate()
        with self._own_draws():
            self.peer = self.make(**self.settings)

    def reset(self, example: Example, seed: int) -> Turn:
        """Reset the game with the column ``seed``, or else with the episode's own seed."""
        world = world_seed(example, seed)
        self.drawn = random.Random(world).getstate()
        with self._own_draws():
            self.peer.reset(num_players=1, seed=world)
            return self.turn(self._told())

    def answer(self, action: str) -> Turn:
        """Make a move; the last move is paid."""
        with self._own_draws():
            done, _ = self.peer.step(action)
            if not done:
                return self.turn(self._told())
            rewards, _ = self.peer.close()
            return self.turn("", reward=float(rewards[0]), done=True)

    def _told(self) -> str:
        """Return the new part of the observation: of a growing text, or the others' messages."""
        player, observation = self.peer.get_observation()
        if not isinstance(observation, str):
            return "\n".join(text for sender, text, _ in observation if sender != player)
        before, self.before = self.before, observation
        return observation.removeprefix(before)

    @contextmanager
    def _own_draws(self) -> Iterator[None]:
        outside = random.getstate()
        random.setstate(self.drawn)
        try:
            yield
        finally:
            self.drawn = random.getstate()
            random.setstate(outside)

    def close(self) -> None:
        """No-op: the game's own ``close`` only returns its rewards."""
