"""Evaluation of self-play by matches: win rates, and verdicts on answers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from rlcomp.arguments import NonEmptyText, PositiveInt
from rlcomp.component import Component
from rlcomp.data.examples import held_out_examples, prompt_batch
from rlcomp.engine.decoding import Decoding
from rlcomp.episodes.match import MatchPlayer
from rlcomp.errors import ConfigError, DataError
from rlcomp.functional.reduction import masked
from rlcomp.functional.statistics import roc_auc
from rlcomp.interfaces.reward import without_failed
from rlcomp.interfaces.task import Task
from rlcomp.interfaces.verdicts import read_verdict, verdict_options
from rlcomp.metrics import record
from rlcomp.model.weight_snapshot import WeightSnapshot
from rlcomp.text.answer_tokens import answer_ids
from rlcomp.text.rows import rows_from_ids
from rlcomp.text.tokenizer import decode_rows


class SelfPlayWinRate(Component):
    """Evaluator of a self-playing policy's win rate against earlier copies of its weights.

    The seat with the higher pay wins a match; equal pay is half a win. A match whose environment
    failed (``episode_error``) does not count. The policy plays each seat in turn, and an earlier
    copy plays the other seat. Each evaluation takes a copy after its matches; the policy plays
    against the latest ``keep`` copies.

    Records ``<name>/win_rate`` over all copies, ``<name>/win_rate_oldest`` and
    ``<name>/win_rate_newest`` against the oldest and the newest copy; nothing at the first
    evaluation. A policy that only cycles among strategies beats the newest copy but not the oldest.

    Args:
        player: the player of the matches, with the same policy in both seats.
        task: the task with the held-out prompts.
        keep: number of copies.
        num_prompts: number of prompts; fewer if the task has fewer.
        matches_per_prompt: matches per prompt, seat and copy.
        name: prefix of its metrics; each evaluator needs its own.

    Raises:
        ConfigError: the seats have different policies, or there are not two seats.
    """

    # Number of copies taken so far; copy ``n`` is in ``copies[n % keep]``.
    taken: Tensor

    def __init__(
        self,
        *,
        player: MatchPlayer,
        task: Task,
        keep: PositiveInt = 4,
        num_prompts: PositiveInt = 16,
        matches_per_prompt: PositiveInt = 16,
        name: NonEmptyText = "past_selves",
    ) -> None:
        super().__init__()
        if len(player.policies) != 2 or player.policies[0] is not player.policies[1]:
            raise ConfigError(
                "player.policies must be one policy in two seats: set "
                "player.policies=['${policy}', '${policy}']"
            )
        self.player = player
        self.matches_per_prompt = matches_per_prompt
        self.name = name
        self.copies = nn.ModuleList(WeightSnapshot(player.policy) for _ in range(keep))
        self.register_buffer("taken", torch.zeros((), dtype=torch.int64))
        # The same matches at every evaluation, so that only the policies differ.
        self.seed = torch.initial_seed()
        self.examples = held_out_examples(task, num_prompts, self.seed)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Play the matches, record and take a copy; ignore the training batch."""
        count, keep = int(self.taken), len(self.copies)
        rates = [self._win_rate(n % keep) for n in range(max(0, count - keep), count)]
        if rates:
            rate = torch.tensor(rates)
            valid = ~rate.isnan()
            record(f"{self.name}/win_rate", rate, where=valid)
            record(f"{self.name}/win_rate_oldest", rate[:1], where=valid[:1])
            record(f"{self.name}/win_rate_newest", rate[-1:], where=valid[-1:])
        self.copies[count % keep].take()  # type: ignore[operator]
        self.taken += 1
        return batch

    def _win_rate(self, number: int) -> float:
        """Return the win rate against a copy over both seats; NaN if all matches failed."""
        copy = self.copies[number]
        assert isinstance(copy, WeightSnapshot)
        wins = []
        for seat in range(2):
            weights = [nullcontext if n == seat else copy.in_place for n in range(2)]
            rows = self.player.play(
                prompt_batch(self.examples),
                group_size=self.matches_per_prompt,
                decoding=None,
                generator=torch.Generator().manual_seed(self.seed + seat),
                seed=self.seed,
                weights=weights,
            )
            wins.append(_wins(rows, seat))
        return float(torch.cat(wins).mean())


def _wins(rows: TensorDict, seat: int) -> Tensor:
    """Return for each complete match 1 if the seat is paid more, 1/2 for equal pay, else 0."""
    pay = masked(rows["turn_reward"], rows["response_mask"]).sum(1)
    signed = torch.where(rows["seat"] == seat, pay, -pay)
    gap = pay.new_zeros(int(rows["match_id"].max()) + 1).index_add(0, rows["match_id"], signed)
    failed = ~without_failed(rows, torch.ones_like(rows["match_id"], dtype=torch.bool))
    complete = torch.ones_like(gap, dtype=torch.bool)
    complete[rows["match_id"][failed]] = False
    gap = gap[complete]
    return (gap > 0).double() + (gap == 0).double() / 2


