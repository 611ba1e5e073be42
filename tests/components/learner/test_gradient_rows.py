import copy
import math
from functools import partial

import pytest
import torch

from components.kl_controller import FixedKL
from components.learner.gradient import Learner
from components.learner.gradient_rows import OnPolicyTest, gradient_rows, recorded_outputs
from components.loss.kl import KLLoss, KLRatioLoss
from components.loss.policy import PolicyLoss
from components.loss.ratio import NoRatio, SequenceRatio, TokenRatio
from components.loss.reduction import SequenceMean, TokenMean
from components.loss.trust_region.clip import Clip
from components.loss.trust_region.covariance import KLCov
from components.loss.trust_region.divergence import KLPenalty
from components.loss.weight.rows import TopEntropy
from rlcomp.engine.decoding import Decoding
from rlcomp.metrics import recording
from rlcomp.testing import make_batch, tiny_policy


def policy_loss(**changed):
    parts = {"ratio": TokenRatio(), "trust_region": Clip(), "reduction": SequenceMean()}
    return PolicyLoss(**(parts | changed))


class ReadsAll(PolicyLoss):
    """The same loss, of which every row is differentiated."""

    def gradient_rows(self, batch):
        return None


def reads_all(**changed):
    parts = {"ratio": TokenRatio(), "trust_region": Clip(), "reduction": SequenceMean()}
    return ReadsAll(**(parts | changed))


def learner(policy, losses, **changed):
    torch.manual_seed(0)
    arguments = {"optimizer": partial(torch.optim.SGD, lr=0.5), "max_grad_norm": None}
    return Learner(model=policy, losses=losses, **(arguments | changed))


def rollout(policy, group_size=4):
    """Two prompts; the answers to the first are all alike, so their advantage is 0."""
    draw = torch.Generator().manual_seed(1)
    rows = policy.generate(
        [[3, 4, 5], [6, 7]], group_size=group_size, max_new_tokens=5, generator=draw
    )
    rows["old_log_probs"] = rows["rollout_log_probs"].clone()
    signs = torch.tensor([0.0] * group_size + [1.0, -1.0, 0.5, -0.5])
    rows["advantage"] = (signs[:, None] * rows["response_mask"]).to(rows["old_log_probs"].dtype)
    return rows


def double_policy(**decoding):
    torch.manual_seed(0)
    policy = tiny_policy().double()
    policy.decoding = Decoding(**decoding)
    return policy


def watched(policy):
    """The tokens that each forward pass of the policy reads, and whether with a gradient."""
    seen, forward = [], policy.forward

    def told(batch):
        seen.append((len(batch), torch.is_grad_enabled()))
        return forward(batch)

    policy.forward = told
    return seen


def gradient_of(policy, loss, rows, **changed):
    made = learner(policy, loss if isinstance(loss, dict) else {"policy": loss}, **changed)
    with recording() as ledger:
        losses = made.differentiate(made._select_rows(rows))
    return [p.grad.clone() for p in made.trained], losses, ledger


@pytest.mark.parametrize("ratio", [TokenRatio, SequenceRatio, NoRatio])
@pytest.mark.parametrize("budget", [None, 12])
def test_rows_of_zero_advantage_are_not_read_and_change_nothing(ratio, budget):
    policy = double_policy()
    rows = rollout(policy)
    wanted, losses, _ = gradient_of(copy.deepcopy(policy), reads_all(ratio=ratio()), rows)
    seen = watched(policy)

    found, own, ledger = gradient_of(
        policy, policy_loss(ratio=ratio()), rows, micro_batch_tokens=budget
    )

    assert sum(count for count, _ in seen) == 4
    assert all(differentiated for _, differentiated in seen)
    assert ledger.means()["learner/rows_without_gradient"] == 0.5
    for got, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=5e-7, atol=1e-12)
    assert own["policy"] == pytest.approx(losses["policy"], abs=1e-7)


def test_metrics_keep_their_meaning_on_the_first_step():
    policy = double_policy()
    rows = rollout(policy)
    _, _, wanted = gradient_of(copy.deepcopy(policy), reads_all(), rows)

    _, _, ledger = gradient_of(policy, policy_loss(), rows)

    assert ledger.counts["ratio/mean"] == wanted.counts["ratio/mean"]
    for name in ("ratio/mean", "ratio/approx_kl", "trust_region/clip_fraction_high"):
        assert ledger.means()[name] == pytest.approx(wanted.means()[name], abs=1e-6)
    assert ledger.counts["policy/entropy"] == wanted.counts["policy/entropy"]
    # Exact on the rows that are read, the mean of -log p on the others.
    read = rows.select("tokens", "attention_mask", "response_mask")
    exact = policy(read)["entropy"].detach()
    mask = rows["response_mask"]
    estimate = exact[4:][mask[4:]].sum() - rows["rollout_log_probs"][:4][mask[:4]].sum()
    entropy = float(estimate / mask.sum())
    assert ledger.means()["policy/entropy"] == pytest.approx(entropy, abs=1e-6)


