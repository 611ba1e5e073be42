"""Remote stages, with a cluster whose workers are in this process and are lost on demand."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from tensordict import TensorDict

from components.collector.delay import DelayedCollector
from components.collector.group import GroupCollector
from rlcomp.batch import encode_texts
from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.checkpoint.writer import Checkpoint
from rlcomp.component import Component
from rlcomp.errors import ConfigError, FlowError, ProcessEnded
from rlcomp.metrics import recording
from rlcomp.run.phase import Phase
from rlcomp.run.place_remote import place_remote
from rlcomp.run.remote import RemoteStages
from rlcomp.run.stages import Refill
from rlcomp.testing import make_batch, tiny_policy
from rlcomp.testing.cluster import InProcessCluster

PLACE = {"phase": 0, "step": 3, "total": 3, "trackers": {}}


def collector():
    torch.manual_seed(1)
    return GroupCollector(policy=tiny_policy(scale=4.0), group_size=3, max_new_tokens=5)


def remote(stage=None, **settings):
    stage = collector() if stage is None else stage
    return RemoteStages(stages=[stage], cluster=InProcessCluster(**settings))


def prompts(number, count=4):
    texts = [f"{number}+{n}=" for n in range(count)]
    return make_batch(prompt=encode_texts(texts))


def learn(policy, number):
    """An update that depends on its number, and that shows in every token."""
    with torch.no_grad():
        for each in policy.model.parameters():
            each.add_(
                0.3 * torch.randn(each.shape, generator=torch.Generator().manual_seed(number))
            )
    policy.updated()


def steps(stage, policy, count=5, first=0, asked=4):
    """What each step consumes, with an update behind it, and what it records."""
    rows, metrics = [], []
    for number in range(first, first + count):
        with recording(progress=number / 10, step=number) as ledger, torch.no_grad():
            rows.append(stage(prompts(number, asked)))
        metrics.append({k: v for k, v in ledger.means().items() if k[:8] != "cluster/"})
        learn(policy, number)
    return rows, metrics


def same(one, other):
    return all(
        a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a.keys())
        for a, b in zip(one, other, strict=True)
    )


def policy_of(stage):
    return stage.stages[0].policy


def test_without_staleness_the_numbers_are_those_of_the_stage_here():
    here, there = collector(), remote(staleness=0)

    plain, recorded = steps(here, here.policy)
    found, metrics = steps(there, policy_of(there))

    assert same(found, plain)
    assert metrics == recorded


@pytest.mark.parametrize("staleness", [1, 2])
def test_with_staleness_they_are_those_of_delayed_rollouts(staleness):
    delayed = DelayedCollector(collector=collector(), staleness=staleness)
    there = remote(staleness=staleness)

    plain, recorded = steps(delayed, delayed.collector.policy)
    found, metrics = steps(there, policy_of(there))

    assert same(found, plain)
    assert metrics == recorded
    ages = [each["rollout/staleness"] for each in metrics]
    assert ages == [min(number, staleness) for number in range(5)]


def test_a_collector_that_simulates_the_delay_is_taken_out_and_says_how_long_it_is():
    inside = collector()
    delayed = DelayedCollector(collector=inside, staleness=2)

    assert remote(delayed).staleness == 2
    assert remote(delayed).stages[0] is inside
    assert remote(delayed, staleness=0).staleness == 0
    assert remote().staleness == 1


@pytest.mark.parametrize("workers", [2, 3, 4, 8])
def test_several_workers_give_the_tokens_of_one(workers):
    one, many = remote(staleness=0), remote(staleness=0, workers=workers)

    alone, told = steps(one, policy_of(one), 2, asked=9)
    split, metrics = steps(many, policy_of(many), 2, asked=9)

    assert {worker for worker, *_ in many.cluster.asked} == {*range(workers)}
    for a, b in zip(alone, split, strict=True):
        same_keys = ("tokens", "response_mask", "group_id", "truncated", "policy_version", "prompt")
        assert all(torch.equal(a[key], b[key]) for key in same_keys)
        assert torch.allclose(a["rollout_log_probs"], b["rollout_log_probs"], atol=1e-5, rtol=0)
    assert [each["rollout/tokens"] for each in metrics] == [m["rollout/tokens"] for m in told]
    assert metrics[0]["rollout/length"] == told[0]["rollout/length"]


def test_prompts_are_dealt_out_evenly_in_their_order():
    many = remote(staleness=0, workers=3)

    many(prompts(0))

    # 4 prompts: bounds 0, 1 (4/3), 2 (8/3) and 4.
    parts = [
        (worker, part.first, part.prompts, part.total) for worker, _, part in many.cluster.asked
    ]
    assert parts == [(0, 0, 1, 4), (1, 1, 1, 4), (2, 2, 2, 4)]


def test_a_worker_without_a_prompt_is_not_asked():
    many = remote(staleness=0, workers=8)

    many(prompts(0))

    assert [worker for worker, _, _ in many.cluster.asked] == [1, 3, 5, 7]


class Whole(Component):
    """Rollouts whose rows depend on the whole batch."""

    fresh = True

    def forward(self, batch):
        return TensorDict({"prompt": batch["prompt"].flip(0)}, batch_size=batch.batch_size)


def test_batches_that_are_not_dealt_out_go_to_the_workers_in_turn():
    many = remote(Whole(), staleness=1, workers=2)

    found = [many(prompts(number)) for number in range(3)]

    assert [(w, n) for w, n, _ in many.cluster.asked] == [(0, 0), (1, 1), (0, 2), (1, 3)]
    expected = [prompts(number)["prompt"].flip(0) for number in (0, 0, 1)]
    assert all(torch.equal(a["prompt"], b) for a, b in zip(found, expected, strict=True))


def test_workers_that_would_never_be_busy_are_refused():
    with pytest.raises(
        ConfigError, match=r"workers is 3: .*Whole .*only 2 .*set cluster.workers=2"
    ):
        remote(Whole(), staleness=1, workers=3)


@pytest.mark.parametrize("lost", [[1], [2], [3], [1, 2, 3], [4, 5]])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_lost_worker_is_asked_again_and_changes_nothing(lost, workers):
    undisturbed = remote(staleness=1, workers=workers)
    there = remote(staleness=1, workers=workers, lost=lost)

    plain, recorded = steps(undisturbed, policy_of(undisturbed))
    found, metrics = steps(there, policy_of(there))

    assert same(found, plain)
    assert metrics == recorded
    assert len(there.cluster.restarted) == len(lost)


def test_restarts_are_recorded_in_the_step_they_happen_in():
    there, found = remote(staleness=0, lost=[2, 3]), []
    for number in range(3):
        with recording() as ledger:
            there(prompts(number))
        found.append(ledger.means()["cluster/restarts"])

    # The second step's first two answers are lost.
    assert found == [0.0, 2.0, 0.0]


def test_a_request_that_ends_too_many_workers_is_named_and_kept(tmp_path):
    there = remote(staleness=0, lost=[2, 3], restarts=1)
    there.directory = tmp_path
    there(prompts(0))

    told = r"worker 0 died, over request 1, which is kept in .*request-00000001.safetensors; 1 "
    with pytest.raises(ProcessEnded, match=told + r".*cluster.restarts is 1"):
        there(prompts(1))

    kept = load_file(tmp_path / "request-00000001.safetensors")
    assert torch.equal(kept["prompt"], prompts(1)["prompt"])


def test_what_waits_and_what_is_under_way_survive_a_checkpoint(tmp_path):
    undisturbed, before, after = (remote(staleness=2) for _ in range(3))
    plain, recorded = steps(undisturbed, policy_of(undisturbed), 6)

    def nodes(stage):
        return {"rollout": stage.stages[0], "policy": policy_of(stage), "cluster.rollout": stage}

    steps(before, policy_of(before), 3)
    Checkpoint(directory=str(tmp_path), keep=1).save(nodes(before), PLACE)
    open_checkpoint(tmp_path / "step-00000003").restore(nodes(after))
    found, metrics = steps(after, policy_of(after), 3, first=3)

    assert same(found, plain[3:])
    assert metrics == recorded[3:]
    # So does the run that was saved.
    assert same(steps(before, policy_of(before), 3, first=3)[0], plain[3:])
    assert after.number == 8


def test_a_checkpoint_without_a_cluster_can_be_gone_on_with(tmp_path):
    here, there = collector(), remote(staleness=0)
    plain, _ = steps(here, here.policy, 4)
    begun = collector()
    steps(begun, begun.policy, 2)

    saved = Checkpoint(directory=str(tmp_path), keep=1)
    saved.save({"rollout": begun, "policy": begun.policy}, PLACE)
    stage = there.stages[0]
    nodes = {"rollout": stage, "policy": stage.policy, "cluster.rollout": there}
    open_checkpoint(tmp_path / "step-00000003").restore(nodes)

    assert same(steps(there, stage.policy, 2, first=2)[0], plain[2:])


def test_a_new_phase_starts_with_its_own_rollouts():
    delayed = DelayedCollector(collector=collector(), staleness=1)
    there = remote(staleness=1)
    for stage, policy in ((delayed, delayed.collector.policy), (there, policy_of(there))):
        steps(stage, policy, 2)
        stage.begin_phase()

    assert same(
        steps(there, policy_of(there), 2, first=2)[0],
        steps(delayed, delayed.collector.policy, 2, first=2)[0],
    )


def test_rows_of_other_weights_than_asked_are_refused():
    there = remote(staleness=0)
    receive = there.cluster.receive
    there.cluster.receive = lambda *_: replace(receive(*_), version=4)

    with pytest.raises(FlowError, match=r"worker 0 answered with weights of version 4.* for 0"):
        there(prompts(0))


def test_an_error_of_a_stage_says_which_worker_it_comes_from():
    class Failing(Whole):
        def forward(self, batch):
            raise ConfigError("set a=1")

    with pytest.raises(ConfigError, match="set a=1") as told:
        remote(Failing(), staleness=0)(prompts(0))
    assert "on worker 0 of the cluster" in told.value.__notes__


def test_times_and_idleness_are_recorded(monkeypatch):
    # Made at 0; started at 10; weights from 11 to 11.5; waited from 12 to 15; looked at at 15.
    clock = iter([0.0, 10.0, 11.0, 11.5, 12.0, 15.0, 15.0])
    clocked = SimpleNamespace(perf_counter=lambda: next(clock))
    monkeypatch.setattr("rlcomp.run.remote.time", clocked)
    there = remote(staleness=0, workers=2)
    receive, seconds = there.cluster.receive, [2.0, 4.0]
    there.cluster.receive = lambda worker, _: replace(receive(worker, _), seconds=seconds[worker])

    with recording() as ledger:
        there(prompts(0))

    found = {name: v for name, v in ledger.means().items() if name.startswith("cluster/")}
    assert found == {
        "cluster/weights_seconds": 0.5,
        "cluster/waited": 3.0,
        "cluster/made": 4.0,
        # 2 + 4 of 2 x 5 s.
        "cluster/idle_fraction": pytest.approx(0.4),
        "cluster/restarts": 0.0,
    }


def test_a_part_with_a_state_is_refused_by_name():
    class Counting(Whole):
        def run_state(self):
            return {}

        def load_run_state(self, state):
            pass

    told = r"a Counting, a part of Counting, has a state .* cluster=none"
    with pytest.raises(ConfigError, match=told):
        remote(Counting(), staleness=0)


def test_remote_stages_stand_in_the_place_of_what_they_run_loops_included(tmp_path):
    first, second, other = Whole(), Whole(), Whole()
    loop = Refill(rows=4, stages=[other, first, second])
    phase = Phase(1, [loop], later={2: [first, second, other]})
    nodes = {"a": first, "b": second, "cluster": InProcessCluster(staleness=0)}

    place_remote({"rl": phase}, nodes, [("a", "b")], tmp_path)

    there = nodes["cluster.a"]
    assert [*there.stages] == [first, second]
    assert (there.path, there.directory) == ("a", Path(tmp_path))
    assert [*loop.stages] == [other, there]
    assert phase.later[2] == [there, other]
    assert phase.stages == [loop]


def test_without_a_cluster_phases_stay_as_they_are(tmp_path):
    stage = Whole()
    phase, nodes = Phase(1, [stage]), {"a": stage, "cluster": None}

    place_remote({"rl": phase}, nodes, [("a",)], tmp_path)

    assert phase.stages == [stage]
    assert set(nodes) == {"a", "cluster"}


def test_runs_of_stages_have_workers_of_their_own(tmp_path):
    first, second = Whole(), Whole()
    nodes = {"a": first, "b": second, "cluster": InProcessCluster(staleness=0)}

    place_remote({"rl": Phase(1, [first, second])}, nodes, [("a",), ("b",)], tmp_path)

    assert nodes["cluster.a"].cluster is nodes["cluster"]
    assert nodes["cluster.b"].cluster is nodes["cluster.b.workers"] is not nodes["cluster"]
    assert nodes["cluster.b"].cluster.staleness == 0


def test_a_phase_ends_its_workers_and_another_starts_them_again():
    there, ended = remote(staleness=1), []
    there.cluster.close = lambda: ended.append(len(there.queue))
    plain = remote(staleness=1)

    steps(there, policy_of(there), 3)
    there.finish_phase()
    steps(plain, policy_of(plain), 3)

    # What was under way is here, for a run that goes on with more steps.
    assert ended == [1]
    found = steps(there, policy_of(there), 2, first=3)[0]
    assert same(found, steps(plain, policy_of(plain), 2, first=3)[0])
