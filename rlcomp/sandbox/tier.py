"""Tiers of isolation: choice of the strongest tier of this machine."""

from __future__ import annotations

import functools
import sys
from typing import Literal

from rlcomp.errors import ConfigError
from rlcomp.sandbox.fork_server import ForkServer

Tier = Literal["strict", "bwrap", "portable"]
TIERS: tuple[Tier, ...] = ("strict", "bwrap", "portable")  # the strongest first


def probe() -> dict[Tier, str]:
    """Return the missing requirement of each tier on this machine; '' if there is none."""
    return {tier: find_missing(tier) for tier in TIERS}


@functools.cache
def find_missing(tier: Tier) -> str:
    """Return a tier's missing requirement on this machine; '' if a fork server starts in it."""
    if sys.platform != "linux":
        return f"Linux (this is {sys.platform})"
    server = ForkServer(tier)
    try:
        return server.wait_for_start()
    finally:
        server.close()


def check_tier(tier: str) -> None:
    """Check the name of a tier.

    Raises:
        ConfigError: there is no such tier; the message lists the tiers.
    """
    if tier not in TIERS:
        raise ConfigError(f"sandbox.min_tier={tier!r}: must be one of {', '.join(TIERS)}")


def find_strongest(min_tier: Tier) -> Tier:
    """Return the strongest tier of this machine.

    Raises:
        ConfigError: there is no tier ``min_tier``, or this machine has no tier as strong as it; the
            message then names the reason and a remedy.
    """
    check_tier(min_tier)
    missing: dict[Tier, str] = {}
    for tier in TIERS:
        missing[tier] = find_missing(tier)
        if not missing[tier]:
            break
    best = None if missing[tier] else tier
    if best is not None and TIERS.index(best) <= TIERS.index(min_tier):
        return best
    raise ConfigError(_refusal(min_tier, best, missing))


def _refusal(min_tier: Tier, best: Tier | None, missing: dict[Tier, str]) -> str:
    reasons = "; ".join(f"{tier} lacks: {reason}" for tier, reason in missing.items() if reason)
    available = f"the strongest tier here is {best}" if best else "there is no sandbox here"
    remedy = (
        f"sandbox.min_tier={best} if its weaker isolation is enough (docs/sandbox.md)"
        if best
        else "run on Linux 5.14 or later with landlock and seccomp"
    )
    return (
        f"sandbox.min_tier={min_tier}: {available} ({reasons}). Allow unprivileged user namespaces "
        f"(docs/sandbox.md says how), or {remedy}"
    )
