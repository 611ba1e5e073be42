"""Log-probs over the recorded sampling masks, also after updates of the policy."""

from functools import partial

import pytest
import torch

from components.collector.group import GroupCollector
from components.learner.gradient import Learner
from components.loss.policy import PolicyLoss
from components.loss.ratio import TokenRatio
from components.loss.reduction import TokenMean
from components.loss.trust_region.clip import Clip
from components.reference.frozen import FrozenReference
from rlcomp.batch import cat, decode_texts, encode_texts
from rlcomp.engine.decoding import Decoding, mask_contains, unpack_mask
from rlcomp.errors import ConfigError, DataError, ShapeError
from rlcomp.metrics import recording
from rlcomp.testing import check_component, tiny_policy
from rlcomp.text.answers import answer_prompts

NUCLEUS = Decoding(top_p=0.6, replay=True)

make_policy = partial(tiny_policy, decoding=NUCLEUS)


def rollout(policy, group_size=8):
    draw = torch.Generator().manual_seed(0)
    return answer_prompts(
        policy, ["1+2=", "7="], group_size=group_size, max_new_tokens=4, generator=draw
    )


def moved(policy):
    """Return the policy after a large step, with another nucleus."""
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=draw)
    return policy


def learner(policy, **changed):
    loss = PolicyLoss(ratio=TokenRatio(), trust_region=Clip(), reduction=TokenMean())
    optimizer = partial(torch.optim.SGD, lr=0.5)
    return Learner(model=policy, losses={"policy": loss}, optimizer=optimizer, **changed)


def test_every_token_is_in_its_recorded_mask():
    policy = make_policy()

    batch = rollout(policy)

    mask, kept = batch["response_mask"], batch["sampling_mask"]
    assert mask_contains(kept[mask], batch["tokens"][mask]).all()
    assert not kept[~mask].any()
    sizes = unpack_mask(kept[mask], len(policy.tokenizer)).sum(-1)
    assert 1 <= sizes.min() <= sizes.max() < len(policy.tokenizer)


def test_rescoring_agrees_with_the_sampler():
    policy = make_policy()
    batch = rollout(policy)

    with torch.no_grad():
        scored = policy.log_probs(batch)

    torch.testing.assert_close(scored, batch["rollout_log_probs"], atol=1e-5, rtol=0)


def test_an_updated_policy_is_scored_over_the_recorded_masks():
    policy = make_policy()
    batch = rollout(policy)
    moved(policy)

    with torch.no_grad():
        log_probs = policy(batch.copy())["log_probs"]

    plain = make_policy(decoding=Decoding())
    plain.load_state_dict(policy.state_dict())
    with torch.no_grad():
        full = plain.log_distribution(batch.select(*plain.in_keys))
    mask = batch["response_mask"]
    sets = unpack_mask(batch["sampling_mask"][mask], full.shape[-1])
    shares = full[mask].masked_fill(~sets, -torch.inf).log_softmax(-1)
    want = shares.gather(-1, batch["tokens"][mask][:, None])[:, 0]
    torch.testing.assert_close(log_probs[mask], want, atol=1e-5, rtol=0)


def test_the_reference_is_scored_over_the_same_masks():
    policy = make_policy()
    reference = FrozenReference(policy=policy)
    reference.begin_phase()
    batch = rollout(policy)
    moved(policy)

    result = reference(batch)

    mask = batch["response_mask"]
    torch.testing.assert_close(
        result["ref_log_probs"][mask], batch["rollout_log_probs"][mask], atol=1e-5, rtol=0
    )


def test_log_probs_stay_finite_over_several_optimiser_steps():
    policy = make_policy()
    batch = rollout(policy)
    batch["old_log_probs"] = batch["rollout_log_probs"]
    draw = torch.Generator().manual_seed(2)
    batch["advantage"] = torch.randn(batch["tokens"].shape, generator=draw)

    learner(policy, num_minibatches=2, epochs=3, micro_batch_tokens=40)(batch)

    with torch.no_grad():
        log_probs = policy.log_probs(batch)
    mask = batch["response_mask"]
    assert log_probs[mask].isfinite().all()
    assert (log_probs[mask] <= 0).all()
    assert ((log_probs - batch["old_log_probs"])[mask].abs() > 1e-4).any()


