"""Turn-level advantages: by hand, and against the exact gradient of a chain."""

from itertools import product

import pytest
import torch

from components.advantage.gae import TurnGAE
from components.advantage.group import GPG, GroupBatchStd, GroupMean, GroupMeanStd, LeaveOneOut
from components.advantage.turns import MTGRPO, GiGPO, TurnReturn, VinePPO
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.testing import make_batch


def batch_of(rows, reward, *, group=None, valid=None, paid=None, anchors=None, dtype=torch.float64):
    """Rows written as turns: ``"00.1"`` is turn 0 in two tokens, an observation, turn 1."""
    width = max(map(len, rows))
    turn = [[int(c) if c != "." else -1 for c in row] + [-1] * (width - len(row)) for row in rows]
    turn = torch.tensor(turn)
    count = len(rows)
    batch = make_batch(
        response_mask=turn >= 0,
        turn_id=turn,
        reward=torch.tensor(reward, dtype=dtype),
        reward_valid=valid or [True] * count,
        group_id=group or [0] * count,
        truncated=torch.zeros(count, dtype=torch.bool),
    )
    for key, table in (("turn_reward", paid), ("anchor_id", anchors)):
        if table is not None:
            fill = 0.0 if key == "turn_reward" else -1
            wide = torch.full(turn.shape, fill, dtype=dtype if key == "turn_reward" else None)
            for row, values in enumerate(table):
                for number, value in enumerate(values):
                    places = (turn[row] == number).nonzero()[:, 0]
                    wide[row, places[-1:] if key == "turn_reward" else places] = value
            batch[key] = wide
    return batch


def advantage(component, batch):
    return component(batch.copy())["advantage"]


# A chain: in its one state an episode goes (and is paid 1) with probability p, or stays, at most
# three times. J = 1 - (1 - p)^3; d log p / d theta is 1 - p for going and -p for staying.
P = 0.3
EPISODES = [(1, True), (2, True), (3, True), (3, False)]  # turns, whether it goes in the end
EXACT = 3 * (1 - P) ** 2 * P * (1 - P)


def expected_gradient(component, episodes=2):
    total = 0.0
    for drawn in product(EPISODES, repeat=episodes):
        rows = [".".join(str(turn) for turn in range(turns)) for turns, _ in drawn]
        reward = [float(goes) for _, goes in drawn]
        anchors = [[8] * turns for turns, _ in drawn]
        found = advantage(component, batch_of(rows, reward, anchors=anchors))
        gradient = 0.0
        for row, (turns, goes) in enumerate(drawn):
            for turn in range(turns):
                score = 1 - P if goes and turn == turns - 1 else -P
                gradient += float(found[row, 2 * turn]) * score
        chance = torch.tensor(
            [(1 - P) ** (turns - goes) * (P if goes else 1.0) for turns, goes in drawn],
            dtype=torch.float64,
        )
        total += float(chance.prod()) * gradient / episodes
    return total


@pytest.mark.parametrize(
    "component",
    [
        TurnReturn(baseline="none"),
        TurnReturn(),
        GiGPO(gamma=1.0, baseline="others", norm="none", omega=1.0),
    ],
    ids=["return", "others at the turn", "others in the state"],
)
@pytest.mark.parametrize("episodes", [2, 3])
def test_the_expected_gradient_is_exact(component, episodes):
    found = expected_gradient(component, episodes)
    if isinstance(component, GiGPO):  # beside the episode's own advantage, of Dr. GRPO
        found -= expected_gradient(GiGPO(omega=0.0, norm="none"), episodes)

    assert found == pytest.approx(EXACT, abs=1e-10)


def test_the_bias_of_gigpos_group_mean_is_a_number():
    whole = GiGPO(gamma=1.0, norm="none")
    episodes = expected_gradient(GiGPO(omega=0.0, norm="none"))

    # An episode against itself is half of it: (n - 1) / n of the gradient.
    assert episodes == pytest.approx(EXACT / 2, abs=1e-10)
    # By hand, over the 16 pairs (p = .3): with m and n visits of returns a and b, b the mean
    # (m a + n b) / (m + n), an episode keeps n / (m + n) of a - b.
    by_hand = sum(
        chance_of(one)
        * chance_of(other)
        * (visits(other) / (visits(one) + visits(other)))
        * (one[1] - other[1])
        * score_of(one)
        for one, other in product(EPISODES, repeat=2)
    )
    assert expected_gradient(whole) - episodes == pytest.approx(by_hand, abs=1e-10)
    assert by_hand < 0.7 * EXACT


