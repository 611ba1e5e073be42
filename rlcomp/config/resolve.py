"""From a command line to a checked plan: all mistakes at once, before torch is imported."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

import yaml  # type: ignore[import-untyped]
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from rlcomp.config.checks.classes import (
    check_foreign_losses,
    check_return_values,
    check_reward_functions,
)
from rlcomp.config.checks.distributed import check_ranks, check_remote_stages
from rlcomp.config.checks.models import check_base
from rlcomp.config.checks.overrides import check_added, check_no_effect, check_unread
from rlcomp.config.checks.phases import check_prerequisites, check_watched_metrics
from rlcomp.config.checks.suspicious_values import (
    check_clips,
    check_identical_log_probs,
    check_metric_names,
    check_undeclared_keys,
)
from rlcomp.config.checks.values import (
    check_adapters,
    check_arguments,
    check_patches,
    check_randomise,
    check_rates,
    check_settings,
    check_tracker,
)
from rlcomp.config.choices import check_choices
from rlcomp.config.compose import compose_config
from rlcomp.config.finding import Finding, messages
from rlcomp.config.flow_source import check_flow
from rlcomp.config.plan import Plan, below, read
from rlcomp.errors import ConfigError, ConfigErrors, RlcompWarning, in_one_line

# A path. A single word is a path if " is " or "=" follows.
_PATH = re.compile(r"(?<![\w./@{])[A-Za-z_]\w*(?:(?:\.\w+)+|(?= is |=))")


def compose_or_explain(overrides: Sequence[str], config_dirs: Sequence[str] = ()) -> DictConfig:
    """Return the config of overrides.

    Args:
        overrides: as on the command line.
        config_dirs: directories of the user's own configs.

    Raises:
        ConfigError: Hydra refuses an override, and the message names it and the nearest name;
            ``check_choices`` refuses one; or a yaml cannot be read.

    Examples:
        >>> compose_or_explain(["learning_rate=1e-5"])
        Traceback (most recent call last):
            ...
        rlcomp.errors.ConfigError: learning_rate is not in the config; here it is \
