"""Reading and checking of a composed config: all mistakes at once, before torch is imported."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

from omegaconf import DictConfig, OmegaConf

from rlcomp.config.base_model import check_base
from rlcomp.config.checks.arguments import check_arguments
from rlcomp.config.checks.clip_range import check_clips
from rlcomp.config.checks.data_parallel import check_ranks
from rlcomp.config.checks.foreign_losses import check_foreign
from rlcomp.config.checks.metrics import check_watched
from rlcomp.config.checks.prerequisites import check_begun
from rlcomp.config.checks.remote_stages import check_remote
from rlcomp.config.checks.return_value import check_returned, check_scoring
from rlcomp.config.checks.settings import (
    SETTINGS,
    check_adapters,
    check_patches,
    check_randomise,
    check_rates,
    check_settings,
    check_tracker,
)
from rlcomp.config.finding import Finding, messages
from rlcomp.config.flow_source import check_flow
from rlcomp.config.lint.no_effect import settings_without_effect
from rlcomp.config.lint.suspicious_values import suspicious_values
from rlcomp.config.options import config_directory
from rlcomp.config.origin import trace
from rlcomp.config.plan import Plan, read
from rlcomp.errors import ConfigError, ConfigErrors, RlcompWarning, nearest


def plan_of(config: DictConfig, words: Sequence[str] = ()) -> Plan:
    """Read and check a config; return its plan.

    Args:
        config: config of a run.
        words: its overrides, as the command line wrote them.

    Raises:
        ConfigErrors: everything that is wrong with the config.
    """
    plan, errors = read(config, words)
    raise_or_warn(plan, errors, check(plan))
    return plan


def check(plan: Plan) -> list[Finding]:
    """Return the findings of all checks, in the order of the checks."""
    subjects = {"all": plan, "reached": plan.reached()}
    return [finding for subject, run in CHECKS for finding in run(subjects[subject])]


def raise_or_warn(plan: Plan, errors: Sequence[str], findings: Iterable[Finding]) -> None:
    """Refuse a plan with mistakes; else warn of its settings that are probably mistakes.

    Args:
        plan: plan of a run.
        errors: messages of :func:`rlcomp.config.plan.read`.
        findings: findings of the checks.

    Raises:
        ConfigErrors: the plan has mistakes.
    """
    warned = [finding for finding in findings if finding.level == "warn"]
    refused = [finding for finding in findings if finding.level == "refuse"]
    if errors or refused:
        raise ConfigErrors(as_typed([*errors, *messages(refused)], plan))
    for message in messages(warned):
        text = trace(message, plan.origins, plan.words)
        warnings.warn(text, RlcompWarning, stacklevel=3)


def check_plan(plan: Plan) -> list[str]:
    """Return the mistakes for which a plan that could be read is refused."""
    return messages(finding for finding in check(plan) if finding.level == "refuse")


def as_typed(errors: Iterable[str], plan: Plan) -> list[str]:
    """Return messages that name the words which were typed, each message once.

    Args:
        errors: messages about a plan.
        plan: the plan.
    """
    traced = (trace(message, plan.origins, plan.words) for message in errors)
    return list(dict.fromkeys(as_written(message, plan.words) for message in traced))


@contextmanager
def traced_errors(plan: Plan) -> Iterator[None]:
    """Name the words which were typed in every ConfigError that is raised within a context.

    Args:
        plan: plan whose nodes are built.
    """
    try:
        yield
    except ConfigError as error:
        error.args = ("\n".join(as_typed(str(error).splitlines(), plan)),)
        raise


def _check_parts(plan: Plan) -> Iterable[Finding]:
    """Return the findings on losses of other libraries, else those on arguments.

    The arguments of a foreign loss are of no interest where it cannot run.
    """
    return [*check_foreign(plan.reached())] or check_arguments(plan)


# The checks, in the order of their messages; of all nodes of a plan, or of those that a run needs.
CHECKS: Sequence[tuple[Literal["all", "reached"], Callable[[Plan], Iterable[Finding]]]] = (
    ("all", check_settings),
    ("all", check_tracker),
    ("reached", check_adapters),
    ("all", check_patches),
    ("all", check_randomise),
    ("reached", check_rates),
    ("reached", check_base),
    ("all", _check_parts),
    ("reached", check_returned),
    ("reached", check_scoring),
    ("reached", check_clips),
    ("all", check_flow),
    ("all", check_begun),
    ("all", check_watched),
    ("reached", check_remote),
    ("reached", check_ranks),
    ("reached", suspicious_values),
    ("all", settings_without_effect),
)


def added(words: Sequence[str]) -> list[str]:
    """Return the names that overrides add at the root: ``+name=1``, ``++name.of.it=1``."""
    matches = (re.match(r"\+{1,2}(\w+)(?=[.=])", word) for word in words)
    return list(dict.fromkeys(one[1] for one in matches if one))


def as_written(told: str, words: Iterable[str]) -> str:
    """Return a message with the typed number; a sign may have been left out.

    Args:
        told: begins with ``PATH is NUMBER: ``.
        words: overrides.

    Examples:
        >>> as_written("a.lr is 1000000.0: too much; set a.lr=...", ["b=1", "a.lr=1e6"])
        'a.lr is 1e6: too much; set a.lr=1e-6, if that is meant'
        >>> as_written("a.lr is 0.0: too small; set a.lr=...", ["a.lr=0"])
        'a.lr is 0: too small; set a.lr=...'
        >>> as_written("a.lr is 'x': no number", ["a.lr=x"])
        "a.lr is 'x': no number"
    """
    values = dict(word.lstrip("+").partition("=")[::2] for word in words)
    lacks = re.search(r", which no earlier stage writes: choose ([\w@./]+)=", told)
    if lacks and values.get(lacks[1]) == "none":  # the user's own word
        return told.replace("no earlier stage writes", f"{lacks[1]}=none leaves out", 1)
    match = re.match(r"([\w.]+) is (-?\d[\w.+-]*): ", told)
    if match is None or not re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", values.get(match[1], ""), re.I):
        return told
    path, text = match[1], values[match[1]]
    told = f"{path} is {text}: {told[match.end() :]}"
    slip = re.fullmatch(r"([\d.]+e)\+?(\d)", text, re.I)
    if slip is None or "integer" in told:  # of those none is below 1
        return told
    meant = f"set {path}={slip[1]}-{slip[2]}, if that is meant"
    return told.replace(f"set {path}=...", meant)


def check_used(config: DictConfig, added: Iterable[str], words: Iterable[str]) -> list[str]:
    """Values that were added at the root and that nothing refers to: they would change nothing.

    Args:
        config: a whole one.
        added: names at the root that the command line adds.
        words: its overrides, which may refer to them.
    """
    own = {*map(str, config)} - {*added}
    text = "\n".join([OmegaConf.to_yaml(config, resolve=False), *words])
    return [
        f"{name} is added, but nothing in this config refers to it"
        + (f"; here it is {here}" if (here := _here(config, name)) else nearest(name, own))
        for name in added
        if _is_value(config, name) and not re.search(rf"\${{[^}}]*\b{re.escape(name)}\b", text)
    ]


def _is_value(config: DictConfig, name: str) -> bool:
    """Return whether a name is a plain value: no part, no option and no setting of every run."""
    node = config.get(name, {"_target_": ""})  # what is not there is a group: it stands elsewhere
    plain = not isinstance(node, Mapping) or "_target_" not in node
    return plain and name not in {*SETTINGS, "phases"} and not (config_directory() / name).is_dir()


def _here(config: DictConfig, name: str) -> str | None:
    from rlcomp.advice.foreign_options import our_name

    inner = [*config[name]] if isinstance(config[name], Mapping) else []
    return our_name(".".join([name, *map(str, inner[:1])]))
