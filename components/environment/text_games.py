"""Adapters of libraries of text games."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from omegaconf import OmegaConf

from rlcomp.arguments import NonEmptyText, RegularExpression
from rlcomp.errors import DataError
from rlcomp.interfaces.adapter import Adapter, action_number, observation_text, world_seed
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example


class GymnasiumText(Adapter):
    r"""Adapter of an environment of gymnasium: ``reset(seed=)``, ``step`` with five results.

    An action is a text of the action space, or one of its numbers as a name or in digits; anything
    else counts as unread. The anchor is the returned observation. The column ``options``
    goes to ``reset``, and the column ``seed`` replaces the episode's own seed.

    Args:
        name: name of the environment, such as ``FrozenLake-v1``, or the dotted path of a class.
        settings: arguments of its constructor.
        actions: names of the actions 0, 1, and so on.
        rendered: whether the policy reads ``render()`` (``settings.render_mode=ansi``).
        stops: texts that end a turn of the policy; EOS always does.
        action_pattern: regular expression whose group 1 is the action; null: the whole turn.
        wording: template of an observation, with ``{observation}``.

    Raises:
        ConfigError: the pattern has no group, or the wording no ``{observation}``.
        MissingExtra: gymnasium is not installed (extra ``envs``).

    Source:
        Towers et al. 2024 (Gymnasium), arXiv:2407.17032.
    """

    package, extra = "gymnasium", "envs"

    def __init__(
        self,
        *,
        name: NonEmptyText,
        settings: Mapping[str, Any] | None = None,
        actions: Sequence[NonEmptyText] = (),
        rendered: bool = False,
        stops: Sequence[NonEmptyText] = (),
        action_pattern: RegularExpression | None = None,
        wording: NonEmptyText = "\n{observation}\n",
    ) -> None:
        super().__init__(
            name, settings=settings, stops=stops, action_pattern=action_pattern, wording=wording
        )
        self.actions = tuple(actions)
        self.rendered = rendered
        self.truncated = False

    def prepare(self) -> None:
        """Make the environment."""
        self.peer = self.make(**self.settings)

    def reset(self, example: Example, seed: int) -> Turn:
        """Reset the environment with the seed."""
        seed, options = world_seed(example, seed), example.columns.get("options")
        observation, _ = self.peer.reset(seed=seed, options=options)
        return self._observe(observation)

    def answer(self, action: str) -> Turn | None:
        """Take a step; return None if the text is no action."""
        chosen = action_number(action, self.actions)
        if not self.peer.action_space.contains(chosen):
            return None
        observation, reward, terminated, self.truncated, _ = self.peer.step(chosen)
        done = bool(terminated or self.truncated)
        return self._observe(observation, reward=float(reward), done=done)

    def _observe(self, observation: object, reward: float = 0.0, done: bool = False) -> Turn:
        text = observation_text(observation)
        content = str(self.peer.render()) if self.rendered else text
        return self.turn(content, reward=reward, done=done, anchor=text)

    def facts(self) -> Mapping[str, float]:
        """Return ``unread``, and ``time_limit``: 1 if the environment truncated the episode."""
        return {**super().facts(), "time_limit": float(self.truncated)}


class SkyRLGym(Adapter):
    """Adapter of an environment of SkyRL-gym: ``init(prompt)``, ``step(action)``.

    The environment is made with ``settings`` as its ``env_config`` and the example's columns as its
    ``extras``. Without a column ``reward_spec`` the example's answer is the ground truth. The
    observation is the content of the returned messages. ``postprocessed_action`` is ignored.
    Numbers among the environment's metrics are facts.

    Takes the arguments of :class:`rlcomp.interfaces.adapter.Adapter`; ``name`` is SkyRL-gym's
    name, such as ``gsm8k_multi_turn``.

    Raises:
        ConfigError: the pattern has no group, or the wording no ``{observation}``.
        MissingExtra: SkyRL-gym is not installed (extra ``games``).

    Source:
        Cao et al. 2025 (SkyRL-v0), https://github.com/NovaSky-AI/SkyRL.
    """

    package, extra = "skyrl_gym", "games"

    def reset(self, example: Example, seed: int) -> Turn:
        """Make the environment and reset it, without a seed: its interface has none.

        Raises:
            DataError: the environment changes the prompt.
        """
        del seed
        spec = {"reward_spec": {"ground_truth": example.answer}, "extra_info": {}}
        extras = {**spec, **example.columns}
        self.peer = self.make(env_config=OmegaConf.create(self.settings), extras=extras)
        prompt = {"role": "user", "content": example.prompt}
        messages, _ = self.peer.init([{**prompt}])
        if messages[:1] != [prompt]:
            raise DataError("the environment rewrites the prompt: give the task that wording")
        return self._read(messages[1:])

    def answer(self, action: str) -> Turn:
        """Take a step."""
        result = self.peer.step(action)
        messages, reward = result["observations"], float(result["reward"])
        return self._read(messages, reward=reward, done=result["done"])

    def _read(
        self, messages: Sequence[Mapping[str, str]], reward: float = 0.0, done: bool = False
    ) -> Turn:
        text = "\n".join(message["content"] for message in messages)
        return self.turn(text, reward=reward, done=done)

    def facts(self) -> Mapping[str, float]:
        """Return ``unread`` and the numbers among the environment's metrics."""
        metrics = self.peer.get_metrics().items() if self.peer else ()
        numbers = {name: float(n) for name, n in metrics if isinstance(n, (bool, int, float))}
        return {**super().facts(), **numbers}


