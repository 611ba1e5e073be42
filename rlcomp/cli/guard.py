"""Exit codes and error messages of the command-line programs."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

from hydra.errors import HydraException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlcomp.errors import Interrupted, UserError, nearest
from rlcomp.wiring.compose import compose_config
from rlcomp.wiring.options import config_directory

EXIT_USER, EXIT_INTERRUPTED, EXIT_KILLED = 2, 75, 130


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
    places = [config_directory(), *map(Path, user_directories())]
    return [file.stem for place in places for file in (place / group).glob("*.yaml")]


def user_directories() -> list[str]:
    """The config directories the command line adds (``-cd``)."""
    given = [word for text in sys.argv[1:] for word in re.split("(?<=^--config-dir)=", text)]
    return [given[i + 1] for i, text in enumerate(given[:-1]) if text in ("-cd", "--config-dir")]


def _keys(parent: str) -> list[str]:
    """The keys beside a mistyped one, in the config that the rest of the command line gives."""
    sound = [text for text in sys.argv[1:] if "=" in text and not text.startswith("-")]
    choices = [text for text in sound if "." not in text.split("=")[0] and "," not in text]
    while choices:
        try:
            config = compose_config(choices, user_directories())
            break
        except (HydraException, OmegaConfBaseException):
            choices.pop()
    else:
        config = compose_config([], user_directories())
    node = OmegaConf.select(config, parent, throw_on_missing=False) if parent else config
    groups = [entry.name for entry in config_directory().iterdir() if entry.is_dir()]
    return [str(key) for key in node or []] + (groups if not parent else [])


def check_packages() -> None:
    """Refuse to run when another package of the user's stands in front of ``components``.

    Raises:
        UserError: names the file and the remedy.
    """
    spec = importlib.util.find_spec("components")
    home = Path(__file__).resolve().parents[2]
    found = [Path(p).resolve() for p in (spec.submodule_search_locations or [])] if spec else []
    if home / "components" not in found[:1]:
        where = spec.origin or (found[0] if found else "nowhere") if spec else "nowhere"
        raise UserError(
            f"'components' is {where}, which shadows rlcomp's own {home / 'components'}: rename "
            "your folder (or file), or run from another directory"
        )
