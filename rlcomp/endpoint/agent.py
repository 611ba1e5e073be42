"""Runner of outside agents: functions ``agent(base_url, example) -> float | None``.

Worker processes import this module. So it and its imports use the standard library only.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import math
import os
import sys
import threading
import traceback
import urllib.request
from collections.abc import Callable, Mapping
from numbers import Real
from pathlib import Path
from typing import Any

from rlcomp.errors import in_one_line
from rlcomp.workers.function_call import is_async, load

# Reports to the endpoint bypass any proxy.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_POST_SECONDS = 60.0


def load_agent(function: str) -> Callable[..., Any]:
    """Return the function at a dotted path, or in a file: ``agents/mine.py:agent``."""
    file, colon, name = function.rpartition(":")
    if not colon:
        return load(function, None)
    path = Path(file).expanduser().resolve()
    key = f"rlcomp_agent_{path.stem}"
    spec = importlib.util.spec_from_file_location(key, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    module = sys.modules[key] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    agent: Callable[..., Any] = getattr(module, name)
    return agent


def why_unusable(function: str) -> str:
    """Return why a function is not usable as an agent; empty if it is."""
    try:
        target = load_agent(function)
    except Exception as error:
        return in_one_line(error)
    return "" if callable(target) else f"it is a {type(target).__name__}, not callable"


class Agent:
    """Runner of an agent on examples; reports the beginning and the end of each to the endpoint.

    Args:
        function: dotted path, ``file.py:function``, or the function itself.
    """

    def __init__(self, function: str | Callable[..., Any]) -> None:
        self.function = load_agent(function) if isinstance(function, str) else function
        # The agent's clients must not use a proxy for the loopback.
        hosts = [os.environ[name] for name in ("no_proxy", "NO_PROXY") if name in os.environ]
        os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join([*hosts[:1], "127.0.0.1"])

    async def __call__(self, base_url: str, example: Mapping[str, object], timeout: float) -> bool:
        """Run the agent on an example, and report the result to the endpoint.

        Args:
            base_url: base URL of the episode.
            example: ``prompt``, ``answer``, ``seed``, and each column by its name.
            timeout: limit in seconds; an agent that takes longer has failed.

        Returns:
            Whether the agent exceeded the limit; it may still be running.
        """
        run: asyncio.Future[None]
        if is_async(self.function):
            run = asyncio.ensure_future(self._run_async(base_url, example))
        else:
            run = _in_thread(lambda: self._run(base_url, example))
        _, pending = await asyncio.wait([run], timeout=timeout)
        if pending:
            run.cancel()
            report = {"failed": f"the agent ran for more than {timeout:g} s"}
            await _in_thread(lambda: post_report(base_url, "end", report))
        else:
            run.result()
        return bool(pending)

    def _run(self, base_url: str, example: Mapping[str, object]) -> None:
        post_report(base_url, "begin", {})
        try:
            report = _result_report(self.function(base_url, dict(example)))
        except BaseException as error:
            report = _error_report(error)
        post_report(base_url, "end", report)

    async def _run_async(self, base_url: str, example: Mapping[str, object]) -> None:
        await _in_thread(lambda: post_report(base_url, "begin", {}))
        try:
            report = _result_report(await self.function(base_url, dict(example)))
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            report = _error_report(error)
        await _in_thread(lambda: post_report(base_url, "end", report))


def post_report(base_url: str, name: str, body: Mapping[str, object]) -> None:
    """Post a report to an episode of the endpoint."""
    request = urllib.request.Request(
        f"{base_url}/{name}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with _OPENER.open(request, timeout=_POST_SECONDS) as reply:
        reply.read()


def _result_report(result: object) -> dict[str, object]:
    """Return the report of an agent's result."""
    if result is None:
        return {}
    if not isinstance(result, Real) or not math.isfinite(result):
        return {"failed": f"the agent returned {result!r:.60}: must be a finite number or None"}
    return {"reward": float(result)}


def _error_report(error: BaseException) -> dict[str, object]:
    """Return the report of an agent's exception, with the agent's own line."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__
    ]
    where = f" ({os.path.basename(frames[0].filename)}, line {frames[0].lineno})" if frames else ""
    return {"failed": in_one_line(error) + where}


def _in_thread(call: Callable[[], None]) -> asyncio.Future[None]:
    """Call a function in a daemon thread, which does not keep the process alive.

    Returns:
        A future that ends with the call, or raises its exception.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def finish(error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    def run() -> None:
        error: BaseException | None = None
        try:
            call()
        except BaseException as exception:
            error = exception
        if not loop.is_closed():
            loop.call_soon_threadsafe(finish, error)

    threading.Thread(target=run, daemon=True).start()
    return future
