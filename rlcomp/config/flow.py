"""Static check of the keys that the stages of a phase read and write.

Every key a stage reads must be written by an earlier stage of the same step. The keys of a stage
come from source (``flow_source``, before anything is built) or from built objects
(``rlcomp.run.check_flow``, foreign modules included); the check is the same.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rlcomp.config.options import count_choices, options_reading, options_writing, usual_option
from rlcomp.keys import CONTROL, SCHEMA

# Largest number of options in a message.
_SHOWN = 3


@dataclass(frozen=True)
class Flow:
    """The keys a stage needs before it and provides after it.

    Attributes:
        reads: keys that must exist before the stage.
        writes: keys that exist after it.
        fresh: the stage starts a new batch.
        opaque: its keys are unknown.
        lacks: keys that it reads after a fresh stage inside it, and that no stage inside writes. No
            stage before it can supply them.
        carries: keys that a fresh stage copies from the old batch to the new one.
    """

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    fresh: bool = False
    opaque: bool = False
    lacks: frozenset[str] = frozenset()
    carries: frozenset[str] = frozenset()

    def then(self, after: Flow) -> Flow:
        """Return the flow of this stage followed by another."""
        # An opaque stage may write any key.
        missing = frozenset() if self.opaque else after.reads - self.writes
        # A stage before both can help, unless this stage drops the key with the old batch.
        outside = missing & self.carries if self.fresh else missing
        remaining = self.writes & after.carries if after.fresh else self.writes
        both = self.fresh and after.fresh  # only a fresh stage carries keys
        return Flow(
            reads=self.reads | outside,
            writes=after.writes | remaining,
            fresh=self.fresh or after.fresh,
            opaque=(self.opaque and not after.fresh) or after.opaque,
            lacks=self.lacks | after.lacks | (missing - outside),
            carries=self.carries & after.carries if both else self.carries | after.carries,
        )


def fold(flows: Iterable[Flow]) -> Flow:
    """Return the flow of several stages in order.

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
        path: config path of the stage.
        kind: name of its class.
        flow: its flow.
        group_size: answers per prompt that it generates; None: it generates none.
        min_group_size: answers per prompt that it needs.
        must_reach: keys it writes that a later stage must read; "a|b": one of them.
        reads: keys that it or a part of it reads, optional ones included.
        marks: the exclusive roles of the components in it, with the paths of these components.
        parts: the stages that it runs in the main flow, in order.
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

    def without_reads(self, keys: frozenset[str]) -> Stage:
        """Return the stage without reads of these keys, which an outer stage supplies."""
        parts = [part.without_reads(keys) for part in self.parts]
        return replace(self, reads=self.reads - keys, parts=parts)


def check_stages(
    phase: str, stages: Sequence[Stage], periodic: Sequence[Stage], others: Mapping[str, Flow]
) -> list[str]:
    """Return messages on stages of one phase that do not fit together.

    Args:
        phase: name of the phase.
        stages: stages in order.
        periodic: stages of ``every``, which get a copy of the batch at the end.
        others: flows of nodes that are not in the list, for the remedy.
    """
    errors, before = [], Flow()
    for index, stage in enumerate((*stages, *periodic)):
        if stage.flow.lacks:
            errors.append(_missing_inside(phase, stage))
        if not before.opaque:
            earlier, later = stages[:index], stages[index + 1 :]
            errors += _missing_keys(phase, stage, earlier, later, before, others)
        if index < len(stages):
            before = before.then(stage.flow)
    errors += _unread_keys(phase, stages) + _group_sizes(phase, stages)
    return errors + _repeated_marks(phase, (*stages, *periodic))


def _unread_keys(phase: str, stages: Sequence[Stage]) -> list[str]:
    """Return messages on keys of ``must_reach`` that no later stage reads.

    An opaque stage may read anything.
    """
    flat = list(_flat(stages))
    errors = []
    for index, stage in enumerate(flat):
        later = flat[index + 1 :]
        if any(other.flow.opaque for other in later):
            continue
        read = frozenset[str]().union(*(other.reads for other in later))
        lost = sorted(key for key in stage.must_reach if read.isdisjoint(key.split("|")))
        errors += [
            f"phases.{phase}.stages: {key} of {stage.path} ({stage.kind}) is read by no later "
            f"stage, so it would be lost: choose another {stage.path}, or an advantage that reads "
            f"{key}{_readers(entry)}"
            for entry in lost
            for key in (" or ".join(map(repr, entry.split("|"))),)
        ]
    return errors


def _readers(keys: str) -> str:
    """Name the advantages that read one of the keys of an entry of ``must_reach``."""
    choices = [choice for key in keys.split("|") for choice in options_reading(key, "advantage")]
    # More than a handful is no advice.
    return f" ({', '.join(dict.fromkeys(choices))})" if 0 < len(set(choices)) < 10 else ""


