"""Audit of a verifier: gold answers that it refuses, and wrong answers that it accepts."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from tensordict import TensorDict
from transformers import PreTrainedTokenizerBase

from rlcomp.audit.attacks import KINDS, NONSENSE, Attack, blind_attacks, informed_attacks
from rlcomp.audit.wrong_answers import fill_form, increment_number
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.component import Component
from rlcomp.data.examples import prompt_batch
from rlcomp.data.permutation import permutation
from rlcomp.errors import in_one_line
from rlcomp.interfaces.task import Example, Task
from rlcomp.text.rows import encode_rows


@dataclass(frozen=True)
class RewardVerdict:
    """Verdict of a reward on a response.

    Attributes:
        decision: ``accepted``, ``refused``, ``invalid`` (the reward could not judge the response)
            or ``raised`` (the reward raised an exception).
        seconds: duration of the call.
        reason: reason for an invalid row, or the exception, in one line.
    """

    decision: Literal["accepted", "refused", "invalid", "raised"]
    seconds: float
    reason: str = ""


class RewardJudge:
    """Timed calls of a reward on one row each, so that a failing call identifies its answer.

    Args:
        reward: reads texts and columns; also tokens, if there is a tokenizer.
        tokenizer: None if the reward reads no tokens.
    """

    def __init__(self, reward: Component, tokenizer: PreTrainedTokenizerBase | None) -> None:
        self.reward = reward
        self.tokenizer = tokenizer

    def __call__(self, example: Example, response: str) -> RewardVerdict:
        """Return the verdict on a response to the prompt of an example."""
        batch = self._batch(example, response)
        start = time.perf_counter()
        try:
            output = self.reward(batch)
        # Any exception of a verifier on a hostile answer would stop a run: record it.
        except Exception as error:
            return RewardVerdict("raised", time.perf_counter() - start, in_one_line(error))
        seconds = time.perf_counter() - start
        if not bool(output["reward_valid"].all()):
            has_reason = "invalid_reason" in output.keys()
            reason = decode_texts(output["invalid_reason"])[0] if has_reason else ""
            return RewardVerdict("invalid", seconds, reason)
        return RewardVerdict("accepted" if bool(output["correct"].all()) else "refused", seconds)

    def check(self, example: Example) -> None:
        """Judge a gold answer and let any exception through: a column may be missing."""
        self.reward(self._batch(example, example.answer))

    def _batch(self, example: Example, response: str) -> TensorDict:
        batch = prompt_batch([example])
        if self.tokenizer is not None:
            batch.update(encode_rows(self.tokenizer, [example.prompt], [response]))
        batch["response"] = encode_texts([response])
        batch["group_id"] = batch["prompt"].new_zeros(1).long()
        return batch


Judge = Callable[[Example, str], RewardVerdict]


@dataclass(frozen=True)
class Case:
    """Tested response, its form, and the reason of its verdict."""

    prompt: str
    gold: str
    response: str
    form: str
    reason: str = ""


@dataclass
class Count:
    """Numbers of verdicts on the answers of one kind or form; the other ones are refusals."""

    tried: int = 0
    accepted: int = 0
    invalid: int = 0
    raised: int = 0
    example: Case | None = None

    def add(self, verdict: RewardVerdict, case: Case, decisions: Collection[str]) -> None:
        """Count a verdict; keep the first case with one of the decisions as the example."""
        self.tried += 1
        self.accepted += verdict.decision == "accepted"
        self.invalid += verdict.decision == "invalid"
        self.raised += verdict.decision == "raised"
        if self.example is None and verdict.decision in decisions:
            self.example = case


@dataclass
class Audit:
    """Result of an audit.

    Attributes:
        rows: number of tested examples.
        gold: rows with a gold answer or a demonstration; a row is accepted if any form of its
            answer, or its demonstration, is accepted.
        forms: gold answers by form; demonstrations are the form ``demonstration``.
        kinds: attacks by kind, :data:`rlcomp.audit.attacks.KINDS`.
        slowest: seconds and case of the slowest verdict.
    """

    rows: int = 0
    gold: Count = field(default_factory=Count)
    forms: dict[str, Count] = field(default_factory=dict)
    kinds: dict[str, Count] = field(default_factory=dict)
    slowest: tuple[float, Case] | None = None

    def false_accepts(self, allowed: Collection[str] = ()) -> list[str]:
        """Return the kinds that can never be right but were accepted, or raised an exception.

        The ``allowed`` kinds are left out.
        """
        return [
            kind
            for kind, count in self.kinds.items()
            if (count.accepted or count.raised)
            and KINDS[kind].right == "never"
            and kind not in allowed
        ]


def audit(examples: Sequence[Example], judge: Judge, forms: Mapping[str, str]) -> Audit:
    """Try gold answers and attacks on each example.

    A gold answer must be accepted in at least one form, or as the task's demonstration. Blind
    attacks are tried in the plain form and in every form in which any gold answer was accepted.
    Attacks with the gold answer are tried only in forms in which the verifier accepts the gold
    answer and refuses nonsense. A verifier that checks a solution (countdown) reads no gold answer:
    another solution is not a false accept. A row without such a form gets an edited demonstration
    and the demonstration of another row instead.

    Args:
        examples: rows of a task.
        judge: returns the verdict on a response.
        forms: answer forms by name (:data:`rlcomp.audit.wrong_answers.FORMS`).
    """
    result = Audit(rows=len(examples))
    trials = _Trials(judge, result)
    accepted_forms = [_try_gold(trials, example, forms) for example in examples]
    used_forms = {
        "plain": forms["plain"],
        **{name: forms[name] for names in accepted_forms for name in names},
    }
    for row, example in enumerate(examples):
        others = [other.answer for other in [*examples[row + 1 :], *examples[:row]]]
        names = _try_blind(trials, example, used_forms) & {*accepted_forms[row]}
        sound_forms = {name: form for name, form in used_forms.items() if name in names}
        _try_informed(trials, example, sound_forms, others)
        if not sound_forms:  # examples[-1] is the other row of the first one
            _try_responses(trials, example, examples[row - 1])
    return result


class _Trials:
    """Judge of responses that adds its verdicts to an audit."""

    def __init__(self, judge: Judge, result: Audit) -> None:
        self.judge = judge
        self.result = result

    def verdict(self, example: Example, response: str, form: str) -> tuple[RewardVerdict, Case]:
        """Judge a response and update the slowest case; a slow response is judged twice."""
        verdict = self.judge(example, response)
        case = Case(example.prompt, example.answer, response, form, verdict.reason)
        slowest = self.result.slowest[0] if self.result.slowest else 0.0
        if verdict.seconds > slowest:
            # Judge again: the first call of a kind may include an import.
            seconds = min(verdict.seconds, self.judge(example, response).seconds)
            if seconds > slowest:
                self.result.slowest = (seconds, case)
        return verdict, case

    def attack(self, kind: str, example: Example, response: str, form: str) -> bool:
        """Try an attack; return True if it was accepted."""
        verdict, case = self.verdict(example, response, form)
        count = self.result.kinds.setdefault(kind, Count())
        count.add(verdict, case, ("accepted", "raised"))
        return verdict.decision == "accepted"


def _try_gold(trials: _Trials, example: Example, forms: Mapping[str, str]) -> list[str]:
    """Try the gold answer in all forms, and the demonstration; return the accepted forms.

    ``demonstration`` is not one of the returned forms, because it has no place for another answer.
    """
    responses = {name: fill_form(form, example.answer) for name, form in forms.items()}
    if not example.answer.strip():
        responses = {}
    if example.demonstration.strip():
        responses["demonstration"] = example.demonstration
    verdicts = {name: trials.verdict(example, text, name) for name, text in responses.items()}
    for name, (verdict, case) in verdicts.items():
        trials.result.forms.setdefault(name, Count()).add(verdict, case, ())
    accepted = [name for name, (verdict, _) in verdicts.items() if verdict.decision == "accepted"]
    if verdicts:
        # One verdict for the row: the first accepted one, else the last one, which is the
        # demonstration's if there is a demonstration.
        name = accepted[0] if accepted else [*verdicts][-1]
        trials.result.gold.add(*verdicts[name], ("refused", "invalid", "raised"))
    return [name for name in accepted if name in forms]


def _try_blind(trials: _Trials, example: Example, forms: Mapping[str, str]) -> set[str]:
    """Try attacks without the gold answer; return the forms in which all nonsense is refused."""
    refusing = {*forms}
    attacks = [*blind_attacks(), Attack("prompt", example.prompt)]
    for attack, (name, form) in _pairs(attacks, forms):
        if attack.kind == "prompt" and attack.answer.strip() == example.answer.strip():
            continue
        accepted = trials.attack(attack.kind, example, fill_form(form, attack.answer), name)
        if attack.answer in NONSENSE and accepted:
            refusing.discard(name)
    return refusing


def _try_informed(
    trials: _Trials, example: Example, forms: Mapping[str, str], others: Sequence[str]
) -> None:
    """Try attacks that use the gold answer."""
    attacks = [*informed_attacks(example.answer, others)] if forms else []
    for attack, (name, form) in _pairs(attacks, forms):
        response = fill_form(form, attack.answer)
        if attack.second_answer is not None:
            response = f"{response}\n{fill_form(form, attack.second_answer)}"
        trials.attack(attack.kind, example, response, name)


def _try_responses(trials: _Trials, example: Example, other: Example) -> None:
    """Try responses near the demonstration, for verifiers that do not read the answer itself."""
    for text in increment_number(example.demonstration):
        trials.attack("edited", example, text, "demonstration")
    if other.demonstration.strip() not in ("", example.demonstration.strip()):
        trials.attack("other_response", example, other.demonstration, "demonstration")


def _pairs(
    attacks: Sequence[Attack], forms: Mapping[str, str]
) -> Iterator[tuple[Attack, tuple[str, str]]]:
    return ((attack, form) for attack in attacks for form in forms.items())


def examples_of(task: Task, count: int, seed: int) -> list[Example]:
    """Draw examples of a task, held out or not, by seed; all of them if the task has fewer."""
    return [task.example(n) for n in islice(permutation(len(task), seed, "audit"), count)]
