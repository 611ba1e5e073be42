"""Mask-proposal self-play (PretrainZero): one policy proposes masks and predicts them."""

from __future__ import annotations

from itertools import count
from typing import Annotated

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import Ge, NonEmptyText, PositiveInt, Probability
from rlcomp.batch import cat, decode_texts, keep_prompt
from rlcomp.data.examples import prompt_batch
from rlcomp.data.masked_text import mask_span, normalised_span, span_problem
from rlcomp.data.template import check_wording
from rlcomp.functional.prefix_match import last_command
from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.stages import Collector
from rlcomp.interfaces.task import Example
from rlcomp.metrics import record, record_total
from rlcomp.seed import new_generator
from rlcomp.text.answers import answer_prompts
from rlcomp.text.token_bytes import row_bytes, token_bytes
from rlcomp.text.tokenizer import encode_prompts

_PROBLEMS = ("missing", "empty", "absent", "whole", "long", "large", "no_room")


class MaskGame(Collector):
    r"""Collector of mask-proposal self-play (PretrainZero).

    For every paragraph the generator proposes ``num_masks`` spans. The predictor answers each
    usable span ``group_size`` times.

    The generator's rows come first, a group for each paragraph. Their prompt is ``mask_template``;
    the proposal is the last ``\mask{...}`` of the response. The predictor's rows follow, a group
    for each usable proposal (the same span twice makes two groups). Their prompt is
    ``answer_template`` with the paragraph, in which every occurrence of the span is masked; their
    answer is the span. A proposal that cannot be used has no predictor but stays in its group.

    Reads ``answer`` ``[P, W]``, the paragraphs. Writes a new batch of ``B = P * num_masks + M *
    group_size`` rows, for ``M`` masks in use: the tokens, masks and log-probs of the rollouts,
    their texts, ``group_id``, ``truncated``; ``is_proposer`` ``[B]``, True for the generator's
    rows; ``answers_group_id`` ``[B]``, the ``group_id`` of the predictors of its mask, else -1;
    the paragraph's other entries, repeated for each of its rows (``policy_prompt``, if it is there,
    is the row's own prompt); and ``sampling_mask`` ``[B, T, V/8]`` if the policy's sampling
    replays masks. Records ``rollout/length``, ``rollout/truncated``, ``rollout/tokens``,
    ``mask_game/valid_fraction`` and ``mask_game/words`` (of the masks in use); and the share of
    proposals that are ``mask_game/missing`` (there is no ``\mask{...}``), ``empty``, ``absent``,
    ``whole``, ``long``, ``large`` (:func:`rlcomp.data.masked_text.span_problem`) or leave
    ``no_room`` for an answer.

    Templates follow ``str.format``: ``{text}``, and ``{{`` and ``}}`` for braces.

    Args:
        policy: the model that plays both roles.
        num_masks: proposals per paragraph, the generator's group.
        group_size: predictions per mask, the predictor's group.
        max_new_tokens: longest response of either role, in tokens.
        mask_template: the generator's wording; ``{text}`` is the paragraph.
        answer_template: the predictor's wording; ``{text}`` is the masked paragraph.
        mask: the text that replaces the span.
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
            "group_id of the answers to what the row poses; -1: none",
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
        prompts = [_worded(self.mask_template, text, text) for text in paragraphs]
        proposers = self._answers(prompts, self.num_masks)
        questions = [
            self._question(text, span)
            for text, span in zip(
                decode_texts(proposers["answer"]), self._spans(proposers), strict=True
            )
        ]
        usable = [question for question in questions if isinstance(question, Example)]
        predictors = [self._answers(usable, self.group_size)] if usable else []
        joined = cat([proposers, *predictors])
        joined.update(_roles(questions, len(paragraphs), joined))
        self._keep_prompt(joined, batch, questions)
        _record(joined, questions)
        return joined

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
        self, joined: TensorDict, batch: TensorDict, questions: list[Example | str]
    ) -> None:
        """Copy a paragraph's entries to its rows, except prompt and answer."""
        proposed = [row // self.num_masks for row in range(len(questions))]
        used = [p for p, one in zip(proposed, questions, strict=True) if isinstance(one, Example)]
        answered = [paragraph for paragraph in used for _ in range(self.group_size)]
        paragraphs = torch.tensor([*proposed, *answered], device=joined["tokens"].device)
        keep_prompt(joined, batch.exclude("prompt", "answer", "answer_ends"), paragraphs)
        if "policy_prompt" in batch.keys():
            joined["policy_prompt"] = joined["prompt"]

    def _spans(self, proposers: TensorDict) -> list[str | None]:
        """Return the span that each generator response proposes; None if it proposes none."""
        spans = []
        for tokens, mask in zip(proposers["tokens"], proposers["response_mask"], strict=True):
            span = last_command(row_bytes(self.table, tokens[mask].tolist()), b"mask")
            # Invalid UTF-8 becomes surrogates, which occur in no paragraph.
            spans.append(None if span is None else span.decode(errors="surrogateescape"))
        return spans

    def _question(self, paragraph: str, span: str | None) -> Example | str:
        """Return the predictor's question, or the reason why the span is rejected."""
        if span is None:
            return "missing"
        problem = span_problem(
            paragraph, span, longest_words=self.longest_words, largest_share=self.largest_share
        )
        if problem is not None:
            return problem
        text = mask_span(paragraph, span, self.mask)
        question = _worded(self.answer_template, text, normalised_span(span))
        return question if self._fits(question.prompt) else "no_room"

    def _fits(self, prompt: str) -> bool:
        longest = self.policy.context_length
        (ids,) = encode_prompts(self.policy.tokenizer, [prompt])
        return longest is None or len(ids) + self.max_new_tokens <= longest


def _worded(template: str, text: str, answer: str) -> Example:
    return Example(template.format(text=text), answer, demonstration="")


def _roles(questions: list[Example | str], first: int, batch: TensorDict) -> dict[str, Tensor]:
    """Return ``is_proposer`` and ``answers_group_id``; predictors' groups start at ``first``."""
    groups = count(first)
    named = [next(groups) if isinstance(one, Example) else -1 for one in questions]
    answers_group_id = torch.full_like(batch["group_id"], -1)
    answers_group_id[: len(named)] = torch.tensor(named, device=answers_group_id.device)
    return {
        "is_proposer": torch.arange(len(answers_group_id), device=answers_group_id.device)
        < len(named),
        "answers_group_id": answers_group_id,
    }


def _record(batch: TensorDict, questions: list[Example | str]) -> None:
    lengths = batch["response_mask"].sum(1)
    record("rollout/length", lengths)
    record("rollout/truncated", batch["truncated"])
    record_total("rollout/tokens", float(lengths.sum()))
    for one in questions:
        used = isinstance(one, Example)
        record("mask_game/valid_fraction", float(used))
        if isinstance(one, Example):
            record("mask_game/words", float(len(one.answer.split())))
        for name in _PROBLEMS:
            record(f"mask_game/{name}", float(one == name))
