"""One-player games of TextArena."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from rlcomp.interfaces.adapter import Adapter, world_seed
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example


class TextArena(Adapter):
    """A game of TextArena that one plays: ``reset``, ``get_observation``, ``step``, ``close``.

    The policy is told what is new since its last move; where the game tells messages (names that
    end in ``-raw``), not its own move. The reward is that of player 0 at the end of the game, paid
    with its last turn. The game judges itself what a move is; most look for it in square brackets.

    TextArena draws from Python's global generator. Here each game draws from a state of its own, so
    that games that are played side by side do not change one another, nor anything else.

    The arguments are those of :class:`rlcomp.interfaces.adapter.Adapter`, with ``name`` as
    TextArena registers it, such as ``GuessTheNumber-v0``.

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
        """Begin the game of the seed; column ``seed`` stands in the place of the episode's own."""
        world = world_seed(example, seed)
        self.drawn = random.Random(world).getstate()
        with self._own_draws():
            self.peer.reset(num_players=1, seed=world)
            return self.turn(self._told())

    def answer(self, action: str) -> Turn:
        """Move; with the last move the reward comes."""
        with self._own_draws():
            done, _ = self.peer.step(action)
            if not done:
                return self.turn(self._told())
            rewards, _ = self.peer.close()
            return self.turn("", reward=float(rewards[0]), done=True)

    def _told(self) -> str:
        """What is new to the player: of a text that grows, or messages of others, each a triple."""
        player, told = self.peer.get_observation()
        if not isinstance(told, str):
            return "\n".join(text for sender, text, _ in told if sender != player)
        before, self.before = self.before, told
        return told.removeprefix(before)

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
        """Nothing is held: the game's own ``close`` tells its rewards."""
