"""Text environments of SkyRL-gym."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omegaconf import OmegaConf

from rlcomp.errors import DataError
from rlcomp.interfaces.adapter import Adapter
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example


class SkyRLGym(Adapter):
    """An environment of SkyRL-gym: ``init(prompt)``, ``step(action)`` with a mapping of results.

    It is made with ``settings`` as its ``env_config`` and the example's columns as its ``extras``;
    where these hold no ``reward_spec``, the example's answer is the ground truth. Of the messages
    that it returns the contents are read. What it makes of an action (``postprocessed_action``) is
    not taken over: what was sampled stays. Numbers among its metrics are facts.

    The arguments are those of :class:`rlcomp.interfaces.adapter.Adapter`, with ``name`` as
    SkyRL-gym registers it, such as ``gsm8k_multi_turn``.

    Raises:
        ConfigError: the pattern has no group, or the wording no ``{observation}``.
        MissingExtra: SkyRL-gym is not installed (extra ``games``).

    Source:
        Cao et al. 2025 (SkyRL-v0), https://github.com/NovaSky-AI/SkyRL.
    """

    package, extra = "skyrl_gym", "games"

    def reset(self, example: Example, seed: int) -> Turn:
        """Make it and begin. It is given no seed: its interface knows none."""
        del seed
        spec = {"reward_spec": {"ground_truth": example.answer}, "extra_info": {}}
        extras = {**spec, **example.columns}
        self.peer = self.make(env_config=OmegaConf.create(self.settings), extras=extras)
        asked = {"role": "user", "content": example.prompt}
        told, _ = self.peer.init([{**asked}])
        if told[:1] != [asked]:
            raise DataError("the environment rewrites the prompt: give the task that wording")
        return self._read(told[1:])

    def answer(self, action: str) -> Turn:
        """Step."""
        said = self.peer.step(action)
        return self._read(said["observations"], reward=float(said["reward"]), done=said["done"])

    def _read(
        self, messages: Sequence[Mapping[str, str]], reward: float = 0.0, done: bool = False
    ) -> Turn:
        told = "\n".join(message["content"] for message in messages)
        return self.turn(told, reward=reward, done=done)

    def facts(self) -> Mapping[str, float]:
        """``unread``, and the numbers among its metrics."""
        metrics = self.peer.get_metrics().items() if self.peer else ()
        numbers = {name: float(n) for name, n in metrics if isinstance(n, (bool, int, float))}
        return {**super().facts(), **numbers}