def test_later_steps_read_such_rows_without_a_gradient():
    policy = double_policy()
    rows = rollout(policy)
    other, steps = copy.deepcopy(policy), {"epochs": 2}
    with recording() as wanted:
        learner(other, {"policy": reads_all()}, **steps)(rows.clone())
    seen = watched(policy)

    with recording() as ledger:
        learner(policy, {"policy": policy_loss()}, **steps)(rows.clone())

    assert seen == [(4, True), (4, True), (4, False)]
    for name, value in wanted.means().items():
        # The entropy of the unread rows is estimated.
        if name != "policy/entropy":
            assert ledger.means()[name] == pytest.approx(value, abs=1e-6), name
    for got, want in zip(policy.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-10)


def test_the_next_batch_is_a_first_step_again():
    policy = double_policy()
    seen, made = watched(policy), learner(policy, {"policy": policy_loss()})

    made(rollout(policy))
    made(rollout(policy))

    assert seen == [(4, True), (4, True)]


def stale(rows):
    rows["policy_version"] = rows["policy_version"] - rows["response_mask"].long()


def stale_token(rows):
    row, column = rows["response_mask"][:4].nonzero()[0].tolist()
    rows["policy_version"][row, column] = 7


def unversioned(rows):
    del rows["policy_version"]


def sampled_otherwise(rows):
    rows["old_log_probs"] = rows["old_log_probs"] - 2e-4 * rows["response_mask"]


def not_recorded(rows):
    row, column = rows["response_mask"][:4].nonzero()[0].tolist()
    del rows["old_log_probs"]
    rows["rollout_log_probs"][row, column] = math.nan


def not_recorded_among_the_read(rows):
    row, column = rows["response_mask"][4:].nonzero()[0].tolist()
    del rows["old_log_probs"]
    rows["rollout_log_probs"][4 + row, column] = math.nan


def nothing_recorded(rows):
    del rows["old_log_probs"], rows["rollout_log_probs"]


@pytest.mark.parametrize(
    "spoil",
    [
        stale,
        stale_token,
        unversioned,
        sampled_otherwise,
        not_recorded,
        not_recorded_among_the_read,
        nothing_recorded,
    ],
)
def test_rows_whose_log_probs_are_not_known_are_read_without_a_gradient(spoil):
    policy = double_policy()
    rows = rollout(policy)
    spoil(rows)
    seen = watched(policy)

    gradient_of(policy, policy_loss(ratio=NoRatio()), rows)

    assert seen == [(4, True), (4, False)]


def test_rounding_of_recorded_log_probs_is_borne():
    policy = double_policy()
    rows = rollout(policy)
    rows["old_log_probs"] = rows["old_log_probs"] - 9e-5 * rows["response_mask"]
    seen = watched(policy)

    gradient_of(policy, policy_loss(), rows)

    assert seen == [(4, True)]


def test_the_samplers_own_log_probs_serve_where_no_others_are():
    policy = double_policy()
    rows = rollout(policy)
    del rows["old_log_probs"]
    seen = watched(policy)

    gradient_of(policy, policy_loss(ratio=NoRatio()), rows)

    assert seen == [(4, True)]


@pytest.mark.parametrize("decoding", [{"top_k": 3}, {"top_p": 0.9}])
def test_under_a_filter_rows_are_read_for_their_entropy(decoding):
    policy = double_policy(**decoding)
    rows = rollout(policy)
    _, _, wanted = gradient_of(copy.deepcopy(policy), reads_all(), rows)
    seen = watched(policy)

    _, _, ledger = gradient_of(policy, policy_loss(), rows)

    assert seen == [(4, True), (4, False)]
    name = "policy/entropy"
    assert ledger.means()[name] == pytest.approx(wanted.means()[name], abs=1e-6)


def test_a_weight_that_asks_for_entropy_has_it():
    policy = double_policy()
    rows = rollout(policy)
    seen = watched(policy)

    gradient_of(policy, policy_loss(weight={"top": TopEntropy(fraction=0.5)}), rows)

    # The first pass is that of prepare, over all rows.
    assert seen == [(8, False), (4, True), (4, False)]


def kl_in_loss():
    return KLLoss(controller=FixedKL(kl_coef=0.1), estimator="k3", reduction=TokenMean())


@pytest.mark.parametrize(
    "losses",
    [
        {"policy": policy_loss(trust_region=KLPenalty())},
        {"policy": policy_loss(trust_region=KLCov())},
        {"policy": policy_loss(), "kl": kl_in_loss()},
    ],
)
def test_all_rows_are_read_where_a_term_does_not_vanish_with_the_advantage(losses):
    policy = double_policy()
    rows = rollout(policy)
    rows["ref_log_probs"] = rows["old_log_probs"] - 0.1 * rows["response_mask"]
    seen = watched(policy)

    _, _, ledger = gradient_of(policy, losses, rows)

    assert seen[-1] == (8, True)
    assert "learner/rows_without_gradient" not in ledger.means()


