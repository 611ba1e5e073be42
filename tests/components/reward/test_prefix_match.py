import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken

from components.reward.next_token import PrefixMatch
from rlcomp.data.examples import prompt_batch
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.task import Example
from rlcomp.metrics import recording
from rlcomp.testing import check_component
from rlcomp.text.rows import encode_rows
from rlcomp.text.tokenizer import byte_tokenizer, character_tokenizer

BYTES = byte_tokenizer()
# " para" | "meter" | " =".
TRUTH, ENDS = " parameter =", (5, 10, 12)


def rows(responses, *, prompt="the<think>", answer=TRUTH, ends=ENDS, tokenizer=BYTES):
    """A batch as a collector makes it; every response ends with EOS."""
    examples = [Example(prompt, answer, "", ends)] * len(responses)
    batch = prompt_batch(examples)
    return batch.update(encode_rows(tokenizer, [prompt] * len(responses), responses))


def reward_of(*responses, answer=TRUTH, ends=ENDS, **arguments):
    result = PrefixMatch(tokenizer=BYTES, **arguments)(rows(responses, answer=answer, ends=ends))
    return result["reward"].tolist()


def boxed(prediction):
    return f"hm</think>\\boxed{{{prediction}}}"


def test_the_worked_example_of_rpt():
    predictions = [" para", " parameter", " parameter =", " param", "para", "", " parameter = 1"]

    assert reward_of(*map(boxed, predictions)) == [1, 1, 1, 0, 0, 0, 0]


def test_the_worked_example_of_half_a_character():
    assert reward_of(boxed("é"), boxed("Ã"), answer="é", ends=(1, 2)) == [1, 0]


def test_half_a_character_is_right_if_a_true_token_ends_with_it():
    batch = rows([boxed("é")], answer="é", ends=(1, 2))
    # The box holds C3 A9; A9 becomes EOS, which has no bytes.
    place = (batch["tokens"][0] == BYTES("é")["input_ids"][1]).nonzero()[0, 0]
    batch["tokens"][0, place] = BYTES.eos_token_id

    result = PrefixMatch(tokenizer=BYTES)(batch)

    # C3 is the first byte of the truth, and a token of it ends there.
    assert result["reward"].tolist() == [1.0]


@pytest.mark.parametrize(
    "response",
    ["\\boxed{ para}", "</think> para", "", "\\boxed{ para}</think>", "</think>\\boxed{ para"],
)
def test_a_response_without_a_box_after_its_thought_is_wrong(response):
    result = PrefixMatch(tokenizer=BYTES)(rows([response]))

    assert result["reward"].tolist() == [0.0]
    assert result["correct"].tolist() == [False]
    assert result["reward_valid"].tolist() == [True]


def test_a_response_without_a_box_can_be_left_out():
    reward = PrefixMatch(tokenizer=BYTES, unanswered="invalid")
    result = reward(rows([" para", boxed(""), boxed(" param"), boxed(" para")]))

    assert result["reward_valid"].tolist() == [False, True, True, True]
    assert result["reward"].tolist() == [0.0, 0.0, 0.0, 1.0]


def test_the_last_box_counts():
    two = boxed(" para") + " \\boxed{ x}"
    other = boxed(" x") + " \\boxed{ para}"

    assert reward_of(two, other) == [0, 1]


def test_braces_in_the_truth_are_predicted_literally():
    assert reward_of(boxed("{a}"), boxed("a"), answer="{a} b", ends=(3, 5)) == [1, 0]


def test_newlines_at_the_end_count():
    result = reward_of(boxed("a\n\n"), boxed("a\n"), boxed("a"), answer="a\n\n", ends=(1, 3))

    assert result == [1, 0, 1]


def test_another_end_of_thinking_can_be_written():
    response = "\\boxed{ x} so: \\boxed{ para}"

    assert reward_of(response, think_end="so:") == [1]
    assert reward_of(response, think_end="") == [1]
    assert reward_of(response) == [0]


def test_first_token_ignores_later_tokens():
    predictions = [" para", " parallel", " par", "para", "", " x"]

    assert reward_of(*map(boxed, predictions), match="first_token") == [1, 1, 0, 0, 0, 0]


