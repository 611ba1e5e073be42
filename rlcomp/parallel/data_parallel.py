"""Data-parallel update strategy: several ranks take an optimiser step together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn, optim
from torch.nn import Parameter

from rlcomp.errors import ConfigError, NumericalError
from rlcomp.metrics import merge, recording
from rlcomp.parallel.load_balancing import Split, assign_rows
from rlcomp.parallel.ranks import Ranks, merge_ledgers, ranks
from rlcomp.parallel.state_sync import add_sums, running_sums, sum_changes
from rlcomp.parallel.update_strategy import Forward, LocalUpdate, Pass
from rlcomp.parallel.weights import all_reduce_gradients

# Optimisers that step every number by itself, so they can step parts of a parameter.
_ELEMENTWISE = (
    optim.Adadelta,
    optim.Adagrad,
    optim.Adam,
    optim.Adamax,
    optim.ASGD,
    optim.NAdam,
    optim.RAdam,
    optim.RMSprop,
    optim.Rprop,
    optim.SGD,
)


def choose_strategy(
    model: TensorDictModuleBase | None, others: Sequence[Parameter], *, sums: bool
) -> LocalUpdate:
    """Return the update strategy of a learner: for the ranks of this run, or for one process.

    Args:
        model: the trained model; None if the losses hold their own models.
        others: trained parameters of losses, outside of the model.
        sums: whether all losses are weighted sums over the whole step.

    Raises:
        ConfigError: the ranks cannot share its steps.
    """
    group = ranks()
    if group is None:
        return LocalUpdate(model)
    if model is None:
        raise _unsupported_learner("its losses hold their own models (control)")
    if not sums:
        raise _unsupported_learner(
            "a loss averages over its rows, and each rank has some of the rows"
        )
    if "attention_mask" not in model.in_keys:
        raise _unsupported_learner(f"{type(model).__name__} does not read rows of tokens")
    return DataParallelUpdate(group, model, others)


def _unsupported_learner(reason: str) -> ConfigError:
    return ConfigError(
        f"parallel: ranks cannot share the steps of this learner: {reason}; use parallel=none, "
        "without torchrun; several seeds at once: rlcomp -m seed=0,1"
    )


class DataParallelUpdate(LocalUpdate):
    """Update strategy of a learner on several ranks.

    Every rank has all rows and prepares the same step. It runs the passes over its share of the
    rows, and steps its parts of the parameters with the gradient of all rows.

    Args:
        group: the ranks.
        model: the trained model.
        others: trained parameters of losses, whole on every rank.
    """

    splits_rows = False

    def __init__(
        self, group: Ranks, model: TensorDictModuleBase, others: Sequence[Parameter]
    ) -> None:
        self.ranks, self.weights = group, group.weights(model)
        super().__init__(self.weights.module)
        self.is_sharded = self.weights.is_sharded
        self.others = [*others]
        self._shapes = {id(self.trained_part(p)): p.shape for p in (*model.parameters(), *others)}

    def trained_part(self, parameter: Parameter) -> Parameter:
        """Return the part of a parameter that this rank trains."""
        if any(parameter is other for other in self.others):
            return parameter
        return self.weights.part(parameter)

    def whole_shape(self, part: Tensor) -> torch.Size:
        """Return the shape of the whole parameter of a part."""
        shape: torch.Size = self._shapes[id(part)]
        return shape

    def check(self, optimizer: optim.Optimizer) -> None:
        """Check that an optimiser of shards is elementwise, and steps only trained parts.

        Raises:
            ConfigError: the optimiser is not elementwise, or steps another parameter.
        """
        if self.is_sharded and not isinstance(optimizer, _ELEMENTWISE):
            raise ConfigError(
                f"optimizer is {type(optimizer).__name__}, and parallel=shard has parts of "
                "matrices, which only optimisers of single numbers can step (AdamW, SGD, ...): "
                "use parallel=replicate, or optimizer@learner.optimizer=adamw"
            )
        stepped = [p for group in optimizer.param_groups for p in group["params"]]
        if any(id(parameter) not in self._shapes for parameter in stepped):
            raise ConfigError(
                "optimizer holds parameters from before they were put into parts, and would step "
                "what nobody reads: build it from the named parameters that the learner gives it"
            )

    def run(self, learner: nn.Module, method: str, *arguments: object) -> Any:  # noqa: ANN401
        """Call a method of the learner on all ranks; return its result here."""
        return self.ranks.call_on_all(learner, method, *arguments)

    def accumulate(
        self,
        rows: TensorDict,
        split: Split,
        run_pass: Pass,
        idle_pass: Pass,
        *,
        names: Sequence[str],
        parts: Iterable[nn.Module],
    ) -> dict[str, float]:
        """Add the gradient of all ranks' passes to ``.grad``; return the losses by name.

        The metrics of all ranks are recorded in the ledger of each rank.
        """
        parts = [*parts]
        before, earlier = running_sums(parts), self._take_gradients()
        totals, fault = dict.fromkeys(names, 0.0), None
        with recording() as ledger:
            for micro in self._passes(rows, split):
                try:
                    losses = idle_pass(rows[:1]) if micro is None else run_pass(micro)
                    for name, value in losses.items():
                        totals[name] += value
                except NumericalError as error:  # the others wait for the remaining passes
                    fault = fault or str(error)
        result = (fault, ledger, [*totals.values()], sum_changes(parts, before))
        faults, ledgers, values, changes = zip(*self.ranks.all_gather(result), strict=True)
        if any(faults):
            self.weights.drop_gradients()
            raise NumericalError(next(filter(None, faults)))
        self._add_gradients(earlier)
        merge(merge_ledgers(ledgers))
        add_sums(parts, before, [sum(column) for column in zip(*changes, strict=True)])
        return dict(zip(names, [sum(column) for column in zip(*values, strict=True)], strict=True))

    def _passes(self, rows: TensorDict, split: Split) -> list[TensorDict | None]:
        """Return the micro-batches of this rank; None for a pass that only other ranks need."""
        _, passes = self._local_passes(rows, split)
        num_idle = self.ranks.maximum(len(passes)) - len(passes) if self.is_sharded else 0
        return [*passes, *[None] * num_idle]

    def _local_passes(self, rows: TensorDict, split: Split) -> tuple[Tensor, list[TensorDict]]:
        """Return the indices of this rank's rows, and its micro-batches."""
        local = assign_rows(rows, split, self.ranks.size)[self.ranks.rank]
        return local, [*split(rows[local], None)] if len(local) else []

    def _take_gradients(self) -> list[tuple[Parameter, Tensor | None]]:
        """Remove and return the gradients of earlier calls, which are already sums over ranks."""
        parameters = [*map(self.weights.part, self.weights.owner.parameters()), *self.others]
        earlier = [(parameter, parameter.grad) for parameter in parameters]
        for parameter in parameters:
            parameter.grad = None
        return earlier

    def _add_gradients(self, earlier: list[tuple[Parameter, Tensor | None]]) -> None:
        """Sum the gradients of the passes over ranks, and add them to the earlier gradients."""
        self.weights.collect_gradients()
        all_reduce_gradients(self.others)
        for parameter, grad in earlier:
            if grad is not None:
                parameter.grad = grad if parameter.grad is None else grad + parameter.grad

    def backward_zero(self, outputs: TensorDict) -> None:
        """Run a backward pass with a gradient of 0, because other ranks wait for it."""
        if self.is_sharded:
            roots = [v for v in outputs.values() if isinstance(v, Tensor) and v.requires_grad]
            torch.autograd.backward(roots, [torch.zeros_like(root) for root in roots])

    def forward_all(self, forward: Forward, split: Split) -> dict[str, Tensor]:
        """Return outputs without gradient for all rows; each rank computes its share."""
        local = torch.empty(0, dtype=torch.int64)

        def local_passes(rows: TensorDict) -> list[TensorDict]:
            nonlocal local
            local, passes = self._local_passes(rows, split)
            # One pass at least, for the shapes of the outputs.
            num_idle = max(1, self.ranks.maximum(len(passes))) - len(passes)
            return [*passes, *[rows[:1]] * num_idle]

        outputs = forward(local_passes)
        self.end_forward()
        return {key: self._gather_rows(output, local) for key, output in outputs.items()}

    def _gather_rows(self, output: Tensor, local: Tensor) -> Tensor:
        """Return an output of all rows; ``local`` are the indices of this rank's rows."""
        part = torch.zeros_like(output)
        part[local] = output[local]
        return self.ranks.all_reduce(part)

    def end_forward(self) -> None:
        """End passes without gradient: reshard the weights."""
        self.weights.reshard()

    def norm(self, parameters: Sequence[Parameter]) -> Tensor:
        """Return the norm of the gradient; squares of shards are summed over ranks."""
        if not self.is_sharded:
            return super().norm(parameters)
        # Sums of squares of whole parameters, and of shards.
        squares = torch.zeros(2, dtype=torch.float64, device=parameters[0].device)
        for parameter in parameters:
            if parameter.grad is not None:
                squares[int(self.weights.is_shard(parameter))] += (
                    parameter.grad.double().square().sum()
                )
        total = squares[0] + self.weights.sum_over_shards(squares[1])
        return total.sqrt().to(parameters[0].dtype)

    def smallest(self, number: int | None) -> int | None:
        """Return the smallest number of all ranks; None if no rank has a number."""
        return min((n for n in self.ranks.all_gather(number) if n is not None), default=None)

    def total(self, tensor: Tensor) -> Tensor:
        """Return the sum over ranks."""
        return self.ranks.all_reduce(tensor)

    def union(self, numbers: set[int]) -> set[int]:
        """Return the numbers that any rank has."""
        return set[int]().union(*self.ranks.all_gather(numbers))

    def gather_state(self, state: dict[str, Any], optimizer: optim.Optimizer) -> dict[str, Any]:
        """Return the optimiser state of whole parameters; all ranks must call this."""
        return self._moments(state, optimizer, self.weights.full)

    def split_state(self, state: dict[str, Any], optimizer: optim.Optimizer) -> dict[str, Any]:
        """Return this rank's part of the optimiser state of whole parameters."""
        return self._moments(state, optimizer, self.weights.local)

    def _moments(
        self,
        state: dict[str, Any],
        optimizer: optim.Optimizer,
        convert: Callable[[Tensor, Tensor], Tensor],
    ) -> dict[str, Any]:
        """Return an optimiser state whose moments of shards are converted."""
        parts = [p for group in optimizer.param_groups for p in group["params"]]
        moments_by_index = {
            index: {
                name: convert(value, parts[index])
                if isinstance(value, Tensor) and self.weights.is_shard(parts[index])
                else value
                for name, value in moments.items()
            }
            for index, moments in state["state"].items()
        }
        return {**state, "state": moments_by_index}

    def write_back(self) -> None:
        """Copy the trained values into the model of rank 0."""
        self.weights.write_back()
