import math

import pytest
import torch

from components.reward.answer import ExactMatch
from components.reward.composite import RewardByColumn, WeightedSum
from components.reward.function import FunctionReward
from rlcomp.batch import cat, decode_texts, encode_texts
from rlcomp.errors import ConfigError, DataError, RlcompWarning
from rlcomp.interfaces.reward import name_without_verdict, write_reward
from rlcomp.metrics import recording
from rlcomp.testing import make_batch


def length(response: str) -> float | None:
    return None if response == "?" else float(len(response))


def batch(*rows):
    """(domain, response, gold answer) a row."""
    domains, responses, answers = zip(*rows, strict=True)
    return make_batch(
        prompt=["p"] * len(rows),
        response=encode_texts(responses),
        answer=encode_texts(answers),
        columns=[{"verify_with": domain} for domain in domains],
    )


ROWS = [
    ("sums", "7", "7"),
    ("prose", "four", "-"),
    ("sums", "8", "7"),
    ("prose", "?", "-"),
    ("sums", "9", "9"),
]


def routes():
    right = ExactMatch()
    length_and_right = WeightedSum(
        parts={"length": FunctionReward(function=length, correct_by="function"), "exact": right},
        weights={"length": 0.5, "exact": 1.0},
        correct_by="length",
    )
    return {"sums": right, "prose": length_and_right, "code": ExactMatch()}


def test_each_row_is_scored_by_its_own_reward():
    result = RewardByColumn(routes=routes())(batch(*ROWS))

    assert result["reward"].tolist() == [1.0, 2.0, 0.0, 0.0, 1.0]
    assert result["correct"].tolist() == [True, True, False, False, True]
    assert result["reward_valid"].tolist() == [True, True, True, False, True]


def test_parts_that_a_domain_lacks_are_no_numbers():
    parts = RewardByColumn(routes=routes())(batch(*ROWS))["rewards"]

    assert set(parts.keys()) == {"exact_match", "length", "exact"}
    assert [math.isnan(value) for value in parts["length"].tolist()] == [True, False] * 2 + [True]
    assert parts["length"][1] == 4.0
    assert parts["exact_match"].nan_to_num(-1).tolist() == [1, -1, 0, -1, 1]


def test_every_domain_that_occurs_has_its_metrics():
    with recording() as ledger:
        RewardByColumn(routes=routes())(batch(*ROWS))

    metrics = {
        name: value for name, value in ledger.means().items() if not name.startswith("time/")
    }
    assert metrics == pytest.approx(
        {
            "reward/sums/mean": 2 / 3,
            "reward/sums/correct": 2 / 3,
            "reward/sums/invalid_fraction": 0,
            "reward/prose/mean": 2.0,  # of the one that could be judged
            "reward/prose/correct": 1.0,
            "reward/prose/invalid_fraction": 1 / 2,
            "reward/mean": (1 + 2 + 0 + 1) / 4,
            "reward/correct": 3 / 4,
            "reward/invalid_fraction": 1 / 5,
        }
    )


def test_a_domain_without_a_verdict_records_no_share_correct():
    reward = RewardByColumn(routes={"sums": ExactMatch(), "prose": FunctionReward(function=length)})

    with recording() as ledger:
        reward(batch(*ROWS))

    metrics = [name for name in ledger.means() if name.endswith("correct")]
    assert metrics == ["reward/sums/correct"]
    assert name_without_verdict(reward) == "by_column"
    assert name_without_verdict(RewardByColumn(routes=routes())) is None


def test_one_domain_is_its_reward():
    rows = [row for row in ROWS if row[0] == "sums"]

    alone, plain = RewardByColumn(routes=routes())(batch(*rows)), ExactMatch()(batch(*rows))

    for key in ("reward", "correct", "reward_valid", ("rewards", "exact_match")):
        assert torch.equal(alone[key], plain[key])


def test_permuted_rows_permute_the_rewards():
    order = [3, 0, 4, 1, 2]

    once = RewardByColumn(routes=routes())(batch(*ROWS))
    again = RewardByColumn(routes=routes())(batch(*[ROWS[n] for n in order]))

    for key in ("reward", "correct", "reward_valid"):
        assert torch.equal(again[key], once[key][order])


def broken(response: str) -> float:
    raise ValueError(response)


def test_calls_that_fail_in_a_domain_are_counted():
    reward = RewardByColumn(
        routes={**routes(), "prose": FunctionReward(function=f"{__name__}.broken")}
    )

    with recording() as ledger, pytest.warns(RlcompWarning, match="2 of 2 calls failed"):
        reward(batch(*ROWS))

    assert ledger.sums["reward/failed/error"] == 2
    assert ledger.means()["reward/prose/invalid_fraction"] == 1.0


def test_reasons_of_invalid_rows_are_copied():
    class Failing(ExactMatch):
        may_write = ("invalid_reason",)

        def forward(self, rows):
            none = torch.zeros(len(rows))
            rows["invalid_reason"] = encode_texts(["gone", "late"])
            return write_reward(rows, none, {"x": none}, none.bool(), none.bool())

    result = RewardByColumn(routes={**routes(), "prose": Failing()})(batch(*ROWS))

    assert decode_texts(result["invalid_reason"]) == ["", "gone", "", "late", ""]
    plain = RewardByColumn(routes={"sums": ExactMatch()})(batch(ROWS[0], ROWS[2]))
    assert "invalid_reason" not in plain.keys()


def test_batches_of_other_domains_are_joined():
    # As in dynamic sampling, where one round draws sums and the next prose.
    reward = RewardByColumn(routes={"sums": ExactMatch(), "prose": FunctionReward(function=length)})

    joined = cat([reward(batch(row)) for row in (ROWS[0], ROWS[1], ROWS[3])])

    assert joined["reward"].tolist() == [1.0, 4.0, 0.0]
    assert joined["rewards", "exact_match"].nan_to_num(-1).tolist() == [1.0, -1.0, -1.0]
    assert joined["rewards", "function"].nan_to_num(-1).tolist() == [-1.0, 4.0, 0.0]
    *told, why = decode_texts(joined["invalid_reason"])
    assert told == ["", ""]
    assert "returned None or NaN" in why


@pytest.mark.parametrize(
    ("named", "message"),
    [
        (
            "sum",
            r"'verify_with' of row 1 is 'sum'; did you mean 'sums'\? \(known: code, prose, sum",
        ),
        (3, r"'verify_with' of row 1 is 3 \(known"),
        (
            None,
            r"row 1 has no column 'verify_with' with the name of its reward \(sums, prose, code\)",
        ),
    ],
)
def test_a_row_without_a_reward_is_refused(named, message):
    with pytest.raises(DataError, match=message):
        RewardByColumn(routes=routes())(batch(ROWS[0], (named, "7", "7")))


def test_the_weight_of_the_kl_is_that_of_the_domain():
    result = RewardByColumn(routes=routes(), kl_weights={"prose": 2.5, "code": 0.0})(batch(*ROWS))

    assert result["kl_weight"].tolist() == [1.0, 2.5, 1.0, 2.5, 1.0]


def test_without_weights_none_is_written():
    assert "kl_weight" not in RewardByColumn(routes=routes())(batch(*ROWS)).keys()


def test_a_weight_of_no_domain_is_refused():
    with pytest.raises(ConfigError, match=r"kl_weights names 'proze'.*prose"):
        RewardByColumn(routes=routes(), kl_weights={"proze": 1.0})
