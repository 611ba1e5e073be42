"""Adapter of environments that run on an OpenEnv server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from rlcomp.arguments import NonEmptyText, RegularExpression
from rlcomp.errors import ConfigError
from rlcomp.interfaces.adapter import Adapter, observation_text, world_seed
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example
from rlcomp.workers.function_call import load

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class OpenEnv(Adapter):
    r"""Adapter of an environment of OpenEnv: ``sync()``, then ``reset``, ``step``, ``close``.

    Each episode has its own connection and environment on the server. An action is a mapping with
    one entry, or an object of the environment's class of actions.

    Args:
        name: dotted path of the client's class.
        settings: arguments of its constructor: ``base_url`` of a server on this machine.
        action_class: dotted path of the class of actions; None: actions are mappings.
        action_field: entry of an action that gets the policy's text.
        observation_field: entry of an observation that the policy reads; None: all of it, as JSON.
        stops: texts that end a turn of the policy, in addition to EOS.
        action_pattern: regular expression whose group 1 is the action; None: the whole turn.
        wording: template of an observation, with ``{observation}``.

    Raises:
        ConfigError: ``base_url`` is missing or names another machine; the pattern has no group, or
            the wording no ``{observation}``.
        MissingExtra: OpenEnv is not installed (extra ``openenv``).

    Source:
        https://github.com/huggingface/OpenEnv.
    """

    package, extra = "openenv", "openenv"

    def __init__(
        self,
        *,
        name: NonEmptyText = "openenv.core.generic_client.GenericEnvClient",
        settings: Mapping[str, Any] | None = None,
        action_class: NonEmptyText | None = None,
        action_field: NonEmptyText = "message",
        observation_field: NonEmptyText | None = None,
        stops: Sequence[NonEmptyText] = (),
        action_pattern: RegularExpression | None = None,
        wording: NonEmptyText = "\n{observation}\n",
    ) -> None:
        super().__init__(
            name, settings=settings, stops=stops, action_pattern=action_pattern, wording=wording
        )
        url = self.settings.get("base_url")
        if urlsplit(str(url)).hostname not in _LOOPBACK:
            raise ConfigError(
                f"settings.base_url is {url!r}: must be the URL of a server on this machine, "
                "such as http://127.0.0.1:8000"
            )
        self.action: Any = dict if action_class is None else load(action_class, None)
        self.action_field = action_field
        self.observation_field = observation_field

    def reset(self, example: Example, seed: int) -> Turn:
        """Connect to the server and reset the environment with the seed."""
        self.peer = self.make(**self.settings).sync()
        self.peer.connect()
        return self._read_result(self.peer.reset(seed=world_seed(example, seed)), first=True)

    def answer(self, action: str) -> Turn:
        """Send an action to the server and return the observation."""
        return self._read_result(self.peer.step(self.action(**{self.action_field: action})))

    def _read_result(self, result: Any, first: bool = False) -> Turn:  # noqa: ANN401
        # The reward of a reset is ignored, because it belongs to no action.
        reward = 0.0 if first or result.reward is None else float(result.reward)
        content, field = result.observation, self.observation_field
        if field is not None:
            content = content[field] if isinstance(content, Mapping) else getattr(content, field)
        return self.turn(observation_text(content), reward=reward, done=bool(result.done))
