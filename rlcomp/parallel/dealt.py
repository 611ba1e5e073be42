"""A learner's share of an optimiser step that several ranks take together."""

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
from rlcomp.parallel.dealing import Split, dealt
from rlcomp.parallel.lockstep import add_sums, added, sums
from rlcomp.parallel.ranks import Ranks, merged, ranks
from rlcomp.parallel.share import Forward, Pass, Share
from rlcomp.parallel.weights import summed_gradients

# They treat every number of a parameter by itself, and so those of a part.
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


def share_of(
    model: TensorDictModuleBase | None, others: Sequence[Parameter], *, sums: bool
) -> Share:
    """The share of a learner that is being built: on the ranks of the context, if there are any.

    Args:
        model: what it trains; None where the losses hold their own.
        others: what it trains beside the model.
        sums: whether all of its losses are weighted sums over the whole step.

    Raises:
        ConfigError: the ranks cannot share its steps.
    """
    found = ranks()
    if found is None:
        return Share(model)
    if model is None or not sums or "attention_mask" not in model.in_keys:
        why = (
            "its losses hold their own models (control)"
            if model is None
            else "a loss averages over the rows it is given, and ranks are given some each"
            if not sums
            else f"{type(model).__name__} does not read rows of tokens"
        )
        raise ConfigError(
            f"parallel: ranks cannot share the steps of this learner: {why}; {_ALONE}"
        )
    return Dealt(found, model, others)


_ALONE = "use parallel=none, without torchrun; several seeds at once: rlcomp -m seed=0,1"


