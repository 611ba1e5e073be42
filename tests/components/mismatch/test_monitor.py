import math

import pytest
import torch
from tensordict import TensorDict

from components.mismatch import MismatchMonitor
from rlcomp.errors import CheckpointError, ConfigError, NumericalError
from rlcomp.metrics import recording
from rlcomp.testing import tiny_policy

NAN = float("nan")


def batch(rows=2):
    """Three response tokens with d = log 2, 0 and -log 4; one more that was not recorded."""
    mask = torch.tensor([[False, True, True, True], [False, True, False, False]])
    rollout = torch.tensor([[NAN, -2.0, -1.0, NAN], [9.0, -0.5, 7.0, NAN]], dtype=torch.float64)
    gap = torch.tensor([[5.0, math.log(2), 0.0, 3.0], [5.0, -math.log(4), 5.0, 5.0]])
    old = torch.where(rollout.isnan(), -1.0, rollout) + gap
    entries = {
        "tokens": torch.ones(2, 4, dtype=torch.int64),
        "attention_mask": torch.ones(2, 4, dtype=torch.bool),
        "response_mask": mask,
        "rollout_log_probs": rollout,
        "old_log_probs": old,
    }
    return TensorDict(entries, batch_size=[2])[:rows]


def test_the_mismatch_is_recorded_over_the_tokens_that_both_know():
    with recording() as ledger:
        MismatchMonitor(max_mean_gap=None)(batch())

    # |d| = log 2, 0, log 4; weights 2, 1, 1/4: (3.25)^2 / (3 (4 + 1 + 1/16)) = 10.5625 / 15.1875.
    assert ledger.means() == pytest.approx(
        {
            "mismatch/mean": math.log(8) / 3,
            "mismatch/max": math.log(4),
            "mismatch/above_1_nat": 1 / 3,
            "mismatch/ess": 10.5625 / 15.1875,
            # exp(d) - 1 - d of each: 2 - 1 - log 2, 0, 1/4 - 1 + log 4; their mean.
            "mismatch/k3": (0.25 + math.log(2)) / 3,
        }
    )


def test_a_mean_above_the_limit_for_three_steps_stops_the_run_and_says_what_to_do():
    # The mean is log(8) / 3 = 0.693.
    rows = batch()
    rows["policy_version"] = torch.tensor([[0, 3, 5, 4], [0, 3, 0, 0]])
    monitor = MismatchMonitor(max_mean_gap=0.692)
    monitor(rows)
    monitor(rows)

    causes = r"0\.693 nats per token \(largest 1\.39\), .* 3 steps.*temperature.*truncated.*"
    with pytest.raises(NumericalError, match=causes + r"\(these rows: 3 to 5\).*template.*=tis"):
        monitor(rows)
    with pytest.raises(NumericalError, match=r"another version, another chat template"):
        MismatchMonitor(max_mean_gap=0.692, patience=1)(batch())


def test_a_mean_at_the_limit_is_borne_and_a_good_step_begins_the_count_again():
    for _ in range(4):
        (lenient := MismatchMonitor(max_mean_gap=0.694))(batch())
    assert lenient.bad_steps == 0
    monitor, good = MismatchMonitor(max_mean_gap=0.692), batch()
    good["old_log_probs"] = good["rollout_log_probs"].clone()

    for rows in (batch(), batch(), good, batch(), batch()):
        monitor(rows)

    assert monitor.bad_steps == 2


def test_a_limit_is_not_above_itself():
    rows = batch()
    rows["old_log_probs"] = rows["rollout_log_probs"] - 0.5  # exact in binary
    monitor = MismatchMonitor(max_mean_gap=0.5, patience=1)

    monitor(rows)

    assert monitor.bad_steps == 0


def test_a_resumed_run_goes_on_counting():
    monitor, again = MismatchMonitor(patience=2), MismatchMonitor(patience=2)
    monitor(batch())
    again.load_run_state(monitor.run_state())

    with pytest.raises(NumericalError, match="2 steps"):
        again(batch())
    with pytest.raises(CheckpointError):
        again.load_run_state({"bad_steps": "2"})


def test_a_policy_computes_its_own_log_probs():
    policy, rows = tiny_policy(), batch()
    rows["rollout_log_probs"] = policy.log_probs(rows) - 0.25

    with recording() as ledger:
        MismatchMonitor(policy=policy, max_mean_gap=None)(rows)

    assert ledger.means()["mismatch/mean"] == pytest.approx(0.25, abs=1e-6)


def test_the_sampler_is_not_compared_with_itself():
    rows = batch()
    rows["old_log_probs"] = rows["rollout_log_probs"].detach()

    with pytest.raises(ConfigError, match="use mismatch=monitor"):
        MismatchMonitor()(rows)


def test_a_batch_without_a_recorded_token_has_no_mismatch():
    rows = batch()
    rows["response_mask"] = torch.zeros(2, 4, dtype=torch.bool)

    with recording() as ledger:
        MismatchMonitor()(rows)

    assert ledger.means() == {}
