"""Tiers of isolation: the strongest one of this machine, and the check of the minimum."""

from __future__ import annotations

import functools
import sys
from typing import Literal

from rlcomp.errors import ConfigError

Tier = Literal["strict", "bwrap", "portable"]
TIERS: tuple[Tier, ...] = ("strict", "bwrap", "portable")  # the strongest first


def probe() -> dict[Tier, str]:
    """Return what each tier lacks on this machine; '' if nothing."""
    return {tier: lacks(tier) for tier in TIERS}


@functools.cache
def lacks(tier: Tier) -> str:
    """Return what a tier lacks on this machine; '' if a fork server starts in it."""
    if sys.platform != "linux":
        return f"Linux (this is {sys.platform})"
    from rlcomp.sandbox.fork_server import ForkServer

    server = ForkServer(tier)
    try:
        return server.refusal()
    finally:
        server.close()


def known(tier: str) -> None:
    """Refuse a tier that does not exist.

    Raises:
        ConfigError: there is no such tier; names the known ones.
    """
    if tier not in TIERS:
        raise ConfigError(f"sandbox.min_tier={tier!r}: one of {', '.join(TIERS)}")


def strongest(min_tier: Tier) -> Tier:
    """Return the strongest tier of this machine.

    Raises:
        ConfigError: it is weaker than ``min_tier``; names what is missing and a remedy.
    """
    known(min_tier)
    missing: dict[Tier, str] = {}
    for tier in TIERS:
        missing[tier] = lacks(tier)
        if not missing[tier]:
            break
    best = None if missing[tier] else tier
    if best is not None and TIERS.index(best) <= TIERS.index(min_tier):
        return best
    raise ConfigError(_refusal(min_tier, best, missing))


def _refusal(min_tier: Tier, best: Tier | None, missing: dict[Tier, str]) -> str:
    reasons = "; ".join(f"{tier} lacks: {reason}" for tier, reason in missing.items() if reason)
    here = f"the strongest tier here is {best}" if best else "there is no sandbox here"
    remedy = (
        f"sandbox.min_tier={best} if its weaker walls will do (docs/sandbox.md)"
        if best
        else "run it on Linux 5.14 or later with landlock and seccomp"
    )
    return (
        f"sandbox.min_tier={min_tier}: {here} ({reasons}). Allow unprivileged user namespaces "
        f"(docs/sandbox.md says how), or {remedy}"
    )
