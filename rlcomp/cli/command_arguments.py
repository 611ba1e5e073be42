"""Order of the arguments of ``rlcomp``, its completion, and the parser of the other programs."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from hydra._internal.utils import get_args_parser

from rlcomp import __version__
from rlcomp.errors import UserError

_DIRECTORY = re.compile(r"\s(?:-cd|--config-dir)[ =](\S+)")


def overrides_first(words: Sequence[str]) -> list[str]:
    """Return the words of a command line, with all overrides first if options separate them.

    Args:
        words: words without the program's name; with an option that Hydra lacks, nothing changes.

    Examples:
        >>> overrides_first(["seed=1", "--cfg", "job", "~kl"])
        ['seed=1', '~kl', '--cfg', 'job']
        >>> overrides_first(["-cd", "mine", "seed=1"])
        ['-cd', 'mine', 'seed=1']
        >>> overrides_first(["seed=1", "--lr", "2", "a=3"])
        ['seed=1', '--lr', '2', 'a=3']
    """
    known = get_args_parser()._option_string_actions
    overrides, options = list[str](), list[str]()
    flags = list[bool]()  # True for each word that is an override
    remaining = [*words]
    while remaining:
        word = remaining.pop(0)
        action = known.get(word.partition("=")[0])
        flags.append(not word.startswith("-"))
        if flags[-1]:
            overrides.append(word)
            continue
        if action is None:
            return [*words]
        options.append(word)
        takes_value = action.nargs is None or (
            action.nargs == "?" and remaining[:1] and "=" not in remaining[0]
        )
        if takes_value and remaining and "=" not in word:
            options.append(remaining.pop(0))
    # Options separate overrides if these are fewer than the places from the first to the last.
    override_positions = [position for position, flag in enumerate(flags) if flag]
    separated = (
        override_positions
        and len(override_positions) <= override_positions[-1] - override_positions[0]
    )
    return [*overrides, *options] if separated else [*words]


def add_config_dirs(words: Sequence[str]) -> list[str]:
    """Return a command line for completion with the ``-cd DIR`` of the line to complete.

    A shell calls ``rlcomp -sc query=bash`` with the line to complete in ``COMP_LINE``. Hydra
    completes overrides by the configs of its own command line, which has no ``-cd``. ``help`` is
    removed from the line, so that its arguments complete like choices.
    """
    line = os.environ.get("COMP_LINE", "")
    if not {"-sc", "--shell-completion"} & set(words) or not line:
        return list(words)
    os.environ["COMP_LINE"] = re.sub(r"\shelp\s", " ", line, count=1)
    directories = [Path(directory).expanduser() for directory in _DIRECTORY.findall(line)]
    # The name of a folder may be incomplete.
    return [
        *words,
        *(
            word
            for directory in directories
            if directory.is_dir()
            for word in ("-cd", str(directory))
        ),
    ]


class Parser(argparse.ArgumentParser):
    """Argument parser whose errors are one line with a remedy, as in ``rlcomp``.

    ``--max_new_tokens`` means ``--max-new-tokens``.

    Args:
        prog: name of the program.
        description: help text of the program.
        positional_names: names of options that do not exist, with positional values (``--prompt``).
        examples: example values of required arguments, by name.

    Raises:
        UserError: words that it does not accept.
    """

    def __init__(
        self,
        *,
        prog: str,
        description: str | None = None,
        positional_names: Collection[str] = (),
        examples: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False)
        self.add_argument(
            "--version", action="version", version=f"{prog} {__version__}", help=argparse.SUPPRESS
        )
        self.positional_names = positional_names
        self.examples = dict(examples or {})
        self.typed: list[str] = []

    def parse(self, words: Sequence[str] | None = None) -> argparse.Namespace:
        """Parse a command line; by default the one of this process."""
        self.typed = typed = [*(sys.argv[1:] if words is None else words)]
        end = typed.index("--") if "--" in typed else len(typed)  # of the options
        if misused := [
            word for word in typed[:end] if word.partition("=")[0] in self.positional_names
        ]:
            raise UserError(self._positional_message(misused[0], typed))
        words = [*map(self._with_dashes, typed[:end]), *typed[end:]]
        if unknown_options := [word for word in words[:end] if self._is_unknown(word)]:
            # An unknown option is reported before missing words.
            raise UserError(self._unknown_message(unknown_options[0]))
        # Words on both sides of an option are allowed, unless a -- ends the options.
        mixed = "--" not in typed
        namespace, unknown = (
            self.parse_known_intermixed_args(words) if mixed else self.parse_known_args(words)
        )
        if unknown:
            raise UserError(self._unknown_message(unknown[0]))
        return namespace

    def error(self, message: str) -> NoReturn:
        """Raise a UserError; :mod:`argparse` calls this."""
        missing = re.fullmatch(r"the following arguments are required: (.+)", message)
        if missing and not {*missing[1].split(", ")} - {*self.examples}:
            names = missing[1].split(", ")
            line = [
                self.prog,
                *map(shlex.quote, self.typed),
                *(self.examples[name] for name in names),
            ]
            fault = f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'} missing"
            raise UserError(f"{fault}: {' '.join(line)}")
        choice = r"argument (\S+): invalid choice: '(.*)' \(choose from (.*)\)"
        if choice_match := re.fullmatch(choice, message):
            raise UserError(self._invalid_choice_message(*choice_match.groups()))
        raise UserError(f"{message}; {self.prog} --help lists the arguments")

    def _invalid_choice_message(self, option: str, value: str, known: str) -> str:
        """Return the message on an invalid value: the line with the most similar valid one."""
        names = re.findall(r"[^', ]+", known)
        nearest_name = max(
            names, key=lambda name: difflib.SequenceMatcher(None, value, name).ratio()
        )
        words = [
            re.sub(rf"^(--[\w-]+=)?{re.escape(value)}$", rf"\1{nearest_name}", w)
            for w in self.typed
        ]
        line = shlex.join([self.prog, *words])
        return f"{option} {value}: it takes {' or '.join(names)}: {line}"

    def _is_unknown(self, word: str) -> bool:
        return bool(re.match(r"--\w", word)) and (
            word.partition("=")[0] not in self._option_string_actions
        )

    def _with_dashes(self, word: str) -> str:
        """Return an option with dashes instead of underscores."""
        name, is_set, value = word.partition("=")
        dashed = name.replace("_", "-")
        return f"{dashed}{is_set}{value}" if dashed in self._option_string_actions else word

    def _positional_message(self, misused: str, typed: Sequence[str]) -> str:
        """Return the message on an option whose value is positional: the line without it."""
        words = [
            word.partition("=")[2] if word.partition("=")[0] in self.positional_names else word
            for word in typed
        ]
        line = " ".join([self.prog, *(shlex.quote(word) for word in words if word)])
        return f"{misused.partition('=')[0]}: its value stands without an option; write {line}"

    def _unknown_message(self, word: str) -> str:
        if word.startswith("-"):
            return f"{word}: there is no such option{self._similar_options(word)}"
        return f"{word}: one word too many; {self.prog} --help lists the arguments"

    def _similar_options(self, word: str) -> str:
        """Return options with similar names, but never the one that runs code."""
        names = [name[2:] for name in self._option_names() if name not in ("--trust", "--version")]
        wrong = word.partition("=")[0].lstrip("-")
        close = difflib.get_close_matches(wrong, names, n=1, cutoff=0.7)
        guess = f"; did you mean '--{close[0]}'?" if close else ""
        return f"{guess} (known: {', '.join(f'--{name}' for name in names)})"

    def _option_names(self) -> list[str]:
        return [name for name in self._option_string_actions if name.startswith("--")]


def positive_int(text: str) -> int:
    """Convert a word of a command line to an integer greater than 0.

    Examples:
        >>> positive_int("12")
        12
    """
    if not re.fullmatch(r"0*[1-9][0-9]{0,8}", text):
        raise argparse.ArgumentTypeError(f"{text!r} must be an integer greater than 0")
    return int(text)
