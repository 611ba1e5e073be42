from functools import partial

import pytest
import torch
from tensordict import TensorDict

from components.collector.mask_game import MaskGame
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.model.language_model import LanguageModel
from rlcomp.testing import make_batch, tiny_policy

CAT = "the cat sat on the mat."
DOG = "a dog ran to his den."

make_policy = partial(tiny_policy, "abcdefghijklmnopqrstuvwxyz .<>[]{}\\/", context_length=64)


def paragraphs(*texts: str) -> TensorDict:
    return make_batch(answer=encode_texts(texts))


def game(policy: LanguageModel, **changed) -> MaskGame:
    torch.manual_seed(1)
    arguments = {"num_masks": 2, "group_size": 3, "max_new_tokens": 20} | changed
    return MaskGame(policy=policy, **arguments)


PREDICTED = [r"</think>\boxed{cat}"]
ANSWERS = {
    f"{CAT}<mask>": [r"\mask{cat}", r"\mask{the}"],
    f"{DOG}<mask>": [r"\mask{cow}", r"\mask{dog }"],
    "the [mask] sat on the mat.<think>": PREDICTED,
    "[mask] cat sat on [mask] mat.<think>": PREDICTED,
    "a [mask] ran to his den.<think>": PREDICTED,
}


@pytest.fixture
def played(scripted):
    """Two paragraphs, two proposals each, one of which the text does not hold."""
    policy = make_policy()
    scripted(policy, ANSWERS)
    with recording() as ledger:
        batch = game(policy)(paragraphs(CAT, DOG))
    return batch, ledger.means()


def test_the_generator_s_rows_come_first_then_a_group_for_every_mask_in_use(played):
    batch, _ = played

    assert batch["is_proposer"].tolist() == [True] * 4 + [False] * 9
    assert batch["group_id"].tolist() == [0, 0, 1, 1, *[2] * 3, *[3] * 3, *[4] * 3]


def test_a_proposal_names_the_group_that_answers_it_and_an_unusable_one_none(played):
    batch, _ = played

    assert batch["answers_group_id"].tolist() == [2, 3, -1, 4, *[-1] * 9]


def test_a_span_is_masked_wherever_it_stands(played):
    prompts = decode_texts(played[0]["prompt"])[4::3]

    assert prompts == [
        "the [mask] sat on the mat.<think>",
        "[mask] cat sat on [mask] mat.<think>",
        "a [mask] ran to his den.<think>",
    ]


def test_answers_are_the_paragraph_for_the_generator_and_the_span_for_the_predictor(played):
    answers = decode_texts(played[0]["answer"])

    assert answers == [CAT, CAT, DOG, DOG, *["cat"] * 3, *["the"] * 3, *["dog"] * 3]


def test_an_answer_ends_with_its_last_byte_only(played):
    ends = played[0]["answer_ends"]

    assert ends.sum(1).tolist() == [1] * 13
    assert ends.int().argmax(1).tolist() == [22, 22, 20, 20, *[2] * 9]


def test_it_writes_what_it_declares(played):
    assert set(played[0].keys()) == {*MaskGame.writes}


def test_what_became_of_the_proposals_is_recorded(played):
    _, means = played

    # Three of four can be used, each of one word; "cow" is absent.
    assert means["mask_game/valid_fraction"] == 0.75
    assert means["mask_game/words"] == 1.0
    shares = {name: means[f"mask_game/{name}"] for name in ("absent", "missing", "long", "no_room")}
    assert shares == {"absent": 0.25, "missing": 0, "long": 0, "no_room": 0}


def test_tokens_and_lengths_of_both_roles_are_recorded(played):
    batch, means = played

    lengths = batch["response_mask"].sum(1)
    # \mask{cat}, \mask{the}, \mask{cow}, \mask{dog } with EOS; nine times </think>\boxed{cat}, EOS.
    assert lengths.tolist() == [11, 11, 11, 12, *[20] * 9]
    assert means["rollout/tokens"] == 225
    assert means["rollout/length"] == pytest.approx(225 / 13)
    assert means["rollout/truncated"] == 0


def test_words_are_those_of_the_masks_in_use_and_what_is_cut_off_is_recorded(scripted):
    policy = make_policy()
    answers = {
        f"{CAT}<mask>": [r"\mask{cat}", r"\mask{the cat}"],
        "the [mask] sat on the mat.<think>": PREDICTED,
        "[mask] sat on the mat.<think>": [r"</think>\boxed{the cat}"],
    }
    scripted(policy, answers)

    with recording() as ledger:
        game(policy, largest_share=0.5)(paragraphs(CAT))

    # One word and two; of 2 + 3 + 3 rows the last three would need 24 tokens of 20.
    assert ledger.means()["mask_game/words"] == 1.5
    assert ledger.means()["rollout/truncated"] == 3 / 8


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        (r"\mask{the", "missing"),
        ("the", "missing"),
        (r"\mask{}", "empty"),
        (r"\mask{ }", "empty"),
        (r"\mask{cow}", "absent"),
        (r"\mask{sat on the}", "large"),
        (r"\mask{at}", "no_room"),
        (r"\mask{cat} \mask{cow}", "absent"),
    ],
)
def test_a_proposal_that_cannot_be_used_is_told_apart(scripted, response, problem):
    # "at" stands three times: 23 - 6 + 18 characters, <think> and 22 of a response are 64; with
    # "cat", which stands there once, it would be 55.
    policy = make_policy(context_length=60)
    scripted(policy, {f"{CAT}<mask>": [response]})

    with recording() as ledger:
        batch = game(policy, max_new_tokens=22)(paragraphs(CAT))

    assert ledger.means()[f"mask_game/{problem}"] == 1.0
    assert batch["answers_group_id"].tolist() == [-1, -1]


