"""Words of the command lines that are not Hydra's."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from rlcomp.errors import UserError, nearest


class Parser(argparse.ArgumentParser):
    """Argument parser whose refusals are one line with a remedy, as those of ``rlcomp`` are.

    ``--max_new_tokens`` means ``--max-new-tokens``.

    Raises:
        UserError: words that it does not take.
    """

    def parse(self, words: Sequence[str] | None = None) -> argparse.Namespace:
        """What a command line says; of this process if no words are given."""
        given = [*(sys.argv[1:] if words is None else words)]
        options = given.index("--") if "--" in given else len(given)
        found, unknown = self.parse_known_args(
            [*map(self._spelled, given[:options]), *given[options:]]
        )
        if unknown:
            raise UserError(self._refused(unknown[0]))
        return found

    def error(self, message: str) -> NoReturn:
        """Refuse; :mod:`argparse` calls this."""
        raise UserError(f"{message}; {self.prog} --help tells what it takes")

    def _spelled(self, word: str) -> str:
        """An option with dashes, where it was written with underscores."""
        name, is_set, value = word.partition("=")
        own = name.replace("_", "-")
        return f"{own}{is_set}{value}" if own in self._option_string_actions else word

    def _refused(self, word: str) -> str:
        if word.startswith("--"):
            name = word.partition("=")[0]
            return f"{word}: there is no such option{nearest(name, self._named())}"
        if "=" in word and not word.startswith("-"):
            return (
                f"{word}: settings belong to rlcomp; {self.prog} has options of its own "
                f"({', '.join(self._named())})"
            )
        return f"{word}: one word too many; {self.usage_line()}"

    def _named(self) -> list[str]:
        return [name for name in self._option_string_actions if name.startswith("--")]

    def usage_line(self) -> str:
        """The usage in one line."""
        return " ".join(self.format_usage().split())
