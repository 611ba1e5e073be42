from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing

from rlcomp.batch import decode_columns, decode_texts
from rlcomp.data.examples import (
    check_demonstrations_fit,
    check_enough,
    check_prompts_fit,
    held_out_examples,
    prompt_batch,
    split_examples,
    training_examples,
)
from rlcomp.data.sampling import ShuffledEpochs
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.task import Example, is_held_out
from rlcomp.text.tokenizer import byte_tokenizer


@dataclass
class Listed:
    """A task of the given prompts; the answer is the prompt in capitals."""

    prompts: list[str]
    held_out: float = 0.0

    def __len__(self) -> int:
        return len(self.prompts)

    def example(self, index: int) -> Example:
        text = self.prompts[index]
        return Example(text, text.upper(), text.upper())


@dataclass
class Endless:
    """A million prompts of which only the last one is long."""

    held_out: float = 0.0

    def __len__(self) -> int:
        return 1_000_000

    def example(self, index: int) -> Example:
        text = "x" * 30 if index == 999_999 else "x"
        return Example(text, "", text)


def letters(count: int, held_out: float = 0.0) -> Listed:
    return Listed([f"p{n}" for n in range(count)], held_out)


@given(st.integers(1, 60), st.floats(0, 0.9))
def test_every_example_is_either_training_or_held_out(size, held_out):
    task = letters(size, held_out)

    training = {example.prompt for example in training_examples(task, range(size))}

    assert training == {prompt for prompt in task.prompts if not is_held_out(prompt, held_out)}


def test_held_out_examples_are_held_out_distinct_and_the_same_again():
    task = letters(200, 0.5)

    examples = held_out_examples(task, 20, seed=1)

    assert len({example.prompt for example in examples}) == 20
    assert all(is_held_out(example.prompt, 0.5) for example in examples)
    assert examples == held_out_examples(task, 20, seed=1)
    assert examples != held_out_examples(task, 20, seed=2)


def test_training_examples_are_evaluated_without_any_that_is_held_out():
    task = letters(200, 0.5)

    examples = split_examples(task, "training", 20, seed=1)

    assert len({example.prompt for example in examples}) == 20
    assert not any(is_held_out(example.prompt, 0.5) for example in examples)
    assert examples == split_examples(task, "training", 20, seed=1)
    assert examples != split_examples(task, "training", 20, seed=2)
    assert len(split_examples(letters(5, 0.0), "training", 20, seed=1)) == 5


@pytest.mark.parametrize("num_prompts", [1, 7])
def test_the_search_for_new_prompts_ends_after_a_thousand_repeats(num_prompts):
    reads = []

    class Repeated:
        held_out = 0.0

        def __len__(self):
            return 100_000

        def example(self, index):
            reads.append(index)
            return Example(f"p{index % num_prompts}", "yes", "yes")

    examples = split_examples(Repeated(), "training", 20, seed=0)

    assert {example.prompt for example in examples} == {f"p{n}" for n in range(num_prompts)}
    assert 1_000 + num_prompts <= len(reads) < 1_200


def test_no_prompt_of_many_with_several_answers_each_is_missed():
    class Answers:
        held_out = 0.0

        def __len__(self):
            return 50_000

        def example(self, index):
            return Example(f"p{index % 1_000}", "yes", "yes")

    for seed in range(3):
        assert len(split_examples(Answers(), "training", 1_000, seed)) == 1_000


class Labelled:
    """A task of which every third answer has a label that calls it bad."""

    held_out = 0.5

    def __len__(self):
        return 60

    def example(self, index):
        return Example(f"p{index}", "yes", "yes", columns={"desirable": index % 3 > 0})


def test_answers_labelled_as_bad_ones_are_no_answers_to_evaluate_with():
    examples = split_examples(Labelled(), "held_out", 100, seed=1)
    right = split_examples(Labelled(), "held_out", 100, seed=1, only_right=True)

    assert any(not example.columns["desirable"] for example in examples)
    assert right == [example for example in examples if example.columns["desirable"]]


def test_a_part_of_bad_answers_alone_is_refused():
    task = Labelled()
    task.example = lambda index: Example(f"p{index}", "no", "no", columns={"desirable": False})

    with pytest.raises(ConfigError, match="answer of each is labelled as bad: add examples"):
        split_examples(task, "training", 5, seed=1, only_right=True)


def test_a_task_that_holds_out_everything_has_no_training_part():
    with pytest.raises(
        ConfigError, match=r"all of its 2 examples is held out: .* set task.held_out=0.9 "
    ):
        split_examples(letters(2, 0.999999), "training", 5, seed=0)


