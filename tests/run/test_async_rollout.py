"""Schedule ``free`` with workers in this process: which rows, of which weights, how old."""

import time
from dataclasses import replace

import pytest
import torch

from components.collector.delay import DelayedCollector
from components.collector.group import GreedyBaselineCollector, GroupCollector
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.checkpoint.writer import Checkpoint
from rlcomp.errors import CheckpointError, ConfigError, ProcessEnded
from rlcomp.interfaces.cluster import AsyncSettings, PromptRange
from rlcomp.metrics import recording
from rlcomp.run.async_rollout import FreeStages, mark_too_old
from rlcomp.run.phase import Phase
from rlcomp.run.place_remote import place_remote
from rlcomp.run.remote import RemoteStages
from rlcomp.testing import make_batch, tiny_policy
from rlcomp.testing.cluster import InProcessCluster

PLACE = {"phase": 0, "step": 3, "total": 3, "trackers": {}}


def collector(most=5):
    torch.manual_seed(1)
    return GroupCollector(policy=tiny_policy(scale=4.0), group_size=3, max_new_tokens=most)


def free(stage=None, **settings):
    free_of = {
        name: settings.pop(name) for name in ("seats", "max_age", "patience") if name in settings
    }
    free_of["look_every"] = settings.pop("look_every", 2)
    cluster = InProcessCluster(schedule="free", free=AsyncSettings(**free_of), **settings)
    return FreeStages(stages=[collector() if stage is None else stage], cluster=cluster)


def prompts(number, count=4):
    texts = [f"{number}+{n}=" for n in range(count)]
    return make_batch(prompt=encode_texts(texts))


def learn(policy, number):
    with torch.no_grad():
        for each in policy.model.parameters():
            each.add_(
                0.3 * torch.randn(each.shape, generator=torch.Generator().manual_seed(number))
            )
    policy.updated()


def steps(stage, count=4, first=0):
    rows, metrics, policy = [], [], stage.stages[0].policy
    for number in range(first, first + count):
        with recording(progress=number / 10, step=number) as ledger, torch.no_grad():
            rows.append(stage(prompts(number)))
        metrics.append(ledger.means())
        learn(policy, number)
    return rows, metrics


def names(rows):
    return [decode_texts(each["prompt"])[::3] for each in rows]


@pytest.mark.parametrize(
    "settings", [{}, {"seats": 4}, {"workers": 2}, {"look_every": 1, "seats": 5}]
)
def test_without_staleness_the_rows_are_those_of_schedule_fixed(settings):
    fixed = RemoteStages(stages=[collector()], cluster=InProcessCluster(staleness=0))

    expected, recorded = steps(fixed)
    found, metrics = steps(free(staleness=0, **settings))

    for mine, other in zip(found, expected, strict=True):
        assert set(mine.keys()) - set(other.keys()) == {"too_old"}
        exact = [key for key in other.keys() if key != "rollout_log_probs"]
        assert all(torch.equal(mine[key], other[key]) for key in exact)
        assert torch.allclose(mine["rollout_log_probs"], other["rollout_log_probs"], atol=1e-5)
    for mine, other in zip(metrics, recorded, strict=True):
        for name in ("rollout/length", "rollout/truncated", "rollout/tokens"):
            assert mine[name] == pytest.approx(other[name])
        assert mine["rollout/staleness"] == mine["rollout/too_old"] == 0.0
        assert mine["rollout/versions"] == 1.0
        assert mine["cluster/restarts"] == 0.0
        assert mine["cluster/made"] > 0


def test_prompts_are_those_of_the_first_call_so_many_times_more_and_none_is_lost_or_doubled():
    stage = free(staleness=2, seats=12, look_every=5)

    found = names(steps(stage, 5)[0])

    own = [[f"{number}+{n}=" for n in range(4)] for number in range(5)]
    assert found == [own[0], own[0], own[0], own[1], own[2]]
    asked = [(number, part.first) for _, number, part in stage.cluster.asked]
    assert asked == [(number, place) for number in range(7) for place in range(4)]
    assert stage.admission.started == stage.admission.allowed == 7 * 12


def test_what_the_rule_does_not_admit_waits():
    stage = free(staleness=1, workers=2)
    stage(prompts(0))
    stage.admission.started += 3  # rows

    stage(prompts(1))

    parts = [part for _, number, part in stage.cluster.asked if number == 2]
    assert parts == [PromptRange(0, 1, 4), PromptRange(1, 1, 4), PromptRange(2, 1, 4)]
    assert [name for name, _ in stage.pool.waiting] == [(2, 3)]


def test_a_call_begins_no_more_than_the_rule_admits():
    stage = free(staleness=1)

    for number in range(3):
        with torch.no_grad():
            stage(prompts(number))
        assert len(stage.cluster.asked) == (number + 1 + 1) * 4
        learn(stage.stages[0].policy, number)


