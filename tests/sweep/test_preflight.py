"""What a later job of a sweep will be refused for is told before the first one is run."""

import pytest

from rlcomp.sweep.preflight import _remedies

pytestmark = pytest.mark.filterwarnings("always::rlcomp.errors.RlcompWarning")


@pytest.fixture
def told(monkeypatch, tmp_path, rlcomp, capsys):
    """What a sweep has told when its first job comes to run, and the jobs that were run."""
    from rlcomp.run import launch

    seen = []

    def note(config, *_):
        seen.append((config, capsys.readouterr().err))

    monkeypatch.setattr(launch, "launch", note)

    def run(*words):
        code = rlcomp("-m", *words, f"directory={tmp_path / 'all'}")
        return code, [config for config, _ in seen], seen[0][1] if seen else ""

    return run


def test_a_bad_value_of_a_later_job_is_a_warning_before_the_first_job(told):
    code, ran, before = told("rollout.group_size=8,4,1")

    assert code == 2
    assert [config.rollout.group_size for config in ran] == [8, 4]
    assert "job 2 (rollout.group_size=1) will be refused: rollout.group_size is 1" in before
    assert "the other jobs run" in before
    assert "without the refused values: rollout.group_size=8,4\n" in before


def test_each_fault_is_reported_once_with_its_first_job(told):
    _, _, before = told("advantage=group_mean,gae", "seed=0,1")

    assert before.count("will be refused") == 1
    assert "job 2 (advantage=gae seed=0) will be refused" in before


def test_a_sound_sweep_has_no_warning(told):
    code, ran, before = told("advantage=group_mean,leave_one_out")

    assert (code, len(ran)) == (0, 2)
    assert "refused" not in before


def test_a_sweep_without_a_fault_and_one_without_a_way_out_name_no_values():
    jobs = [["a=1", "b=1"], ["a=2", "b=1"]]

    assert _remedies(["a=2"], jobs, ["a", "b"]) == ["without the refused values: a=1"]
    assert _remedies([], jobs, ["a", "b"]) == []
    assert _remedies(["a=1", "a=2"], jobs, ["a"]) == []
