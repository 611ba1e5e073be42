"""Batches of pairs: the rows, what is known of labels, and what is refused."""

import pytest
import torch

from components.sampler.pairs import Pairs
from rlcomp.batch import decode_texts
from rlcomp.data.pairs import pair_rows
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example
from rlcomp.text.prompt import TextPrompt
from rlcomp.text.tokenizer import byte_tokenizer


class Listed:
    """A task of given examples."""

    held_out = 0.0

    def __init__(self, *examples):
        self.examples = examples

    def __len__(self):
        return len(self.examples)

    def example(self, index):
        return self.examples[index]


def pair(prompt="1?", chosen="yes", rejected="no", **columns):
    return Example(prompt, chosen, chosen, columns={"rejected": rejected, **columns})


def sampler(*examples, **settings):
    given = {"batch_size": len(examples), "context_length": 16, **settings}
    return Pairs(task=Listed(*examples), tokenizer=byte_tokenizer(), **given)


def rows_of(*examples):
    tokenizer = byte_tokenizer()
    return pair_rows(tokenizer, TextPrompt(tokenizer=tokenizer), list(examples))


def test_rows_are_prompt_and_answer_the_chosen_one_first():
    batch = rows_of(pair(), pair("2?", "a", "bcd"))

    tokenizer = byte_tokenizer()
    answers = [tokenizer.decode(row["tokens"][row["response_mask"]]) for row in batch]
    whole = [tokenizer.decode(row["tokens"][row["attention_mask"]]) for row in batch]
    assert answers == ["yes<eos>", "no<eos>", "a<eos>", "bcd<eos>"]
    assert whole == ["1?yes<eos>", "1?no<eos>", "2?a<eos>", "2?bcd<eos>"]
    assert batch["chosen"].tolist() == [True, False, True, False]
    assert decode_texts(batch["prompt"]) == ["1?", "1?", "2?", "2?"]


def test_pairs_of_one_prompt_are_one_group():
    batch = rows_of(pair(), pair("2?"), pair(rejected="never"))

    assert batch["group_id"].tolist() == [0, 0, 1, 1, 0, 0]


def test_nothing_ends_a_step():
    batch = rows_of(pair(step=True))

    ends = [row["tokens"][row["response_mask"]][-1].item() for row in batch]
    assert ends == byte_tokenizer().encode("so")  # of yes and no


def test_an_epoch_holds_each_pair_once():
    draw = sampler(*[pair(f"{n}?") for n in range(6)], batch_size=2)

    prompts = [text for _ in range(3) for text in decode_texts(draw()["prompt"])[::2]]

    assert sorted(prompts) == [f"{n}?" for n in range(6)]


def test_labels_of_which_nothing_is_known_have_neither_weight_nor_noise():
    assert not {"pair_weight", "label_noise"} & set(sampler(pair())().keys())


def test_weights_of_rows_and_annotators_are_multiplied():
    people = {"human": 1.0, "model": 0.25}
    draw = sampler(
        pair("1?", annotator="human", weight=2),
        pair("2?", annotator="model"),
        annotator_weight=people,
    )

    batch = draw()

    found = dict(zip(decode_texts(batch["prompt"]), batch["pair_weight"].tolist(), strict=True))
    assert found == {"1?": 2.0, "2?": 0.25}
    assert batch["pair_weight"].shape == (4,)


def test_noise_is_that_of_the_row_or_else_of_its_annotator():
    draw = sampler(
        pair("1?", annotator="human", label_noise=0.5),
        pair("2?", annotator="human"),
        annotator_noise={"human": 0.125},
    )

    batch = draw()

    found = dict(zip(decode_texts(batch["prompt"]), batch["label_noise"].tolist(), strict=True))
    assert found == {"1?": 0.5, "2?": 0.125}


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"annotator": "me"}, r"'1\?' has the annotator 'me', known are 'human'"),
        ({"annotator": "human", "label_noise": 2}, "has label_noise 2: .* from 0 to 1"),
    ],
)
def test_what_is_not_known_of_a_label_is_refused(columns, words):
    with pytest.raises(DataError, match=words):
        sampler(pair(**columns), annotator_noise={"human": 0.1})()


def test_a_weight_below_zero_is_refused():
    with pytest.raises(DataError, match=r"has weight -1: must be a finite number of at least 0"):
        sampler(pair(weight=-1))()


def test_an_example_without_a_rejected_answer_is_refused_at_once():
    with pytest.raises(DataError, match=r"'1\?' has None as its rejected answer, not a text"):
        sampler(Example("1?", "yes", "yes"))


def test_a_rejected_answer_too_long_for_the_context_is_refused_at_once():
    # Of two prompts the second has 2 + 14 bytes and EOS.
    words = r"the prompt '2\?', .* have 17 tokens, which exceeds context_length 16, as 1 of 4 do"
    with pytest.raises(DataError, match=words):
        sampler(pair(), pair("2?", rejected="n" * 14))


def test_it_goes_on_where_it_was():
    examples = [pair(f"{n}?") for n in range(5)]
    first, second = sampler(*examples, batch_size=2), sampler(*examples, batch_size=2)
    first()
    second.load_run_state(first.run_state())

    torch.testing.assert_close(first()["tokens"], second()["tokens"])


def test_rows_of_a_tie_say_so_and_that_their_label_says_nothing():
    batch = sampler(pair(), pair("2?", tie=True, label_noise=0.5))(None)

    tied = [prompt == "2?" for prompt in decode_texts(batch["prompt"])]
    assert batch["tied"].tolist() == tied
    assert batch["label_noise"].tolist() == [0.5 * tie for tie in tied]
    assert "tied" not in sampler(pair())(None).keys()