def test_without_a_box_the_rest_of_the_response_is_the_prediction():
    responses = ["so</think> parallel", "</think> para", "</think>", " para", "a</think>para"]
    twice = "</think> para</think>"

    assert reward_of(*responses, match="first_token", prediction="rest") == [1, 1, 0, 0, 0]
    assert reward_of(*responses, twice, prediction="rest") == [0, 1, 0, 0, 0, 0]
    assert reward_of(" parallel", think_end="", match="first_token", prediction="rest") == [1]


def test_it_writes_the_entries_of_a_reward():
    result = PrefixMatch(tokenizer=BYTES)(rows([boxed(" para"), "no"]))

    assert result["correct"].tolist() == [True, False]
    assert result["rewards"]["prefix_match"].tolist() == [1.0, 0.0]


def test_it_records_how_many_answered_and_how_far_they_saw():
    # Three of four have a box; the right ones have 1 and 3 tokens.
    responses = [boxed(" para"), boxed(" parameter ="), boxed(" par"), "no"]

    with recording() as ledger:
        PrefixMatch(tokenizer=BYTES)(rows(responses))

    means = ledger.means()
    assert means["reward/answered"] == 0.75
    assert means["reward/matched_tokens"] == 2.0
    assert means["reward/correct"] == 0.5


def test_tokens_outside_the_response_mask_are_not_read():
    # The mask has a hole over " x": the rest is the right prediction.
    batch = rows([boxed(" para x")])
    # Behind them stand a brace and EOS, nothing else.
    batch["response_mask"][0, -4:-2] = False

    assert PrefixMatch(tokenizer=BYTES)(batch)["reward"].tolist() == [1.0]


@given(prompt=st.sampled_from(["", "a", boxed(" para"), boxed(" x"), "\\boxed{ para", "</think>"]))
@settings(max_examples=12, deadline=None)
def test_the_text_of_the_prompt_changes_nothing(prompt):
    responses = [boxed(" para"), boxed(" x"), "\\boxed{ para}", " para}", "nothing", ""]

    result = PrefixMatch(tokenizer=BYTES)(rows(responses, prompt=prompt))

    assert result["reward"].tolist() == [1, 0, 0, 0, 0, 0]
    assert result["reward_valid"].all()


def test_characters_are_compared_by_their_bytes():
    tokenizer = character_tokenizer(characters="é €<think>/m\\boxed{}")
    batch = rows([boxed("é"), boxed("é €")], answer="é €", ends=(2, 6), tokenizer=tokenizer)

    assert PrefixMatch(tokenizer=tokenizer)(batch)["reward"].tolist() == [1.0, 1.0]


def test_no_rows_are_no_error():
    batch = rows([boxed(" para")])[:0]

    assert PrefixMatch(tokenizer=BYTES)(batch)["reward"].shape == (0,)


def test_a_special_token_cannot_end_the_thought():
    tokenizer = byte_tokenizer()
    tokenizer.add_tokens([AddedToken("</think>", special=True)])

    with pytest.raises(ConfigError, match="think_end '</think>' is a special token"):
        PrefixMatch(tokenizer=tokenizer)


def test_an_added_token_can_end_the_thought():
    tokenizer = byte_tokenizer()
    tokenizer.add_tokens([AddedToken("</think>", special=False)])
    batch = rows([boxed(" para")], tokenizer=tokenizer)

    assert len(tokenizer) - 1 in batch["tokens"]
    assert PrefixMatch(tokenizer=tokenizer)(batch)["reward"].tolist() == [1.0]


def test_the_tokenizer_of_another_policy_is_refused():
    batch = rows([boxed(" para")])

    with pytest.raises(DataError, match="use the tokenizer of the policy"):
        PrefixMatch(tokenizer=character_tokenizer(characters="ab"))(batch)


@pytest.mark.parametrize("match", ["prefix", "first_token"])
def test_it_keeps_the_contract(match):
    batch = rows([boxed(" para"), boxed(" x"), "nothing", boxed(" parameter"), ""])

    check_component(PrefixMatch(tokenizer=BYTES, match=match))
    check_component(PrefixMatch(tokenizer=BYTES, match=match), batch)