def chance_of(episode):
    turns, goes = episode
    return (1 - P) ** (turns - goes) * (P if goes else 1.0)


def visits(episode):
    return episode[0]


def score_of(episode):
    """Sum of d log p over the turns of an episode, all of which have its return."""
    turns, goes = episode
    return -P * (turns - goes) + (1 - P) * goes


def test_gigpo_without_steps_is_grpo():
    batch = batch_of(["0.1", "00", "0.1"], [1.0, 0.0, 3.0], anchors=[[4, 4], [4], [4, 5]])

    torch.testing.assert_close(advantage(GiGPO(omega=0.0), batch), advantage(GroupMeanStd(), batch))


def test_gigpo_by_hand():
    batch = batch_of(["0.11", "0"], [1.0, 0.0], anchors=[[4, 5], [4]])

    # A^E = +-.5. State 4: returns .5 and 0, mean .25; state 5 was visited once. omega = 2.
    with recording() as ledger:
        found = advantage(GiGPO(gamma=0.5, omega=2.0, norm="none"), batch)

    assert found.tolist() == [[1.0, 0.0, 0.5, 0.5], [-1.0, 0.0, 0.0, 0.0]]
    # Visits 2, 1, 2 of three turns; two of them share their state; |A^S| = .25, 0, .25.
    told = ledger.means()
    assert told["advantage/step_group"] == pytest.approx(5 / 3)
    assert told["advantage/shared_states"] == pytest.approx(2 / 3)
    assert told["advantage/step"] == pytest.approx(0.5 / 3)


def test_turn_returns_by_hand():
    paid = [[1.0, 2.0], [3.0], [5.0, 7.0]]
    batch = batch_of(["0.11", "0", "0.1"], [10.0, 20.0, 0.0], paid=paid, group=[0, 0, 1])

    with recording() as ledger:
        found = advantage(TurnReturn(gamma=0.5), batch)

    # Outcome at the last turn: row 0 is paid 1 and 12, returns 7 and 12; row 1 is paid 23.
    # Turn 0 of group 0: 7 - 23 and 23 - 7; nobody else has a turn 1. Group 1 is row 2 alone.
    assert found[0].tolist() == [-16.0, 0.0, 12.0, 12.0]
    assert found[1].tolist() == [16.0, 0.0, 0.0, 0.0]
    assert found[2].tolist() == [8.5, 0.0, 7.0, 0.0]
    assert ledger.means()["advantage/turn_return"] == pytest.approx((7 + 12 + 23 + 8.5 + 7) / 5)
    summed = advantage(TurnReturn(outcome=False, baseline="none"), batch)
    assert summed[0].tolist() == [3.0, 0.0, 2.0, 2.0]


def test_mt_grpo_by_hand():
    paid = [[1.0, 0.0], [3.0, 0.0], [9.0]]
    batch = batch_of(["0.1", "0.1", "0"], [1.0, 0.0, 0.5], paid=paid)

    with recording() as ledger:
        found = advantage(MTGRPO(outcome_weight=0.5, epsilon=1e-12), batch)

    # Outcomes 1, 0, .5 have mean .5 and std .5: 1, -1, 0. Turn 0 of rows 0 and 1: -+ sqrt(1/2).
    half = 0.5**0.5
    torch.testing.assert_close(
        found,
        torch.tensor([[-half + 0.5, 0.0, 1.0], [half - 0.5, 0.0, -1.0], [0.0, 0.0, 0.0]]).double(),
    )
    assert ledger.means()["advantage/turn"] == pytest.approx(half)


def test_vine_by_hand():
    batch = batch_of(["00.1", "0", "0"], [1.0, 4.0, 2.0], valid=[True, True, False])
    batch["turn_value"] = torch.tensor([[0.5] * 3 + [0.25], [3.5] + [9.0] * 3, [1.0] + [9.0] * 3])

    with recording() as ledger:
        found = advantage(VinePPO(), batch)

    # .25 - .5 on both tokens of turn 0, 1 - .25; 4 - 3.5; an invalid reward teaches nothing.
    assert found.tolist() == [[-0.25, -0.25, 0.0, 0.75], [0.5, 0.0, 0.0, 0.0], [0.0] * 4]
    assert ledger.means()["advantage/turn"] == pytest.approx((0.25 + 0.75 + 0.5) / 3)