def rename_key(key: str, names: Mapping[str, str]) -> str:
    """Return an entry of ``must_reach`` with the key names of an instance.

    Examples:
        >>> rename_key("reward|rewards", {"reward": "shaped"})
        'shaped|rewards'
    """
    return "|".join(names.get(name, name) for name in key.split("|"))


def _missing_inside(phase: str, stage: Stage) -> str:
    keys = ", ".join(f"'{key}'" for key in sorted(stage.flow.lacks))
    return (
        f"phases.{phase}.stages: inside {stage.path} ({stage.kind}) {keys} is read, which no "
        f"earlier stage of it writes since its new batch: add one to {stage.path}, or reorder it"
    )


def _missing_keys(
    phase: str,
    stage: Stage,
    earlier: Sequence[Stage],
    later: Sequence[Stage],
    before: Flow,
    others: Mapping[str, Flow],
) -> list[str]:
    remedies: dict[str, list[str]] = {}
    for key in sorted(stage.flow.reads - before.writes):
        hint = _similar_key(stage, key, earlier, later, before)
        hint = hint or _remedy(stage, key, later, before, others)
        remedies.setdefault(hint, []).append(f"'{key}'")
    start = f"phases.{phase}.stages: stage {stage.path} ({stage.kind}) reads "
    return [f"{start}{', '.join(keys)}{remedy}" for remedy, keys in remedies.items()]


def _similar_key(
    stage: Stage, key: str, earlier: Sequence[Stage], later: Sequence[Stage], before: Flow
) -> str | None:
    """Return a hint at a written key of a similar name; None: there is none."""
    if key not in SCHEMA and key not in CONTROL:
        near = difflib.get_close_matches(key, sorted(before.writes), n=1, cutoff=0.8)
        return f", which no stage writes: did you mean '{near[0]}'?" if near else None
    for other in earlier:
        near = difflib.get_close_matches(key, sorted(other.flow.writes), n=1, cutoff=0.85)
        if near and not any(near[0] in reader.reads for reader in (stage, *later)):
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
    every = sorted(options_writing(key), key=lambda option: _preference(option, key))
    possible = {*options_writing(key, before.writes)}
    options = [option for option in every if option in possible] or every
    more = " or another of them" if len(options) > _SHOWN else ""
    first = f"{options[0]} (the usual one)" if _is_usual(options, every) else "".join(options[:1])
    choose = f"choose {' or '.join([first, *options[1:_SHOWN]])}{more}"
    if not options:
        written = f"(written so far: {', '.join(sorted(before.writes)) or 'nothing'})"
        return f"{start}add a stage that writes it, or take another {stage.path} {written}"
    return f"{start}{choose}, or take another {stage.path}"


def _is_usual(options: Sequence[str], every: Sequence[str]) -> bool:
    """Return whether the first possible option is the first of all and the most often chosen."""
    counts = [count_choices(*option.split("=", 1)) for option in options[:2]]
    return len(counts) == 2 and counts[0] > counts[1] and options[0] == every[0]


def _preference(option: str, key: str) -> tuple[bool, bool, int]:
    """Return a sort key: options of the key's own group, usual options and frequent ones first."""
    group, _, name = option.partition("=")
    return group != key, name != usual_option(group), -count_choices(group, name)


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


# Stages and their parts, in the order in which they end: the parts of a stage before it.
def _flat(stages: Iterable[Stage]) -> Iterator[Stage]:
    for stage in stages:
        yield from _flat(stage.parts)
        yield stage


def mark_source(path: str, condition: str) -> str:
    """Return the path of a component with an exclusive mark, or the setting that gives it the mark.

    Examples:
        >>> mark_source("kl", ""), mark_source("advantage", "outcome")
        ('kl', 'advantage.outcome=true')
    """
    return f"{path}.{condition}=true" if condition else path


def _removal(source: str) -> str:
    """Return the override that takes the mark away from a component."""
    path, is_set, _ = source.partition("=true")
    return f"{path}=false" if is_set else f"~{path}"


def _repeated_marks(phase: str, stages: Sequence[Stage]) -> list[str]:
    paths_by_mark: dict[str, list[str]] = {}
    listed: set[str] = set()
    for stage in stages:
        for mark, paths in stage.marks.items():
            known = paths_by_mark.setdefault(mark, [])
            # A stage that is listed twice counts twice; a loss of a learner that steps twice, or a
            # reward that a collector calls too, does not.
            repeated = {stage.path} & listed
            known += [path for path in sorted(paths) if path in repeated or path not in known]
        listed.add(stage.path)
    return [
        f"phases.{phase}: '{mark}' is counted by {' and by '.join(paths)}: keep one "
        f"({_removal(paths[-1])})"
        for mark, paths in paths_by_mark.items()
        if len(paths) > 1
    ]
