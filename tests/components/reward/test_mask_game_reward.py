import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.advantage.group import GroupMean, LeaveOneOut
from components.filter import ZeroVarianceMask
from components.reward.mask_game import MaskGameReward
from rlcomp.batch import encode_texts
from rlcomp.metrics import recording
from rlcomp.testing import check_component
from rlcomp.text.rows import encode_rows
from rlcomp.text.tokenizer import byte_tokenizer

TOKENIZER = byte_tokenizer()


def predictions(responses, answers):
    batch = encode_rows(TOKENIZER, ["?"] * len(responses), responses)
    batch["answer"] = encode_texts(answers)
    batch["group_id"] = torch.zeros(len(responses), dtype=torch.int64)
    return batch


def judged(response, answer, **changed):
    reward = MaskGameReward(tokenizer=TOKENIZER, **changed)
    return reward(predictions([response], [answer]))["correct"].item()


def game(successes=(0, 1, 4, 8), attempts=8, unusable=0):
    """One paragraph: a mask for each entry of ``successes``, and proposals that cannot be used."""
    masks = len(successes)
    right = [n < found for found in successes for n in range(attempts)]
    boxed = [r"</think>\boxed{cat}" if one else r"</think>\boxed{dog}" for one in right]
    posing = [r"\mask{cat}"] * (masks + unusable)
    batch = predictions([*posing, *boxed], [*["the cat sat"] * len(posing), *["cat"] * len(boxed)])
    groups = [n for n in range(1, masks + 1) for _ in range(attempts)]
    batch["group_id"] = torch.tensor([*[0] * len(posing), *groups])
    batch["is_proposer"] = torch.arange(len(posing) + len(boxed)) < len(posing)
    answers_group_id = [*range(1, masks + 1), *[-1] * unusable, *[-1] * len(boxed)]
    batch["answers_group_id"] = torch.tensor(answers_group_id)
    return batch


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r"hm</think>\boxed{New York}", "New York"),
        (r"hm</think>\boxed{ New York }.", "New York"),
        (r"hm</think>\boxed{cat}, no: \boxed{New York}", "New York"),
        (r"hm</think>\boxed{New York}", " New York "),
        ("hm</think>\\boxed{e\u0301}", "\u00e9"),
        (r"hm</think>\boxed{f{x}}", "f{x}"),
    ],
)
def test_the_span_in_the_last_box_is_right(response, answer):
    assert judged(response, answer)


@pytest.mark.parametrize(
    "response",
    [
        r"hm</think>\boxed{new york}",
        r"hm</think>\boxed{New  York}",
        r"hm</think>\boxed{York}",
        r"hm</think>\boxed{}",
        r"hm</think>\boxed{New York",
        r"hm \boxed{New York}",
        r"\boxed{New York}</think>",
        "hm</think>New York",
        "",
    ],
)
def test_anything_else_is_wrong(response):
    assert not judged(response, "New York")


def test_casefold_ignores_case():
    assert judged(r"</think>\boxed{new york}", "New York", casefold=True)
    assert judged(r"</think>\boxed{STRASSE}", "Stra\u00dfe", casefold=True)


def test_the_end_of_the_thought_can_be_another():
    assert judged(r"so: \boxed{cat}", "cat", think_end="so:")


def test_half_a_character_is_no_span():
    batch = predictions([r"</think>\boxed{?}"], ["\ufffd"])
    # "?" becomes a byte that begins a character and does not end it.
    half = TOKENIZER("\u00e9", add_special_tokens=False)["input_ids"][0]
    mark = TOKENIZER("?", add_special_tokens=False)["input_ids"][0]
    spot = (batch["tokens"] == mark) & batch["response_mask"]
    batch["tokens"] = torch.where(spot, half, batch["tokens"])

    assert not MaskGameReward(tokenizer=TOKENIZER)(batch)["correct"].item()


def test_the_worked_example():
    # 0, 1, 4, 8 of 8 are right: 1 - p is 7/8 and 1/2; a mask that none or all predict earns 0.
    result = MaskGameReward(tokenizer=TOKENIZER)(game(unusable=1))

    assert result["reward"][:5].tolist() == [0.0, 0.875, 0.5, 0.0, 0.0]
    assert result["reward"][5:].view(4, 8).sum(1).tolist() == [0, 1, 4, 8]
    assert result["reward_valid"].all()


def test_with_a_target_masks_of_that_difficulty_earn_most():
    # 1 - |p - 1/2| / (1/2), and 0 if none is right: 0, 1/4, 1, 0.
    result = MaskGameReward(tokenizer=TOKENIZER, target=0.5)(game())

    assert result["reward"][:4].tolist() == [0.0, 0.25, 1.0, 0.0]


def test_generators_are_compared_over_the_masks_of_their_paragraph():
    # Mean of 0, 7/8, 1/2, 0 is 11/32; leaving one out, 4/3 of the excess.
    batch = MaskGameReward(tokenizer=TOKENIZER)(game())

    mean = GroupMean()(batch.copy())["advantage"][:4]
    others = LeaveOneOut()(batch.copy())["advantage"][:4]

    above = torch.tensor([-11, 17, 5, -11]) / 32
    mask = batch["response_mask"][:4]
    torch.testing.assert_close(mean, torch.where(mask, above[:, None], 0.0))
    torch.testing.assert_close(others, torch.where(mask, above[:, None] * 4 / 3, 0.0))


