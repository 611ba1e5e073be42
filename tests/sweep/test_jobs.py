import subprocess
import sys

import pytest

from rlcomp.errors import CheckpointError, ConfigError
from rlcomp.sweep.jobs import (
    check_count,
    jobs_of_sweep,
    overrides_of,
    requested_overrides,
    swept_keys,
)


def sweep_of(folder, *task, **params):
    lines = "".join(f"\n      - '{text}'" for text in task)
    pairs = "".join(f"\n      {key}: '{value}'" for key, value in params.items())
    (folder / "multirun.yaml").write_text(
        "hydra:\n  sweeper:\n    _target_: hydra.BasicSweeper\n"
        f"    params:{pairs}\n  overrides:\n    task:{lines}\n"
    )
    return folder


def test_what_is_varied_is_what_has_several_values():
    assert swept_keys(["-m", "a=1,2", "+b=range(0,3)", "c=x", "d=[1,2]"]) == ["a", "b"]


def test_the_command_line_overrides_the_configs_own_sweep(tmp_path):
    folder = sweep_of(tmp_path, "a=1", seed="0,1", a="1,2")

    assert swept_keys(requested_overrides(folder)) == ["seed"]


def test_the_jobs_of_a_sweep_are_all_combinations(tmp_path):
    assert jobs_of_sweep(sweep_of(tmp_path, "a=1,2", "b=x", seed="0,1")) == [
        ["seed=0", "a=1", "b=x"],
        ["seed=0", "a=2", "b=x"],
        ["seed=1", "a=1", "b=x"],
        ["seed=1", "a=2", "b=x"],
    ]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("seed=range(0,1000000000)", "1,000,000,000"),
        ("seed=range(1,10002)", "10,001"),
        ("seed=range(0,30003,3)", "10,001"),
        ("lr=range(0,1,0.00001)", "100,000"),
        ("seed=range(20002,0,-2)", "10,001"),
    ],
)
def test_a_range_without_end_is_not_written_down(tmp_path, text, count):
    for read in (lambda: swept_keys(["-m", text]), lambda: jobs_of_sweep(sweep_of(tmp_path, text))):
        with pytest.raises(ConfigError) as told:
            read()
        assert str(told.value).startswith(f"{text}: the sweep has {count} jobs, more than 10,000: ")


def test_as_many_jobs_as_may_be_are_a_sweep(tmp_path):
    assert len(jobs_of_sweep(sweep_of(tmp_path, "a=range(0,5000)", "b=1,2", "c=3"))) == 10_000
    assert swept_keys(["a=range(0,10000)", "b=range(5,0)"]) == ["a", "b"]


def test_combinations_count_where_they_are_jobs(tmp_path):
    swept = ["a=range(0,5000)", "b=1,2,3"]

    with pytest.raises(ConfigError, match=r"a=range\(0,5000\): the sweep has 15,000 jobs"):
        jobs_of_sweep(sweep_of(tmp_path, *swept))
    # A search takes some of them.
    check_count([*overrides_of(swept).values()])


def test_a_sweep_s_own_file_does_not_unfold(tmp_path):
    lines = "a: &a [1]\n" + "".join(f"b{n}: &b{n} [*a]\n" for n in range(3))
    (tmp_path / "multirun.yaml").write_text(lines)

    with pytest.raises(CheckpointError, match=r"multirun\.yaml is not a config .* it has anchors"):
        requested_overrides(tmp_path)


def test_what_a_sweep_takes_away_belongs_to_every_job(tmp_path):
    # As Hydra writes it: a job's overrides.yaml holds ~b=null.
    assert jobs_of_sweep(sweep_of(tmp_path, "a=1,2", "~b")) == [
        ["a=1", "~b=null"],
        ["a=2", "~b=null"],
    ]


