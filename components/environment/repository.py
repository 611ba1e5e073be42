"""Environment of a repository: a software task solved by edits and judged by hidden tests."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from rlcomp.arguments import Checked, PositiveFloat, PositiveInt
from rlcomp.errors import DataError
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example
from rlcomp.sandbox.job import MEBIBYTE, Limits
from rlcomp.sandbox.sandbox import Sandbox
from rlcomp.sandbox.tree import is_test, job_of, read_tree, verdicts_by_name
from rlcomp.verify.edits import (
    STOPS,
    ActionError,
    RepositoryAction,
    action_of,
    create_file,
    edit_file,
    view_file,
)

_MAX_OUTPUT = 6000  # characters of the output of the public tests, the last ones

MANUAL = """
Each of your turns ends with one action:
<view>a.py</view> shows a file, <view>a.py:10-40</view> these lines of it.
<edit path="a.py"><old>text that stands there once</old><new>what shall stand there</new></edit>
<create path="b.py">text</create> makes a file.
<run/> runs the tests that you can see.
<submit/> hands the repository in: tests that you cannot see judge it.
The files:
"""


class Repository(metaclass=Checked):
    """Small repository with an issue: view, edit, run its tests, submit; hidden tests judge it.

    The reward of the submission is 1 if all tests of ``fail_to_pass`` and ``pass_to_pass`` pass,
    else 0. A turn without a possible action gets a message and is one of the episode's turns.

    The hidden tests run in one jail and the repository in another, and exchange plain data only
    (:mod:`rlcomp.sandbox.tree_proxies`), so that no edit can change the verdict. Edits of test
    files do not count. A failure of the sandbox makes the episode invalid.

    Columns of the example, as :mod:`rlcomp.data.software` makes them: ``files`` and
    ``hidden_tests`` (texts by path), ``fail_to_pass`` and ``pass_to_pass`` (names of hidden tests).
    The state of a turn (``anchor``) is the digest of the files.

    Args:
        min_tier: the weakest sandbox tier that is accepted (docs/sandbox.md).
        timeout: time limit of a run of tests, in seconds.
        memory_mib: memory limit of each jail, in MiB.

    Source:
        Jimenez et al. 2024 (SWE-bench), arXiv:2310.06770, for the two lists of tests; Yang et al.
        2024 (SWE-agent), arXiv:2405.15793, for edits of a text that occurs once.
    """

    stops = STOPS

    def __init__(
        self,
        *,
        min_tier: Literal["strict", "bwrap", "portable"] = "strict",
        timeout: PositiveFloat = 5.0,
        memory_mib: PositiveInt = 512,
    ) -> None:
        self.min_tier = min_tier
        self.limits = Limits(wall=timeout, cpu=timeout, memory=memory_mib * MEBIBYTE)
        self.files: dict[str, str] = {}
        self.hidden: dict[str, str] = {}
        self.names: dict[str, tuple[str, ...]] = {}
        self._facts = dict.fromkeys(("views", "edits", "runs", "mistakes"), 0.0)
        self._facts |= dict.fromkeys(("resolved", "fail_to_pass", "pass_to_pass"), math.nan)

    def reset(self, example: Example, seed: int) -> Turn:
        """Return the instructions and the list of files.

        Raises:
            DataError: a column is missing or holds something else.
        """
        del seed
        self.files = read_tree(example.columns.get("files"), "files")
        self.hidden = read_tree(example.columns.get("hidden_tests"), "hidden_tests")
        for name in ("fail_to_pass", "pass_to_pass"):
            self.names[name] = _test_names(example.columns.get(name), name, self.hidden)
        if not self.names["fail_to_pass"]:
            raise DataError("the column 'fail_to_pass' is empty: name the tests that must pass")
        sizes = [f"{path} ({text.count(chr(10))} lines)" for path, text in self.files.items()]
        return self._turn(MANUAL + "\n".join(sorted(sizes)))

    def step(self, action: str) -> Turn:
        """Execute the action of a turn.

        Raises:
            ConfigError: this machine has no such sandbox.
            RlcompError: the sandbox failed.
        """
        try:
            command = action_of(action)
            if command.kind == "submit":
                return self._submit()
            handlers: Mapping[str, Callable[[RepositoryAction], str]] = {
                "view": self._view,
                "edit": self._edit,
                "create": self._edit,
                "run": self._run,
            }
            return self._turn(handlers[command.kind](command))
        except ActionError as error:
            self._facts["mistakes"] += 1
            return self._turn(f"Not done: {error}")

    def _view(self, command: RepositoryAction) -> str:
        text = view_file(self.files, command)
        self._facts["views"] += 1
        return text

    def _edit(self, command: RepositoryAction) -> str:
        self.files = (edit_file if command.kind == "edit" else create_file)(self.files, command)
        self._facts["edits"] += 1
        return f"Done: {command.path}"

    def _run(self, command: RepositoryAction) -> str:
        del command
        tests = {path: text for path, text in self.files.items() if is_test(path)}
        self._facts["runs"] += 1
        if not tests:
            return "There are no tests."
        (outcome,) = _sandbox(self.min_tier, os.getpid()).map(
            [job_of(self.files, tests, (), self.limits)]
        )
        # The job is a set-up and one call that runs all tests.
        has_run = len(outcome.tests) > 1
        failure = "" if has_run else f"Ended: {outcome.status}: {outcome.message}"
        # Addresses differ between processes, but a replay of the episode must print the same.
        return re.sub(r"\b0x[0-9a-f]{6,}", "0x...", outcome.stdout[-_MAX_OUTPUT:]) + failure

    def _submit(self) -> Turn:
        names = [*dict.fromkeys(name for group in self.names.values() for name in group)]
        (outcome,) = _sandbox(self.min_tier, os.getpid()).map(
            [job_of(self.files, self.hidden, names, self.limits)]
        )
        passes = verdicts_by_name(outcome, names)
        for group, members in self.names.items():
            if members:
                self._facts[group] = sum(passes[name] for name in members) / len(members)
        self._facts["resolved"] = float(outcome.status == "passed")
        return Turn(reward=self._facts["resolved"], done=True)

    def _turn(self, text: str) -> Turn:
        state = hashlib.sha256(json.dumps(self.files, sort_keys=True).encode()).hexdigest()
        # Escape the closing text in a file, so that the file cannot end the observation.
        content = text.replace("</result>", "<\\/result>")
        return Turn(observation=f"\n<result>\n{content}", closing="\n</result>\n", anchor=state)

    def facts(self) -> Mapping[str, float]:
        """Return the numbers of actions by kind, of ``mistakes``, and the results of the tests.

        ``views``, ``edits`` and ``runs`` count the actions that were done, ``mistakes`` the turns
        without a possible action. ``resolved`` is the reward of the submission, ``fail_to_pass``
        and ``pass_to_pass`` are shares of passed tests; NaN before the submission or without tests.
        """
        return dict(self._facts)

    def close(self) -> None:
        """No-op: the sandbox belongs to the process."""


@functools.cache
def _sandbox(min_tier: Literal["strict", "bwrap", "portable"], process: int) -> Sandbox:
    """Return the process's sandbox; its episodes run tests one after the other."""
    del process  # a fork cannot use its parent's sandbox
    return Sandbox(workers=1, min_tier=min_tier)


def _test_names(value: object, column: str, hidden: Mapping[str, str]) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise DataError(f"the column {column!r} is {value!r:.80}: must be a list of tests")
    for name in value:
        if not isinstance(name, str) or name.partition("::")[0] not in hidden:
            raise DataError(
                f"the column {column!r} holds {name!r:.80}: must be path::function or "
                "path::Class::method, with a path of hidden_tests"
            )
    return tuple(value)
