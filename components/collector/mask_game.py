"""Mask-proposal self-play (PretrainZero): one policy proposes masks and predicts the spans."""

from __future__ import annotations

from itertools import count
from typing import Annotated

import torch
from tensordict import TensorDict
from torch import Tensor

from components.collector.group import record_rollout
from rlcomp.arguments import Ge, NonEmptyText, PositiveInt, Probability
from rlcomp.batch import cat, decode_texts, keep_prompt
from rlcomp.data.examples import prompt_batch
from rlcomp.data.masked_text import mask_span, normalised_span, span_problem
from rlcomp.data.template import check_wording
from rlcomp.functional.prefix_match import last_command
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.stages import Collector
from rlcomp.interfaces.task import Example
from rlcomp.metrics import record
from rlcomp.seed import new_generator
from rlcomp.text.answers import answer_prompts
from rlcomp.text.token_bytes import row_bytes, token_bytes
from rlcomp.text.tokenizer import encode_prompts

_PROBLEMS = ("missing", "empty", "absent", "whole", "long", "large", "no_room")


class MaskGame(Collector):
    r"""Collector of mask-proposal self-play (PretrainZero).

    The generator proposes ``num_masks`` spans of every paragraph, and the predictor answers each
    usable span ``group_size`` times.

    The generator's rows come first, a group for each paragraph. Their prompt is ``mask_template``;
    the proposal is the last ``\mask{...}`` of the response. The predictor's rows follow, a group
    for each usable proposal, even of an equal span. Their prompt is ``answer_template`` with the
    paragraph, in which every occurrence of the span is masked; their answer is the span.

    Reads ``answer`` ``[P, W]``, the paragraphs. Writes a new batch of ``B = P * num_masks + M *
    group_size`` rows, for ``M`` masks in use: the tokens, masks and log-probs of the rollouts,
    their texts, ``group_id``, ``truncated``; ``answer`` ``[B, W]`` (the paragraph in the
    generator's rows, the span in the predictor's) and ``answer_ends`` ``[B, W]``; ``is_proposer``
    ``[B]``, True for the generator's rows; ``answers_group_id`` ``[B]``, the ``group_id`` of the
    predictions of the row's mask, else -1; the paragraph's other entries, repeated for each of its
    rows (``policy_prompt``, if present, is the row's own prompt); and ``sampling_mask``
    ``[B, T, V/8]`` if the policy's sampling replays masks.

    Records ``rollout/length``, ``rollout/truncated``, ``rollout/tokens``,
    ``mask_game/valid_fraction`` and ``mask_game/words`` (of the masks in use); and the share of
    proposals that are ``mask_game/missing`` (there is no ``\mask{...}``), ``empty``, ``absent``,
    ``whole``, ``long``, ``large`` (:func:`rlcomp.data.masked_text.span_problem`) or leave
    ``no_room`` for an answer.

    Templates follow ``str.format``: ``{text}``, and ``{{`` and ``}}`` for braces.

    Args:
        policy: the policy in both roles.
        num_masks: proposals per paragraph, the generator's group.
        group_size: predictions per mask, the predictor's group.
        max_new_tokens: longest response of either role, in tokens.
        mask_template: the generator's prompt; ``{text}`` is the paragraph.
        answer_template: the predictor's prompt; ``{text}`` is the masked paragraph.
        mask: the text in place of the span.
        longest_words: a span of more words is not used.
        largest_share: a span of more than this share of the paragraph's characters is not used.

    Raises:
        ConfigError: a template cannot be used, or the tokenizer does not give the bytes of its
            tokens.

    Source:
        PretrainZero, arXiv:2512.03442. The rules for usable spans and the masking of all
        occurrences are this project's.
    """

    reads = ("answer",)
    optional = ()
    keys = {
        "is_proposer": ("B", "bool", "the row poses a question; the others answer one"),
        "answers_group_id": (
            "B",
            "int64",
            "group_id of the answers to the question in this response; -1: none",
            {"offset": "group_id"},
        ),
    }
    writes = (*Collector.writes, "answer", "answer_ends", "is_proposer", "answers_group_id")
    must_reach = ("answers_group_id",)

    def __init__(
        self,
        *,
        policy: Policy,
        num_masks: Annotated[int, Ge(2)] = 8,
        group_size: PositiveInt,
        max_new_tokens: PositiveInt,
        mask_template: NonEmptyText = "{text}<mask>",
        answer_template: NonEmptyText = "{text}<think>",
        mask: NonEmptyText = "[mask]",
        longest_words: PositiveInt = 8,
        largest_share: Probability = 0.2,
    ) -> None:
        super().__init__()
        self.policy = policy
        self.num_masks = num_masks
        self.group_size = group_size
        self.max_new_tokens = max_new_tokens
        self.mask_template = mask_template
        self.answer_template = answer_template
        self.mask = mask
        self.longest_words = longest_words
        self.largest_share = largest_share
        self.generator = new_generator()
        for name in ("mask_template", "answer_template"):
            check_wording(name, getattr(self, name), fields=["text"], needed=["text"])
        self.table = token_bytes(policy.tokenizer)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Roll out the proposals, then the predictions."""
        paragraphs = decode_texts(batch["answer"])
        prompts = [_fill(self.mask_template, text, text) for text in paragraphs]
        proposers = self._answers(prompts, self.num_masks)
        proposals = zip(decode_texts(proposers["answer"]), self._spans(proposers), strict=True)
        questions = [self._question(text, span) for text, span in proposals]
        usable = [question for question in questions if isinstance(question, Example)]
        predictors = [self._answers(usable, self.group_size)] if usable else []
        rows = cat([proposers, *predictors])
        rows.update(_roles(questions, len(paragraphs), rows))
        self._keep_prompt(rows, batch, questions)
        record_rollout(rows)
        _record_questions(questions)
        return rows

    def _answers(self, examples: list[Example], group_size: int) -> TensorDict:
        rollout = answer_prompts(
            self.policy,
            [example.prompt for example in examples],
            group_size=group_size,
            max_new_tokens=self.max_new_tokens,
            generator=self.generator,
        )
        for key, entry in prompt_batch(examples).items():
            rollout[key] = entry.to(rollout["tokens"].device).repeat_interleave(group_size, 0)
        return rollout

    def _keep_prompt(
        self, rows: TensorDict, batch: TensorDict, questions: list[Example | str]
    ) -> None:
        """Copy a paragraph's entries to its rows, except prompt and answer.

        ``policy_prompt``, if present, becomes the row's prompt.
        """
        owners = [row // self.num_masks for row in range(len(questions))]
        for row, question in enumerate(questions):
            if isinstance(question, Example):
                owners += [owners[row]] * self.group_size
        paragraphs = torch.tensor(owners, device=rows["tokens"].device)
        keep_prompt(rows, batch.exclude("prompt", "answer", "answer_ends"), paragraphs)
        if "policy_prompt" in batch.keys():
            rows["policy_prompt"] = rows["prompt"]

    def _spans(self, proposers: TensorDict) -> list[str | None]:
        """Return the span that each generator response proposes; None if it proposes none."""
        spans = []
        for tokens, mask in zip(proposers["tokens"], proposers["response_mask"], strict=True):
            span = last_command(row_bytes(self.table, tokens[mask].tolist()), b"mask")
            # Invalid UTF-8 becomes surrogates, which occur in no paragraph.
            spans.append(None if span is None else span.decode(errors="surrogateescape"))
        return spans

    def _question(self, paragraph: str, span: str | None) -> Example | str:
        """Return the predictor's question, or the name of the problem of the span."""
        if span is None:
            return "missing"
        problem = span_problem(
            paragraph, span, longest_words=self.longest_words, largest_share=self.largest_share
        )
        if problem is not None:
            return problem
        text = mask_span(paragraph, span, self.mask)
        question = _fill(self.answer_template, text, normalised_span(span))
        limit = self.policy.context_length
        (ids,) = encode_prompts(self.policy.tokenizer, [question.prompt])
        fits = limit is None or len(ids) + self.max_new_tokens <= limit
        return question if fits else "no_room"


def _fill(template: str, text: str, answer: str) -> Example:
    """Return the example of a filled template and its answer."""
    return Example(template.format(text=text), answer, demonstration="")


def _roles(questions: list[Example | str], first: int, batch: TensorDict) -> dict[str, Tensor]:
    """Return ``is_proposer`` and ``answers_group_id``; predictors' groups start at ``first``."""
    numbers = count(first)
    groups = [next(numbers) if isinstance(question, Example) else -1 for question in questions]
    answers_group_id = torch.full_like(batch["group_id"], -1)
    device = answers_group_id.device
    answers_group_id[: len(groups)] = torch.tensor(groups, device=device)
    is_proposer = torch.arange(len(answers_group_id), device=device) < len(groups)
    return {"is_proposer": is_proposer, "answers_group_id": answers_group_id}


def _record_questions(questions: list[Example | str]) -> None:
    """Record the metrics of the proposals; an entry is a question, or the name of a problem."""
    for question in questions:
        record("mask_game/valid_fraction", float(isinstance(question, Example)))
        if isinstance(question, Example):
            record("mask_game/words", float(len(question.answer.split())))
        for problem in _PROBLEMS:
            record(f"mask_game/{problem}", float(question == problem))
