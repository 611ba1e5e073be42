import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.reward.tournament import Tournament
from rlcomp.batch import encode_texts
from rlcomp.functional.games import ranks, win_rates
from rlcomp.metrics import recording
from rlcomp.testing import check_component, make_batch


class ByTable:
    """Judge with a table of probabilities for the text shown first."""

    def __init__(self, **table):
        self.table = table
        self.asked = []

    def __call__(self, pairs):
        self.asked += [pair.first + pair.second for pair in pairs]
        return [self.table[pair.first + pair.second] for pair in pairs]


def batch_of(*responses, groups=None):
    return make_batch(
        prompt=["q"] * len(responses),
        response=encode_texts(responses),
        group_id=groups or [0] * len(responses),
    )


# p(a beats b) = (.9 + 1 - .3) / 2 = .8; p(a beats c) = (.6 + 1 - .6) / 2 = .5; p(b beats c) =
# (1 + 1 - .2) / 2 = .9.
TABLE = {"ab": 0.9, "ba": 0.3, "ac": 0.6, "ca": 0.6, "bc": 1.0, "cb": 0.2}


def test_the_reward_is_the_mean_win_probability():
    scored = Tournament(judge=ByTable(**TABLE))(batch_of("a", "b", "c"))

    # a: (.8 + .5) / 2; b: (.2 + .9) / 2; c: (.5 + .1) / 2.
    assert scored["reward"].tolist() == pytest.approx([0.65, 0.55, 0.3])
    assert scored["correct"].tolist() == [True, True, False]
    assert scored["reward_valid"].all()


def test_ranks_forget_by_how_much():
    scored = Tournament(judge=ByTable(**TABLE), score="rank")(batch_of("a", "b", "c"))

    assert scored["reward"].tolist() == [1.0, 0.5, 0.0]


def test_equal_responses_draw_and_are_compared_once():
    judge = ByTable(**TABLE)

    scored = Tournament(judge=judge)(batch_of("a", "b", "a"))

    assert sorted(judge.asked) == ["ab", "ba"]
    # a: (.8 + .5) / 2, twice; b: .2 against either.
    assert scored["reward"].tolist() == pytest.approx([0.65, 0.2, 0.65])


def test_a_pair_without_a_verdict_is_left_out():
    judge = ByTable(**(TABLE | {"ba": None}))

    with recording() as ledger:
        scored = Tournament(judge=judge)(batch_of("a", "b", "c"))

    assert scored["reward"].tolist() == pytest.approx([0.5, 0.9, 0.3])
    assert ledger.means()["tournament/untold"] == pytest.approx(1 / 3)


def test_a_response_without_a_pair_has_no_reward():
    judge = ByTable(ab=None, ba=0.5)

    scored = Tournament(judge=judge)(batch_of("a", "b", "c", groups=[0, 0, 1]))

    assert scored["reward_valid"].tolist() == [False, False, False]
    assert scored["reward"].tolist() == [0.0, 0.0, 0.0]


@given(st.lists(st.lists(st.floats(0, 1), min_size=4, max_size=4), min_size=4, max_size=4))
def test_the_mean_over_a_group_is_a_half(table):
    upper = torch.triu(torch.tensor(table, dtype=torch.float64), 1)
    beats = upper + torch.tril(1 - upper.T, -1)

    assert win_rates(beats).mean().item() == pytest.approx(0.5)
    assert ranks(win_rates(beats)).mean().item() == pytest.approx(0.5)


def test_it_keeps_the_contract():
    def first_is_better(pairs):
        return [0.75] * len(pairs)

    check_component(Tournament(judge=first_is_better))


def test_a_response_with_a_failed_environment_is_not_compared():
    judge, batch = ByTable(**TABLE), batch_of("a", "b", "c")
    batch["episode_error"] = encode_texts(["", "", "out of order"])

    scored = Tournament(judge=judge)(batch)

    # a against b alone: (.9 + 1 - .3) / 2.
    assert scored["reward"].tolist() == pytest.approx([0.8, 0.2, 0.0])
    assert scored["reward_valid"].tolist() == [True, True, False]
    assert sorted(judge.asked) == ["ab", "ba"]