def test_turn_gae_by_hand_and_the_critics_target():
    batch = batch_of(["00.1", "0"], [1.0, 4.0], paid=[[2.0, 0.0], [0.0]], valid=[True, False])
    batch["value"] = torch.tensor([[0.5, 8.0, 9.0, 0.25], [6.0, 7.0, 7.0, 7.0]]).double()

    found = TurnGAE(gamma=0.5, gae_lambda=0.0)(batch.copy())

    # The value before a turn's first token: .5 and .25. delta_1 = 1 - .25; delta_0 = 2 + .125 - .5.
    assert found["advantage"][0].tolist() == [1.625, 1.625, 0.0, 0.75]
    assert found["returns"][0].tolist() == [2.125, 2.125, 0.0, 1.0]
    # An invalid reward teaches neither.
    assert found["advantage"][1].tolist() == [0.0] * 4
    assert found["returns"][1].tolist() == [6.0, 0.0, 0.0, 0.0]


def test_turn_gae_bootstraps_truncated_episodes_from_the_last_tokens_value():
    batch = batch_of(["00.11", "0", "0..1", ".2"], [0.0, 4.0, 0.0, 0.0], paid=[[2.0]] * 4)
    batch["trajectory_id"] = torch.tensor([0, 1, 2, 2])
    batch["truncated"] = torch.tensor([True, False, False, True])
    batch["value"] = torch.tensor(
        [
            [0.5, 8.0, 9.0, 0.25, 3.0],
            [6.0, 7.0, 7.0, 7.0, 7.0],
            [1.0, 9.0, 9.0, 2.0, 9.0],
            [9.0, 4.0, 9.0, 9.0, 9.0],
        ]
    ).double()

    found = TurnGAE(gamma=0.5, gae_lambda=0.0, bootstrap_truncated=True)(batch)["advantage"]

    # delta_0 = 2 + .25/2 - .5 as ever; delta_1 = 0 + 3/2 - .25, not 0 - .25.
    assert found[0].tolist() == [1.625, 1.625, 0.0, 1.25, 1.25]
    # An episode that its environment ended: 2 + 4 - 6.
    assert found[1, 0] == 0.0
    # In two rows: 2 + 2/2 - 1, then 0 + 4/2 - 2, then 0 + 4/2 - 4, from the row of the last turn.
    assert found[2].tolist() == [2.0, 0.0, 0.0, 0.0, 0.0]
    assert found[3].tolist() == [0.0, -2.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "component",
    [
        GiGPO(),
        GiGPO(baseline="others", norm="none"),
        TurnReturn(gamma=0.9),
        MTGRPO(),
        GPG(),
        GroupBatchStd(),
        GroupMean(),
        GroupMeanStd(),
        LeaveOneOut(),
        VinePPO(),
    ],
    ids=lambda component: type(component).__name__,
)
def test_an_episode_in_one_row_or_cut_into_one_row_a_turn(component):
    paid, anchors = [[1.0, 2.0], [0.5, 0.0], [3.0]], [[4, 5], [4, 5], [4]]
    whole = batch_of(["0.1", "0.1", "0"], [1.0, 0.0, 2.0], paid=paid, anchors=anchors)
    whole["trajectory_id"] = torch.tensor([7, 8, 9])
    whole["turn_value"] = torch.tensor([[0.5, 9.0, 0.25], [1.0, 9.0, 2.0], [0.75, 9.0, 9.0]])
    rows = torch.tensor([0, 0, 1, 1, 2])
    cut = whole[rows].clone()
    turn = torch.tensor([0, 1, 0, 1, 0])
    cut["response_mask"] = cut["turn_id"] == turn[:, None]

    found, one = advantage(component, cut), advantage(component, whole)

    mask = cut["response_mask"]
    torch.testing.assert_close(found[mask], one[rows][mask])
    assert found[~mask].abs().sum() == 0


def test_values_out_of_range_are_refused():
    with pytest.raises(ConfigError, match="gamma"):
        GiGPO(gamma=1.5)
    with pytest.raises(ConfigError, match="baseline"):
        TurnReturn(baseline="group")
