"""Questions with two options for a language model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from tensordict import TensorDict

from rlcomp.engine.decoding import Decoding
from rlcomp.errors import DataError
from rlcomp.interfaces.judge import NoVerdict, low_mass_reason
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.text.chat import prompt_format_of_model
from rlcomp.text.rows import rows_from_ids
from rlcomp.text.token_bytes import encode_continuation, token_bytes
from rlcomp.text.tokenizer import decode_rows
from rlcomp.verify.judge_reply import option_share, spellings

# A message quotes this many tokens of the model's answer.
_QUOTED_TOKENS = 12


class TwoOptions:
    """Two options of a model: the share ``p(first) / (p(first) + p(second))`` after a question.

    ``p`` of an option is the probability at temperature 1 that an answer begins with it, summed
    over its spellings (:func:`rlcomp.verify.judge_reply.spellings`).

    Args:
        model: reads the questions.
        options: two texts.
        prompt: encodes the questions; by default the chat template of the model's tokenizer, or
            plain text if it has none.
        least_mass: least ``p(first) + p(second)``; with less there is no verdict.
        no_verdict: warns once of questions without a verdict, with the reason.
        batch_size: questions in one forward pass; each has a row for every spelling.

    Raises:
        ConfigError: the tokenizer does not define the bytes of its tokens, or the prompt format
            cannot be used.
        DataError: the tokenizer cannot write an option.
    """

    def __init__(
        self,
        model: Policy,
        options: tuple[str, str],
        *,
        prompt: PromptFormat | None,
        least_mass: float,
        no_verdict: NoVerdict,
        batch_size: int = 64,
    ) -> None:
        self.model = model
        self.options = options
        self.prompt = prompt_format_of_model(prompt, model.tokenizer)
        self.least_mass = least_mass
        self.no_verdict = no_verdict
        self.batch_size = batch_size
        table = token_bytes(model.tokenizer)
        self._tails = [list(_tails(model, table, option)) for option in options]

    def encode(self, questions: Sequence[str]) -> list[list[int]]:
        """Return the token ids of questions."""
        return self.prompt.encode(questions, [{}] * len(questions))

    def fits(self, question: Sequence[int]) -> bool:
        """Return whether the context holds a question with either option, in its first spelling."""
        limit = self.model.context_length
        longest = max(len(spellings_ids[0]) for spellings_ids in self._tails)
        return limit is None or len(question) + longest <= limit

    def shares(self, questions: Sequence[Sequence[int]]) -> list[float | None]:
        """Return the share of the first option for each encoded question; None without a verdict.

        A question that does not fit has no verdict.
        """
        fitting = [number for number, ids in enumerate(questions) if self.fits(ids)]
        values: list[float | None] = [None] * len(questions)
        low: list[tuple[int, float]] = []
        for start in range(0, len(fitting), self.batch_size):
            part = fitting[start : start + self.batch_size]
            masses = self._masses([questions[number] for number in part])
            for number, mass in zip(part, masses, strict=True):
                values[number] = option_share(mass, self.least_mass)
                if values[number] is None:
                    low.append((number, sum(mass)))
        self._report(questions, low, len(questions) - len(fitting))
        return values

    def _masses(self, questions: Sequence[Sequence[int]]) -> list[tuple[float, float]]:
        """Return ``p`` of both options after each question, over the spellings that fit."""
        limit = self.model.context_length
        prompts, tails, owners = list[Sequence[int]](), list[list[int]](), list[tuple[int, int]]()
        for number, question in enumerate(questions):
            room = math.inf if limit is None else limit - len(question)
            for option, option_tails in enumerate(self._tails):
                fitting = [tail for tail in option_tails if len(tail) <= room]
                prompts += [question] * len(fitting)
                tails += fitting
                owners += [(number, option)] * len(fitting)
        rows: TensorDict = rows_from_ids(self.model.tokenizer, prompts, tails)
        with torch.no_grad():
            log_probs = self.model.log_probs(rows.to(self.model.device), decoding=Decoding())
        masses = torch.zeros(len(questions), 2, dtype=torch.float64)
        index = torch.tensor(owners).unbind(1)
        masses.index_put_(index, log_probs.sum(1).double().exp().cpu(), accumulate=True)
        return [(first, second) for first, second in masses.tolist()]

    def _report(
        self, questions: Sequence[Sequence[int]], low: list[tuple[int, float]], num_long: int
    ) -> None:
        """Report once to ``no_verdict`` why questions have no verdict.

        ``low`` has the index and the mass of questions of low mass.
        """
        if self.no_verdict.reason:
            return
        if low:
            number, mass = low[0]
            reason = low_mass_reason(
                self.options,
                mass,
                self.least_mass,
                self._greedy_answer(questions[number]),
                self.no_verdict.path,
            )
            self.no_verdict.warn_once(len(low), len(questions), reason)
        elif num_long:
            path = self.no_verdict.path
            reason = (
                f"they are longer than the context of the model, {self.model.context_length} "
                f"tokens: shorten {path}template or the answers, or take another {path}model"
            )
            self.no_verdict.warn_once(num_long, len(questions), reason)

    def _greedy_answer(self, question: Sequence[int]) -> str:
        """Return the beginning of the model's free answer, by greedy decoding."""
        limit = self.model.context_length
        length = _QUOTED_TOKENS if limit is None else min(_QUOTED_TOKENS, limit - len(question))
        rows = self.model.generate(
            [question],
            group_size=1,
            max_new_tokens=length,
            decoding=Decoding(temperature=0.0),
            generator=torch.Generator(),
        )
        ids = rows["tokens"][0][rows["response_mask"][0]].tolist()
        return decode_rows(self.model.tokenizer, [ids])[0]


def _tails(model: Policy, table: Sequence[bytes], option: str) -> Iterator[list[int]]:
    """Yield the tokens of each spelling of an option that the tokenizer can write, each once."""
    unique = set[tuple[int, ...]]()
    for spelling in spellings(option):
        try:
            ids = encode_continuation(model.tokenizer, table, spelling)
        except DataError:
            if spelling == option:
                raise
            continue
        if tuple(ids) not in unique:
            unique.add(tuple(ids))
            yield ids
