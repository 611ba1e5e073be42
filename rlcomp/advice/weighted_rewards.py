"""Message on several rewards on a command line, with the whole line that weights them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rlcomp.config.overrides import whole_line

_WEIGHTS = re.compile(r"(?:reward\.)?(?:weights|reward_weights)=[\[{](.*)[\]}]")
# Words that the whole line replaces.
_REWARD_WORDS = re.compile(r"\+?(\w+\.)*(reward(\.\w+)*|rewards|reward_funcs|reward_weights)=")
# Settings without a default that are lengths in tokens: ``max_new_tokens`` is a sound value.
_LENGTHS = ("longest", "target")


def weighted_rewards_message(
    names: Mapping[str, str], words: Sequence[str], places: Sequence[Path] = ()
) -> str:
    """Return the message on several rewards, with the whole line.

    The line has the weights of the words if there is one for each reward, else 1.0.

    Args:
        names: the options of the rewards, by the names of their parts.
        words: words of the command line.
        places: directories of configs, whose options may have settings without a default.

    Examples:
        >>> names = {"boxed": "boxed", "format": "format"}
        >>> print(weighted_rewards_message(names, ["reward=[boxed,format]"]))
        several rewards need reward=weighted_sum; correct_by names the reward that decides \
whether an answer is right
        the whole line: rlcomp reward=weighted_sum +reward@reward.parts.boxed=boxed \
+reward@reward.parts.format=format 'reward.weights={boxed: 1.0, format: 1.0}' \
reward.correct_by=boxed
    """
    matches = map(_WEIGHTS.fullmatch, words)
    weights_text = next((match[1] for match in matches if match), "")
    numbers = re.findall(r"-?\d+(?:\.\d*)?(?:e[+-]?\d+)?", weights_text)
    weights = numbers if len(numbers) == len(names) else ["1.0"] * len(names)
    overrides = [
        "reward=weighted_sum",
        *(f"+reward@reward.parts.{name}={option}" for name, option in names.items()),
        f"reward.weights={{{', '.join(map(': '.join, zip(names, weights, strict=True)))}}}",
        f"reward.correct_by={_correct_by(names, words)}",
    ]
    needed = _settings_without_default(names, places)
    overrides += [f"{path}={value}" for path, value in needed.items()]
    unknown = [value for value in needed.values() if "$" not in value]
    title = f"the line, with your {' and '.join(unknown)}" if unknown else "the whole line"
    others = [word for word in words if not _REWARD_WORDS.match(word)]
    return (
        "several rewards need reward=weighted_sum; correct_by names the reward that decides "
        f"whether an answer is right\n{title}: {whole_line([*others, *overrides])}"
    )


def _settings_without_default(names: Mapping[str, str], places: Sequence[Path]) -> dict[str, str]:
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
    prefix = "reward.correct_by="
    requested = [word.removeprefix(prefix) for word in words if word.startswith(prefix)]
    return requested[-1] if requested and requested[-1] in names else next(iter(names))