def test_zero_variance_drops_masks_that_all_or_none_find_and_keeps_who_posed_them():
    batch = MaskGameReward(tokenizer=TOKENIZER)(game())

    kept = ZeroVarianceMask()(batch)["response_mask"].any(1)

    assert kept[:4].all()
    assert kept[4:].view(4, 8).any(1).tolist() == [False, True, True, False]


def test_zero_variance_drops_a_generator_of_no_use_at_all():
    batch = MaskGameReward(tokenizer=TOKENIZER)(game(successes=(0, 8, 0), unusable=1))

    assert not ZeroVarianceMask()(batch)["response_mask"].any()


def test_each_role_has_its_part_and_none_of_the_other():
    parts = MaskGameReward(tokenizer=TOKENIZER)(game(successes=(1, 2), attempts=2))["rewards"]

    assert parts["generator"][:2].tolist() == [0.5, 0.0]
    assert parts["predictor"][2:].tolist() == [1.0, 0.0, 1.0, 1.0]
    assert all(map(math.isnan, [*parts["generator"][2:], *parts["predictor"][:2]]))


def test_only_predictors_are_correct():
    correct = MaskGameReward(tokenizer=TOKENIZER)(game(successes=(1, 2), attempts=2))["correct"]

    assert correct.tolist() == [False, False, True, False, True, True]


def test_a_generator_that_boxes_its_paragraph_is_no_predictor():
    batch = predictions([r"</think>\boxed{the cat sat}"] * 2, ["the cat sat"] * 2)
    batch["is_proposer"], batch["answers_group_id"] = (
        torch.tensor([True, False]),
        torch.tensor([-1, -1]),
    )
    batch["group_id"] = torch.tensor([0, 1])

    result = MaskGameReward(tokenizer=TOKENIZER)(batch)

    assert result["correct"].tolist() == [False, True]
    assert result["reward"].tolist() == [0.0, 1.0]


def test_without_roles_every_row_predicts():
    batch = predictions([r"</think>\boxed{cat}", r"\mask{cat}"], ["cat", "cat"])

    result = MaskGameReward(tokenizer=TOKENIZER)(batch)

    assert result["reward"].tolist() == [1.0, 0.0]
    assert result["reward_valid"].all()


def test_a_generator_without_its_predictors_cannot_be_judged():
    whole = game(successes=(1, 2), attempts=2)

    result = MaskGameReward(tokenizer=TOKENIZER)(whole[whole["group_id"] != 2])

    assert result["reward_valid"].tolist() == [True, False, True, True]


def test_a_batch_of_unusable_proposals_earns_nothing_and_is_learnt_from():
    with recording() as ledger:
        result = MaskGameReward(tokenizer=TOKENIZER)(game(successes=(), unusable=2))

    assert result["reward"].tolist() == [0.0, 0.0]
    assert result["reward_valid"].all()
    # Without masks there are no metrics of masks.
    assert set(ledger.means()) == {"reward/mean", "reward/invalid_fraction"}


def test_the_curriculum_is_recorded():
    # p = 0, 1/8, 4/8, 1, 1; their rewards 0, 7/8, 4/8, 0, 0.
    with recording() as ledger:
        MaskGameReward(tokenizer=TOKENIZER)(game(successes=(0, 1, 4, 8, 8), unusable=2))

    assert ledger.means() == pytest.approx(
        {
            "mask_game/accuracy": 21 / 40,
            "mask_game/all_wrong": 1 / 5,
            "mask_game/all_right": 2 / 5,
            "mask_game/difficulty": 11 / 8 / 5,
            "reward/correct": 21 / 40,
            # 11/8 of the generator's seven rows and 21 of the predictor's 40.
            "reward/mean": (11 / 8 + 21) / 47,
            "reward/invalid_fraction": 0.0,
        }
    )


def test_the_share_of_generators_without_their_predictors_is_recorded():
    # The first mask has lost its two predictors; the second, solved once of two, earns 1/2.
    whole = game(successes=(1, 1), attempts=2)

    with recording() as ledger:
        MaskGameReward(tokenizer=TOKENIZER)(whole[whole["group_id"] != 1])

    assert ledger.means()["reward/invalid_fraction"] == 1 / 4
    assert ledger.means()["reward/mean"] == pytest.approx((0.5 + 1 + 0) / 3)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=4))
def test_the_reward_of_a_mask_depends_on_its_predictors_alone(successes):
    reward = MaskGameReward(tokenizer=TOKENIZER)

    together = reward(game(tuple(successes), attempts=4))["reward"][: len(successes)]
    apart = [reward(game((one,), attempts=4))["reward"][0] for one in successes]

    assert together.tolist() == torch.stack(apart).tolist()


def test_it_keeps_the_contract():
    check_component(MaskGameReward(tokenizer=TOKENIZER))


def test_it_keeps_the_contract_with_right_predictors():
    batch = game(successes=(0, 1, 2), attempts=2, unusable=1)

    check_component(MaskGameReward(tokenizer=TOKENIZER), batch)
