import pytest
import torch

from components.collector.delay import DelayedCollector
from rlcomp.batch import decode_texts, keep_prompt
from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.checkpoint.writer import Checkpoint
from rlcomp.component import Component
from rlcomp.errors import CheckpointError, FlowError
from rlcomp.metrics import record, recording
from rlcomp.run.check_flow import built_flow
from rlcomp.testing import check_component, make_batch


class Counting(Component):
    """Rollouts that say which one they are."""

    writes = ("tokens", "attention_mask", "response_mask", "policy_version", "rewards")
    fresh = True

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.version = 0

    def forward(self, batch):
        self.calls += 1
        tokens = torch.full((2, 3), self.calls)
        mask = torch.tensor([[False, True, True], [False, True, False]])
        return make_batch(
            tokens=tokens,
            attention_mask=torch.ones(2, 3, dtype=torch.bool),
            response_mask=mask,
            policy_version=mask * self.version,
            rewards={"right": torch.full((2,), float(self.calls))},
        )

    def run_state(self):
        return {"calls": self.calls}

    def load_run_state(self, state):
        self.calls = state["calls"]


def delayed(staleness):
    return DelayedCollector(collector=Counting(), staleness=staleness)


def handed_out(collector, steps):
    return [int(collector()["tokens"][0, 0]) for _ in range(steps)]


def test_a_rollout_is_handed_out_some_steps_after_it_was_made():
    collector = delayed(2)

    # The first call rolls out three times; no rollout is handed out twice.
    assert handed_out(collector, 5) == [1, 2, 3, 4, 5]
    assert collector.collector.calls == 7


def test_the_staleness_is_recorded():
    collector, found = delayed(2), []
    for step in range(5):
        collector.collector.version = step
        with recording() as ledger:
            collector()
        found.append(ledger.means()["rollout/staleness"])

    # The three rollouts of the first call are of version 0, then one of each version.
    assert found == [0.0, 1.0, 2.0, 2.0, 2.0]


def test_what_later_stages_write_does_not_reach_a_rollout_that_waits():
    collector = delayed(1)

    collector()["reward"] = torch.ones(2)

    assert "reward" not in collector().keys()


def test_a_new_phase_starts_with_its_own_rollouts():
    collector = delayed(1)
    handed_out(collector, 3)

    collector.begin_phase()

    # Three steps made four rollouts.
    assert handed_out(collector, 2) == [5, 6]


def test_rollouts_that_wait_survive_a_checkpoint(tmp_path):
    before, after = delayed(2), delayed(2)
    handed_out(before, 3)

    Checkpoint(directory=str(tmp_path), keep=1).save(
        {"rollout": before}, {"phase": 0, "step": 3, "total": 3, "trackers": {}}
    )
    open_checkpoint(tmp_path / "step-00000003").restore({"rollout": after})

    expected, got = before(), after()
    assert got.batch_size == expected.batch_size
    assert got["tokens"].tolist() == expected["tokens"].tolist() == [[4] * 3] * 2
    assert got["rewards", "right"].tolist() == [4.0, 4.0]
    assert handed_out(after, 2) == handed_out(before, 2)


class Recording(Counting):
    """Records which rollout it is."""

    def forward(self, batch):
        rows = super().forward(batch)
        record("rollout/number", float(self.calls))
        return rows


def recorded(collector):
    with recording() as ledger:
        collector()
    return ledger.means().get("rollout/number")


@pytest.mark.parametrize("kept", [True, False])
def test_what_was_recorded_of_a_rollout_that_waits_survives_where_it_was_saved(kept):
    before, after = (DelayedCollector(collector=Recording(), staleness=2) for _ in range(2))
    assert [recorded(before) for _ in range(3)] == [1.0, 2.0, 3.0]
    state = before.run_state()
    if not kept:  # of a version that saved the rollouts alone
        del state["recorded"]

    after.load_run_state(state)

    assert [recorded(after) for _ in range(3)] == ([4.0, 5.0] if kept else [None, None]) + [1.0]


@pytest.mark.parametrize("count", [1, 3])
def test_other_numbers_of_rollouts_and_records_are_refused(count):
    collector = DelayedCollector(collector=Recording(), staleness=2)
    collector()
    state = collector.run_state()
    state["recorded"] = (2 * state["recorded"])[:count]

    with pytest.raises(CheckpointError, match=f"{count} entries, but 'queue' has 2"):
        collector.load_run_state(state)


def test_a_restored_queue_replaces_what_was_waiting():
    before, after = delayed(2), delayed(2)
    handed_out(before, 3)
    handed_out(after, 1)

    after.load_run_state(before.run_state())

    # The rollouts 4 and 5 wait; after's own 2 and 3 are gone, and its next one is its fourth.
    assert handed_out(after, 3) == [4, 5, 4]


def test_it_keeps_the_contract_of_components():
    check_component(delayed(1))


def test_what_belongs_to_the_prompt_waits_with_its_rollout():
    class Answering(Component):
        reads = ("prompt",)
        writes = ("prompt", "tokens", "attention_mask", "response_mask", "policy_version")
        fresh = True
        keeps_prompt = True

        def forward(self, batch):
            made = Counting()(batch).exclude("rewards")
            return keep_prompt(made, batch, torch.arange(2))

    collector = DelayedCollector(collector=Answering(), staleness=1)

    def asked(number):
        columns = make_batch(tests=[str(number)] * 2)
        return make_batch(prompt=["a", "b"], columns=columns)

    handed = [decode_texts(collector(asked(n))["columns", "tests"])[0] for n in range(3)]

    # The queue is filled with the first prompts; then each waits a step.
    assert handed == ["0", "0", "1"]
    assert "columns" in built_flow(collector).carries


def test_a_policy_that_lost_its_version_is_told():
    collector = delayed(1)
    collector.collector.version = 5
    collector()
    collector.collector.version = 0  # continued without its count

    with pytest.raises(FlowError, match="the policy lost its version when the run was continued"):
        collector()


def test_one_token_of_newer_weights_is_enough_to_be_told():
    collector = delayed(1)
    collector()
    waiting = collector.queue[0].rows
    waiting["policy_version"] = torch.tensor([[0, 0, 0], [0, 7, 0]])

    with pytest.raises(FlowError, match="of newer weights than the policy's"):
        collector()
