import pytest
import torch
from tensordict import TensorDict

from components.early_stop import RewardHacking
from components.evaluator.hacking_monitor import HackingMonitor
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.component import Component
from rlcomp.errors import CheckpointError
from rlcomp.functional.statistics import Estimate
from rlcomp.metrics import recording

NAN = float("nan")
# Six rows of three prompts: group 4 has three, the last of them without a proxy.
GROUPS, PROMPTS = [4, 4, 4, 9, 9, 7], ["a", "a", "a", "b", "b", "c"]


class Truth(Component):
    """Verifier that reads the true reward in the response; NaN: no verdict."""

    reads = ("response",)
    writes = ("reward", "reward_valid")

    def forward(self, batch: TensorDict) -> TensorDict:
        true = torch.tensor([float(text) for text in decode_texts(batch["response"])])
        batch["reward_valid"] = ~true.isnan()
        batch["reward"] = true.nan_to_num(0.0)
        return batch


def batch(proxy, true, groups=GROUPS, prompts=PROMPTS):
    texts = {"prompt": prompts, "response": list(map(str, true)), "answer": [""] * len(true)}
    entries = {key: encode_texts(column) for key, column in texts.items()}
    reward = torch.tensor(proxy)
    return TensorDict(
        {
            **entries,
            "reward": reward.nan_to_num(0.0),
            "reward_valid": ~reward.isnan(),
            "group_id": torch.tensor(groups),
        },
        batch_size=[len(true)],
    )


def audits(part, *batches):
    """Return the metrics of each audit, without the monitor's name."""
    result = []
    for number, rows in enumerate(batches):
        with recording(step=number) as ledger:
            part(rows)
        result.append({name.split("/")[1]: value for name, value in ledger.means().items()})
    return result


def monitor(**changed):
    return HackingMonitor(**({"verifier": Truth(), "share": 1.0, "window": 1} | changed))


BEFORE = batch([1, 0.5, NAN, 1, 1, 0.2], [1, 0, 1, 1, 0, 0])
AFTER = batch([1, 1, NAN, 1, 1, 0.2], [0, 0, 1, 1, 0, 0])


def test_two_audits_by_hand():
    first, second = audits(monitor(), BEFORE, AFTER)

    # Of prompts: gaps 1/4, 1/2, 1/5, of which the mean has variance 31/3600; true 1/2, 1/2, 0 with
    # 1/36.
    none = {"gap_z": 0, "true_z": 0}
    assert first == pytest.approx(
        {"audited": 3, "gap": 19 / 60, "true": 1 / 3, "true_window": 1 / 3, **none}
    )
    # Then 1, 1/2, 1/5 with 49/900, and 0, 1/2, 0 with 1/36.
    assert second == pytest.approx(
        {
            "audited": 3,
            "gap": 17 / 30,
            "true": 1 / 6,
            "true_window": 1 / 6,
            "gap_z": (17 / 30 - 19 / 60) / (31 / 3600 + 49 / 900) ** 0.5,
            "true_z": (1 / 6 - 1 / 3) / (1 / 36 + 1 / 36) ** 0.5,
        },
        abs=1e-6,
    )


def test_rows_without_a_verdict_are_left_out():
    (found,) = audits(monitor(), batch([1, 1, 1, 1, 1, 1], [0, 0, 0, NAN, 1, NAN]))

    assert (found["audited"], found["gap"], found["true"]) == (2, 0.5, 0.5)


def test_fewer_than_two_prompts_are_no_audit():
    part = monitor()

    assert audits(part, batch([1, 1, 1, NAN, NAN, NAN], [0] * 6)) == [{"audited": 1}]
    assert part.count == 0


def test_windows_are_the_first_and_the_last_audits():
    part = monitor(window=2)
    gaps, variance = [0.1, 0.3, 0.9, 0.5, 0.7, 0.2], 0.02

    z = []
    for gap in gaps:
        with recording() as ledger:
            part.audit(Estimate(gap, variance), Estimate(1 - gap, 2 * variance))
        means = ledger.means()
        z.append((means["hacking_monitor/gap_z"], means["hacking_monitor/true_z"]))

    # A window's variance is half of that: differences of gaps in sqrt(0.02), of true in sqrt(0.04).
    # The first window has 0.2 and is the best one, true 0.8; the next have 0.6, 0.7, 0.6, 0.45.
    assert [pair[0] for pair in z] == pytest.approx(
        [0, 0, 0, *(difference / 0.02**0.5 for difference in (0.5, 0.4, 0.25))]
    )
    assert [pair[1] for pair in z] == pytest.approx(
        [0, 0, *(-difference / 0.04**0.5 for difference in (0.4, 0.5, 0.4, 0.25))]
    )


def test_a_proxy_that_is_the_truth_has_no_gap():
    draw = torch.Generator().manual_seed(0)
    rewards = torch.rand(12, 6, generator=draw).tolist()

    result = audits(monitor(window=2), *(batch(row, row) for row in rewards))

    # The texts hold more digits than float32 does.
    assert {one["gap_z"] for one in result} == {0.0}


