import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from components.reward.answer import ExactMatch
from components.reward.function import FunctionReward
from components.reward.steps import StepAndOutcomeReward
from rlcomp.batch import decode_texts, encode_columns, encode_texts
from rlcomp.errors import DataError, RlcompWarning
from rlcomp.metrics import recording
from rlcomp.testing import check_component
from rlcomp.text.reasoning import split_steps
from rlcomp.text.rows import encode_rows
from rlcomp.text.token_bytes import token_bytes
from rlcomp.text.tokenizer import byte_tokenizer, character_tokenizer
from rlcomp.workers.executor import FailedCall


def answered(tokenizer, responses: list[str]) -> TensorDict:
    """Rows of given responses, EOS included, to the prompt ``?``."""
    batch = encode_rows(tokenizer, ["?"] * len(responses), responses)
    for key, texts in {"prompt": "?", "answer": "ab;c", "response": None}.items():
        batch[key] = encode_texts(responses if texts is None else [texts] * len(responses))
    return batch


def steps(tokenizer, function, **arguments) -> StepAndOutcomeReward:
    return StepAndOutcomeReward(
        outcome=ExactMatch(),
        step=FunctionReward(function=function),
        tokenizer=tokenizer,
        separator=";",
        **arguments,
    )


def length(response):
    return float(len(response))


def test_the_reward_of_a_step_is_at_the_token_that_completes_it():
    # ? a b ; c EOS: the first step ends with the separator, the last one with the response.
    tokenizer = character_tokenizer(characters="?abc;")

    batch = steps(tokenizer, length)(answered(tokenizer, ["ab;c", "a"]))

    assert batch["token_reward"].tolist() == [[0, 0, 0, 3, 0, 4], [0, 0, 1, 0, 0, 0]]
    assert batch["step_end"].nonzero().tolist() == [[0, 3], [0, 5], [1, 2]]


def half_judged(response):
    if response == "a":
        raise ValueError("no c")
    return 1.0


def test_reasons_of_the_outcome_are_copied():
    tokenizer = character_tokenizer(characters="?abc;")
    reward = steps(tokenizer, length)
    reward.outcome = FunctionReward(function=f"{__name__}.half_judged")

    with recording() as ledger, pytest.warns(RlcompWarning, match="1 of 2 calls failed"):
        batch = reward(answered(tokenizer, ["ab;c", "a"]))

    assert batch["reward_valid"].tolist() == [True, False]
    first, second = decode_texts(batch["invalid_reason"])
    assert (first, second[:16]) == ("", "ValueError: no c")
    assert ledger.sums["reward/failed/error"] == 1


def test_a_step_keeps_the_spaces_that_were_sampled():
    tokenizer, heard = character_tokenizer(characters="? a.;"), []

    def listen(response):
        heard.append(response)
        return 0.0

    steps(tokenizer, listen)(answered(tokenizer, ["a .;a"]))

    assert heard == ["a .;", "a .;a"]


def test_a_step_is_scored_with_those_before_it_or_alone():
    tokenizer, heard = character_tokenizer(characters="?abc;"), []

    def listen(prompt, response, answer):
        heard.append((prompt, response, answer))
        return 0.0

    steps(tokenizer, listen)(answered(tokenizer, ["a;b;c"]))
    steps(tokenizer, listen, so_far=False)(answered(tokenizer, ["a;b;c"]))

    texts = ["a;", "a;b;", "a;b;c", "a;", "b;", "c"]
    assert heard == [("?", text, "ab;c") for text in texts]


def test_the_outcome_stays_apart_and_the_mean_step_is_a_named_part():
    # Row 0 is the answer; its steps score 3 and 4.
    tokenizer = character_tokenizer(characters="?abc;")

    with recording() as ledger:
        batch = steps(tokenizer, length)(answered(tokenizer, ["ab;c", "a"]))

    assert batch["reward"].tolist() == [1.0, 0.0]
    assert batch["correct"].tolist() == [True, False]
    assert batch["rewards", "steps"].tolist() == [3.5, 1.0]
    assert batch["rewards", "exact_match"].tolist() == [1.0, 0.0]
    assert ledger.counts["reward/mean"] == 2
    assert ledger.means()["reward/steps"] == 2.25


@pytest.mark.filterwarnings("ignore:reward 'function'")
def test_calls_of_the_outcome_are_recorded():
    class Failing(FunctionReward):
        def outcomes(self, batch, rows):
            return [FailedCall("error", f"no {row['response']}") for row in rows]

    tokenizer = character_tokenizer(characters="?abc;")
    reward = steps(tokenizer, length)
    reward.outcome = Failing(function=length)

    with recording() as ledger:
        batch = reward(answered(tokenizer, ["ab;c", "a"]))

    assert not batch["reward_valid"].any()
    assert decode_texts(batch["invalid_reason"]) == ["no ab;c", "no a"]
    assert ledger.sums["reward/failed/error"] == 2


