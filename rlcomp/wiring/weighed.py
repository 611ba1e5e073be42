"""Several rewards on a command line, and the whole line that weighs them."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence

from rlcomp.wiring.translated import whole_line

_NAMES = re.compile(
    r"(?:\w+\.)*(?:reward|rewards|reward_funcs|reward\.(?:parts|functions|names))=\[(.*)\]"
)
_MAPPING = re.compile(r"reward\.(?:parts|rewards)=\{(.*)\}")
_WEIGHTS = re.compile(r"(?:reward\.)?(?:weights|reward_weights)=[\[{](.*)[\]}]")
# What the whole line has in other words.
_OF_REWARDS = re.compile(r"\+?(\w+\.)*(reward(\.\w+)*|rewards|reward_funcs|reward_weights)=")


def weighed_line(word: str, words: Sequence[str], options: Container[str]) -> str | None:
    """What to write for several rewards, with the whole line; None: the word names none.

    Args:
        word: of the command line.
        words: all of them.
        options: of the group ``reward``.

    Examples:
        >>> word = "reward=[boxed,format]"
        >>> print(weighed_line(word, [word], ["boxed", "format"]))
        several rewards are weighed, each a part with a name; correct_by names the part that \
decides what is right
        the whole line: rlcomp reward=weighted_sum +reward@reward.parts.boxed=boxed \
+reward@reward.parts.format=format 'reward.weights={boxed: 1.0, format: 1.0}' \
reward.correct_by=boxed
    """
    names = _names(word)
    if len(names) < 2 or not all(name in options for name in names.values()):
        return None
    given = next((found[1] for one in words if (found := _WEIGHTS.fullmatch(one))), "")
    numbers = re.findall(r"-?\d+(?:\.\d*)?(?:e[+-]?\d+)?", given)
    weights = numbers if len(numbers) == len(names) else ["1.0"] * len(names)
    own = [
        "reward=weighted_sum",
        *(f"+reward@reward.parts.{name}={option}" for name, option in names.items()),
        f"reward.weights={{{', '.join(map(': '.join, zip(names, weights, strict=True)))}}}",
        f"reward.correct_by={_correct_by(names, words)}",
    ]
    others = [one for one in words if not _OF_REWARDS.match(one)]
    return (
        "several rewards are weighed, each a part with a name; correct_by names the part that "
        f"decides what is right\nthe whole line: {whole_line([*others, *own])}"
    )


def _names(word: str) -> dict[str, str]:
    """Rewards by the names of their parts."""
    if found := _NAMES.fullmatch(word):
        return {name: name for name in re.findall(r"\w+", found[1])}
    if found := _MAPPING.fullmatch(word):
        return dict(re.findall(r"(\w+) *: *(\w+)", found[1]))
    return {}


def _correct_by(names: dict[str, str], words: Sequence[str]) -> str:
    given = [one.partition("=")[2] for one in words if one.startswith("reward.correct_by=")]
    return given[-1] if given and given[-1] in names else next(iter(names))
