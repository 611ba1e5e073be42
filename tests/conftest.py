"""Fixtures of all tests: one thread, a hypothesis profile, public data, short runs."""

import copy
import functools
import gc
import hashlib
import json
import os
import pickle
import runpy
import shutil
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
# Nothing of what is imported becomes garbage: a sixth of the suite's time went into looking for it.
gc.set_threshold(50_000, 20, 100)

# No deadline: a busy machine is not a bug. No database: a run leaves nothing behind. Fewer than the
# usual number of examples, so that the tests take a few minutes on two cores.
settings.register_profile("rlcomp", deadline=None, database=None, max_examples=40)
settings.load_profile("rlcomp")


# How the reason begins for which CI may leave a test out, and why. Any other skip, and any xfail,
# fails there.
ALLOWED_SKIPS = {
    "needs a GPU": "the machines of CI have none",
    "this processor has no AMX unit": "not every machine of CI has one",
    "no public data sets": "they are no part of the repository, and may not be beside it",
    "no huge pages": "a system may have none, and then nothing is asked of them",
    "no sandbox of tier": "a container may forbid namespaces, and other systems have none",
    "OpenEnv is not installed": "forty packages, a web server among them",
    "smolagents is not installed": "the endpoint is tried with it; programs need no more than HTTP",
    "no Lean for WebAssembly": "a package of npm, and minutes and 3 GB for one file",
    "no wheels of lean-dojo": "there are none for Python 3.13 and later",
    "no browser": "pages are looked at and worked where Chromium or Chrome is installed",
    "another instruction set": "a processor has AVX-512 or NEON or neither",
    "no C++ compiler": "the native library is not there then, and the torch loop is",
    "this torch has no oneDNN product": "a build without it takes another path, which is tested",
}


def pytest_collection_finish() -> None:
    """Keep what is imported out of garbage collections."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail on CI when a test was left out for a reason that is not listed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if "CI" not in os.environ or reporter is None:  # a worker of pytest-xdist reports nothing
        return
    for outcome in ("skipped", "xfailed", "xpassed"):
        for report in reporter.stats.get(outcome, ()):
            # Where it was skipped, the line, and "Skipped: " with the reason.
            skip = report.longrepr if outcome == "skipped" else None
            reason = skip[2].removeprefix("Skipped: ") if skip else report.wasxfail
            if outcome != "skipped" or not reason.startswith(tuple(ALLOWED_SKIPS)):
                reporter.write_line(
                    f"\nNOT RUN {report.nodeid}: {outcome}, {reason!r}: not allowed"
                )
                session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole runs say whether something learns; tracing every line of them costs half as much again.

    What they run is covered by short runs and by tests of its parts.
    """
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker("no_cover")


class MergeError(Exception):
    """Only OmegaConf's own merge knows the result of these two values."""


def merge_plain(target: dict[Any, Any], source: dict[Any, Any]) -> None:
    """Merge a mapping into another as ``OmegaConf.merge`` does, without its nodes.

    Raises:
        MergeError: a reference is resolved, or a mapping meets a list.
    """
    for key, value in source.items():
        current, is_container = target.get(key), isinstance(value, (dict, list))
        if isinstance(current, str) and "${" in current and (is_container or value == "???"):
            raise MergeError
        if is_container and isinstance(current, (dict, list)) and type(value) is not type(current):
            raise MergeError
        if isinstance(value, dict) and isinstance(current, dict):
            merge_plain(current, value)
        elif key not in target or value != "???":
            target[key] = copy.deepcopy(value) if is_container else value


def plain_config(result: Any, package: str | None) -> dict[Any, Any]:
    """Return the values of a yaml as a mapping that starts at the root of the config."""
    from omegaconf import DictConfig, OmegaConf

    package = result.header["package"] if package is None else package
    if (
        not isinstance(result.config, DictConfig)
        or result.config._is_typed()
        or "[" in str(package)
    ):
        raise MergeError
    values: Any = OmegaConf.to_container(result.config, resolve=False)
    for name in reversed(package.split(".")) if package else ():
        values = {name: values}
    return dict(values)