def test_the_same_prompt_twice_is_evaluated_once():
    task = Listed(["p0"] * 5 + ["p1"] * 5, held_out=0.999999)

    assert len(held_out_examples(task, 10, seed=0)) == 2


def test_too_few_held_out_examples_are_all_used():
    task = letters(100, 0.3)
    there = sum(is_held_out(prompt, 0.3) for prompt in task.prompts)

    assert len(held_out_examples(task, 1000, seed=0)) == there


# By their SHA-256, p0 to p4 are held out from the shares 0.088, 0.962, 0.224, 0.265 and 0.670 on.
@pytest.mark.parametrize(
    ("task", "remedy"),
    [
        (letters(5, 0.05), r"set task.held_out=0.1 \(1 of 5 held out\), or add examples"),
        (Listed(["p2", "p4"], 0.1), r"set task.held_out=0.3 \(1 of 2 held out\), or add examples"),
        (Listed(["p2", "p3"], 0.1), r"set task.held_out=0.23 \(1 of 2 held out\), or add"),
        (letters(1, 0.0001), "on; add examples"),
        (Endless(), "raise task.held_out, or add examples"),
    ],
)
def test_a_task_that_holds_out_nothing_is_refused_with_a_share_that_works(task, remedy):
    with pytest.raises(ConfigError, match=f"task.held_out is .* none of its .*{remedy}"):
        held_out_examples(task, 5, seed=0)


def test_a_batch_and_the_evaluation_are_given_shares_that_agree():
    # As it is nothing is held out; at 0.1 p0 is, and 4 are left.
    with pytest.raises(
        ConfigError,
        match=r"only 5 .*set batch_size=4 or less, and as none is held out for evaluations, set "
        r"task.held_out=0.1 \(1 of 5 held out\), or else",
    ):
        check_enough(letters(5, 0.05), 128, ", or else")
    check_enough(letters(5, 0.1), 4)
    assert len(held_out_examples(letters(5, 0.1), 5, seed=0)) == 1


def test_a_share_is_offered_only_where_it_leaves_a_whole_batch():
    # At 0.3 two are left, at 0.1 four are.
    with pytest.raises(ConfigError) as raised:
        check_enough(letters(5, 0.3), 4)
    assert str(raised.value).endswith(
        "set batch_size=2 or less, or set task.held_out=0.2 (1 of 5 held out)"
    )
    with pytest.raises(ConfigError, match=r"set batch_size=2 or less$"):
        check_enough(letters(5, 0.3), 5)


def test_a_batch_as_large_as_the_training_part_is_enough():
    check_enough(letters(8), 8)


def test_a_batch_larger_than_the_training_part_is_refused():
    task = letters(100, 0.5)
    there = sum(not is_held_out(prompt, 0.5) for prompt in task.prompts)

    with pytest.raises(
        ConfigError,
        match=rf"only {there} training examples .*; set batch_size={there} or less, or set task.",
    ):
        check_enough(task, there + 1)
    with pytest.raises(ConfigError, match=r"only 0 training .*; add examples or not at all"):
        check_enough(letters(1, 1.0), 1, " or not at all")


def test_prompts_that_just_fit_are_accepted():
    # "four" is 4 bytes: 4 + 6 = 10.
    check_prompts_fit(Listed(["a", "four"]), byte_tokenizer(), 10, 6)


def test_a_prompt_that_leaves_no_room_is_named_with_the_remedy():
    with pytest.raises(DataError) as raised:
        check_prompts_fit(Listed(["a", "four"]), byte_tokenizer(), 10, 7)

    text = str(raised.value)
    assert text.startswith("the prompt 'four' has 4 tokens, and with max_new_tokens 7 that exceeds")
    assert text.endswith(
        "context_length 10, as 1 of 2 prompts do; set context_length=11 or more, lower "
        "max_new_tokens or shorten task.prompt_template"
    )


def test_a_long_prompt_is_shortened_in_the_message():
    with pytest.raises(DataError, match=r"'a{57}\.\.\.' has 500 tokens"):
        check_prompts_fit(Listed(["a" * 500]), byte_tokenizer(), 10, 7)


def test_of_a_large_task_the_last_prompt_is_measured_too():
    with pytest.raises(DataError, match="has 30 tokens"):
        check_prompts_fit(Endless(), byte_tokenizer(), 30, 1)


def test_an_empty_prompt_counts_as_the_token_the_model_starts_from():
    task = Listed([""])

    check_prompts_fit(task, byte_tokenizer(), 5, 4)
    with pytest.raises(DataError, match="'' has 1 tokens"):
        check_prompts_fit(task, byte_tokenizer(), 4, 4)