@pytest.mark.parametrize(("context_length", "no_room"), [(55, 0.0), (54, 1.0)])
def test_a_question_may_fill_the_context_to_its_last_token(scripted, context_length, no_room):
    # Of 26 and 7 characters, and 22 of a response.
    policy = make_policy(context_length=context_length)
    asked = "the [mask] sat on the mat.<think>"
    scripted(policy, {f"{CAT}<mask>": [r"\mask{cat}"], asked: PREDICTED})

    with recording() as ledger:
        game(policy, max_new_tokens=22)(paragraphs(CAT))

    assert ledger.means()["mask_game/no_room"] == no_room


def test_a_span_of_too_many_words_is_not_used(scripted):
    policy = make_policy()
    scripted(policy, {f"{CAT}<mask>": [r"\mask{on the}"]})

    with recording() as ledger:
        game(policy, longest_words=1, largest_share=0.5)(paragraphs(CAT))

    assert ledger.means()["mask_game/long"] == 1.0


def test_without_a_mask_in_use_there_are_the_generator_s_rows_only(scripted):
    policy = make_policy()
    scripted(policy, {f"{CAT}<mask>": ["no"]})

    batch = game(policy)(paragraphs(CAT))

    assert set(batch.keys()) == {*MaskGame.writes}
    assert batch["group_id"].tolist() == [0, 0]
    assert batch["is_proposer"].tolist() == [True, True]


def test_the_same_mask_twice_makes_two_groups(scripted):
    policy = make_policy()
    scripted(policy, ANSWERS | {f"{CAT}<mask>": [r"\mask{cat}"]})

    batch = game(policy)(paragraphs(CAT))

    assert batch["answers_group_id"][:2].tolist() == [1, 2]
    assert batch["group_id"].tolist() == [0, 0, 1, 1, 1, 2, 2, 2]


def test_templates_are_filled_in_as_those_of_tasks_are(scripted):
    policy = make_policy()
    told = {f"{{}}{CAT}": [r"\mask{cat}"], r"the [mask] sat on the mat.\boxed{": PREDICTED}
    scripted(policy, told)

    batch = game(policy, mask_template="{{}}{text}", answer_template=r"{text}\boxed{{")(
        paragraphs(CAT)
    )

    assert batch["answers_group_id"].tolist()[:2] == [1, 2]


def test_rows_of_both_roles_hold_their_own_response(scripted):
    policy = make_policy()
    scripted(policy, ANSWERS)

    batch = game(policy)(paragraphs(CAT, DOG))

    rows = [row["tokens"][row["response_mask"]] for row in batch]
    written = policy.tokenizer.batch_decode(rows, skip_special_tokens=True)
    assert (
        written
        == decode_texts(batch["response"])
        == [
            *(ANSWERS[f"{CAT}<mask>"] + ANSWERS[f"{DOG}<mask>"]),
            *(PREDICTED * 9),
        ]
    )
    # Each token was certain.
    assert float(batch["rollout_log_probs"].abs().max()) < 1e-4


def test_sets_of_kept_tokens_are_joined(scripted):
    policy = make_policy(decoding=Decoding(top_k=3, replay=True))
    scripted(policy, ANSWERS)

    made = game(policy)
    batch = made(paragraphs(CAT))

    assert "sampling_mask" in made.may_write
    assert batch["sampling_mask"].shape[:2] == batch["tokens"].shape


def test_the_same_state_draws_the_same_again():
    made = game(make_policy())
    state = made.generator.get_state()
    first, second = made(paragraphs(CAT)), made(paragraphs(CAT))
    made.generator.set_state(state)

    assert decode_texts(first["response"]) != decode_texts(second["response"])
    assert decode_texts(made(paragraphs(CAT))["response"]) == decode_texts(first["response"])


@pytest.mark.parametrize("name", ["mask_template", "answer_template"])
def test_a_template_without_the_paragraph_is_refused(name):
    with pytest.raises(ConfigError, match=rf"{name} 'so\?' lacks \{{text\}}"):
        game(make_policy(), **{name: "so?"})


@pytest.mark.parametrize("name", ["mask_template", "answer_template"])
def test_a_template_with_another_field_is_refused(name):
    with pytest.raises(ConfigError, match=rf"{name} '\{{text\}} \{{span\}}' names \{{span\}}"):
        game(make_policy(), **{name: "{text} {span}"})


def test_a_group_of_one_mask_is_refused():
    with pytest.raises(ConfigError, match="num_masks is 1: must be at least 2"):
        game(make_policy(), num_masks=1)


def test_what_belongs_to_a_paragraph_goes_with_all_its_rows(scripted):
    policy = make_policy()
    scripted(policy, ANSWERS)
    given = paragraphs(CAT, DOG)
    given["example_id"] = torch.tensor([8, 9])
    given["columns"] = make_batch(title=["cat", "dog"])
    given["policy_prompt"] = encode_texts(["unused", "unused"])

    batch = game(policy)(given)

    # Two proposals each, then three predictors of the cat's two masks and of the dog's second.
    assert batch["example_id"].tolist() == [8, 8, 9, 9, *[8] * 6, *[9] * 3]
    titles = decode_texts(batch["columns", "title"])
    assert titles == ["cat" if one == 8 else "dog" for one in batch["example_id"].tolist()]
    assert decode_texts(batch["policy_prompt"]) == decode_texts(batch["prompt"])
