"""Critique and revision: rows of the original prompts with what stands behind the separator."""

import pytest
import torch

from components.collector.revision import Revised
from rlcomp.batch import decode_texts, encode_texts, pad_right
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.testing import make_batch
from rlcomp.text.tokenizer import character_tokenizer, encode_all

TOKENIZER = character_tokenizer(characters="abcpq>:=+-{}resonthigm")


class Says:
    """A policy that answers as it was told, cut off where an answer ends in a brace."""

    tokenizer = TOKENIZER
    decoding = Decoding()
    context_length = None
    device = torch.device("cpu")
    stop_tokens = (1,)

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def generate(self, prompts, *, group_size, max_new_tokens, **_):
        assert group_size == 1
        assert max_new_tokens == 6
        self.asked += ["".join(TOKENIZER.convert_ids_to_tokens(ids)) for ids in prompts]
        cut = [text.endswith("{") for text in self.answers]
        ids = encode_all(TOKENIZER, [text.removesuffix("{") for text in self.answers])
        tails = [row if short else [*row, 1] for row, short in zip(ids, cut, strict=True)]
        width, start = max(map(len, tails)), max(map(len, prompts))
        padded = [
            [0] * (start - len(head)) + list(head) + tail + [0] * (width - len(tail))
            for head, tail in zip(prompts, tails, strict=True)
        ]
        tokens = torch.tensor(padded)
        mask = torch.zeros_like(tokens, dtype=torch.bool)
        for row, tail in enumerate(tails):
            mask[row, start : start + len(tail)] = True
        rows = make_batch(
            tokens=tokens,
            response_mask=mask,
            attention_mask=mask | (tokens != 0),
            rollout_log_probs=torch.zeros(mask.shape),
            policy_version=torch.zeros(mask.shape, dtype=torch.long),
            group_id=torch.arange(len(prompts)),
            truncated=cut,
        )
        return pad_right(rows)


def batch(prompts, responses):
    rows = len(prompts)
    return make_batch(
        prompt=encode_texts(prompts),
        response=encode_texts(responses),
        answer=[f"a{n}" for n in range(rows)],
        group_id=torch.tensor([4, 4, 9, 9, 9][:rows]),
        reward=torch.ones(rows),
    )


def revised(policy, **settings):
    return Revised(policy=policy, template="{prompt}{response}:", max_new_tokens=6, **settings)


def test_rows_are_the_prompts_with_the_revisions():
    policy = Says("-=ab", "nothing", "+=c", "=a=b", "-=ab{")

    with recording() as told:
        made = revised(policy)(batch(["p>", "p>", "q>", "q>", "q>"], ["ba", "c", "c", "a", "b"]))

    assert policy.asked == ["p>ba:", "p>c:", "q>c:", "q>a:", "q>b:"]
    assert decode_texts(made["prompt"]) == ["p>", "q>", "q>"]
    assert decode_texts(made["response"]) == ["ab", "c", "a=b"]
    assert decode_texts(made["answer"]) == ["a0", "a2", "a3"]
    assert made["group_id"].tolist() == [4, 9, 9]
    assert "reward" not in made.keys()
    rows = zip(made["tokens"], made["attention_mask"], strict=True)
    texts = ["".join(TOKENIZER.convert_ids_to_tokens(row[mask].tolist())) for row, mask in rows]
    assert texts == ["p>ab<eos>", "q>c<eos>", "q>a=b<eos>"]
    assert made["response_mask"].sum(1).tolist() == [3, 2, 4]
    means = told.means()
    assert means["revision/told"] == pytest.approx(3 / 5)
    assert means["revision/changed"] == pytest.approx(2 / 3)


def test_no_revision_at_all_gives_no_row():
    assert revised(Says("a", "-="))(batch(["p>", "q>"], ["b", "c"])).shape == (0,)


def test_a_text_that_spells_a_field_stays_as_it_is():
    policy = Says("-=a")
    revised(policy)(batch(["{response}>"], ["{prompt}"]))

    assert policy.asked == ["{response}>{prompt}:"]


def test_another_separator():
    made = revised(Says("=q:b"), separator=":")(batch(["p>"], ["a"]))

    assert decode_texts(made["response"]) == ["b"]


@pytest.mark.parametrize("template", ["{prompt}:", "{response}:"])
def test_a_template_without_a_field_is_refused(template):
    with pytest.raises(ConfigError, match="must hold"):
        Revised(policy=Says(), template=template, max_new_tokens=4)


def test_what_the_context_has_no_room_for_is_left_out_and_spoils_no_other():
    class Short(Says):
        context_length = 11

    # Five tokens of "p>ab:" and six more are 11; one more is too many.
    policy = Short("-=ab")
    made = revised(policy)(batch(["p>", "p>"], ["abc", "ab"]))

    assert policy.asked == ["p>ab:"]
    assert decode_texts(made["response"]) == ["ab"]
