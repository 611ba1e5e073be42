"""Order of overrides: Hydra's parser does not accept them on both sides of an option."""

from __future__ import annotations

from collections.abc import Sequence

from hydra._internal.utils import get_args_parser


def gathered(words: Sequence[str]) -> list[str]:
    """Return the words of a command line, with all overrides first if options separate them.

    Args:
        words: without the name of the program; not changed if an option is not Hydra's.

    Examples:
        >>> gathered(["seed=1", "--cfg", "job", "~kl"])
        ['seed=1', '~kl', '--cfg', 'job']
        >>> gathered(["-cd", "mine", "seed=1"]), gathered(["seed=1", "--lr", "2", "a=3"])
        (['-cd', 'mine', 'seed=1'], ['seed=1', '--lr', '2', 'a=3'])
    """
    known = get_args_parser()._option_string_actions
    overrides, options, pieces = list[str](), list[str](), list[bool]()
    rest = [*words]
    while rest:
        word = rest.pop(0)
        action = known.get(word.partition("=")[0])
        pieces.append(not word.startswith("-"))
        if pieces[-1]:
            overrides.append(word)
            continue
        if action is None:
            return [*words]
        options.append(word)
        takes = action.nargs is None or (action.nargs == "?" and rest[:1] and "=" not in rest[0])
        if takes and rest and "=" not in word:
            options.append(rest.pop(0))
    places = [place for place, is_override in enumerate(pieces) if is_override]
    parted = places and len(places) <= places[-1] - places[0]
    return [*overrides, *options] if parted else [*words]
