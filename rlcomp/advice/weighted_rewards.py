"""Several rewards on a command line, and the whole line that weighs them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rlcomp.config.overrides import whole_line

_WEIGHTS = re.compile(r"(?:reward\.)?(?:weights|reward_weights)=[\[{](.*)[\]}]")
# What the whole line has in other words.
_OF_REWARDS = re.compile(r"\+?(\w+\.)*(reward(\.\w+)*|rewards|reward_funcs|reward_weights)=")


# Settings without a default that are lengths: as many as a response may have tokens will do.
_LENGTHS = ("longest", "target")


def weighed_line(
    names: Mapping[str, str], words: Sequence[str], places: Sequence[Path] = ()
) -> str:
    """Return what to write for several rewards, with the whole line.

    Args:
        names: the options of the rewards, by the names of their parts.
        words: of the command line.
        places: directories of configs, whose options may have settings without a default.

    Examples:
        >>> names = {"boxed": "boxed", "format": "format"}
        >>> print(weighed_line(names, ["reward=[boxed,format]"]))
        several rewards are weighed, each a part with a name; correct_by names the part that \
decides what is right
        the whole line: rlcomp reward=weighted_sum +reward@reward.parts.boxed=boxed \
+reward@reward.parts.format=format 'reward.weights={boxed: 1.0, format: 1.0}' \
reward.correct_by=boxed
    """
    weights_text = next((found[1] for one in words if (found := _WEIGHTS.fullmatch(one))), "")
    numbers = re.findall(r"-?\d+(?:\.\d*)?(?:e[+-]?\d+)?", weights_text)
    weights = numbers if len(numbers) == len(names) else ["1.0"] * len(names)
    own = [
        "reward=weighted_sum",
        *(f"+reward@reward.parts.{name}={option}" for name, option in names.items()),
        f"reward.weights={{{', '.join(map(': '.join, zip(names, weights, strict=True)))}}}",
        f"reward.correct_by={_correct_by(names, words)}",
    ]
    needed = _needed(names, places)
    own += [f"{path}={value}" for path, value in needed.items()]
    open_ = [value for value in needed.values() if "$" not in value]
    called = f"the line, with your {' and '.join(open_)}" if open_ else "the whole line"
    others = [one for one in words if not _OF_REWARDS.match(one)]
    return (
        "several rewards are weighed, each a part with a name; correct_by names the part that "
        f"decides what is right\n{called}: {whole_line([*others, *own])}"
    )


def _needed(names: Mapping[str, str], places: Sequence[Path]) -> dict[str, str]:
    """Return a value, or a name for one, for every setting of the parts without a default."""
    return {
        f"reward.parts.{name}.{key}": (
            "${max_new_tokens}" if key in _LENGTHS else f"{name}_{key}".upper()
        )
        for name, option in names.items()
        for key in _without_default(option, places)
    }


def _without_default(option: str, places: Sequence[Path]) -> Iterator[str]:
    for place in places:
        file = place / "reward" / f"{option}.yaml"
        if file.is_file():
            yield from re.findall(r"^(\w+): \?\?\?", file.read_text(encoding="utf-8"), re.M)
            return


def _correct_by(names: Mapping[str, str], words: Sequence[str]) -> str:
    requested = [one.partition("=")[2] for one in words if one.startswith("reward.correct_by=")]
    return requested[-1] if requested and requested[-1] in names else next(iter(names))