learner.optimizer.lr=1e-5
    """
    try:
        check_choices(overrides, config_dirs)
        return compose_config(overrides, config_dirs)
    except (HydraException, OmegaConfBaseException) as error:
        from rlcomp.advice.explain import explain_overrides

        raise ConfigError(explain_overrides(error, overrides, config_dirs)) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        from rlcomp.advice.explain import unreadable_yaml

        raise ConfigError(unreadable_yaml(error, config_dirs)) from None
    except ValueError as error:  # Hydra's own, of overrides that cannot mean anything
        raise ConfigError(f"{' '.join(overrides)}: {in_one_line(error)}") from None


def plan_of(
    config: DictConfig,
    words: Sequence[str] = (),
    *,
    choices: Mapping[str, str] | None = None,
    config_dirs: Sequence[str] = (),
) -> Plan:
    """Read and check a config; return its plan.

    Args:
        config: config of a run.
        words: its overrides, as the command line wrote them.
        choices: the option of every group, to find overrides that nothing reads; None: do not
            look for such overrides.
        config_dirs: directories of the user's own configs.

    Raises:
        ConfigErrors: everything that is wrong with the config.
    """
    findings = [*check_added(config, words)]
    if choices is not None:
        findings += check_unread(config, words, choices, config_dirs)
    if findings:
        raise ConfigErrors(messages(findings))
    plan, errors = read(config, words)
    raise_or_warn(plan, errors, check(plan))
    return plan


def plan_of_nodes(
    config: DictConfig, nodes: Mapping[str, str], *, check_values: bool = True
) -> Plan:
    """Return the plan of some nodes and their parts, without phases.

    Args:
        config: a whole config.
        nodes: the paths of the nodes, each with the message for a config that lacks it.
        check_values: check the settings and the arguments of the nodes.

    Raises:
        ConfigErrors: a node is missing, or its values are wrong.
    """
    plan, errors = read(config)
    errors += [message for path, message in nodes.items() if path not in plan.nodes]
    if errors:
        raise ConfigErrors(errors)
    whole = [node for path in nodes for node in (plan.nodes[path], *below(plan.nodes[path]))]
    small = Plan(plan.tree, {node.path: node for node in whole}, {})
    if check_values and (faults := messages([*check_settings(small), *check_arguments(small)])):
        raise ConfigErrors(typed_messages(faults, plan))
    return small


def _check_parts(plan: Plan) -> Iterable[Finding]:
    """Return the findings on losses of other libraries, else those on arguments.

    The arguments of a foreign loss are of no interest where it cannot run.
    """
    return [*check_foreign_losses(plan.reached())] or check_arguments(plan)


# The checks, in the order of their messages. Each gets all nodes of a plan, or the nodes that a run
# needs (``reached``).
CHECKS: Sequence[tuple[Literal["all", "reached"], Callable[[Plan], Iterable[Finding]]]] = (
    ("all", check_settings),
    ("all", check_tracker),
    ("reached", check_adapters),
    ("all", check_patches),
    ("all", check_randomise),
    ("reached", check_rates),
    ("reached", check_base),
    ("all", _check_parts),
    ("reached", check_return_values),
    ("reached", check_reward_functions),
    ("reached", check_clips),
    ("all", check_flow),
    ("all", check_prerequisites),
    ("all", check_watched_metrics),
    ("reached", check_remote_stages),
    ("reached", check_ranks),
    ("reached", check_identical_log_probs),
    ("reached", check_undeclared_keys),
    ("reached", check_metric_names),
    ("all", check_no_effect),
)


def check(plan: Plan) -> list[Finding]:
    """Return the findings of all checks, in the order of the checks."""
    subjects = {"all": plan, "reached": plan.reached()}
    return [finding for subject, run in CHECKS for finding in run(subjects[subject])]


def check_plan(plan: Plan) -> list[str]:
    """Return the mistakes for which a plan that could be read is refused."""
    return messages(finding for finding in check(plan) if finding.level == "refuse")


def raise_or_warn(plan: Plan, errors: Sequence[str], findings: Iterable[Finding]) -> None:
    """Refuse a plan with mistakes; else warn of its settings that are probably mistakes.

    Args:
        plan: plan of a run.
        errors: messages of :func:`rlcomp.config.plan.read`.
        findings: findings of the checks.

    Raises:
        ConfigErrors: the plan has mistakes.
    """
    findings = [*findings]
    refused = messages(finding for finding in findings if finding.level == "refuse")
    if errors or refused:
        raise ConfigErrors(typed_messages([*errors, *refused], plan))
    for message in messages(finding for finding in findings if finding.level == "warn"):
        text = trace(message, plan.origins, plan.words)
        warnings.warn(text, RlcompWarning, stacklevel=3)


def typed_messages(faults: Iterable[str], plan: Plan) -> list[str]:
    """Return messages about a plan in terms of the typed words, each message once."""
    traced = (trace(message, plan.origins, plan.words) for message in faults)
    return list(dict.fromkeys(with_typed_value(message, plan.words) for message in traced))


@contextmanager
def traced_errors(plan: Plan) -> Iterator[None]:
    """Put every ConfigError that is raised within a context in terms of the typed words.

    Args:
        plan: plan whose nodes are built.
    """
    try:
        yield
    except ConfigError as error:
        error.args = ("\n".join(typed_messages(str(error).splitlines(), plan)),)
        raise


def with_typed_value(message: str, words: Iterable[str]) -> str:
    """Return a message in terms of the values that were typed.

    A number is shown as it was typed; a large one may lack the sign of its exponent. If the user
    chose ``none`` for a missing stage, the message says that this choice leaves the stage out.

    Args:
        message: message on a plan; with a number it begins with ``PATH is NUMBER: ``.
        words: overrides.

    Examples:
        >>> with_typed_value("a.lr is 1000000.0: too much; set a.lr=...", ["b=1", "a.lr=1e6"])
        'a.lr is 1e6: too much; set a.lr=1e-6, if that is meant'
        >>> with_typed_value("a.lr is 0.0: too small; set a.lr=...", ["a.lr=0"])
        'a.lr is 0: too small; set a.lr=...'
        >>> with_typed_value("a.lr is 'x': no number", ["a.lr=x"])
        "a.lr is 'x': no number"
    """
    values = dict(word.lstrip("+").partition("=")[::2] for word in words)
    missing = re.search(r", which no earlier stage writes: choose ([\w@./]+)=", message)
    if missing and values.get(missing[1]) == "none":  # the user chose none
        return message.replace("no earlier stage writes", f"{missing[1]}=none leaves out", 1)
    match = re.match(r"([\w.]+) is (-?\d[\w.+-]*): ", message)
    if match is None or not re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", values.get(match[1], ""), re.I):
        return message
    path, text = match[1], values[match[1]]
    message = f"{path} is {text}: {message[match.end() :]}"
    slip = re.fullmatch(r"([\d.]+e)\+?(\d)", text, re.I)
    if slip is None or "integer" in message:  # no integer is below 1
        return message
    return message.replace(f"set {path}=...", f"set {path}={slip[1]}-{slip[2]}, if that is meant")


def trace(message: str, origins: Mapping[str, str], words: Iterable[str]) -> str:
    """Return a message with each path replaced by the one where its value is set.

    Args:
        message: names paths of a config.
        origins: origins of a plan.
        words: overrides; a path that one of them sets is unchanged.

    Examples:
        >>> trace("a.n is 8.5: odd; set a.n=...", {"a.n": "n"}, ["n=8.5"])
        'n is 8.5: odd; set n=...'
        >>> trace("a.n is 8.5: odd; set a.n=...", {"a.n": "n"}, ["a.n=${n}"])
        'a.n is 8.5: odd; set a.n=...'
        >>> trace("a.n is 'x': odd", {"a.n": "n", "n": "${oc.env:N}"}, [])
        "n is 'x' (${oc.env:N}): odd"
    """
    typed = {word.lstrip("+").partition("=")[0] for word in words}
    message = _PATH.sub(lambda path: _origin(path[0], origins, typed), message)
    path, _, behind = message.partition(" is ")
    text = origins.get(path, "")
    value, colon, rest = behind.partition(": ")
    if not text.startswith("${") and not re.search(r"\W\${", text):
        return message
    return f"{path} is {value} ({text}){colon}{rest}"


def _origin(path: str, origins: Mapping[str, str], typed: Collection[str]) -> str:
    """Return the path where a value is set; the paths below a reference move with it."""
    chain = [path]
    while (following := _next_origin(chain[-1], origins)) and following not in chain:
        chain.append(following)
    return next((link for link in reversed(chain) if link in typed), chain[-1])


def _next_origin(path: str, origins: Mapping[str, str]) -> str | None:
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        following = origins.get(".".join(parts[:end]), "$")
        if "$" not in following:  # a path, no expression
            return ".".join([following, *parts[end:]])
    return None