class TextArena(Adapter):
    """Adapter of a one-player game: ``reset``, ``get_observation``, ``step``, ``close``.

    The observation is the text since the policy's last move; a game that returns messages (names
    that end in ``-raw``) leaves the policy's own move out. The last turn has player 0's reward of
    the game. The game parses the move; most games expect it in square brackets.

    TextArena draws from Python's global generator. This adapter keeps a state of that generator for
    each game, so that games do not influence one another or anything else.

    Takes the arguments of :class:`rlcomp.interfaces.adapter.Adapter`; ``name`` is TextArena's
    name, such as ``GuessTheNumber-v0``.

    Raises:
        ConfigError: the pattern has no group, or the wording no ``{observation}``.
        MissingExtra: TextArena is not installed (extra ``games``).

    Source:
        Guertler et al. 2025 (TextArena), arXiv:2504.11442.
    """

    package, extra = "textarena", "games"
    previous_text = ""

    def prepare(self) -> None:
        """Make the game."""
        self.random_state = random.Random(0).getstate()
        with self._own_random():
            self.peer = self.make(**self.settings)

    def reset(self, example: Example, seed: int) -> Turn:
        """Reset the game with the column ``seed``, or else with the episode's own seed."""
        world = world_seed(example, seed)
        self.random_state = random.Random(world).getstate()
        with self._own_random():
            self.peer.reset(num_players=1, seed=world)
            return self.turn(self._new_text())

    def answer(self, action: str) -> Turn:
        """Make a move; the last move is paid."""
        with self._own_random():
            done, _ = self.peer.step(action)
            if not done:
                return self.turn(self._new_text())
            rewards, _ = self.peer.close()
            return self.turn("", reward=float(rewards[0]), done=True)

    def _new_text(self) -> str:
        """Return the new part of a growing observation, or the others' messages."""
        player, observation = self.peer.get_observation()
        if not isinstance(observation, str):
            return "\n".join(text for sender, text, _ in observation if sender != player)
        previous, self.previous_text = self.previous_text, observation
        return observation.removeprefix(previous)

    @contextmanager
    def _own_random(self) -> Iterator[None]:
        global_state = random.getstate()
        random.setstate(self.random_state)
        try:
            yield
        finally:
            self.random_state = random.getstate()
            random.setstate(global_state)

    def close(self) -> None:
        """No-op: the game's own ``close`` only returns its rewards."""
