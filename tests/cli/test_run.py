"""The command line's own ways: what it answers itself, and whose tracker it closes."""

import pytest
from omegaconf import OmegaConf

from rlcomp import __version__
from rlcomp.cli import run as module
from rlcomp.cli.run import main
from rlcomp.files.shared_status import SharedStatus


@pytest.fixture
def answer(monkeypatch, capsys):
    """What the program says to words, and its exit code."""

    def ask(*words):
        monkeypatch.setattr("sys.argv", ["rlcomp", *words])
        code = 0
        try:
            main(apart=False)
        except SystemExit as ended:
            code = ended.code or 0
        told = capsys.readouterr()
        return code, told.out + told.err

    return ask


def test_the_version_is_told_wherever_it_is_asked_for(answer):
    for words in (("--version",), ("seed=1", "--version")):
        assert answer(*words) == (0, f"rlcomp {__version__}\n")


def test_a_group_is_told_about_where_it_is_asked_for(answer):
    code, told = answer("help", "advantage")
    assert code == 0
    assert "group_mean_std" in told


@pytest.mark.parametrize(
    "words",
    [
        ("--resolve",),
        ("--package", "x", "seed=1"),
        ("-m", "seed=1,2", "--cfg", "job"),
        ("--experimental-rerun", "x"),
    ],
)
def test_options_that_need_or_exclude_another_are_refused(answer, words):
    code, told = answer(*words)

    assert code != 0
    name = next(word for word in words if word.startswith("--"))
    assert name in told


def test_a_setting_that_is_not_there_is_refused(answer):
    code, told = answer("no_such_setting=1")

    assert code != 0
    assert "no_such_setting" in told


class Tracker:
    """One whose end is written down."""

    ended = []

    def outlive(settings):
        import contextlib

        @contextlib.contextmanager
        def context():
            yield lambda error: Tracker.ended.append((settings, str(error)))

        return context()


def test_the_tracker_of_a_run_that_dies_is_closed_by_the_process_that_leads(monkeypatch):
    config = OmegaConf.create(
        {
            "name": "mine",
            "tracker": {"_target_": f"{__name__}.Tracker", "project": "${name}"},
        }
    )
    monkeypatch.setattr(module, "get_object", lambda path: {f"{__name__}.Tracker": Tracker}[path])
    Tracker.ended.clear()

    def dies(settings):
        with (
            pytest.raises(ValueError, match="boom"),
            module._tracker_closed(settings, SharedStatus()),
        ):
            raise ValueError("boom")

    for leads, settings, ended in (
        (True, config, [({"project": "mine"}, "boom")]),
        (False, config, []),
        (True, OmegaConf.create({"tracker": None}), []),
        (True, OmegaConf.create({}), []),
    ):
        monkeypatch.setattr(module, "is_first_rank", lambda leads=leads: leads)
        dies(settings)
        assert Tracker.ended == ended
        Tracker.ended.clear()


@pytest.mark.parametrize("leads", [True, False])
def test_a_job_runs_and_whoever_leads_sums_it_up(monkeypatch, tmp_path, capsys, leads):
    from rlcomp.report import summary
    from rlcomp.run import launch

    config, watch, launched = OmegaConf.create({"directory": str(tmp_path)}), SharedStatus(), []
    monkeypatch.setattr(launch, "launch", lambda *words: launched.append(words[:3]))
    monkeypatch.setattr(summary, "summarise", lambda directory: f"sum of {directory}")
    monkeypatch.setattr(module, "is_first_rank", lambda: leads)
    plan = object()

    module._launch_and_summarise(config, plan, watch)

    assert launched == [(config, plan, watch)]
    assert capsys.readouterr().out == (f"sum of {tmp_path}\n" if leads else "")


@pytest.mark.parametrize("watched", [True, False])
def test_a_run_that_is_watched_has_a_process_of_its_own(monkeypatch, tmp_path, watched):
    called = []
    monkeypatch.setattr(module, "run_in_child", lambda job, watch: called.append("child"))
    monkeypatch.setattr(module, "_launch_and_summarise", lambda *words: called.append("here"))
    monkeypatch.setattr(module, "_set_tracker_labels", lambda config: None)

    class App:
        class job:
            env_set = {}

        class runtime:
            output_dir = str(tmp_path)

        mode = None
        overrides = OmegaConf.create({"task": [], "hydra": []})

    monkeypatch.setattr(module.HydraConfig, "get", staticmethod(lambda: App))
    for name in ("plan_of", "check_rank_settings"):
        monkeypatch.setattr(module, name, lambda *words, **settings: None)
    monkeypatch.setattr(module, "chosen_options", dict)

    module.run_job(
        OmegaConf.create({"directory": "x"}), SharedStatus(supervised=watched), preload=False
    )

    assert called == (["child"] if watched else ["here"])
