"""Critique and revision: rows of the original prompts with what stands behind the separator."""

import pytest
import torch

from components.collector.revised import Revised
from rlcomp.batch import decode_texts
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="abcpq>:=+-{}resonthigm")


class Says:
    """A policy that answers as it was told, cut off where an answer has no end."""

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
        self.asked += ["".join(TOKENIZER.convert_ids_to_tokens(ids)) for ids in prompts]
        ends = [[] if text.endswith("{") else [1] for text in self.answers]
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
