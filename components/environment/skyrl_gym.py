"""Text environments of SkyRL-gym."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omegaconf import OmegaConf

from rlcomp.errors import DataError
from rlcomp.interfaces.adapter import Adapter
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example


class SkyRLGym(Adapter):
    """Adapter of an environment of SkyRL-gym: ``init(prompt)``, ``step(action)``.

    It is made with ``settings`` as its ``env_config`` and the example's columns as its ``extras``.
    If these hold no ``reward_spec``, the example's answer is the ground truth. The policy reads the
    contents of the returned messages. ``postprocessed_action`` is ignored: the sampled action
    stays. Numbers among its metrics are facts.

    The arguments are those of :class:`rlcomp.interfaces.adapter.Adapter`; ``name`` is SkyRL-gym's
    name, such as ``gsm8k_multi_turn``.

    Raises:
        ConfigError: the pattern has no group, or the wording no ``{observation}``.
        MissingExtra: SkyRL-gym is not installed (extra ``games``).

    Source:
        Cao et al. 2025 (SkyRL-v0), https://github.com/NovaSky-AI/SkyRL.
    """

    package, extra = "skyrl_gym", "games"

    def reset(self, example: Example, seed: int) -> Turn:
        """Make the environment and reset it, without a seed: its interface has none."""
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
