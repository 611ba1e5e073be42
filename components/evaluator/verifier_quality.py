"""Quality of a verifier's verdicts in a prover-verifier game."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.component import Component
from rlcomp.data.examples import held_out_examples, prompt_batch
from rlcomp.engine.decoding import Decoding
from rlcomp.episodes.match import MatchPlayer
from rlcomp.errors import ConfigError, DataError
from rlcomp.functional.statistics import roc_auc
from rlcomp.interfaces.answer_verifier import read_verdict, verdict_options
from rlcomp.interfaces.reward import without_failed
from rlcomp.interfaces.task import Task
from rlcomp.metrics import record
from rlcomp.text.answer_ids import answer_ids
from rlcomp.text.rows import rows_from_ids
from rlcomp.text.tokenizer import decode_rows


class VerifierQuality(Component):
    """Evaluator of a solver and its verifier (``environment=solver_verifier``).

    Records on sampled matches of held-out prompts, without those whose environment failed,
    ``<name>/right``, the share of right answers, and ``<name>/verdict_right``, the share of right
    verdicts. A solver that is nearly always right leaves nothing to reject. So the verifier also
    judges given answers, the same at every evaluation: ``<name>/given/judged``, the share with a
    verdict; ``<name>/given/accuracy`` and ``<name>/given/accepted_wrong`` over all; and over the
    judged ones ``<name>/given/auc``, the area under the ROC curve of
    ``log p(accept) - log p(reject)`` after the sampled reasoning, at temperature 1 (absent if all
    are right or all are wrong).

    Args:
        player: plays the matches; seat 1 is the verifier.
        task: the task with the held-out prompts.
        verdicts: the task with the held-out given answers (``task=answer_verdicts``).
        accept: text of the verdict that the answer is right.
        reject: text of the verdict that it is wrong.
        stop: text that ends a turn and is not part of it; null: only the stop token ends it.
        num_prompts: number of prompts of either task; fewer if a task has fewer.
        samples_per_prompt: matches, and verdicts, per prompt.
        name: prefix of its metrics; each evaluator needs its own.

    Raises:
        ConfigError: matches have fewer than two turns, an answer of ``verdicts`` is neither option,
            or the environment refuses the options.
        DataError: the environment has no facts ``right`` and ``verdict_right``.
    """

    def __init__(
        self,
        *,
        player: MatchPlayer,
        task: Task,
        verdicts: Task,
        accept: NonEmptyText = "y",
        reject: NonEmptyText = "n",
        stop: NonEmptyText | None = None,
        num_prompts: PositiveInt = 128,
        samples_per_prompt: PositiveInt = 4,
        name: NonEmptyText = "evaluation",
    ) -> None:
        super().__init__()
        self.player = player
        self.verifier = player.policies[1]
        if player.limits.turns < 2:
            raise ConfigError(
                f"player.max_turns is {player.limits.turns}: {name} needs matches of two turns, an "
                "answer and a verdict"
            )
        self.options = verdict_options(name, accept, reject, stop)
        self.stop = stop
        self.samples_per_prompt = samples_per_prompt
        self.name = name
        # The same prompts and the same draws at every evaluation, so that only policies differ.
        self.seed = torch.initial_seed()
        self.examples = held_out_examples(task, num_prompts, self.seed)
        self.given = held_out_examples(verdicts, num_prompts, self.seed)
        for example in self.given:
            if example.answer not in self.options:
                raise ConfigError(
                    f"{name}: the answer {example.answer!r:.40} of its verdicts is neither accept="
                    f"{accept!r} nor reject={reject!r}: give task and evaluator the same options"
                )
        self.given_right = torch.tensor([each.answer == accept for each in self.given])

    def forward(self, batch: TensorDict) -> TensorDict:
        """Play the matches, judge and record; ignore the training batch."""
        self._play()
        self._judge()
        return batch

    def _play(self) -> None:
        rows = self.player.play(
            prompt_batch(self.examples),
            group_size=self.samples_per_prompt,
            decoding=None,
            generator=torch.Generator().manual_seed(self.seed),
            seed=self.seed,
        )
        whole = without_failed(rows, torch.ones_like(rows["seat"], dtype=torch.bool))
        facts = rows["facts"][whole & (rows["seat"] == 1)]
        if not len(facts):
            return  # every match has failed; the player's own metrics show it
        if not {"right", "verdict_right"} <= set(facts.keys()):
            raise DataError(
                f"{self.name}: the environment tells no facts right and verdict_right: it is made "
                "for environment=solver_verifier"
            )
        record(f"{self.name}/right", facts["right"].double())
        record(f"{self.name}/verdict_right", facts["verdict_right"].double())

    def _judge(self) -> None:
        texts, columns = zip(*((each.prompt, each.columns) for each in self.given), strict=True)
        prompts = self.player.prompt.encode(texts, columns)
        rows = self.verifier.generate(
            prompts,
            group_size=self.samples_per_prompt,
            max_new_tokens=self.player.limits.turn_tokens,
            generator=torch.Generator().manual_seed(self.seed),
        )
        turns = [self._said(row) for row in rows.unbind(0)]
        verdicts = [read_verdict(text, self.options) for text in turns]
        right = self.given_right.repeat_interleave(self.samples_per_prompt)
        judged = torch.tensor([verdict is not None for verdict in verdicts])
        accepted = torch.tensor([verdict == 0 for verdict in verdicts])
        name = f"{self.name}/given"
        record(f"{name}/judged", judged.double())
        record(f"{name}/accuracy", (judged & (accepted == right)).double())
        record(f"{name}/accepted_wrong", accepted.double(), where=~right)
        right = right[judged]
        if right.any() and not right.all():
            record(f"{name}/auc", roc_auc(self._log_odds(prompts, turns, verdicts), right))

    def _said(self, row: TensorDict) -> str:
        """Return the text of a turn as the environment gets it."""
        ids = row["tokens"][row["response_mask"]].tolist()
        (text,) = decode_rows(self.verifier.tokenizer, [ids])
        return text.partition(self.stop)[0] if self.stop else text

    def _log_odds(
        self, asked: Sequence[Sequence[int]], said: Sequence[str], found: Sequence[int | None]
    ) -> Tensor:
        """Return the log-odds of accepting after the reasoning of each verdict, float64."""
        tokenizer = self.verifier.tokenizer
        reasoned = [
            (n // self.samples_per_prompt, text.rstrip().removesuffix(self.options[verdict]))
            for n, (text, verdict) in enumerate(zip(said, found, strict=True))
            if verdict is not None
        ]
        heads = [asked[n] for n, _ in reasoned for _ in self.options]
        tails = answer_ids(
            tokenizer, [f"{text}{option}" for _, text in reasoned for option in self.options]
        )
        rows = rows_from_ids(tokenizer, heads, tails).to(self.verifier.device)
        with torch.no_grad():
            log_probs = self.verifier.log_probs(rows, decoding=Decoding())
        accept, reject = log_probs.sum(1).double().cpu().view(-1, 2).unbind(1)
        return accept - reject