@pytest.mark.parametrize(("kind", "estimator"), [(KLLoss, "k3"), (KLRatioLoss, "k3_ratio")])
def test_a_coefficient_of_0_measures_the_kl_of_rows_that_are_not_read(kind, estimator):
    policy = double_policy()
    rows = rollout(policy)
    rows["ref_log_probs"] = rows["old_log_probs"] - 0.1 * rows["response_mask"]
    nothing = FixedKL(kl_coef=0.0)
    kl = kind(controller=nothing, estimator=estimator, reduction=TokenMean())
    seen = watched(policy)

    _, losses, ledger = gradient_of(policy, {"policy": policy_loss(), "kl": kl}, rows)

    assert seen == [(4, True)]
    assert losses["kl"] == 0
    # exp(-0.1) - 1 + 0.1 of every token, at a ratio of 1.
    assert ledger.means()["kl/in_loss"] == pytest.approx(0.0048374, abs=1e-6)
    assert ledger.counts["kl/in_loss"] == int(rows["response_mask"].sum())


def test_without_any_advantage_the_gradient_is_zero_not_absent():
    policy = double_policy()
    rows = rollout(policy)
    rows["advantage"] = torch.zeros_like(rows["advantage"])
    before = [p.detach().clone() for p in policy.parameters()]
    adamw = partial(torch.optim.AdamW, lr=0.1, weight_decay=0.5)
    seen = watched(policy)

    with recording() as ledger:
        learner(policy, {"policy": policy_loss()}, optimizer=adamw)(rows)

    assert seen == [(1, True)]
    assert ledger.means()["learner/rows_without_gradient"] == 7 / 8
    for now, was in zip(policy.parameters(), before, strict=True):
        torch.testing.assert_close(now.detach(), 0.95 * was)


def test_an_advantage_that_is_not_a_number_is_read():
    policy = double_policy()
    rows = rollout(policy)
    row, column = rows["response_mask"].nonzero()[0].tolist()
    rows["advantage"][row, column] = math.nan

    found = gradient_rows([policy_loss()], rows, 1)

    assert found.tolist() == [True] + [False] * 3 + [True] * 4


def test_rows_of_a_unit_stay_together_and_one_unit_remains():
    rows = make_batch(
        response_mask=[[True], [True], [True], [True], [False], [True]],
        advantage=[[0.0], [0.0], [0.0], [2.0], [5.0], [0.0]],
    )

    assert (
        gradient_rows([policy_loss()], rows, 2).tolist() == [False] * 2 + [True] * 2 + [False] * 2
    )
    assert gradient_rows([policy_loss()], rows[:2], 1).tolist() == [True, False]
    assert gradient_rows([policy_loss()], rows[:2], 2).tolist() == [True, True]
    assert gradient_rows([policy_loss(), reads_all()], rows, 1) is None


def test_a_row_without_a_valid_reward_is_not_read():
    rows = make_batch(
        response_mask=torch.ones(2, 1, dtype=torch.bool),
        advantage=[[1.0], [1.0]],
        reward_valid=[False, True],
    )

    assert gradient_rows([policy_loss()], rows, 1).tolist() == [False, True]


def test_a_model_that_is_no_policy_knows_no_log_probs():
    rows = rollout(double_policy())

    assert not OnPolicyTest(
        torch.nn.Identity(), {"log_probs"}, weights_changed=False
    ).has_recorded_log_probs(rows)


def test_micro_batches_that_agree_do_not_make_up_for_one_that_does_not():
    policy = double_policy()
    rows = rollout(policy)
    seen = rows.clone().set("log_probs", rows["old_log_probs"])
    apart = seen.clone().set("log_probs", seen["log_probs"] + 1.0)
    on_policy = OnPolicyTest(policy, {"log_probs"}, weights_changed=False)

    on_policy.compare(seen)
    assert on_policy.has_recorded_log_probs(rows)
    for one in (apart, seen, seen):
        on_policy.compare(one)
        assert not on_policy.has_recorded_log_probs(rows)


def test_recorded_log_probs_are_masked():
    rows = make_batch(
        rollout_log_probs=[[math.nan, -1.0, -3.0]],
        response_mask=[[False, True, True]],
    )

    with recording() as ledger:
        seen = recorded_outputs(rows)

    assert seen["log_probs"].tolist() == [[0.0, -1.0, -3.0]]
    assert "log_probs" not in rows.keys()
    assert ledger.means() == {"policy/entropy": 2.0}


def test_no_rows_are_no_step():
    policy = tiny_policy()
    taught = learner(policy, {"policy": policy_loss()})
    before = [parameter.clone() for parameter in policy.parameters()]
    rows = rollout(policy)

    with recording() as ledger:
        taught(rows[:0])

    assert ledger.means() == {"learner/tokens": 0.0}
    assert all(map(torch.equal, before, policy.parameters()))
    assert policy.version == rows["policy_version"].max()
