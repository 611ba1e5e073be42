"""Programs of a candidate and of its tests in two jails.

The tests call the candidate over a pipe. The candidate never sees the tests, and its results reach
them as plain data only. So it cannot pass a test by an exit code, a text in its output, or an
object with its own ``__eq__``.
"""

from __future__ import annotations

import builtins
import json
import os
import struct
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from rlcomp.sandbox.execute import (
    MAX_MESSAGE,
    describe_error,
    execute,
    find_function,
    new_module,
    report,
)
from rlcomp.sandbox.plain_data import MAX_BYTES, NotPlainData, decode, encode

INCOMING, OUTGOING = 4, 5  # file descriptors of the pipes between candidate and tests
_LENGTH = struct.Struct("=I")  # before each message on the pipe: its number of bytes
_MAX_MESSAGE_BYTES = 4 * MAX_BYTES  # two values and their JSON syntax


def send(file: int, text: str) -> None:
    """Write a message to a file descriptor.

    Raises:
        NotPlainData: the message is too long.
    """
    data = text.encode()
    if len(data) > _MAX_MESSAGE_BYTES:
        raise NotPlainData(f"a message of {len(data)} bytes")
    view = memoryview(_LENGTH.pack(len(data)) + data)
    while view:
        view = view[os.write(file, view) :]


def receive(file: int) -> bytes | None:
    """Return the next message; None if the other side has ended or the message is too long."""
    header = _read(file, _LENGTH.size)
    if header is None:
        return None
    (length,) = _LENGTH.unpack(header)
    return _read(file, length) if length <= _MAX_MESSAGE_BYTES else None


def _read(file: int, length: int) -> bytes | None:
    parts = []
    while length:
        part = os.read(file, min(length, 1 << 16))
        if not part:
            return None
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def run_candidate(request: Mapping[str, Any]) -> None:
    """Define the candidate's function and answer calls of the tests until the tests end.

    An answer is a JSON object: ``value``, with ``arguments`` if the call has changed them;
    ``unsupported``; or ``error`` and ``message``.
    """
    namespace = new_module("candidate")
    execute(request["source"], namespace)
    function = find_function(namespace, request["entry_point"])
    while (text := receive(INCOMING)) is not None:
        arguments, named = decode(text)
        before = encode((arguments, named))
        try:
            answer = {"value": encode(function(*arguments, **named))}
        except NotPlainData as error:
            answer = {"unsupported": describe_error(error)[:MAX_MESSAGE]}
        except Exception as error:
            answer = {"error": type(error).__name__, "message": str(error)[:MAX_MESSAGE]}
        else:
            after = encode((arguments, named))
            if after != before:  # the call changed its arguments, so the tests must see the change
                answer["arguments"] = after
        send(OUTGOING, json.dumps(answer))


def run_tests(request: Mapping[str, Any]) -> None:
    """Run the tests and report ``{"passed": bool, "error": text}`` for each of them.

    A value that is not plain data is reported as ``{"unsupported": text}`` and ends the tests.
    """
    namespace = new_module("tests")
    namespace["candidate"] = namespace[request["entry_point"]] = call_candidate
    for source in request["tests"]:
        _run_test(lambda source=source: execute(source, namespace))  # type: ignore[misc]
        # A test's source may define a stub of the function.
        namespace["candidate"] = namespace[request["entry_point"]] = call_candidate
    if callable(check := namespace.get("check")) and check is not call_candidate:
        _run_test(lambda: check(call_candidate))


def _run_test(body: Callable[[], object]) -> None:
    try:
        body()
    except NotPlainData as error:
        report({"unsupported": describe_error(error)[:MAX_MESSAGE]})
        raise CandidateEnded from None
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == "<program>"]
        line = f" (line {lines[-1]} of the test)" if lines else ""
        report({"passed": False, "error": f"{describe_error(error)[:MAX_MESSAGE]}{line}"})
    else:
        report({"passed": True, "error": ""})


class CandidateEnded(BaseException):
    """Error that ends the tests: the candidate has ended, or a value is not plain data.

    It is no ``Exception``, so that tests do not catch it.
    """


def call_candidate(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401
    """Call the function under test in the other jail and return its value.

    Raises:
        CandidateEnded: the candidate has ended.
        NotPlainData: an argument or the value is not plain data.
        Exception: the function has raised an exception (:func:`_exception`).
    """
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
        raise NotPlainData(str(answer["unsupported"])[:MAX_MESSAGE])
    if "error" in answer:
        raise _exception(str(answer["error"]), str(answer["message"])[:MAX_MESSAGE])
    if "arguments" in answer:
        _update((arguments, named), decode(answer["arguments"]))
    return decode(answer["value"])


def _exception(name: str, message: str) -> Exception:
    """Return a built-in ``Exception`` of a name, else a ``RuntimeError``.

    An exception such as ``SystemExit``, which would end the tests, becomes a ``RuntimeError``.
    """
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(message)
        except TypeError:  # the class needs more arguments than a message
            pass
    return RuntimeError(f"{name}: {message}")


def _update(old: Any, new: Any) -> Any:  # noqa: ANN401
    """Copy the candidate's changes of its arguments to the tests' own containers.

    Returns:
        ``old`` itself, updated, if both are a list, a dict or a set; a new tuple of updated members
        if both are a tuple; else ``new``.
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
    if isinstance(old, tuple):
        return (*map(_update, old, new), *new[len(old) :])
    return new