class QuickCompose:
    """Methods of Hydra that read each packaged yaml once, and merge plain values instead of nodes.

    ``test_quick_hydra.py`` compares the results.
    """

    def __init__(self) -> None:
        from hydra._internal import defaults_list
        from hydra._internal.config_loader_impl import ConfigLoaderImpl
        from hydra._internal.config_repository import ConfigRepository
        from hydra._internal.hydra import Hydra

        from rlcomp.config.options import config_directory

        self.get_mode = Hydra.get_mode
        self.load_configuration = ConfigLoaderImpl.load_configuration
        self.load_config = ConfigRepository.load_config
        self.merge_nodes = ConfigLoaderImpl._compose_config_from_defaults_list
        self.create_choices = defaults_list._create_interpolation_map
        self.packaged = {str(config_directory()), "hydra.conf"}
        self.results: dict[str, tuple[bytes, Any]] = {}
        self.own_configs: dict[tuple[Any, ...], bytes] = {}
        self.plain_configs: dict[tuple[Any, ...], dict[Any, Any]] = {}

    def untraced(self, *args: Any, **settings: Any) -> Any:
        """Compose without a tracer: none of Hydra's lines counts towards the coverage."""
        tracer = sys.gettrace()
        sys.settrace(None)
        try:
            return self.load_configuration(*args, **settings)
        finally:
            sys.settrace(tracer)

    def read_once(self, repository: Any, config_path: str) -> Any:
        """Return a result whose config is shared; :meth:`merge_copies` copies it."""
        from hydra.core.object_type import ObjectType

        source = repository._find_object_source(config_path, ObjectType.CONFIG)
        if source is None or source.path not in self.packaged:
            return self.load_config(repository, config_path)  # a test may change its own file
        if config_path not in self.results:
            result = self.load_config(repository, config_path)
            config, result.config = result.config, None
            self.results[config_path] = pickle.dumps(result), config
        pickled, config = self.results[config_path]
        result = pickle.loads(pickled)
        result.config = config
        return result

    def merge_copies(self, loader: Any, defaults: Any, repository: Any) -> Any:
        """Merge as Hydra does, which changes what is merged."""
        repository.cache = copy.deepcopy(repository.cache)
        return self.merge_nodes(loader, defaults, repository)

    def read_plain(self, default: Any, repository: Any) -> dict[Any, Any]:
        """Return the plain values of a yaml."""
        result = repository.load_config(config_path=default.config_path)
        if result.path.partition("://")[2] not in self.packaged:
            return plain_config(result, default.package)
        key = (default.config_path, default.package)
        if key not in self.plain_configs:
            self.plain_configs[key] = plain_config(result, default.package)
        return self.plain_configs[key]

    def merge_quickly(self, loader: Any, defaults: Any, repository: Any) -> Any:
        """Merge Hydra's own settings as nodes, and all others as plain values."""
        from hydra.core.config_store import ConfigStore
        from omegaconf import OmegaConf, flag_override

        own = [default for default in defaults if default.config_path.startswith("hydra/")]
        # A sweep stores its own sweeper under Hydra's name.
        sweeper = ConfigStore.instance().load("hydra/sweeper/basic.yaml").provider
        key = (sweeper, *((default.config_path, default.package) for default in own))
        if key not in self.own_configs:
            self.own_configs[key] = pickle.dumps(self.merge_copies(loader, own, repository))
        values: dict[Any, Any] = {}
        for default in defaults:
            if default not in own:
                merge_plain(values, self.read_plain(default, repository))
        config = pickle.loads(self.own_configs[key])
        with flag_override(config, "no_deepcopy_set_nodes", True):
            config.merge_with(OmegaConf.create(values))
        return config

    def merge(self, loader: Any, defaults: Any, repo: Any) -> Any:
        """Merge, and set the parents of all nodes once, at the end: every merge would do so."""
        import omegaconf.base

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(omegaconf.base.Box, "_re_parent", lambda self: None)
            try:
                config = self.merge_quickly(loader, defaults, repo)
            except MergeError:
                config = self.merge_copies(loader, defaults, repo)
        config._re_parent()
        return config

    def known_choices(self, overrides: Any, defaults: Any, self_added: bool) -> Any:
        """Make the choices for a yaml with ``${...}`` only: no other looks into them."""
        refers = any("${" in repr(vars(default)) for default in defaults)
        return self.create_choices(overrides, defaults, self_added) if refers else {}

    def set_mode(self, hydra: Any, config_name: str | None, overrides: list[str]) -> Any:
        """Return the mode without composing: no packaged yaml sets ``hydra.mode``."""
        folders = hydra.config_loader.get_search_path().get_path()
        own = any(folder.provider == "command-line" for folder in folders)
        set_by_hand = own or "hydra.mode" in str(overrides)
        return self.get_mode(hydra, config_name, overrides) if set_by_hand else None