def test_an_override_that_speaks_of_another_key_stays_as_it_was_written(tmp_path):
    folder = sweep_of(tmp_path, "tasks=${hops}", "base=runs/${seed}", seed="0,1", of="${seed}")
    with (folder / "multirun.yaml").open("a") as file:
        file.write("hops: {one: 1}\nseed: 0\n")

    # As Hydra writes it into a job's overrides.yaml.
    spoken = [r"of=$\{seed\}", r"tasks=$\{hops\}", r"base=runs/$\{seed\}"]
    assert jobs_of_sweep(folder) == [["seed=0", *spoken], ["seed=1", *spoken]]


def test_what_is_taken_away_and_set_anew_is_both(tmp_path):
    assert list(overrides_of(["~b", "+b=1", "b=2"])) == ["~b", "b"]


@pytest.fixture
def globbed(tmp_path):
    """A sweep over all but one of three options of a group in a directory of the user's."""
    (tmp_path / "own" / "part" / "kind").mkdir(parents=True)
    for option in ("one", "two", "three"):
        (tmp_path / "own" / "part" / "kind" / f"{option}.yaml").write_text("size: 1\n")
    folder = sweep_of(tmp_path, "part/kind=glob(t*)", seed="0,1")
    with (folder / "multirun.yaml").open("a") as file:
        file.write(
            "  runtime:\n    config_sources:\n"
            f"    - {{path: {tmp_path / 'own'}, schema: file, provider: command-line}}\n"
        )
    return folder


def test_the_jobs_of_a_glob_are_the_options_there_are(globbed):
    assert jobs_of_sweep(globbed) == [
        ["seed=0", "part/kind=three"],
        ["seed=0", "part/kind=two"],
        ["seed=1", "part/kind=three"],
        ["seed=1", "part/kind=two"],
    ]


def test_a_glob_is_over_our_own_options_wherever_the_sweep_was_run(tmp_path):
    folder = sweep_of(tmp_path, "tracker=glob([n*,tensor*])")
    with (folder / "multirun.yaml").open("a") as file:
        file.write(
            "  runtime:\n    config_sources:\n"
            "    - {path: /elsewhere/conf, schema: file, provider: main}\n"
        )

    assert jobs_of_sweep(folder) == [["tracker=none"], ["tracker=tensorboard"]]


def test_jobs_that_only_the_sweeper_knows_are_not_made_up(tmp_path):
    assert jobs_of_sweep(sweep_of(tmp_path, "a=interval(0,1)", seed="0,1")) == []


def test_the_jobs_of_a_search_are_not_made_up(tmp_path):
    folder = sweep_of(tmp_path, "a=1,2")
    file = folder / "multirun.yaml"
    file.write_text(file.read_text().replace("BasicSweeper", "Search"))

    assert jobs_of_sweep(folder) == []


def test_without_a_sweep_there_are_no_overrides(tmp_path):
    assert requested_overrides(tmp_path) == []
    assert jobs_of_sweep(tmp_path) == []


def test_jobs_are_found_in_a_process_that_has_run_nothing(tmp_path):
    sweep_of(tmp_path, "recipe=grpo,ppo")
    program = (
        "from pathlib import Path; from rlcomp.sweep.jobs import jobs_of_sweep;"
        f"print(jobs_of_sweep(Path({str(tmp_path)!r})))"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.stdout.strip() == "[['recipe=grpo'], ['recipe=ppo']]", done.stderr


def test_of_a_record_only_directories_are_searched_for_options(tmp_path):
    """A package (pkg://) would be imported, and a record may be a stranger's."""
    from omegaconf import OmegaConf

    from rlcomp.sweep.jobs import _config_loader

    sources = [
        {"provider": "main", "schema": "file", "path": "/elsewhere"},
        {"provider": "x", "schema": "pkg", "path": "evil_package"},
        {"provider": "command-line", "schema": "file", "path": str(tmp_path)},
    ]
    loader = _config_loader(OmegaConf.create({"runtime": {"config_sources": sources}}))

    found = [each.path for each in loader.get_search_path().get_path()]
    assert found[0].endswith("/conf")
    assert found[1:] == [f"file://{tmp_path}"]
