"""Environments with gymnasium's interface, played as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlcomp.arguments import NonEmptyText, RegularExpression
from rlcomp.interfaces.adapter import Adapter, as_text, numbered, world_seed
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example


class GymnasiumText(Adapter):
    r"""Adapter of an environment of gymnasium: ``reset(seed=)``, ``step`` with five results.

    An action is a text of the action space, or one of its numbers as a name or in digits; anything
    else counts as unread. The anchor is the observation as it is returned. The column ``options``
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
        return self._seen(observation)

    def answer(self, action: str) -> Turn | None:
        """Take a step if the text is an action."""
        chosen = numbered(action, self.actions)
        if not self.peer.action_space.contains(chosen):
            return None
        observation, reward, terminated, self.truncated, _ = self.peer.step(chosen)
        done = bool(terminated or self.truncated)
        return self._seen(observation, reward=float(reward), done=done)

    def _seen(self, observation: object, reward: float = 0.0, done: bool = False) -> Turn:
        text = as_text(observation)
        shown = str(self.peer.render()) if self.rendered else text
        return self.turn(shown, reward=reward, done=done, anchor=text)

    def facts(self) -> Mapping[str, float]:
        """Return ``unread``, and ``time_limit``: whether the environment's limit ended it."""
        return {**super().facts(), "time_limit": float(self.truncated)}
