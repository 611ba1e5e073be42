"""Origins of the values of a config that are references."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

# A path. A single word is a path if " is " or "=" follows.
_PATH = re.compile(r"(?<![\w./@{])[A-Za-z_]\w*(?:(?:\.\w+)+|(?= is |=))")


def trace(message: str, origins: Mapping[str, str], words: Iterable[str]) -> str:
    """Return a message with each path replaced by the one where its value is set.

    Args:
        message: names paths of a config.
        origins: of a plan.
        words: overrides; a path that one of them sets stays as it is.

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
    """Return where the value of a path is set; what stands below a reference moves with it."""
    chain = [path]
    while (following := _next(chain[-1], origins)) and following not in chain:
        chain.append(following)
    return next((one for one in reversed(chain) if one in typed), chain[-1])


def _next(path: str, origins: Mapping[str, str]) -> str | None:
    """Return the next place on the way to a value."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        following = origins.get(".".join(parts[:end]), "$")
        if "$" not in following:
            return ".".join([following, *parts[end:]])
    return None