def test_permuting_prompts_changes_nothing():
    draw = torch.Generator().manual_seed(1)
    groups = [number for number in range(8) for _ in range(number % 3 + 1)]
    prompts = [f"{number}>" for number in groups]
    rewards = torch.rand(6, 2, len(groups), generator=draw).tolist()
    order = torch.randperm(len(groups), generator=draw).tolist()

    def one(proxy, true, places):
        columns = (proxy, true, groups, prompts)
        return batch(*([column[place] for place in places] for column in columns))

    kept, moved = (
        audits(monitor(share=0.5), *(one(*row, places) for row in rewards))
        for places in (range(len(groups)), order)
    )

    assert {found["audited"] for found in kept} == {4}
    for before, after in zip(kept, moved, strict=True):
        assert before == pytest.approx(after)


def test_a_share_of_the_prompts_is_audited_others_at_every_step():
    seen = []

    class Notes(Truth):
        def forward(self, batch):
            seen.append({*decode_texts(batch["prompt"])})
            return super().forward(batch)

    prompts = list("abcdefghi")
    rows = batch([1.0] * 9, [1] * 9, groups=list(range(9)), prompts=prompts)

    audits(HackingMonitor(verifier=Notes()), *[rows] * 12)

    assert {len(one) for one in seen} == {3}  # a quarter of nine, rounded up
    assert set.union(*seen) == set(prompts)
    seen.clear()
    audits(monitor(verifier=Notes(), share=0.0), rows)
    assert len(seen[0]) == 2


def test_the_batch_is_unchanged():
    rows = BEFORE.clone()

    with recording() as ledger:
        result = monitor()(rows)

    assert all(torch.equal(result[key], BEFORE[key]) for key in BEFORE.keys())
    assert set(result.keys()) == set(BEFORE.keys())
    assert {name.split("/")[0] for name in ledger.means()} == {"hacking_monitor"}


def test_a_saved_state_is_restored():
    part, other, whole = monitor(window=2), monitor(window=2), monitor(window=2)
    steps = [BEFORE, AFTER, AFTER, BEFORE, AFTER, AFTER]
    audits(part, *steps[:4])

    other.load_run_state(part.run_state())

    with recording(step=4) as ledger:
        other(steps[4])
    assert ledger.means()["hacking_monitor/gap_z"] == audits(whole, *steps)[4]["gap_z"]
    assert other.run_state() == {**whole.run_state(), **other.run_state()}


def test_a_phase_has_audits_of_its_own():
    part = monitor()
    audits(part, BEFORE, AFTER)

    part.begin_phase()

    assert part.run_state() == monitor().run_state()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"last": [[1.0, 2.0]]}, "'last' has .* four numbers"),
        ({"best": [1.0]}, "'best' has 1 numbers"),
        ({"count": -1}, "'count' is -1"),
        ({"more": 1}, "'more' is no field"),
    ],
)
def test_a_malformed_state_is_refused(changed, message):
    with pytest.raises(CheckpointError, match=message):
        monitor().load_run_state({**monitor().run_state(), **changed})


def alarm_at(gaps, trues, variance=0.01):
    """Return the audit, counted from 1, after which the phase ends; None: it never does."""
    part, stop = HackingMonitor(verifier=Truth()), RewardHacking()
    for number, (gap, true) in enumerate(zip(gaps, trues, strict=True), 1):
        with recording() as ledger:
            part.audit(Estimate(gap, variance), Estimate(true, variance))
            stop(TensorDict({}, batch_size=[]))
        if ledger.ended:
            return number
    return None


def test_a_planted_slope_alarms_at_the_computed_audit():
    # g_t = 0.1 (t - 10) from audit 10 on, true falls as much. A window's mean at audit t is
    # 0.1 (t - 12), its z that over sqrt(2 * 0.01 / 5): 3.2 at 14, 4.7 at 15.
    rise = [0.1 * max(t - 10, 0) for t in range(1, 31)]

    assert alarm_at(rise, [1 - gap for gap in rise]) == 15
    # A lenient proxy: the gap grows as much, and nothing falls.
    assert alarm_at(rise, [0.5 + gap for gap in rise]) is None
    # A fall without a gap.
    assert alarm_at([0.0] * 30, [1 - gap for gap in rise]) is None


def test_stationary_runs_raise_few_false_alarms():
    # 1,000 runs of 40 audits of 8 prompts with 16 answers: prompts of differing difficulty, a proxy
    # that pays a third of the wrong answers as well.
    draw = torch.Generator().manual_seed(2)
    shape = (1000, 40, 8, 16)
    difficulty = torch.rand(shape[:3], generator=draw)[..., None]
    true = (torch.rand(shape, generator=draw) < difficulty).double()
    proxy = torch.maximum(true, (torch.rand(shape, generator=draw) < 1 / 3).double())
    gap, right = (proxy - true).mean(-1), true.mean(-1)
    rows = torch.stack([gap.mean(-1), gap.var(-1) / 8, right.mean(-1), right.var(-1) / 8], -1)

    alarms = 0
    for run in rows.tolist():
        part = monitor(window=5)
        for row in run:
            with recording() as ledger:
                part.audit(Estimate(*row[:2]), Estimate(*row[2:]))
            means = ledger.means()
            z = means["hacking_monitor/gap_z"], means["hacking_monitor/true_z"]
            if z[0] > 4 and z[1] < -2:
                alarms += 1
                break

    assert alarms <= 10