@pytest.fixture(scope="session", autouse=True)
def quick_hydra() -> Iterator[QuickCompose]:
    """Compose every config in less than half the time."""
    from hydra._internal import defaults_list
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from hydra._internal.config_repository import ConfigRepository
    from hydra._internal.hydra import Hydra

    quick = QuickCompose()
    methods = {
        (Hydra, "get_mode"): quick.set_mode,
        (ConfigLoaderImpl, "load_configuration"): quick.untraced,
        (ConfigRepository, "load_config"): quick.read_once,
        (ConfigLoaderImpl, "_compose_config_from_defaults_list"): quick.merge,
    }
    with pytest.MonkeyPatch.context() as patch:
        for (owner, name), method in methods.items():
            # A bound method would not get the instance that it is called on.
            patch.setattr(owner, name, functools.partialmethod(pass_instance, method))
        patch.setattr(defaults_list, "_create_interpolation_map", quick.known_choices)
        yield quick


def pass_instance(instance: Any, method: Callable[..., Any], *args: Any, **settings: Any) -> Any:
    """Call a method with the instance of another class as its first argument."""
    return method(instance, *args, **settings)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder ``data`` of public data sets: $RLCOMP_SHARED/data, else ../shared/data."""
    root = Path(__file__).resolve().parents[1]
    folder = Path(os.environ.get("RLCOMP_SHARED", root.parent / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip(f"no public data sets in {folder}: set RLCOMP_SHARED")
    return folder


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> Callable[[type], str]:
    """``importable(cls)`` makes a class of a test importable and returns its dotted path."""

    def path(cls: type) -> str:
        module = types.ModuleType("stand_ins")
        setattr(module, cls.__name__, cls)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return f"{module.__name__}.{cls.__name__}"

    return path


@pytest.fixture
def rlcomp(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command line in this process: ``rlcomp("recipe=grpo", ...)`` gives the exit code."""
    from hydra.core.global_hydra import GlobalHydra

    from rlcomp.cli.run import main

    def run(*words: str) -> int:
        GlobalHydra.instance().clear()
        monkeypatch.setattr("sys.argv", ["rlcomp", *words])
        try:
            main(apart=False)
        except SystemExit as leaving:
            return int(leaving.code or 0)
        return 0

    return run


# Half of all answers are right, so that there is something to learn in every step.
TINY = (
    "reward=regex",
    "reward.pattern='^[0-4]'",
    "phases.warm_start.steps=2",
    "phases.rl.steps=3",
    "prompts.batch_size=4",
    "rollout.group_size=4",
    "evaluation.num_prompts=8",
    "demonstrations.batch_size=8",
    "learner.num_minibatches=2",
    "checkpoint.keep=19",
    "phases.warm_start.every.checkpoint=1",
    "phases.rl.every.checkpoint=1",
)


@pytest.fixture(scope="session")
def play() -> Callable[..., Path]:
    """A run of a second: ``play(directory, *overrides)`` gives the directory."""
    from rlcomp.config.compose import compose_config
    from rlcomp.config.resolve import plan_of
    from rlcomp.run.launch import launch

    def run(directory: Path, *overrides: str) -> Path:
        config = compose_config([*TINY, *overrides, f"directory={directory}"])
        launch(config, plan_of(config))
        return directory

    return run


