"""Worker that runs the stages of a request with the request's weights and seeds."""

from __future__ import annotations

import pickle
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from rlcomp.cluster.serialization import unpack
from rlcomp.engine.memory import keep_freed_memory
from rlcomp.errors import ConfigError, ProcessEnded, refuse_exit
from rlcomp.interfaces.cluster import RolloutReply, RolloutRequest
from rlcomp.metrics import recording
from rlcomp.seed import named_seed, seed_globals


def process_settings() -> dict[str, Any]:
    """Return the process-wide settings of torch that change the bits of results."""
    return {
        "threads": torch.get_num_threads(),
        "dtype": torch.get_default_dtype(),
        "matmul": torch.get_float32_matmul_precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


def apply_settings(settings: Mapping[str, Any]) -> None:
    """Apply the settings of another process to this one, and keep freed memory as a run does."""
    keep_freed_memory()
    torch.set_num_threads(settings["threads"])
    torch.set_default_dtype(settings["dtype"])
    torch.set_float32_matmul_precision(settings["matmul"])
    torch.use_deterministic_algorithms(settings["deterministic"])


class StageWorker:
    """Runner of the stages of requests.

    Args:
        stages: data of :class:`rlcomp.cluster.serialization.SerializedStages`.
    """

    def __init__(self, stages: bytes) -> None:
        self.stages, self.generators, self.weights = unpack(stages)

    def load(self, weights: Sequence[Tensor]) -> None:
        """Load weights, given as the bytes of each storage."""
        for storage, published in zip(self.weights, weights, strict=True):
            storage.copy_(published)

    def answer(self, request: RolloutRequest) -> RolloutReply:
        """Run the stages of a request and return the reply.

        Raises:
            ConfigError: a stage changes a buffer; or the request has only a part of the prompts,
                and no stage draws by :func:`rlcomp.engine.uniforms.uniform`.
            ProcessEnded: a stage ends the process.
        """
        start = time.perf_counter()
        self._seed(request)
        before = self._buffers()
        with (
            recording(progress=request.progress, step=request.step) as ledger,
            torch.no_grad(),
            refuse_exit("a stage on a worker", ProcessEnded),
        ):
            rows = self._run(request.batch)
        self._check_stages(request, before)
        seconds = time.perf_counter() - start
        return RolloutReply(request.number, version_of(self.stages), rows.cpu(), ledger, seconds)

    def _run(self, batch: TensorDict) -> TensorDict:
        device = next((tensor.device for tensor in self.weights), torch.device("cpu"))
        rows = batch.to(device)
        for stage in self.stages:
            rows = stage(rows)
        return rows

    def _seed(self, request: RolloutRequest) -> None:
        for generator, seed in zip(self.generators, request.seeds, strict=True):
            generator.manual_seed(seed)
            part = request.part
            generator.first, generator.prompts = part.first, part.prompts
            generator.total_prompts = part.total
            generator.was_used = False
        # rlcomp's stages do not use the global generators. The seed makes other code repeatable.
        seed_globals(named_seed(request.number, f"{request.seeds} {request.part.first}"))

    def _buffers(self) -> dict[str, tuple[int, int]]:
        """Return the identity and torch's count of changes of each buffer, by name."""
        return {
            name: (id(buffer), buffer._version)
            for name, buffer in nn.ModuleList(self.stages).named_buffers()
        }

    def _check_stages(self, request: RolloutRequest, before: dict[str, tuple[int, int]]) -> None:
        after = self._buffers()
        changed = [name for name, state in after.items() if before.get(name) != state]
        if changed:
            number, _, name = changed[0].partition(".")
            kind = type(self.stages[int(number)]).__name__
            raise ConfigError(
                f"{kind} changes its buffer '{name}' in a call, and a worker loses the change: "
                "take the stage out of cluster.remote"
            )
        is_whole = request.part.prompts == request.part.total
        if not is_whole and not any(generator.was_used for generator in self.generators):
            raise ConfigError(
                f"{type(self.stages[0]).__name__} or its policy does not draw one random number a "
                "row (rlcomp.engine.uniforms.uniform), so workers cannot share its prompts: "
                "set cluster.workers=1"
            )


def version_of(stages: Sequence[nn.Module]) -> int | None:
    """Return the version of the stages' policy; None if they have no policy."""
    versions = (getattr(getattr(stage, "policy", None), "version", None) for stage in stages)
    return next((int(version) for version in versions if version is not None), None)


def failure(error: BaseException) -> bytes:
    """Return a pickled error; a RuntimeError with its message if it cannot be pickled."""
    try:
        data = pickle.dumps(error)
        pickle.loads(data)
    except Exception:  # its class may raise any error when it is pickled
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return data
