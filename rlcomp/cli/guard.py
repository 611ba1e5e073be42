"""Exit codes and error messages of the command-line programs."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from rlcomp.errors import Interrupted, UserError
from rlcomp.wiring.compose import compose_config
from rlcomp.wiring.explain import explain_composition, keys_below

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
    return explain_composition(error, user_directories(), _keys)


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
    return keys_below(config, parent)


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
