"""The command line: a Hydra app. torch is imported only once the config is known to be sound."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from rlcomp.check import NonEmptyText, problem
from rlcomp.errors import ConfigError, Interrupted, UserError, nearest
from rlcomp.help import help_text
from rlcomp.run.options import config_directory
from rlcomp.run.outcome import failure_kept
from rlcomp.run.resolve import plan_of
from rlcomp.run.search import offer_search
from rlcomp.run.sweep import labels

EXIT_USER, EXIT_INTERRUPTED, EXIT_KILLED = 2, 75, 130


def main() -> None:
    """``rlcomp``: compose, check, build, run."""
    guard(_app)


def guard(app: Callable[[], None]) -> None:
    """Run an app; a user's mistake ends with one message and code 2, an interruption with 75."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises instead of printing and leaving with 1
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # the user's own parts
    try:
        check_packages()
        app()
    except (UserError, HydraException, OmegaConfBaseException) as error:
        print(f"rlcomp: {explain(error)}", file=sys.stderr)
        sys.exit(EXIT_USER)
    except Interrupted as error:
        print(f"rlcomp: {error}", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    except KeyboardInterrupt:
        print("rlcomp: stopped at once; checkpoints written so far are whole", file=sys.stderr)
        sys.exit(EXIT_KILLED)


def explain(error: Exception) -> str:
    """One message for an error; Hydra's and OmegaConf's get what, where and the nearest name."""
    if not isinstance(error, (HydraException, OmegaConfBaseException)):
        # A mistake that only shows while a stage runs carries a note that says which.
        return "\n".join([str(error), *getattr(error, "__notes__", [])])
    if isinstance(error, OverrideParseException):
        told = error.message.splitlines()[0]
        return f"{error.override}: cannot be read ({told}); quote the value: 'key=\"value\"'"
    text = str(error) if error.__cause__ is None else f"{error}\n{error.__cause__}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    missing = re.search(r"Could not find '([^']+)'", text)
    if missing:
        group, _, option = missing.group(1).rpartition("/")
        return f"{group}={option}: there is no such option{nearest(option, _options(group))}"
    key = next((line.split()[-1] for line in lines if line.startswith("full_key:")), None)
    if key and "is not in struct" in text:
        parent, _, name = key.rpartition(".")
        known = nearest(name, _keys(parent))
        return f"{key} is not in the config{known}; a + before it adds a new key"
    noise = ("full_key:", "object_type=", "reference_", "See https")
    return "\n".join(line for line in lines if not line.startswith(noise))


def _options(group: str) -> list[str]:
    """The options of a group, of ours and of the user's config directory."""
    places = [config_directory(), *map(Path, _user_directories())]
    return [file.stem for place in places for file in (place / group).glob("*.yaml")]


def _user_directories() -> list[str]:
    given = [word for text in sys.argv[1:] for word in re.split("(?<=^--config-dir)=", text)]
    return [given[i + 1] for i, text in enumerate(given[:-1]) if text in ("-cd", "--config-dir")]


def _keys(parent: str) -> list[str]:
    """The keys beside a mistyped one, in the config that the rest of the command line gives."""
    from rlcomp.describe import compose_config

    sound = [text for text in sys.argv[1:] if "=" in text and not text.startswith("-")]
    choices = [text for text in sound if "." not in text.split("=")[0] and "," not in text]
    while choices:
        try:
            config = compose_config(choices, _user_directories())
            break
        except (HydraException, OmegaConfBaseException):
            choices.pop()
    else:
        config = compose_config([], _user_directories())
    node = OmegaConf.select(config, parent, throw_on_missing=False) if parent else config
    groups = [entry.name for entry in config_directory().iterdir() if entry.is_dir()]
    return [str(key) for key in node or []] + (groups if not parent else [])


def check_packages() -> None:
    """Refuse to run when another package of the user's stands in front of ``components``.

    Raises:
        UserError: names the file and the remedy.
    """
    spec = importlib.util.find_spec("components")
    home = Path(__file__).resolve().parents[1]
    found = [Path(p).resolve() for p in (spec.submodule_search_locations or [])] if spec else []
    if home / "components" not in found[:1]:
        where = spec.origin or (found[0] if found else "nowhere") if spec else "nowhere"
        raise UserError(
            f"'components' is {where}, which shadows rlcomp's own {home / 'components'}: rename "
            "your folder (or file), or run from another directory"
        )


class Jobs:
    """What Hydra calls, once or for every job of a sweep; keeps what went wrong.

    Hydra reports what a job raises in its own way, so a single run's mistake is kept and raised
    when Hydra is done.
    """

    def __init__(self) -> None:
        self.failed: list[Exception] = []
        self.started = False

    def __call__(self, config: DictConfig) -> None:
        """One job."""
        self.started = True
        if self.interrupted():
            return  # the sweep was stopped, not one of its jobs
        try:
            with failure_kept(Path(HydraConfig.get().runtime.output_dir), explain):
                run_job(config)
        except Exception as error:
            expected = isinstance(error, (UserError, OmegaConfBaseException, Interrupted))
            multirun = HydraConfig.get().mode == RunMode.MULTIRUN
            if isinstance(error, Interrupted) or (expected and not multirun):
                self.failed.append(error)
            if multirun:
                # Raised: a launcher may run this in a process of its own, where the list is
                # another. Hydra goes on with the other jobs, and its sweeper raises in the end.
                kind = "" if expected else f"{type(error).__name__}: "
                number = HydraConfig.get().job.num
                print(f"rlcomp: job {number}: {kind}{explain(error)}", file=sys.stderr)
                raise
            if not expected:
                raise

    def interrupted(self) -> list[Exception]:
        """The jobs that were stopped on request."""
        return [error for error in self.failed if isinstance(error, Interrupted)]

    def told(self, error: Exception) -> Exception:
        """What to say of an error that Hydra raised itself, or for a job."""
        if self.interrupted():
            return self.interrupted()[0]
        if self.started or isinstance(error, (UserError, HydraException)):
            return error
        if isinstance(error, OSError):
            return UserError(f"{error}: choose a directory you can write into, directory=...")
        # Hydra's word for an option that is a number.
        return UserError(f"{' '.join(sys.argv[1:])}: {error}; choose an option by name")


def _app() -> None:
    if {"--help", "-h"} & set(sys.argv[1:]):
        print(help_text([config_directory(), *map(Path, _user_directories())]))
        return
    offer_search()
    jobs = Jobs()
    app = hydra.main(version_base="1.3", config_path=str(config_directory()), config_name="config")
    try:
        app(jobs)()
    except (OSError, ValueError, Interrupted) as error:
        raise jobs.told(error) from error
    if jobs.failed:
        raise jobs.failed[0]


def run_job(config: DictConfig) -> None:
    """One run, or one job of a sweep."""
    OmegaConf.set_struct(config, False)
    if fault := problem(NonEmptyText, config.directory):
        raise ConfigError(f"directory is {config.directory!r}: {fault}; set directory=...")
    config.directory = str(Path(HydraConfig.get().runtime.output_dir).resolve())
    _label(config)
    plan = plan_of(config)
    from rlcomp.run.launch import launch

    launch(config, plan)


def _label(config: DictConfig) -> None:
    """W&B's group, job type and tags from the sweep, where the config does not set them."""
    tracker = config.get("tracker")
    if not tracker or "job_type" not in tracker:
        return
    with open_dict(tracker):
        for name, value in labels(HydraConfig.get()).items():
            if not tracker.get(name):
                tracker[name] = value


if __name__ == "__main__":
    main()
