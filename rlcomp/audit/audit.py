"""Audit of a verifier: gold answers that it refuses, and wrong ones that it accepts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from rlcomp.audit.attacks import KINDS, NONSENSE, Attack, blind_attacks, informed_attacks
from rlcomp.audit.forms import dressed
from rlcomp.audit.judge import Verdict
from rlcomp.audit.wrong_answers import edited
from rlcomp.data.task import permutation
from rlcomp.interfaces.task import Example, Task

Judged = Callable[[Example, str], Verdict]


@dataclass(frozen=True)
class Case:
    """A response that was tried."""

    prompt: str
    gold: str
    response: str
    form: str
    why: str = ""


@dataclass
class Count:
    """What a verifier made of the answers of one kind."""

    tried: int = 0
    accepted: int = 0
    invalid: int = 0
    raised: int = 0
    example: Case | None = None

    def add(self, verdict: Verdict, case: Case, shown: Collection[str]) -> None:
        """Count a verdict; keep the first case with one of the verdicts that are to be shown."""
        self.tried += 1
        self.accepted += verdict.said == "accepted"
        self.invalid += verdict.said == "invalid"
        self.raised += verdict.said == "raised"
        if self.example is None and verdict.said in shown:
            self.example = case


@dataclass
class Audit:
    """What an audit found.

    Attributes:
        rows: how many examples were tried.
        gold: of rows with a gold answer: accepted in any form.
        forms: accepted gold answers by form.
        kinds: attacks by kind, :data:`rlcomp.audit.attacks.KINDS`.
        slowest: seconds, and the case.
    """

    rows: int = 0
    gold: Count = field(default_factory=Count)
    forms: dict[str, Count] = field(default_factory=dict)
    kinds: dict[str, Count] = field(default_factory=dict)
    slowest: tuple[float, Case] | None = None

    def false_accepts(self, allowed: Collection[str] = ()) -> list[str]:
        """Kinds that can never be right of which an answer was accepted, or raised."""
        return [
            kind
            for kind, count in self.kinds.items()
            if (count.accepted or count.raised)
            and KINDS[kind].right == "never"
            and kind not in allowed
        ]


def audit(examples: Sequence[Example], judge: Judged, forms: Mapping[str, str]) -> Audit:
    """Try gold answers and attacks on each example.

    A gold answer must be accepted in one form at least, or as the response that the task
    demonstrates. Blind attacks are tried in every form in which any gold answer was accepted; what
    is derived from the gold answer only on rows whose verifier reads it: it accepts the gold answer
    in that form and refuses nonsense there. Where a solution is searched for (countdown), no gold
    answer is read so, and nothing that may be another solution is called false.

    Args:
        examples: rows of a task.
        judge: gives the verdict on a response.
        forms: by name (:data:`rlcomp.audit.forms.FORMS`).
    """
    found = Audit(rows=len(examples))
    tried = _Tried(judge, found)
    home = [_gold(tried, example, forms) for example in examples]
    worn = {"plain": forms["plain"], **{name: forms[name] for each in home for name in each}}
    for row, example in enumerate(examples):
        others = [other.answer for other in [*examples[row + 1 :], *examples[:row]]]
        refused = _blind(tried, example, worn)
        read = {name: form for name, form in worn.items() if name in home[row] and name in refused}
        _informed(tried, example, read, others)
        if not read:
            _responses(tried, example, examples[row - 1])
    return found


class _Tried:
    """Judges responses and counts them."""

    def __init__(self, judge: Judged, found: Audit) -> None:
        self.judge = judge
        self.found = found

    def verdict(self, example: Example, response: str, form: str) -> tuple[Verdict, Case]:
        """The verdict on a response, which may be the slowest."""
        verdict = self.judge(example, response)
        case = Case(example.prompt, example.answer, response, form, verdict.why)
        slowest = self.found.slowest[0] if self.found.slowest else 0.0
        if verdict.seconds > slowest:
            # Once more: the first call of a kind may have waited for an import.
            seconds = min(verdict.seconds, self.judge(example, response).seconds)
            if seconds > slowest:
                self.found.slowest = (seconds, case)
        return verdict, case

    def attack(self, kind: str, example: Example, response: str, form: str) -> bool:
        """Try an attack; whether it was accepted."""
        verdict, case = self.verdict(example, response, form)
        count = self.found.kinds.setdefault(kind, Count())
        count.add(verdict, case, ("accepted", "raised"))
        return verdict.said == "accepted"


def _gold(tried: _Tried, example: Example, forms: Mapping[str, str]) -> list[str]:
    """Try the gold answer in all forms; those in which it was accepted."""
    responses = {name: dressed(form, example.answer) for name, form in forms.items()}
    if not example.answer.strip():
        responses = {}
    if example.demonstration.strip():
        responses["demonstration"] = example.demonstration
    verdicts = {name: tried.verdict(example, text, name) for name, text in responses.items()}
    for name, (verdict, case) in verdicts.items():
        tried.found.forms.setdefault(name, Count()).add(verdict, case, ())
    accepted = [name for name, (verdict, _) in verdicts.items() if verdict.said == "accepted"]
    if verdicts:
        name = accepted[0] if accepted else [*verdicts][-1]
        tried.found.gold.add(*verdicts[name], ("refused", "invalid", "raised"))
    return [name for name in accepted if name in forms]


def _blind(tried: _Tried, example: Example, forms: Mapping[str, str]) -> set[str]:
    """Try what knows nothing of the row; the forms in which all nonsense is refused."""
    refused = {*forms}
    attacks = [*blind_attacks(), Attack("prompt", example.prompt)]
    for attack, (name, form) in _pairs(attacks, forms):
        if attack.kind == "prompt" and attack.answer.strip() == example.answer.strip():
            continue
        accepted = tried.attack(attack.kind, example, dressed(form, attack.answer), name)
        if attack.answer in NONSENSE and accepted:
            refused.discard(name)
    return refused


def _informed(
    tried: _Tried, example: Example, forms: Mapping[str, str], others: Sequence[str]
) -> None:
    """Try what is derived from the gold answer."""
    attacks = [*informed_attacks(example.answer, others)] if forms else []
    for attack, (name, form) in _pairs(attacks, forms):
        response = dressed(form, attack.answer)
        if attack.twice is not None:
            response = f"{response}\n{dressed(form, attack.twice)}"
        tried.attack(attack.kind, example, response, name)


def _responses(tried: _Tried, example: Example, other: Example) -> None:
    """Try responses near the demonstration, where the answer itself is not what is read."""
    for text in edited(example.demonstration):
        tried.attack("edited", example, text, "demonstration")
    if other.demonstration.strip() not in ("", example.demonstration.strip()):
        tried.attack("other_response", example, other.demonstration, "demonstration")


def _pairs(
    attacks: Sequence[Attack], forms: Mapping[str, str]
) -> Iterator[tuple[Attack, tuple[str, str]]]:
    return ((attack, form) for attack in attacks for form in forms.items())


def examples_of(task: Task, count: int, seed: int) -> list[Example]:
    """Examples of a task, held out or not: all of a smaller one, the same for the same seed."""
    return [task.example(n) for n in islice(permutation(len(task), seed, "audit"), count)]