def test_steps_of_rows_that_cannot_be_judged_are_not_recorded():
    # 3 and 4 of the first row; the second has no step that was judged.
    tokenizer = character_tokenizer(characters="?abc;")

    with recording() as ledger:
        steps(tokenizer, lambda response: None if response == "c" else float(len(response)))(
            answered(tokenizer, ["ab;c", "c"])
        )

    assert ledger.means()["reward/steps"] == 3.5


def test_a_step_of_reward_0_ends_a_step_and_one_that_cannot_be_judged_does_not():
    tokenizer = character_tokenizer(characters="?abc;")

    def judge(response):
        return {"a;": 0.0, "a;b;": None, "a;b;c": float("nan"), "c": None}[response]

    batch = steps(tokenizer, judge)(answered(tokenizer, ["a;b;c", "c"]))

    assert batch["step_end"].nonzero().tolist() == [[0, 2]]
    assert batch["reward_valid"].tolist() == [True, False]
    assert not batch["token_reward"].any()


def test_a_step_of_infinite_reward_stops_the_run():
    tokenizer = character_tokenizer(characters="?abc;")

    with pytest.raises(DataError, match="scored the step 'a;' with inf"):
        steps(tokenizer, lambda response: float("inf"))(answered(tokenizer, ["a;b"]))


def test_tokens_within_a_character_are_distinguished():
    # é is two tokens: ? C3 A9 ; C3 A9 EOS.
    tokenizer = byte_tokenizer()

    batch = steps(tokenizer, length)(answered(tokenizer, ["é;é"]))

    assert batch["token_reward"].tolist() == [[0, 0, 0, 2, 0, 0, 3]]


def test_only_sampled_tokens_are_read():
    # A hole over the separator: the rest is one step.
    tokenizer = character_tokenizer(characters="?abc;")
    batch = answered(tokenizer, ["a;b"])
    batch["response_mask"][0, 2] = False

    batch = steps(tokenizer, length)(batch)

    assert batch["token_reward"].tolist() == [[0, 0, 0, 0, 2]]


@given(st.text(alphabet="a b;", max_size=12))
def test_the_steps_are_the_text_and_none_of_several_is_blank(text):
    result = split_steps(text, ";")

    assert "".join(result) == text
    assert len(result) == 1 or all(step.strip(" ;") for step in result)


@given(st.lists(st.text(alphabet="aé€😀;", max_size=6), min_size=1, max_size=3))
def test_every_step_ends_at_its_last_byte(responses):
    tokenizer = byte_tokenizer()

    batch = steps(tokenizer, length)(answered(tokenizer, responses))

    for row, response in enumerate(responses):
        ends, place = [], 1  # after the prompt
        for step in split_steps(response, ";"):
            place += len(step.encode())
            ends.append(place - 1)
        ends[-1] = place  # EOS
        assert batch["step_end"][row].nonzero()[:, 0].tolist() == ends


@given(st.lists(st.integers(0, 255), min_size=1, max_size=12))
def test_invalid_bytes_end_steps_like_decoding(ids):
    # Halves of characters are decoded as something else: steps end by the bytes or by decoding.
    tokenizer = byte_tokenizer()
    byte = {raw[0]: token for token, raw in enumerate(token_bytes(tokenizer)) if len(raw) == 1}
    row = [byte[each] for each in ids]
    reward = steps(tokenizer, length)

    result = [*reward._steps(row)]
    reward._tokens._table = None
    assert result == [*reward._steps(row)]


def test_a_long_response_is_decoded_once(monkeypatch):
    tokenizer = character_tokenizer(characters="?abc;")
    reward, decoded = steps(tokenizer, length), []
    plain = reward._tokens.text
    monkeypatch.setattr(reward._tokens, "text", lambda ids: decoded.append(len(ids)) or plain(ids))

    reward(answered(tokenizer, ["ab;" * 100]))

    assert decoded == [301]


def test_it_keeps_the_contract():
    check_component(steps(character_tokenizer(characters="?abc;+="), length))


def test_no_rows_have_no_steps():
    tokenizer = character_tokenizer(characters="?abc;")
    batch = answered(tokenizer, ["a"])[:0]

    assert steps(tokenizer, length)(batch)["step_end"].shape == (0, 3)
    assert torch.equal(batch["reward"], torch.zeros(0))


def test_a_step_is_scored_with_the_columns_of_its_example():
    tokenizer = character_tokenizer(characters="?abc;")
    batch = answered(tokenizer, ["a;b", "a;b"])
    batch["columns"] = encode_columns([{"good": ["a;"]}, {"good": ["b"]}])

    scored = steps(tokenizer, lambda response, good: float(response in good), so_far=False)(batch)

    # ? a ; b EOS: the first row's first step is good, the second row's second one.
    assert scored["token_reward"].tolist() == [[0, 0, 1, 0, 0], [0, 0, 0, 0, 1]]
