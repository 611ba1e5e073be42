"""Static check of the keys that the stages of a phase read and write.

Every key a stage reads must have been written by an earlier stage of the same step. What a stage
reads and writes comes from source (``flow_source``, before anything is built) or from built objects
(``flow_built``, which knows foreign modules too); the check is the same.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rlcomp.config.options import chosen_by, options_reading, options_writing, usual_option
from rlcomp.keys import CONTROL, SCHEMA

# Options in a message.
_SHOWN = 3


@dataclass(frozen=True)
class Flow:
    """The keys a stage needs before it and provides after it.

    Attributes:
        reads: keys that must be there before it.
        writes: keys that are there behind it.
        fresh: it starts a new batch.
        opaque: nothing is known of it.
        lacks: keys read inside it behind a fresh stage and written by nobody: no stage before it
            can help.
        carries: of a fresh stage, keys of the batch before that are in the new one as well.
    """

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    fresh: bool = False
    opaque: bool = False
    lacks: frozenset[str] = frozenset()
    carries: frozenset[str] = frozenset()

    def then(self, after: Flow) -> Flow:
        """Return the flow of this stage followed by another."""
        missing = frozenset() if self.opaque else after.reads - self.writes
        outside = missing & self.carries if self.fresh else missing
        remaining = self.writes & after.carries if after.fresh else self.writes
        both = self.fresh and after.fresh
        return Flow(
            reads=self.reads | outside,
            writes=after.writes | remaining,
            fresh=self.fresh or after.fresh,
            opaque=(self.opaque and not after.fresh) or after.opaque,
            lacks=self.lacks | after.lacks | (missing - outside),
            carries=self.carries & after.carries if both else self.carries | after.carries,
        )


def fold(flows: Iterable[Flow]) -> Flow:
    """Several stages as one.

    Examples:
        >>> reward = Flow(reads=frozenset({"response"}), writes=frozenset({"reward"}))
        >>> baseline = Flow(reads=frozenset({"reward"}), writes=frozenset({"advantage"}))
        >>> sorted(fold([reward, baseline]).reads)
        ['response']
    """
    total = Flow()
    for flow in flows:
        total = total.then(flow)
    return total


@dataclass(frozen=True)
class Stage:
    """The data of one stage for the flow check.

    Attributes:
        path: its name.
        kind: its class.
        flow: the keys.
        group_size: answers per prompt that it makes, if it makes any.
        min_group_size: answers per prompt that it needs.
        must_reach: keys it writes that a later stage must read; "a|b": one of them.
        reads: keys that it or a part of it reads, those it can do without included.
        marks: what at most one component of a phase may do, and who inside this stage does it.
        parts: the stages that this one runs in the main flow, in order.
    """

    path: str
    kind: str
    flow: Flow
    group_size: int | None = None
    min_group_size: int = 1
    must_reach: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()
    marks: Mapping[str, frozenset[str]] = field(default_factory=dict)
    parts: Sequence[Stage] = ()

    def supplied(self, keys: frozenset[str]) -> Stage:
        """Return the same stage inside one that hands it these keys."""
        parts = [part.supplied(keys) for part in self.parts]
        return replace(self, reads=self.reads - keys, parts=parts)


def check_stages(
    phase: str, stages: Sequence[Stage], beside: Sequence[Stage], others: Mapping[str, Flow]
) -> list[str]:
    """Return the mistakes in how the stages of one phase fit together.

    Args:
        phase: its name.
        stages: in order.
        beside: what sees a copy of the batch at the end.
        others: nodes that are there but not in the list, for the remedy.
    """
    errors, before = [], Flow()
    for place, stage in enumerate((*stages, *beside)):
        if stage.flow.lacks:
            errors.append(_lacking_inside(phase, stage))
        if not before.opaque:
            earlier, later = stages[:place], stages[place + 1 :]
            errors += _lacking(phase, stage, earlier, later, before, others)
        if place < len(stages):
            before = before.then(stage.flow)
    errors += _unread(phase, stages) + _group_sizes(phase, stages)
    return errors + _exclusive(phase, (*stages, *beside))


def _unread(phase: str, stages: Sequence[Stage]) -> list[str]:
    """Keys of ``must_reach`` that no later stage reads; an opaque stage may read anything."""
    flat = list(_flat(stages))
    errors = []
    for place, stage in enumerate(flat):
        later = flat[place + 1 :]
        if any(other.flow.opaque for other in later):
            continue
        read = frozenset[str]().union(*(other.reads for other in later))
        lost = sorted(key for key in stage.must_reach if read.isdisjoint(key.split("|")))
        errors += [
            f"phases.{phase}.stages: {key} of {stage.path} ({stage.kind}) is read by no later "
            f"stage, so it would be lost: choose another {stage.path}, or an advantage that reads "
            f"{key}{_readers(one)}"
            for one in lost
            for key in (" or ".join(map(repr, one.split("|"))),)
        ]
    return errors


def _readers(keys: str) -> str:
    """Name the advantages that read one of the keys of an entry of ``must_reach``."""
    choices = [choice for key in keys.split("|") for choice in options_reading(key, "advantage")]
    # More than a handful is no advice.
    return f" ({', '.join(dict.fromkeys(choices))})" if 0 < len(set(choices)) < 10 else ""


def renamed(key: str, names: Mapping[str, str]) -> str:
    """Return an entry of ``must_reach`` under an instance's names.

    Examples:
        >>> renamed("reward|rewards", {"reward": "shaped"})
        'shaped|rewards'
    """
    return "|".join(names.get(one, one) for one in key.split("|"))


def _lacking_inside(phase: str, stage: Stage) -> str:
    keys = ", ".join(f"'{key}'" for key in sorted(stage.flow.lacks))
    return (
        f"phases.{phase}.stages: inside {stage.path} ({stage.kind}) {keys} is read, which no "
        f"earlier stage of it writes since its new batch: add one to {stage.path}, or reorder it"
    )


def _lacking(
    phase: str,
    stage: Stage,
    earlier: Sequence[Stage],
    later: Sequence[Stage],
    before: Flow,
    others: Mapping[str, Flow],
) -> list[str]:
    remedies: dict[str, list[str]] = {}
    for key in sorted(stage.flow.reads - before.writes):
        hint = _nearly(stage, key, earlier, later, before)
        hint = hint or _remedy(stage, key, later, before, others)
        remedies.setdefault(hint, []).append(f"'{key}'")
    start = f"phases.{phase}.stages: stage {stage.path} ({stage.kind}) reads "
    return [f"{start}{', '.join(keys)}{remedy}" for remedy, keys in remedies.items()]


def _nearly(
    stage: Stage, key: str, earlier: Sequence[Stage], later: Sequence[Stage], before: Flow
) -> str | None:
    """Explain that a key of nearly the same name is there; None: there is none."""
    if key not in SCHEMA and key not in CONTROL:
        near = difflib.get_close_matches(key, sorted(before.writes), n=1, cutoff=0.8)
        return f", which no stage writes: did you mean '{near[0]}'?" if near else None
    for other in earlier:
        near = difflib.get_close_matches(key, sorted(other.flow.writes), n=1, cutoff=0.85)
        if near and not any(near[0] in one.reads for one in (stage, *later)):
            return f", and {other.path} ({other.kind}) writes '{near[0]}': did you mean '{key}'?"
    return None


def _remedy(
    stage: Stage, key: str, later: Sequence[Stage], before: Flow, others: Mapping[str, Flow]
) -> str:
    for other in later:
        if key in other.flow.writes:
            return f"; {other.path} writes that, but later: move {other.path} before {stage.path}"
    start = ", which no earlier stage writes: "
    for path, flow in others.items():
        if key in flow.writes:
            return f"{start}add {path} to the list before {stage.path}"
    every = sorted(options_writing(key), key=lambda option: _is_other(option, key))
    suiting = {*options_writing(key, before.writes)}
    options = [option for option in every if option in suiting] or every
    more = " or another of them" if len(options) > _SHOWN else ""
    first = f"{options[0]} (the usual one)" if _is_usual(options, every) else "".join(options[:1])
    choose = f"choose {' or '.join([first, *options[1:_SHOWN]])}{more}"
    if not options:
        written = f"(written so far: {', '.join(sorted(before.writes)) or 'nothing'})"
        return f"{start}add a stage that writes it, or take another {stage.path} {written}"
    return f"{start}{choose}, or take another {stage.path}"


def _is_usual(options: Sequence[str], every: Sequence[str]) -> bool:
    """Return whether the first option of several is also the first of all, and clearly so.

    Of those that suit, the first may be one that is seldom chosen: nothing is usual then.
    """
    counts = [chosen_by(*option.split("=", 1)) for option in options[:2]]
    return len(counts) == 2 and counts[0] > counts[1] and options[0] == every[0]


def _is_other(option: str, key: str) -> tuple[bool, bool, int]:
    group, _, name = option.partition("=")
    return group != key, name != usual_option(group), -chosen_by(group, name)


def _group_sizes(phase: str, stages: Sequence[Stage]) -> list[str]:
    errors, path, size = [], "", 0
    for stage in _flat(stages):
        if stage.group_size is not None:
            path, size = stage.path, stage.group_size
        if path and size < stage.min_group_size:
            errors.append(
                f"{path}.group_size is {size}: {stage.path} ({stage.kind}) in phase {phase} "
                f"compares at least {stage.min_group_size} answers per prompt; set "
                f"{path}.group_size={max(stage.min_group_size, 8)} or choose another {stage.path}"
            )
    return errors


def _flat(stages: Iterable[Stage]) -> Iterator[Stage]:
    for stage in stages:
        yield from _flat(stage.parts)
        yield stage


def counted_by(path: str, asked: str) -> str:
    """Return the path of a component with an exclusive mark, or the argument that makes it count.

    Examples:
        >>> counted_by("kl", ""), counted_by("advantage", "outcome")
        ('kl', 'advantage.outcome=true')
    """
    return f"{path}.{asked}=true" if asked else path


def _without(counting: str) -> str:
    given, is_set, _ = counting.partition("=true")
    return f"{given}=false" if is_set else f"~{given}"


def _exclusive(phase: str, stages: Sequence[Stage]) -> list[str]:
    seen: dict[str, list[str]] = {}
    listed: set[str] = set()
    for stage in stages:
        for mark, paths in stage.marks.items():
            known = seen.setdefault(mark, [])
            # A stage that is listed twice counts twice; a loss of a learner that steps twice, or a
            # reward that a collector asks as well, does not.
            again = {stage.path} & listed
            known += [path for path in sorted(paths) if path in again or path not in known]
        listed.add(stage.path)
    return [
        f"phases.{phase}: '{mark}' is counted by {' and by '.join(paths)}: keep one "
        f"({_without(paths[-1])})"
        for mark, paths in seen.items()
        if len(paths) > 1
    ]
