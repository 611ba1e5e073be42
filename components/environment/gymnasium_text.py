"""Environments with gymnasium's interface, played in text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlcomp.arguments import NonEmptyText, RegularExpression
from rlcomp.interfaces.adapter import Adapter, as_text, numbered, world_seed
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example


class GymnasiumText(Adapter):
    r"""An environment of gymnasium: ``reset(seed=)``, ``step`` with five results.

    An action is a text of the action space, or a number of it, by its name or in digits; anything
    else counts as unread. The anchor is the observation as it is returned. Column ``options`` goes
    to ``reset``, column ``seed`` in the place of the episode's own seed.

    Args:
        name: of the environment, such as ``FrozenLake-v1``; or the dotted path of a class.
        settings: arguments that it is made with.
        actions: names of the actions 0, 1, and so on.
        rendered: what the policy reads is what ``render()`` gives (``settings.render_mode=ansi``).
        stops: texts that end a turn of the policy; EOS always does.
        action_pattern: regular expression whose group 1 is the action; null: the whole turn.
        wording: of an observation, ``{observation}`` filled in.

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
        """Begin in the world of the seed."""
        seed, options = world_seed(example, seed), example.columns.get("options")
        observation, _ = self.peer.reset(seed=seed, options=options)
        return self._seen(observation)

    def answer(self, action: str) -> Turn | None:
        """Step, where it is an action."""
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
        """``unread``, and whether a limit of the environment's own ended it: ``time_limit``."""
        return {**super().facts(), "time_limit": float(self.truncated)}
