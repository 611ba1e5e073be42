import torch
from tensordict import TensorDict

from components.collector.flow_samples import FlowSamples
from rlcomp.metrics import recording
from rlcomp.model.flow_policy import FlowPolicy, velocity_network
from rlcomp.run.remote import RemoteStages
from rlcomp.seed import named_seed
from rlcomp.testing import check_component
from rlcomp.testing.cluster import InProcessCluster


def collector(num_groups=2, group_size=3):
    torch.manual_seed(0)
    flow = FlowPolicy(
        velocity=velocity_network(size=2, num_cells=[4]), size=2, num_steps=4, noise_level=0.7
    )
    return FlowSamples(policy=flow, num_groups=num_groups, group_size=group_size)


def test_a_row_is_a_sample_and_its_positions_are_the_steps():
    batch = collector()()

    assert batch.batch_size == (6,)
    assert batch["tokens"].tolist() == [[0, 1, 2, 3]] * 6
    assert batch["group_id"].tolist() == [0, 0, 0, 1, 1, 1]
    assert bool(batch["response_mask"].all() & batch["attention_mask"].all())
    # Each step starts where the one before led; the last one leads to the sample.
    assert torch.equal(batch["flow_state"][:, 1:], batch["flow_next"][:, :-1])
    assert torch.equal(batch["flow_next"][:, -1], batch["sample"])
    assert len(batch["sample"].unique(dim=0)) == 6


def test_recorded_log_probs_are_those_of_the_policy():
    made = collector()
    batch = made()

    torch.testing.assert_close(made.policy(batch.copy())["log_probs"], batch["rollout_log_probs"])


def test_rows_tell_which_weights_made_them():
    made = collector()
    made.policy.updated()

    assert made()["policy_version"].unique().tolist() == [1]


def test_each_batch_is_drawn_anew_and_the_same_seed_gives_the_same():
    one, other = collector(), collector()
    first = one()["sample"]

    assert torch.equal(first, other()["sample"])
    assert not torch.equal(first, one()["sample"])


def test_it_keeps_the_contract():
    check_component(collector())


def test_each_call_is_a_request_of_its_own_seed_and_its_rows_may_come_from_a_worker():
    here, there, batch = collector(), collector(), TensorDict(batch_size=[])
    here.generator.manual_seed(4), there.generator.manual_seed(4)
    remote = RemoteStages(stages=[there], cluster=InProcessCluster(staleness=0))

    with recording(), torch.no_grad():
        for _ in range(3):
            assert torch.equal(here(batch)["sample"], remote(batch)["sample"])
    seed = 4
    for _ in range(3):
        seed = named_seed(seed, "request")
    assert here.generator.initial_seed() == seed