class VerdictQuality(Component):
    """Evaluator of a solver and the judge of its answers (``environment=solver_verifier``).

    Records on sampled matches of held-out prompts, without those whose environment failed,
    ``<name>/right``, the share of right answers, and ``<name>/verdict_right``, the share of right
    verdicts. A solver that is nearly always right leaves nothing to reject. So the judge also reads
    fixed answers, the same at every evaluation: ``<name>/given/judged``, the share with a
    verdict; ``<name>/given/accuracy``, the share with the right verdict; and
    ``<name>/given/accepted_wrong``, the accepted share of the wrong answers. Both count a missing
    verdict as not accepted and not right. Over the judged answers it records ``<name>/given/auc``,
    the area under the ROC curve of ``log p(accept) - log p(reject)`` after the sampled reasoning,
    at temperature 1 (absent if all are right or all are wrong).

    Args:
        player: player of the matches; seat 1 is the judge.
        task: the task with the held-out prompts.
        verdicts: the task with the held-out fixed answers (``task=answer_verdicts``).
        accept: text of the verdict that the answer is right.
        reject: text of the verdict that it is wrong.
        stop: text that ends a turn and is not part of it; null: only the stop token ends it.
        num_prompts: number of prompts of either task; fewer if a task has fewer.
        samples_per_prompt: matches, and verdicts, per prompt.
        name: prefix of its metrics; each evaluator needs its own.

    Raises:
        ConfigError: matches have fewer than two turns, an answer of ``verdicts`` is neither option,
            or :func:`rlcomp.interfaces.verdicts.verdict_options` refuses the options.
        DataError: (when called) the environment has no facts ``right`` and ``verdict_right``.
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
        self.judge = player.policies[1]
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
        self.answers = held_out_examples(verdicts, num_prompts, self.seed)
        for example in self.answers:
            if example.answer not in self.options:
                raise ConfigError(
                    f"{name}: the answer {example.answer!r:.40} of its verdicts is neither accept="
                    f"{accept!r} nor reject={reject!r}: give task and evaluator the same options"
                )
        self.right = torch.tensor([each.answer == accept for each in self.answers])

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
        complete = without_failed(rows, torch.ones_like(rows["seat"], dtype=torch.bool))
        facts = rows["facts"][complete & (rows["seat"] == 1)]
        if not len(facts):
            return  # every match failed; the player records that
        if not {"right", "verdict_right"} <= set(facts.keys()):
            raise DataError(
                f"{self.name}: the environment reports no facts right and verdict_right: set "
                "environment=solver_verifier"
            )
        record(f"{self.name}/right", facts["right"].double())
        record(f"{self.name}/verdict_right", facts["verdict_right"].double())

    def _judge(self) -> None:
        texts, columns = zip(*((each.prompt, each.columns) for each in self.answers), strict=True)
        prompts = self.player.prompt.encode(texts, columns)
        rows = self.judge.generate(
            prompts,
            group_size=self.samples_per_prompt,
            max_new_tokens=self.player.limits.turn_tokens,
            generator=torch.Generator().manual_seed(self.seed),
        )
        turns = [self._turn_text(row) for row in rows.unbind(0)]
        verdicts = [read_verdict(text, self.options) for text in turns]
        right = self.right.repeat_interleave(self.samples_per_prompt)
        judged = torch.tensor([verdict is not None for verdict in verdicts])
        accepted = torch.tensor([verdict == 0 for verdict in verdicts])
        name = f"{self.name}/given"
        record(f"{name}/judged", judged.double())
        record(f"{name}/accuracy", (judged & (accepted == right)).double())
        record(f"{name}/accepted_wrong", accepted.double(), where=~right)
        right = right[judged]
        if right.any() and not right.all():
            record(f"{name}/auc", roc_auc(self._log_odds(prompts, turns, verdicts), right))

    def _turn_text(self, row: TensorDict) -> str:
        """Return the text of a turn as the environment gets it."""
        ids = row["tokens"][row["response_mask"]].tolist()
        (text,) = decode_rows(self.judge.tokenizer, [ids])
        return text.partition(self.stop)[0] if self.stop else text

    def _log_odds(
        self,
        prompts: Sequence[Sequence[int]],
        turns: Sequence[str],
        verdicts: Sequence[int | None],
    ) -> Tensor:
        """Return the log-odds of accepting after the reasoning of each verdict, float64."""
        tokenizer = self.judge.tokenizer
        reasonings = [
            (n // self.samples_per_prompt, text.rstrip().removesuffix(self.options[verdict]))
            for n, (text, verdict) in enumerate(zip(turns, verdicts, strict=True))
            if verdict is not None
        ]
        heads = [prompts[n] for n, _ in reasonings for _ in self.options]
        tails = answer_ids(
            tokenizer, [f"{text}{option}" for _, text in reasonings for option in self.options]
        )
        rows = rows_from_ids(tokenizer, heads, tails).to(self.judge.device)
        with torch.no_grad():
            log_probs = self.judge.log_probs(rows, decoding=Decoding())
        accept, reject = log_probs.sum(1).double().cpu().view(-1, 2).unbind(1)
        return accept - reject