def test_new_weights_are_taken_between_decode_steps_and_told_of_every_token():
    # One worker with 12 seats. At the first call turns of 2 tokens complete the 4 groups of 6
    # tokens that are consumed; the others then begin, and go on with the next weights.
    stage = free(collector(most=6), staleness=1, seats=14)

    rows, metrics = steps(stage, 3)

    ages = [each["rollout/staleness"] for each in metrics]
    assert ages[0] == 0
    assert 0 < ages[1] < 1
    tokens = zip(rows[1]["policy_version"], rows[1]["response_mask"], strict=True)
    mixed = [set(version[mask].tolist()) for version, mask in tokens]
    assert {0, 1} in mixed
    assert metrics[1]["rollout/versions"] == pytest.approx(sum(map(len, mixed)) / len(mixed))


def batch(versions, mask):
    mask = torch.tensor(mask, dtype=torch.bool)
    return make_batch(policy_version=versions, response_mask=mask)


def test_tokens_that_are_older_than_the_most_are_told_by_hand():
    rows = batch([[0, 3, 4, 5], [0, 5, 5, 0]], [[0, 1, 1, 1], [0, 1, 1, 0]])

    with recording() as ledger:
        found = mark_too_old(rows, 6, 2)

    assert found["too_old"].tolist() == [[False, True, False, False], [False] * 4]
    # 1 of 5 response tokens; rows of 3 versions and of one.
    assert ledger.means() == {"rollout/too_old": 0.2, "rollout/versions": 2.0}


def test_the_most_is_the_staleness_unless_it_is_given():
    assert free(staleness=3).max_age == 3
    assert free(staleness=3, max_age=0).max_age == 0
    assert free(DelayedCollector(collector=collector(), staleness=2)).max_age == 2
    assert free().staleness == 1


def test_a_lost_worker_is_started_again_and_its_groups_are_begun_anew():
    whole, lost = free(staleness=0, seats=6), free(staleness=0, seats=6, lost=[2, 9])

    expected, _ = steps(whole, 3)
    found, metrics = steps(lost, 3)

    assert names(found) == names(expected)
    assert all(torch.equal(a["tokens"], b["tokens"]) for a, b in zip(found, expected, strict=True))
    assert lost.cluster.restarted == [0, 0]
    assert sum(each["cluster/restarts"] for each in metrics) == 2.0


def test_after_so_many_lost_workers_the_run_ends_and_keeps_the_request(tmp_path):
    stage = free(staleness=0, lost=[1, 2], restarts=1)
    stage.directory = tmp_path

    with pytest.raises(ProcessEnded, match=r"worker 0 died, over request 0, which is kept in"):
        stage(prompts(0))
    assert (tmp_path / "request-00000000.safetensors").exists()


def test_an_error_says_on_which_worker_it_was(monkeypatch):
    def broken(worker, silent):
        raise ValueError("x is 3")

    stage = free(staleness=0, workers=2)
    monkeypatch.setattr(stage.cluster, "poll", broken)

    with pytest.raises(ValueError, match="x is 3") as told:
        stage(prompts(0))
    assert told.value.__notes__ == ["on worker 0 of the cluster"]


def test_a_worker_is_silent_since_it_was_asked_or_replied(monkeypatch):
    clock, told = [100.0], []
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    stage = free(staleness=1, seats=3, look_every=5)
    poll = stage.cluster.poll

    def later(worker, silent):
        told.append(silent)
        clock[0] += 7
        return poll(worker, silent)

    monkeypatch.setattr(stage.cluster, "poll", later)
    for number in range(2):
        stage(prompts(number))

    # Each look takes 7 s. Every turn completes a group, and then it is silent for 0 s.
    assert told[:4] == [0.0] * 4


def test_times_are_recorded(monkeypatch):
    stage = free(staleness=0, workers=2, look_every=5)
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    publish, poll = stage.cluster.publish, stage.cluster.poll

    def published(weights):
        clock[0] += 0.25
        return publish(weights)

    def polled(worker, silent):
        clock[0] += 1.0
        reply = poll(worker, silent)
        return None if reply is None else replace(reply, seconds=3.0)

    monkeypatch.setattr(stage.cluster, "publish", published)
    monkeypatch.setattr(stage.cluster, "poll", polled)
    with recording() as ledger:
        stage(prompts(0))

    # 4 groups of 3 s, made by 2 workers; 4 looks of a second each find one, none is in vain.
    found = ledger.means()
    assert found["cluster/weights_seconds"] == 0.25
    assert found["cluster/made"] == 4 * 3.0 / 2
    assert found["cluster/waited"] == 4.0
    # Between the start (0) and the end of the step (4.25 s) two workers were busy for 12 s.
    assert found["cluster/idle_fraction"] == 0.0


def test_idle_workers_are_told(monkeypatch):
    stage = free(staleness=0, workers=2, look_every=5)
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    poll = stage.cluster.poll

    def polled(worker, silent):
        clock[0] += 5.0
        reply = poll(worker, silent)
        return None if reply is None else replace(reply, seconds=3.0)

    monkeypatch.setattr(stage.cluster, "poll", polled)
    with recording() as ledger:
        stage(prompts(0))

    # 4 groups of 3 s in 20 s of two workers: 12 of 40 s.
    assert ledger.means()["cluster/idle_fraction"] == pytest.approx(1 - 12 / 40)


