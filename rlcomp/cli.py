"""The command line: a Hydra app. Nothing here imports torch before the config is known to be sound."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from rlcomp.errors import Interrupted, UserError, nearest

EXIT_USER, EXIT_INTERRUPTED = 2, 75


def config_directory() -> Path:
    """Where the configs are: in the wheel, or beside the packages in a checkout."""
    inside = Path(__file__).parent / "conf"
    return inside if inside.is_dir() else Path(__file__).parents[1] / "conf"


def main() -> None:
    """``rlcomp``: compose, check, build, run."""
    guard(_app)


def guard(app: Callable[[], None]) -> None:
    """Run an app; a user's mistake ends with one message and exit code 2, an interruption with 75."""
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


def explain(error: Exception) -> str:
    """One message for an error: Hydra's own, with the nearest key where it names none."""
    text = str(error)
    if error.__cause__ is not None and str(error.__cause__) not in text:
        text += f"\n{error.__cause__}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    kept = [line for line in lines if not line.startswith(("full_key:", "object_type=", "reference_"))]
    key = next((line for line in lines if "is not in struct" in line), None)
    full = next((line.removeprefix("full_key:").strip() for line in lines if "full_key:" in line), "")
    if key is None:
        return "\n".join(kept)
    return f"{full or key.split(chr(39))[1]} is not in the config{_siblings(full)}; + adds a new key"


def _siblings(full_key: str) -> str:
    parent, _, name = full_key.rpartition(".")
    known = _last_keys.get(parent)
    return nearest(name, known) if known else ""


_last_keys: dict[str, list[str]] = {}


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
            f"'components' is {where}, which shadows rlcomp's own {home / 'components'}: rename your "
            "folder (or file), or run from another directory"
        )


def _app() -> None:
    hydra.main(version_base="1.3", config_path=str(config_directory()), config_name="config")(job)()


def job(config: DictConfig) -> None:
    """One run, or one job of a sweep."""
    from rlcomp.run.resolve import plan_of

    hydra_config = HydraConfig.get()
    OmegaConf.set_struct(config, False)
    config.directory = str(Path(hydra_config.runtime.output_dir).resolve())
    _label(config)
    plan = plan_of(config)
    from rlcomp.run.launch import launch

    launch(config, plan)


def _label(config: DictConfig) -> None:
    """W&B's group, job type and tags from the sweep, where the config does not set them."""
    from rlcomp.run.sweep import labels

    tracker = config.get("tracker")
    if not tracker or "job_type" not in tracker:
        return
    with open_dict(tracker):
        for name, value in labels(sys.argv[1:], HydraConfig.get()).items():
            if not tracker.get(name):
                tracker[name] = value


if __name__ == "__main__":
    main()
