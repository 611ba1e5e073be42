"""Audit of a verifier: gold answers that it refuses, and wrong answers that it accepts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from rlcomp.audit.attacks import KINDS, NONSENSE, Attack, blind_attacks, informed_attacks
from rlcomp.audit.judge import RewardVerdict
from rlcomp.audit.wrong_answers import dressed, edited
from rlcomp.data.permutation import permutation
from rlcomp.interfaces.task import Example, Task

Judged = Callable[[Example, str], RewardVerdict]


@dataclass(frozen=True)
class Case:
    """Tested response."""

    prompt: str
    gold: str
    response: str
    form: str
    why: str = ""


@dataclass
class Count:
    """Verdicts on the answers of one kind."""

    tried: int = 0
    accepted: int = 0
    invalid: int = 0
    raised: int = 0
    example: Case | None = None

    def add(self, verdict: RewardVerdict, case: Case, shown: Collection[str]) -> None:
        """Count a verdict; keep the first case with one of the ``shown`` verdicts."""
        self.tried += 1
        self.accepted += verdict.said == "accepted"
        self.invalid += verdict.said == "invalid"
        self.raised += verdict.said == "raised"
        if self.example is None and verdict.said in shown:
            self.example = case


@dataclass
class Audit:
    """Result of an audit.

    Attributes:
        rows: number of tested examples.
        gold: rows with a gold answer; accepted if any form is.
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
        """Return the kinds that can never be right but were accepted, or raised."""
        return [
            kind
            for kind, count in self.kinds.items()
            if (count.accepted or count.raised)
            and KINDS[kind].right == "never"
            and kind not in allowed
        ]


def audit(examples: Sequence[Example], judge: Judged, forms: Mapping[str, str]) -> Audit:
    """Try gold answers and attacks on each example.

    A gold answer must be accepted in at least one form, or as the response that the task
    demonstrates. Blind attacks are tried in every form in which any gold answer was accepted.
    Attacks with the gold answer are tried only on rows whose verifier reads it: it accepts the gold
    answer in that form and refuses nonsense there. Where the task is a search for a solution
    (countdown), the verifier reads no gold answer, and no other possible solution counts as a false
    accept.

    Args:
        examples: rows of a task.
        judge: returns the verdict on a response.
        forms: by name (:data:`rlcomp.audit.wrong_answers.FORMS`).
    """
    result = Audit(rows=len(examples))
    tried = _Tried(judge, result)
    home = [_gold(tried, example, forms) for example in examples]
    used = {"plain": forms["plain"], **{name: forms[name] for each in home for name in each}}
    for row, example in enumerate(examples):
        others = [other.answer for other in [*examples[row + 1 :], *examples[:row]]]
        refused = _blind(tried, example, used)
        read = {name: form for name, form in used.items() if name in home[row] and name in refused}
        _informed(tried, example, read, others)
        if not read:
            _responses(tried, example, examples[row - 1])
    return result


class _Tried:
    """Responses that are judged and counted."""

    def __init__(self, judge: Judged, result: Audit) -> None:
        self.judge = judge
        self.result = result

    def verdict(self, example: Example, response: str, form: str) -> tuple[RewardVerdict, Case]:
        """Judge a response and update the slowest case."""
        verdict = self.judge(example, response)
        case = Case(example.prompt, example.answer, response, form, verdict.why)
        slowest = self.result.slowest[0] if self.result.slowest else 0.0
        if verdict.seconds > slowest:
            # Once more, since the first call of a kind may include an import.
            seconds = min(verdict.seconds, self.judge(example, response).seconds)
            if seconds > slowest:
                self.result.slowest = (seconds, case)
        return verdict, case

    def attack(self, kind: str, example: Example, response: str, form: str) -> bool:
        """Try an attack; return True if it was accepted."""
        verdict, case = self.verdict(example, response, form)
        count = self.result.kinds.setdefault(kind, Count())
        count.add(verdict, case, ("accepted", "raised"))
        return verdict.said == "accepted"


def _gold(tried: _Tried, example: Example, forms: Mapping[str, str]) -> list[str]:
    """Try the gold answer in all forms; return the accepted forms."""
    responses = {name: dressed(form, example.answer) for name, form in forms.items()}
    if not example.answer.strip():
        responses = {}
    if example.demonstration.strip():
        responses["demonstration"] = example.demonstration
    verdicts = {name: tried.verdict(example, text, name) for name, text in responses.items()}
    for name, (verdict, case) in verdicts.items():
        tried.result.forms.setdefault(name, Count()).add(verdict, case, ())
    accepted = [name for name, (verdict, _) in verdicts.items() if verdict.said == "accepted"]
    if verdicts:
        name = accepted[0] if accepted else [*verdicts][-1]
        tried.result.gold.add(*verdicts[name], ("refused", "invalid", "raised"))
    return [name for name in accepted if name in forms]


def _blind(tried: _Tried, example: Example, forms: Mapping[str, str]) -> set[str]:
    """Try attacks that do not use the row; return the forms in which all nonsense is refused."""
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
    """Try attacks that use the gold answer."""
    attacks = [*informed_attacks(example.answer, others)] if forms else []
    for attack, (name, form) in _pairs(attacks, forms):
        response = dressed(form, attack.answer)
        if attack.twice is not None:
            response = f"{response}\n{dressed(form, attack.twice)}"
        tried.attack(attack.kind, example, response, name)


def _responses(tried: _Tried, example: Example, other: Example) -> None:
    """Try responses near the demonstration, for verifiers that do not read the answer itself."""
    for text in edited(example.demonstration):
        tried.attack("edited", example, text, "demonstration")
    if other.demonstration.strip() not in ("", example.demonstration.strip()):
        tried.attack("other_response", example, other.demonstration, "demonstration")


def _pairs(
    attacks: Sequence[Attack], forms: Mapping[str, str]
) -> Iterator[tuple[Attack, tuple[str, str]]]:
    return ((attack, form) for attack in attacks for form in forms.items())


def examples_of(task: Task, count: int, seed: int) -> list[Example]:
    """Draw examples of a task, held out or not, by seed; all of them if the task has fewer."""
    return [task.example(n) for n in islice(permutation(len(task), seed, "audit"), count)]