def test_a_beginning_that_the_tokenizer_adds_counts():
    tokenizer = byte_tokenizer()
    tokenizer.add_special_tokens({"bos_token": "<bos>"})
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", tokenizer.bos_token_id)]
    )

    with pytest.raises(DataError, match="'four' has 5 tokens"):
        check_prompts_fit(Listed(["four"]), tokenizer, 8, 4)


def test_prompt_demonstration_and_eos_that_just_fit_are_accepted():
    # Prompt and demonstration of 4 bytes each, and EOS.
    check_demonstrations_fit(Listed(["a", "four"]), byte_tokenizer(), 9)


def test_a_demonstration_that_does_not_fit_is_named_with_the_remedy():
    with pytest.raises(DataError) as raised:
        check_demonstrations_fit(Listed(["a", "four"]), byte_tokenizer(), 8)

    text = str(raised.value)
    assert text.startswith("the prompt 'four', its demonstration and EOS have 9 tokens, which exc")
    assert (
        "context_length 8, as 1 of 2 do; set context_length=9 or more, if the model allows" in text
    )


def test_of_a_large_task_the_last_demonstration_is_measured_too():
    with pytest.raises(DataError, match="have 61 tokens"):
        check_demonstrations_fit(Endless(), byte_tokenizer(), 60)


def test_a_batch_of_prompts_holds_prompts_and_answers():
    batch = prompt_batch([Example("a", "1", ""), Example("bb", "22", "")])

    assert batch.batch_size == (2,)
    assert decode_texts(batch["prompt"]) == ["a", "bb"]
    assert decode_texts(batch["answer"]) == ["1", "22"]


@given(st.integers(1, 20), st.floats(0, 0.5), st.integers(0, 2**63), st.integers(1, 3))
def test_each_epoch_holds_every_training_example_once(size, held_out, seed, epochs):
    task = letters(size, held_out)
    training = [example.prompt for example in training_examples(task, range(size))]

    taken = ShuffledEpochs(task, seed).take(epochs * len(training))

    prompts = [example.prompt for example in taken]
    for start in range(0, len(prompts), max(len(training), 1)):
        assert Counter(prompts[start : start + len(training)]) == Counter(training)


@given(st.lists(st.integers(1, 7), min_size=1, max_size=6), st.integers(0, 5))
def test_the_order_does_not_depend_on_the_batch_sizes(counts, seed):
    task = letters(11, 0.3)

    examples = ShuffledEpochs(task, seed)
    pieces = [example for count in counts for example in examples.take(count)]

    assert pieces == ShuffledEpochs(task, seed).take(sum(counts))


def test_epochs_have_different_orders():
    examples = ShuffledEpochs(letters(50), seed=0)

    assert examples.take(50) != examples.take(50)


@given(st.integers(0, 40), st.integers(0, 9))
def test_the_walk_goes_on_exactly_where_it_was_saved(before, seed):
    task = letters(13, 0.3)
    walked = ShuffledEpochs(task, seed)
    walked.take(before)

    resumed = ShuffledEpochs(task, seed + 1)
    resumed.load_run_state(walked.run_state())

    assert resumed.take(20) == walked.take(20)


def test_an_answer_ends_where_it_ends_or_where_the_example_says():
    whole = Example("a", "né", "")
    parts = Example("b", "né", "", answer_ends=(1, 3))
    nothing = Example("c", "", "")

    made = prompt_batch([whole, parts, nothing])

    # "né" has three bytes, its row four: what ends a text stands behind it.
    assert made["answer_ends"].tolist() == [
        [False, False, True, False],
        [True, False, True, False],
        [False, False, False, False],
    ]


def test_prompts_out_of_one_source_are_held_out_together():
    cuts = [Example(str(n), "", "", source="speech 7") for n in range(40)]

    held_out = {cut.is_held_out(0.5) for cut in cuts}

    assert held_out == {is_held_out("speech 7", 0.5)}


def test_a_batch_of_prompts_holds_the_columns_of_its_examples():
    examples = [Example("a", "", "", columns={"tests": ["1"]}), Example("b", "", "")]

    assert decode_columns(prompt_batch(examples)) == [{"tests": ["1"]}, {}]


def test_a_batch_of_prompts_without_columns_has_no_such_entry():
    examples = [Example("a", "", ""), Example("b", "", "", columns={"tests": None})]

    assert "columns" not in prompt_batch(examples).keys()