def test_the_learner_scores_over_the_recorded_masks():
    policy = make_policy()
    batch = rollout(policy)
    batch["old_log_probs"] = batch["rollout_log_probs"]
    batch["advantage"] = batch["response_mask"] * torch.linspace(-1, 1, 16)[:, None]
    moved(policy)
    stage = learner(policy)
    with torch.no_grad():
        want = stage.losses["policy"](policy(batch.copy()))["loss"].item()

    with recording() as ledger:
        stage(batch)

    assert ledger.means()["loss/policy"] == pytest.approx(want, abs=1e-5)


SEVERAL = [
    ({"epochs": 2}, 2),
    ({"num_minibatches": 3}, 3),
    ({"num_minibatches": 2, "epochs": 2}, 4),
    ({"num_minibatches": 2, "epochs": 3}, 6),
]


@pytest.mark.parametrize("changed", [changed for changed, _ in SEVERAL])
def test_several_optimiser_steps_need_the_recorded_masks(changed):
    batch = rollout(make_policy()).exclude("sampling_mask")
    batch["old_log_probs"] = batch["advantage"] = batch["rollout_log_probs"]

    with pytest.raises(ConfigError, match="the batch has no sampling_mask"):
        learner(make_policy(), **changed)(batch)


@pytest.mark.parametrize(("changed", "steps"), SEVERAL)
def test_without_replay_several_optimiser_steps_are_refused(changed, steps):
    with pytest.raises(ConfigError, match=rf"epochs is {steps}: .* decoding\.replay=true"):
        learner(make_policy(decoding=Decoding(top_p=0.6)), **changed)


def test_a_token_outside_its_mask_is_refused():
    policy = make_policy()
    batch = rollout(policy)
    row, column = batch["response_mask"].nonzero()[3].tolist()
    batch["sampling_mask"][row, column] = 0

    with pytest.raises(
        DataError, match=rf"'sampling_mask' at \[{row}, {column}\] excludes the token"
    ):
        policy.log_probs(batch)


def test_masks_of_another_vocabulary_are_refused():
    policy = make_policy()
    batch = rollout(policy)
    batch["sampling_mask"] = batch["sampling_mask"][..., :1]

    with pytest.raises(
        ShapeError, match=r"'sampling_mask' has 1 bytes per token, the model needs 2"
    ):
        policy.log_probs(batch)


@pytest.mark.parametrize("decoding", [Decoding(top_p=0.6), Decoding(replay=True)])
def test_masks_are_recorded_only_if_truncated_and_replayed(decoding):
    assert "sampling_mask" not in rollout(make_policy(decoding=decoding)).keys()


def test_rows_of_several_rollouts_are_joined_with_their_masks():
    policy = make_policy()
    one, two = rollout(policy), rollout(policy, group_size=2)

    joined = cat([one, two])

    with torch.no_grad():
        scored = policy.log_probs(joined)
    torch.testing.assert_close(scored, joined["rollout_log_probs"], atol=1e-5, rtol=0)


def test_the_collector_declares_the_masks():
    collector = GroupCollector(policy=make_policy(), group_size=2, max_new_tokens=3)
    entries = {"prompt": encode_texts(["1+2="]), "answer": encode_texts(["3"])}

    batch = collector(rollout(make_policy()).select()[:1].update(entries))

    check_component(collector)
    assert decode_texts(batch["prompt"]) == ["1+2="] * 2
    written = {*batch.keys()} - {*GroupCollector.writes, "answer"}
    assert written == {"sampling_mask"} <= {*GroupCollector.may_write}
