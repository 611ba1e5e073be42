"""Words of the command lines that are not Hydra's."""

from __future__ import annotations

import argparse
import difflib
import re
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import NoReturn

from rlcomp import __version__
from rlcomp.errors import UserError


class Parser(argparse.ArgumentParser):
    """Argument parser whose refusals are one line with a remedy, as those of ``rlcomp`` are.

    ``--max_new_tokens`` means ``--max-new-tokens``.

    Args:
        prog: name of the program.
        description: of what it does.
        plain: options there are not, whose values stand alone (``--prompt``).
        examples: by its name, what may stand where a word is missing.

    Raises:
        UserError: words that it does not take.
    """

    def __init__(
        self,
        *,
        prog: str,
        description: str | None = None,
        plain: Collection[str] = (),
        examples: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False)
        self.add_argument(
            "--version", action="version", version=f"{prog} {__version__}", help=argparse.SUPPRESS
        )
        self.plain = plain
        self.examples = dict(examples or {})
        self.given: list[str] = []

    def parse(self, words: Sequence[str] | None = None) -> argparse.Namespace:
        """What a command line says; of this process if no words are given."""
        self.given = given = [*(sys.argv[1:] if words is None else words)]
        options = given.index("--") if "--" in given else len(given)
        if odd := [word for word in given[:options] if word.partition("=")[0] in self.plain]:
            raise UserError(self._alone(odd[0], given))
        words = [*map(self._spelled, given[:options]), *given[options:]]
        if strange := [word for word in words[:options] if self._is_strange(word)]:
            raise UserError(self._refused(strange[0]))  # before what is missing for its sake
        # Words on both sides of an option, unless a -- says where the options end.
        mixed = "--" not in given
        found, unknown = (
            self.parse_known_intermixed_args(words) if mixed else self.parse_known_args(words)
        )
        if unknown:
            raise UserError(self._refused(unknown[0]))
        return found

    def error(self, message: str) -> NoReturn:
        """Refuse; :mod:`argparse` calls this."""
        lacking = re.fullmatch(r"the following arguments are required: (.+)", message)
        if lacking and not {*lacking[1].split(", ")} - {*self.examples}:
            names = lacking[1].split(", ")
            line = [
                self.prog,
                *map(shlex.quote, self.given),
                *(self.examples[name] for name in names),
            ]
            told = f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'} missing"
            raise UserError(f"{told}: {' '.join(line)}")
        choice = r"argument (\S+): invalid choice: '(.*)' \(choose from (.*)\)"
        if chosen := re.fullmatch(choice, message):
            raise UserError(self._chosen(*chosen.groups()))
        raise UserError(f"{message}; {self.prog} --help tells what it takes")

    def _chosen(self, option: str, value: str, known: str) -> str:
        """What to say of a value that there is not: the whole line with the most alike."""
        names = re.findall(r"[^', ]+", known)
        near = max(names, key=lambda name: difflib.SequenceMatcher(None, value, name).ratio())
        words = [re.sub(rf"^(--[\w-]+=)?{re.escape(value)}$", rf"\1{near}", w) for w in self.given]
        line = shlex.join([self.prog, *words])
        return f"{option} {value}: it takes {' or '.join(names)}: {line}"

    def _is_strange(self, word: str) -> bool:
        return bool(re.match(r"--\w", word)) and (
            word.partition("=")[0] not in self._option_string_actions
        )

    def _spelled(self, word: str) -> str:
        """An option with dashes, where it was written with underscores."""
        name, is_set, value = word.partition("=")
        own = name.replace("_", "-")
        return f"{own}{is_set}{value}" if own in self._option_string_actions else word

    def _alone(self, odd: str, given: Sequence[str]) -> str:
        """What to say of an option whose value stands alone: the whole line without it."""
        words = [
            word.partition("=")[2] if word.partition("=")[0] in self.plain else word
            for word in given
        ]
        line = " ".join([self.prog, *(shlex.quote(word) for word in words if word)])
        return f"{odd.partition('=')[0]}: its value stands without an option; write {line}"

    def _refused(self, word: str) -> str:
        if word.startswith("-"):
            return f"{word}: there is no such option{self._like(word)}"
        return f"{word}: one word too many; {self.prog} --help tells what it takes"

    def _like(self, word: str) -> str:
        """Options like one there is not: by their names, and never the one that runs code."""
        names = [name[2:] for name in self._named() if name not in ("--trust", "--version")]
        asked = word.partition("=")[0].lstrip("-")
        close = difflib.get_close_matches(asked, names, n=1, cutoff=0.7)
        guess = f"; did you mean '--{close[0]}'?" if close else ""
        return f"{guess} (known: {', '.join(f'--{name}' for name in names)})"

    def _named(self) -> list[str]:
        return [name for name in self._option_string_actions if name.startswith("--")]


def positive(text: str) -> int:
    """An integer greater than 0, as a word of a command line.

    Examples:
        >>> positive("12")
        12
    """
    if not re.fullmatch(r"0*[1-9][0-9]{0,8}", text):
        raise argparse.ArgumentTypeError(f"{text!r} must be an integer greater than 0")
    return int(text)
