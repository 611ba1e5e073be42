"""A candidate and its tests: two processes in two jails, and calls from one to the other.

The candidate never sees the tests, and what it returns reaches them as plain data only. So neither
an exit code, nor a mark in its output, nor an object with an ``__eq__`` of its own passes a test.
"""

from __future__ import annotations

import builtins
import json
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from rlcomp.sandbox.execute import MESSAGE, defined, execute, module, report, told
from rlcomp.sandbox.messages import receive, send
from rlcomp.sandbox.plain_data import NotPlain, decode, encode

INCOMING, OUTGOING = 4, 5  # files: the pipe between the two


def run_candidate(request: Mapping[str, Any]) -> None:
    """Answer calls of the tests until they end."""
    namespace = module("candidate")
    execute(request["source"], namespace)
    function = defined(namespace, request["entry_point"])
    while (text := receive(INCOMING)) is not None:
        arguments, named = decode(text)
        before = encode((arguments, named))
        try:
            answer = {"value": encode(function(*arguments, **named))}
        except NotPlain as error:
            answer = {"unsupported": told(error)[:MESSAGE]}
        except Exception as error:
            answer = {"error": type(error).__name__, "message": str(error)[:MESSAGE]}
        else:
            after = encode((arguments, named))
            if after != before:  # it changed what it was given: so shall the tests' own
                answer["arguments"] = after
        send(OUTGOING, json.dumps(answer))


def run_tests(request: Mapping[str, Any]) -> None:
    """A line a test: ``{"passed": bool, "error": told}``."""
    namespace = module("tests")
    namespace["candidate"] = namespace[request["entry_point"]] = call_candidate
    for source in request["tests"]:
        _test(lambda source=source: execute(source, namespace))  # type: ignore[misc]
        # A source may hold a stub of the function beside what the test needs.
        namespace["candidate"] = namespace[request["entry_point"]] = call_candidate
    if callable(check := namespace.get("check")) and check is not call_candidate:
        _test(lambda: check(call_candidate))


def _test(body: Callable[[], object]) -> None:
    try:
        body()
    except NotPlain as error:
        report({"unsupported": told(error)[:MESSAGE]})
        raise CandidateEnded from None
    except Exception as error:
        report({"passed": False, "error": f"{told(error)[:MESSAGE]}{_line_of(error)}"})
    else:
        report({"passed": True, "error": ""})


def _line_of(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == "<program>"]
    return f" (line {lines[-1]} of the test)" if lines else ""


class CandidateEnded(BaseException):
    """The candidate's process has ended, so no test can go on; tests cannot catch it by mistake."""


def call_candidate(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401
    """The function under test, in another sandbox: plain data there and back."""
    call = encode((arguments, named))
    try:
        send(OUTGOING, call)
    except BrokenPipeError:
        raise CandidateEnded from None
    text = receive(INCOMING)
    if text is None:
        raise CandidateEnded
    answer = json.loads(text)
    if "unsupported" in answer:
        raise NotPlain(str(answer["unsupported"])[:MESSAGE])
    if "error" in answer:
        raise _exception(str(answer["error"]), str(answer["message"])[:MESSAGE])
    if "arguments" in answer:
        _update((arguments, named), decode(answer["arguments"]))
    return decode(answer["value"])


def _exception(name: str, message: str) -> Exception:
    """A built-in exception of that name, for tests that expect it; never one that ends them."""
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(message)
        except TypeError:  # one that wants more than a message
            pass
    return RuntimeError(f"{name}: {message}")


def _update(old: Any, new: Any) -> Any:  # noqa: ANN401
    """Give the tests' own containers what the candidate left in its copies.

    Returns:
        What stands for ``new`` among them: ``old`` itself if it is a container.
    """
    if type(old) is not type(new):
        return new
    if isinstance(old, list):
        old[:] = [*map(_update, old, new), *new[len(old) :]]
        return old
    if isinstance(old, dict):
        contents = {key: _update(old.get(key), value) for key, value in new.items()}
        old.clear()
        old.update(contents)
        return old
    if isinstance(old, set):
        old.clear()
        old.update(new)
        return old
    return tuple(map(_update, old, new)) if isinstance(old, tuple) else new
