"""Verifiers of a final answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from rlcomp.arguments import NonEmptyText, NonNegativeFloat, NonNegativeInt, PositiveFloat
from rlcomp.errors import require
from rlcomp.interfaces.pooled_reward import PooledReward
from rlcomp.interfaces.reward import TextReward
from rlcomp.verify.answers import column as column_of
from rlcomp.verify.answers import extract, gold_answers, read_json
from rlcomp.verify.constraints import satisfied_share
from rlcomp.verify.edits import patch_similarity
from rlcomp.verify.number import numeric
from rlcomp.verify.short_answer import short_answer
from rlcomp.workers.executor import CallExecutor


class ExactMatch(TextReward):
    r"""Reward 1 if the response's answer equals the gold one character by character, else 0.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; name in ``rewards``:
    ``exact_match``.

    Args:
        where: place of the answer: the ``whole`` response; or after the thought ``boxed`` as
            ``\boxed{...}`` or ``tagged`` as ``<answer>...</answer>``, where two different answers
            count as none.
        strip: whether white space around both texts is ignored; around a ``boxed`` or ``tagged``
            answer it always is.
        column: column of the examples with the gold text, such as the only right reasoning
            (``evaluator=coverage``). None: the answer.

    Raises:
        DataError: (when called) an example has no such column.
    """

    name = "exact_match"

    def __init__(
        self,
        *,
        where: Literal["whole", "boxed", "tagged"] = "whole",
        strip: bool = True,
        column: NonEmptyText | None = None,
    ) -> None:
        super().__init__()
        self.where = where
        self.strip = strip
        self.column = column

    @property
    def needed_columns(self) -> frozenset[str]:
        """Return the column of the gold text, if ``column`` is set."""
        return frozenset({self.column} if self.column else ())

    def score_row(self, row: Mapping[str, object]) -> float:
        """Return 1 if the answer equals the gold text, else 0."""
        gold = column_of(row, self.column, "reward=exact_match") if self.column else row["answer"]
        return self.score(str(row["prompt"]), str(row["response"]), str(gold))

    def score(self, prompt: str, response: str, answer: str) -> float:
        """Return 1 if both texts are equal, else 0."""
        if self.where != "whole":
            return float(extract(response, self.where) == answer.strip())
        if self.strip:
            response, answer = response.strip(), answer.strip()
        return float(response == answer)


class Numeric(TextReward):
    r"""Reward 1 if the final number of the response equals the number of the answer, else 0.

    ``|given - gold| <= max(absolute, relative * |gold|)``.

    :func:`rlcomp.verify.number.committed_number` reads the number. Several different numbers
    (``6 or 7``, ``x=6=7``) are no answer. Gold answers are read in the same way, so that they may
    be whole solutions. A gold answer without a single number makes the row invalid.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; name in ``rewards``:
    ``numeric``.

    Args:
        where: ``marked``: in a box, in tags or after ``####``, ``A:`` or ``answer is``; ``last``:
            without one of these, the last number of the response.
        absolute: largest difference of equal numbers.
        relative: the same, as a share of the gold number.

    Source:
        Cobbe et al. 2021, arXiv:2110.14168 (the task).
    """

    name = "numeric"

    def __init__(
        self,
        *,
        where: Literal["marked", "last"] = "marked",
        absolute: NonNegativeFloat = 1e-6,
        relative: NonNegativeFloat = 0.0,
    ) -> None:
        super().__init__()
        self.where = where
        self.absolute = absolute
        self.relative = relative

    def score(self, prompt: str, response: str, answer: str) -> float | None:
        """Return 1 if both numbers are equal, else 0; None if the answer has none."""
        return numeric(
            response,
            answer,
            where=self.where,
            absolute=self.absolute,
            relative=self.relative,
        )


class Symbolic(PooledReward):
    r"""Reward 1 if the response's answer is mathematically equal to the gold one, else 0.

    :func:`rlcomp.verify.symbolic.symbolic` compares the answers in the reward pool and refuses some
    before parsing. A gold answer that cannot be read makes the row invalid, and so does a
    comparison that takes too long.

    Reads, writes and records: see :class:`rlcomp.interfaces.pooled_reward.PooledReward`; the part
    is ``symbolic``.

    Args:
        where: place of the answer after the thought: ``boxed`` as ``\boxed{...}`` or ``tagged`` as
            ``<answer>...</answer>``. ``anywhere`` is for evaluation only, because a policy that is
            trained on it learns to write many numbers.
        decimals: number of decimals that fractions are rounded to before the comparison.
        timeout: time limit of a comparison, in seconds.
        calls: the reward pool that runs the comparisons; by default they run in the process,
            without a limit.

    Raises:
        MissingExtra: math-verify is not installed (extra ``verify``).

    Source:
        math-verify 0.9 (Kydlíček, Hugging Face), Apache-2.0.
    """

    name = "symbolic"
    function = "rlcomp.verify.symbolic.symbolic"

    def __init__(
        self,
        *,
        where: Literal["boxed", "tagged", "anywhere"] = "boxed",
        decimals: NonNegativeInt = 6,
        timeout: PositiveFloat = 10.0,
        calls: CallExecutor | None = None,
    ) -> None:
        super().__init__(timeout=timeout, calls=calls)
        require("math_verify", "verify")
        self.where = where
        self.decimals = decimals

    def arguments(self, row: Mapping[str, object]) -> Mapping[str, object]:
        """Return both texts and the parsing options."""
        texts = {"response": row["response"], "answer": row["answer"]}
        return {**texts, "where": self.where, "decimals": self.decimals}


class ShortAnswer(TextReward):
    r"""Reward equal to the agreement of the answer with the gold answer that fits best.

    The gold answers are the example's answer and the texts in its column ``answers``, if present.
    :func:`rlcomp.verify.short_answer.short_answer` compares them.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; name in ``rewards``:
    ``short_answer``. Blank gold answers do not count; without any other the row is invalid.

    Args:
        metric: ``exact``: 1 if the words are equal; ``f1``: F1 of the words; ``contains``: 1 if the
            answer contains the gold words as whole words.
        where: place of the answer after the thought: ``whole``, ``tagged`` or ``boxed``. A missing
            answer scores 0.

    Raises:
        DataError: the column ``answers`` is not a list of texts.

    Source:
        Rajpurkar et al. 2016, arXiv:1606.05250; as a reward Jin et al. 2025 (Search-R1),
        arXiv:2503.09516.
    """

    name = "short_answer"

    def __init__(
        self,
        *,
        metric: Literal["exact", "f1", "contains"] = "exact",
        where: Literal["whole", "boxed", "tagged"] = "tagged",
    ) -> None:
        super().__init__()
        self.metric = metric
        self.where = where

    def score_row(self, row: Mapping[str, object]) -> float | None:
        """Return the agreement with the best gold answer."""
        gold = gold_answers(row)
        if not gold:
            return None
        answer = extract(str(row["response"]), self.where)
        return 0.0 if answer is None else short_answer(answer, gold, metric=self.metric)


class Constraints(TextReward):
    """Reward 1 if the response's values satisfy all constraints, else 0; or their share.

    The answer is a JSON object with a value for each variable. Every solution is right, not only
    the example's. Needs the columns ``variables`` (``{name: [values]}``) and ``constraints``
    (expressions, :func:`rlcomp.verify.constraints.satisfied_share`). Examples: graph colouring,
    Sudoku, knights and knaves, zebra puzzles.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; name in ``rewards``:
    ``constraints``.

    Args:
        where: place of the answer after the thought: ``whole`` or ``tagged``.
        partial: whether the reward is the share of satisfied constraints.

    Raises:
        DataError: an example lacks a column, or a constraint cannot be read.
    """

    name = "constraints"
    needs = ("variables", "constraints")

    def __init__(
        self, *, where: Literal["whole", "tagged"] = "tagged", partial: bool = False
    ) -> None:
        super().__init__()
        self.where = where
        self.partial = partial

    def score_row(self, row: Mapping[str, object]) -> float:
        """Return 1 if the values satisfy all constraints, else 0; the share if ``partial``."""
        variables: Any = column_of(row, "variables", "reward=constraints")
        constraints: Any = column_of(row, "constraints", "reward=constraints")
        assignment = read_json(extract(str(row["response"]), self.where))
        share = satisfied_share(assignment, variables, constraints)
        return share if self.partial else float(share == 1.0)


class PatchSimilarity(TextReward):
    """Reward equal to the similarity of the response's patch and the true one; -1 for no patch.

    ``R = 2 M / T`` in [0, 1], with ``M`` characters in matching blocks and ``T`` characters of both
    patches. :func:`rlcomp.verify.edits.patch_similarity` compares long patches by lines.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; name in ``rewards``:
    ``patch_similarity``. The answer is the true patch; an empty one makes the row invalid.

    Args:
        where: place of the patch after the thought: ``whole`` or ``tagged``.

    Source:
        Wei et al. 2025 (SWE-RL), arXiv:2502.18449, eq. 1.
    """

    name = "patch_similarity"

    def __init__(self, *, where: Literal["whole", "tagged"] = "tagged") -> None:
        super().__init__()
        self.where = where

    def score(self, prompt: str, response: str, answer: str) -> float | None:
        """Return the similarity; None if there is no true patch."""
        if not answer.strip():
            return None
        return patch_similarity(extract(response, self.where), answer)
