"""Tiers: how much of the sandbox this machine can give, and the refusal of less than was asked."""

from __future__ import annotations

import functools
import sys
from typing import Literal

from rlcomp.errors import ConfigError

Tier = Literal["strict", "bwrap", "portable"]
TIERS: tuple[Tier, ...] = ("strict", "bwrap", "portable")  # the strongest first


def probe() -> dict[Tier, str]:
    """What each tier lacks on this machine; empty if nothing."""
    return {tier: lacks(tier) for tier in TIERS}


@functools.cache
def lacks(tier: Tier) -> str:
    """What a tier lacks on this machine, found by starting a fork server in it; empty: nothing."""
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
        ConfigError: names those there are.
    """
    if tier not in TIERS:
        raise ConfigError(f"sandbox.min_tier={tier!r}: one of {', '.join(TIERS)}")


def strongest(min_tier: Tier) -> Tier:
    """The strongest tier that this machine gives.

    Raises:
        ConfigError: it is weaker than ``min_tier``; says what lacks and what can be done.
    """
    known(min_tier)
    missing: dict[Tier, str] = {}
    for tier in TIERS:
        missing[tier] = lacks(tier)
        if not missing[tier]:
            break
    found = None if missing[tier] else tier
    if found is not None and TIERS.index(found) <= TIERS.index(min_tier):
        return found
    raise ConfigError(_refusal(min_tier, found, missing))


def _refusal(min_tier: Tier, found: Tier | None, missing: dict[Tier, str]) -> str:
    told = "; ".join(f"{tier} lacks: {reason}" for tier, reason in missing.items() if reason)
    here = f"the strongest tier here is {found}" if found else "there is no sandbox here"
    remedy = (
        f"sandbox.min_tier={found} if its weaker walls will do (docs/sandbox.md)"
        if found
        else "run it on Linux 5.14 or later with landlock and seccomp"
    )
    return (
        f"sandbox.min_tier={min_tier}: {here} ({told}). Allow unprivileged user namespaces "
        f"(docs/sandbox.md says how), or {remedy}"
    )