@pytest.fixture(scope="session")
def continued(play: Callable[..., Path]) -> Callable[..., Path]:
    """A copy of a run, taken up again: ``continued(whole, directory, step, *overrides)``."""

    def run(whole: Path, directory: Path, step: int, *overrides: str) -> Path:
        shutil.copytree(whole, directory)
        return play(directory, *overrides, f"resume={directory}/checkpoints/step-{step:08d}")

    return run


@pytest.fixture(scope="session")
def metrics() -> Callable[[Path], list[dict[str, Any]]]:
    """Return the metrics of a run without times, a row per step."""

    def read(directory: Path) -> list[dict[str, Any]]:
        rows = map(json.loads, (directory / "metrics.jsonl").read_text().splitlines())
        return [{k: v for k, v in row.items() if not k.startswith("time/")} for row in rows]

    return read


@pytest.fixture(scope="session")
def bits(metrics: Callable[[Path], list[dict[str, Any]]]) -> Callable[[Path], tuple[Any, ...]]:
    """Return metrics, samples and digests of the tensors of a run, to compare bit by bit."""
    from rlcomp.checkpoint.reader import open_checkpoint

    def digest(tensor: torch.Tensor) -> str:
        return hashlib.sha256(tensor.flatten().view(torch.uint8).numpy().tobytes()).hexdigest()

    def read(directory: Path) -> tuple[Any, ...]:
        tensors = open_checkpoint(directory).tensors().items()
        digests = {name: (tensor.shape, digest(tensor)) for name, tensor in tensors}
        return metrics(directory), (directory / "samples.jsonl").read_text(), digests

    return read


@pytest.fixture(scope="session")
def at_work() -> Callable[[str, list[dict[str, Any]]], None]:
    """``at_work(recipe, rows)``: what docs/mechanisms.yaml claims holds for these metrics."""
    script = runpy.run_path(str(Path(__file__).resolve().parents[1] / "docs" / "mechanisms.py"))

    def check(recipe: str, rows: list[dict[str, Any]]) -> None:
        for claim in script["CLAIMS"][recipe]:
            value = script["number"](claim, rows)
            assert script["holds"](claim, value), f"{recipe}: {value} of {claim}"

    return check


def namespaces_can_be_made() -> bool:
    """Test if another program can make namespaces here, so that the sandbox must, too."""
    words = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--net", "true"]
    try:
        return subprocess.run(words, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture(scope="session")
def needs() -> Callable[[str], None]:
    """``needs(tier)`` skips a test if the sandbox tier is not available."""

    def skip(tier: str) -> None:
        from rlcomp.sandbox.tier import find_missing

        if reason := find_missing(tier):
            had = shutil.which("bwrap") if tier == "bwrap" else True
            assert not (had and namespaces_can_be_made()), f"no {tier}: {reason}"
            pytest.skip(f"no sandbox of tier {tier}: {reason}")

    return skip


# Cases of tests of all options, recipes and pages that run code.
SANDBOXED = (
    "reward/code_",
    "tool/python",
    "rlvr_code",
    "several_domains",
    "docs/sandbox.md",
    "docs/verifiers.md",
)


@pytest.fixture(autouse=True)
def sandbox_for_its_cases(request: pytest.FixtureRequest, needs: Callable[[str], None]) -> None:
    """Skips them where there is no sandbox."""
    if any(word in request.node.name for word in SANDBOXED):
        needs("strict")


@pytest.fixture(scope="session")
def sandbox(needs: Callable[[str], None]) -> Iterator[Any]:
    """A sandbox of tier strict."""
    from rlcomp.sandbox.sandbox import Sandbox

    needs("strict")
    with Sandbox(workers=2) as made:
        yield made


def descendants(root: int | None = None) -> list[int]:
    """List the descendants of this or of another process."""
    parents = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                parents[int(entry)] = int(file.read().rpartition(")")[2].split()[1])
        except OSError:  # it has just ended
            continue
    found, unseen = [], {root or os.getpid()}
    while unseen:
        unseen = {child for child, parent in parents.items() if parent in unseen}
        found += unseen
    return sorted(found)


@pytest.fixture(scope="session")
def processes() -> Callable[..., list[int]]:
    """``processes()`` lists all descendants of this process, ``processes(42)`` those of another."""
    return descendants