def test_groups_that_wait_are_in_the_checkpoint_and_the_others_are_asked_for_again(tmp_path):
    first, again = free(staleness=1, seats=7), free(staleness=1, seats=7)
    whole, _ = steps(first, 3)
    done = len(first.pool.done)
    left = first.pool.unfinished()
    assert done + len(left) == 4
    assert left

    def nodes(stage):
        return {
            "rollout": stage.stages[0],
            "policy": stage.stages[0].policy,
            "cluster.rollout.free": stage,
        }

    Checkpoint(directory=str(tmp_path), keep=1).save(nodes(first), PLACE)
    open_checkpoint(tmp_path / "step-00000003").restore(nodes(again))

    assert list(again.pool.done) == list(first.pool.done)
    assert [name for name, _ in again.pool.waiting] == [name for name, _ in left]
    request, other = again.pool.waiting[0][1], left[0][1]
    assert (request.seeds, request.part) == (other.seeds, other.part)
    assert torch.equal(request.batch["prompt"], other.batch["prompt"])
    assert again.number == first.number
    found = names(steps(again, 2, 3)[0])
    # The prompts of steps 2 and 3: what was not done is begun anew, none is lost or doubled.
    assert sorted([*found[0], *found[1]]) == sorted(
        f"{number}+{n}=" for number in (2, 3) for n in range(4)
    )
    assert len(whole) == 3


def test_a_state_that_cannot_be_is_refused():
    stage = free(staleness=1)
    steps(stage, 1)
    state = stage.run_state()

    with pytest.raises(CheckpointError, match=r"'asked' holds 12 rows, and 'allowed' is 11"):
        free(staleness=1).load_run_state({**state, "done": [], "allowed": 11})
    again = free(staleness=1)
    again.load_run_state({**state, "done": [], "allowed": 12})
    assert again.admission.started == 0


BROKEN = {
    "three numbers": ({"part": [0, 1]}, r"'part' is \[0, 1\]: must be 3 numbers"),
    "before the first": ({"part": [-1, 1, 4]}, "must be one prompt of a batch of at most"),
    "behind the last": ({"part": [4, 1, 4]}, "must be one prompt of a batch of at most"),
    "two prompts": ({"part": [0, 2, 4]}, "must be one prompt of a batch of at most"),
    "more than were allowed": ({"part": [0, 1, 10**9]}, "must be one prompt of a batch of at most"),
    "no seed": ({"seeds": []}, "a request has 1 prompts and 0 seeds: must be 1 and 1"),
    "no prompt": (
        {"batch": {"prompt": encode_texts(["1+1=", "2+2="])}},
        "a request has 2 prompts and 1 seeds: must be 1 and 1",
    ),
    "another one's place": ({"part": [1, 1, 4]}, "'asked' and 'done' hold a group twice"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_requests_that_no_run_has_left_are_refused(name):
    change, told = BROKEN[name]
    stage = free(staleness=1)
    steps(stage, 1)
    state = stage.run_state()
    first, *others = state["asked"]
    assert (first["part"], others[0]["part"]) == ([0, 1, 4], [1, 1, 4])

    with pytest.raises(CheckpointError, match=told):
        free(staleness=1).load_run_state({**state, "asked": [first | change, *others]})


def test_a_phase_begins_and_ends_without_groups():
    stage = free(staleness=1)
    steps(stage, 2)

    stage.finish_phase()
    assert (len(stage.pool.done), stage.pool.unfinished()) == (0, [])
    assert stage.admission.allowed == 0
    steps(stage, 1)
    stage.begin_phase()
    assert stage.admission.allowed == stage.admission.started == 0
    assert stage.settle() is None


@pytest.mark.parametrize(
    ("stages", "told"),
    [
        (lambda: [collector(), torch.nn.Identity()], "only the collector runs on workers"),
        (
            lambda: [GreedyBaselineCollector(policy=tiny_policy(), group_size=2, max_new_tokens=3)],
            "GreedyBaselineCollector does not refill decode slots: set cluster.schedule=fixed",
        ),
    ],
)
def test_what_cannot_be_refilled_is_refused(stages, told):
    with pytest.raises(ConfigError, match=told):
        FreeStages(stages=stages(), cluster=InProcessCluster(schedule="free"))


def test_the_schedule_says_what_stands_in_the_place_of_the_collector(tmp_path):
    stage = collector()
    nodes = {"cluster": InProcessCluster(schedule="free"), "rollout": stage}
    phase = Phase(1, [stage])

    place_remote({"rl": phase}, nodes, [("rollout",)], tmp_path)

    assert type(phase.stages[0]) is FreeStages
    assert phase.stages[0] is nodes["cluster.rollout.free"]
    assert (phase.stages[0].path, phase.stages[0].directory) == ("rollout", tmp_path)