class Dealt(Share):
    """The share of a learner that several ranks step together.

    Every rank has all rows and prepares the same step; it reads its share of the rows, and takes
    the step of what it trains with the gradient of all.

    Args:
        found: the ranks.
        model: what the learner trains.
        others: what it trains beside the model: parameters of losses, whole on every rank.
    """

    alone = False

    def __init__(
        self, found: Ranks, model: TensorDictModuleBase, others: Sequence[Parameter]
    ) -> None:
        self.ranks, self.weights = found, found.weights(model)
        super().__init__(self.weights.module)
        self.in_parts = self.weights.in_parts
        self.others = [*others]
        self._shapes = {id(self.part(p)): p.shape for p in (*model.parameters(), *others)}

    def part(self, parameter: Parameter) -> Parameter:
        """What this rank trains of a parameter."""
        if any(parameter is other for other in self.others):
            return parameter
        return self.weights.part(parameter)

    def shape(self, part: Tensor) -> torch.Size:
        """The shape of the parameter that a part is of."""
        found: torch.Size = self._shapes[id(part)]
        return found

    def check(self, optimizer: optim.Optimizer) -> None:
        """Refuse an optimiser that looks at whole matrices, where there are parts.

        Raises:
            ConfigError: names it; or it does not step what is trained.
        """
        if self.in_parts and not isinstance(optimizer, _ELEMENTWISE):
            raise ConfigError(
                f"optimizer is {type(optimizer).__name__}, and parallel=shard has parts of "
                "matrices, which only optimisers of single numbers can step (AdamW, SGD, ...): "
                "use parallel=replicate, or optimizer@learner.optimizer=adamw"
            )
        held = [p for group in optimizer.param_groups for p in group["params"]]
        if any(id(parameter) not in self._shapes for parameter in held):
            raise ConfigError(
                "optimizer holds parameters from before they were put into parts, and would step "
                "what nobody reads: build it from the named parameters that the learner gives it"
            )

    def together(self, learner: nn.Module, method: str, *given: object) -> Any:  # noqa: ANN401
        """As :meth:`rlcomp.parallel.ranks.Ranks.together`."""
        return self.ranks.together(learner, method, *given)

    def add_up(
        self,
        rows: TensorDict,
        split: Split,
        one: Pass,
        idle: Pass,
        *,
        names: Sequence[str],
        parts: Iterable[nn.Module],
    ) -> dict[str, float]:
        """As :meth:`Share.add_up`: of the passes of all ranks, the same on each."""
        parts = [*parts]
        before, aside = sums(parts), self._put_aside()
        totals, failed = dict.fromkeys(names, 0.0), None
        with recording() as ledger:
            for micro in self._passes(rows, split):
                try:
                    for name, value in (idle(rows[:1]) if micro is None else one(micro)).items():
                        totals[name] += value
                except NumericalError as error:  # the others wait for what is left
                    failed = failed or str(error)
        found = self.ranks.gathered((failed, ledger, [*totals.values()], added(parts, before)))
        failures, ledgers, values, moved = zip(*found, strict=True)
        if any(failures):
            self.weights.forget()
            raise NumericalError(next(filter(None, failures)))
        self._collect(aside)
        merge(merged(ledgers))
        add_sums(parts, before, [sum(column) for column in zip(*moved, strict=True)])
        return dict(zip(names, [sum(column) for column in zip(*values, strict=True)], strict=True))

    def _passes(self, rows: TensorDict, split: Split) -> list[TensorDict | None]:
        """The micro-batches of this rank; None for a pass that only other ranks need."""
        mine = self._mine(rows, split)[1]
        idle = self.ranks.most(len(mine)) - len(mine) if self.in_parts else 0
        return [*mine, *[None] * idle]

    def _mine(self, rows: TensorDict, split: Split) -> tuple[Tensor, list[TensorDict]]:
        """Which rows this rank reads, and its micro-batches."""
        own = dealt(rows, split, self.ranks.size)[self.ranks.rank]
        return own, [*split(rows[own], None)] if len(own) else []

    def _put_aside(self) -> list[tuple[Parameter, Tensor | None]]:
        """Gradients that were added up before: they are of all ranks already."""
        trained = [*map(self.weights.part, self.weights.owner.parameters()), *self.others]
        aside = [(parameter, parameter.grad) for parameter in trained]
        for parameter in trained:
            parameter.grad = None
        return aside

    def _collect(self, aside: list[tuple[Parameter, Tensor | None]]) -> None:
        self.weights.collect()
        summed_gradients(self.others)
        for parameter, grad in aside:
            if grad is not None:
                parameter.grad = grad if parameter.grad is None else grad + parameter.grad

    def nothing(self, seen: TensorDict) -> None:
        """The backward pass that other ranks wait for, of nothing."""
        if self.in_parts:
            outputs = [v for v in seen.values() if isinstance(v, Tensor) and v.requires_grad]
            torch.autograd.backward(outputs, [torch.zeros_like(output) for output in outputs])

    def forward_of_all(self, forward: Forward, split: Split) -> dict[str, Tensor]:
        """As :meth:`Share.forward_of_all`: every rank makes its rows, and has all."""
        own = torch.empty(0, dtype=torch.int64)

        def some(rows: TensorDict) -> list[TensorDict]:
            nonlocal own
            own, mine = self._mine(rows, split)
            # One pass at least, which shows what the outputs look like.
            idle = max(1, self.ranks.most(len(mine))) - len(mine)
            return [*mine, *[rows[:1]] * idle]

        outputs = forward(some)
        self.rest()
        return {key: self._joined(output, own) for key, output in outputs.items()}

    def _joined(self, output: Tensor, own: Tensor) -> Tensor:
        mine = torch.zeros_like(output)
        mine[own] = output[own]
        return self.ranks.total(mine)

    def rest(self) -> None:
        """As :meth:`rlcomp.parallel.weights.Weights.rest`."""
        self.weights.rest()

    def norm(self, parameters: Sequence[Parameter]) -> Tensor:
        """As :meth:`Share.norm`: the squares of parts are added up over ranks."""
        if not self.in_parts:
            return super().norm(parameters)
        squares = torch.zeros(2, dtype=torch.float64, device=parameters[0].device)
        for parameter in parameters:
            if parameter.grad is not None:
                split = int(self.weights.divided(parameter))
                squares[split] += parameter.grad.double().square().sum()
        total = squares[0] + self.weights.total_of_parts(squares[1])
        return total.sqrt().to(parameters[0].dtype)

    def first(self, number: int | None) -> int | None:
        """The smallest of the ranks' numbers."""
        return min((n for n in self.ranks.gathered(number) if n is not None), default=None)

    def total(self, tensor: Tensor) -> Tensor:
        """As :meth:`Share.total`."""
        return self.ranks.total(tensor)

    def union(self, numbers: set[int]) -> set[int]:
        """As :meth:`Share.union`."""
        return set[int]().union(*self.ranks.gathered(numbers))

    def whole(self, state: dict[str, Any], optimizer: optim.Optimizer) -> dict[str, Any]:
        """As :meth:`Share.whole`; on all ranks."""
        return self._moments(state, optimizer, self.weights.whole)

    def own(self, state: dict[str, Any], optimizer: optim.Optimizer) -> dict[str, Any]:
        """As :meth:`Share.own`."""
        return self._moments(state, optimizer, self.weights.own)

    def _moments(
        self,
        state: dict[str, Any],
        optimizer: optim.Optimizer,
        change: Callable[[Tensor, Tensor], Tensor],
    ) -> dict[str, Any]:
        parts = [p for group in optimizer.param_groups for p in group["params"]]
        changed = {
            index: {
                name: change(value, parts[index])
                if isinstance(value, Tensor) and self.weights.divided(parts[index])
                else value
                for name, value in moments.items()
            }
            for index, moments in state["state"].items()
        }
        return {**state, "state": changed}

    def gather(self) -> None:
        """As :meth:`rlcomp.parallel.weights.Weights.gather`."""
        self.weights.gather()
