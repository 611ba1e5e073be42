"""Untrusted web page in a headless browser without a network.

Requests of the page's own address are answered with its text; every other request is refused.
Chromium's own sandbox is used, except by root: it does not work for root.
"""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from typing import Any

from rlcomp.errors import ConfigError, RlcompError, require

ADDRESS = "http://page.test/"
WIDTH, HEIGHT = 1024, 768  # size of the window, in CSS pixels

_BROWSER_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# Flags that keep the page from the network, because interception does not cover sockets.
_OFFLINE_FLAGS = [
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--proxy-bypass-list=<-loopback>",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-background-networking",
]
_UNREACHABLE_PROXY = {"server": "http://127.0.0.1:9"}
_COMPILE_SCRIPT = (
    "goal => { try { new Function(`return (${goal}\\n)`) } catch (e) { return String(e) } }"
)
# ``(0, eval)`` evaluates in the global scope, so that an expression cannot read ``goal``.
_EVALUATE_SCRIPT = (
    "goal => { try { return (0, eval)(`(${goal}\\n)`) === true } catch { return false } }"
)


class PageActionError(Exception):
    """Error of an action that the page does not allow; its message is shown to the policy."""


def find_browser(requested_program: str | None) -> str:
    """Return the path of a browser: the requested one, ``$CHROMIUM``, or one in ``$PATH``.

    Raises:
        ConfigError: no browser is found.
    """
    names = (
        [requested_program]
        if requested_program
        else [os.environ.get("CHROMIUM", ""), *_BROWSER_NAMES]
    )
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        raise ConfigError(
            f"environment.program={requested_program}: no browser is found: install Chromium "
            "(apt-get install chromium), or set its path"
        )
    return program


class Page:
    """Page in a browser, with actions on it.

    Each action raises PageActionError if the page does not allow it, and RlcompError if the page or
    the browser has crashed.

    Args:
        html: text of the page.
        program: path of the browser.
        timeout: time limit of an action, in seconds; it does not limit scripts of the page.

    Raises:
        MissingExtra: playwright is not installed.
        playwright.sync_api.Error: the browser does not start or does not open the page.
    """

    def __init__(self, html: str, program: str, timeout: float) -> None:
        self.errors = require("playwright.sync_api", "browser").Error
        self.html = html
        self.crash_message = ""
        self.context = _browser(program).new_context(
            offline=True,
            service_workers="block",
            accept_downloads=False,
            bypass_csp=True,  # the page's security policy could forbid the evaluation of the goal
            viewport={"width": WIDTH, "height": HEIGHT},
        )
        try:
            self._open_page(timeout)
        except BaseException:
            self.context.close()
            raise

    def _open_page(self, timeout: float) -> None:
        self.context.set_default_timeout(1000 * timeout)
        self.context.route("**/*", self._handle_request)
        self.page = self.context.new_page()
        self.context.on("page", lambda other: other.close())
        self.page.on("crash", lambda _: setattr(self, "crash_message", "the page has crashed"))
        self.page.goto(ADDRESS)

    def _handle_request(self, route: Any) -> None:  # noqa: ANN401
        if route.request.url.partition("?")[0].partition("#")[0] == ADDRESS:
            route.fulfill(body=self.html, content_type="text/html; charset=utf-8")
        else:
            route.abort("aborted")

    def snapshot(self, *, boxes: bool) -> str:
        """Return the page's accessibility tree: one line per element, with its ``[ref=e1]``.

        ``boxes`` adds the place of each element, ``[box=x,y,width,height]``.
        """
        return str(self.page.aria_snapshot(mode="ai", boxes=boxes))

    def click(self, element: str) -> None:
        """Click an element.

        Raises:
            PageActionError: the element cannot be clicked.
        """
        self._run_action(lambda: self.page.locator(f"aria-ref={element}").click())

    def click_at(self, x: float, y: float) -> None:
        """Click a point of the window, in CSS pixels."""
        self._run_action(lambda: self.page.mouse.click(x, y))

    def write(self, element: str, text: str) -> None:
        """Fill a field with a text, or choose the option with this label in a menu.

        Raises:
            PageActionError: the element is no field, or has no such option.
        """
        field = self.page.locator(f"aria-ref={element}")

        def fill_field() -> None:
            if field.evaluate("field => field.tagName") == "SELECT":
                field.select_option(label=text)
            else:
                field.fill(text)

        self._run_action(fill_field)

    def write_at(self, x: float, y: float, text: str) -> None:
        """Click a point and type a text."""
        self._run_action(
            lambda: (self.page.mouse.click(x, y), self.page.keyboard.insert_text(text))
        )

    def scroll(self, screens: float) -> None:
        """Scroll down by a number of window heights; up if negative."""
        self._run_action(lambda: self.page.evaluate("by => scrollBy(0, by * innerHeight)", screens))

    def fault(self, goal: str) -> str:
        """Return the syntax error of a JavaScript expression; '' if there is none."""
        return str(self.page.evaluate(_COMPILE_SCRIPT, goal) or "")

    def holds(self, goal: str) -> bool:
        """Return whether a JavaScript expression is ``true`` in the page; an error counts as false.

        Raises:
            RlcompError: the page or the browser has crashed.
        """
        return bool(self._run_action(lambda: self.page.evaluate(_EVALUATE_SCRIPT, goal)))

    def _run_action(self, action: Callable[[], object]) -> object:
        try:
            return action()
        except self.errors as error:
            is_connected = self.context.browser.is_connected()
            if self.crash_message or self.page.is_closed() or not is_connected:
                raise RlcompError(self.crash_message or "the browser has ended") from error
            raise PageActionError(str(error).partition("\n")[0]) from error

    def close(self) -> None:
        """Close the page."""
        self.context.close()


@functools.cache
def _playwright(process: int) -> Any:  # noqa: ANN401
    del process  # key of the cache: a fork cannot use its parent's playwright
    with _without_limits():
        return require("playwright.sync_api", "browser").sync_playwright().start()


_browsers: dict[tuple[int, str], Any] = {}


def _browser(program: str) -> Any:  # noqa: ANN401
    """Return the browser of this process; start it if it does not run."""
    key = os.getpid(), program
    if key not in _browsers or not _browsers[key].is_connected():
        with _without_limits():
            _browsers[key] = _playwright(key[0]).chromium.launch(
                executable_path=program,
                args=_OFFLINE_FLAGS,
                proxy=_UNREACHABLE_PROXY,
                chromium_sandbox=os.geteuid() != 0,
            )
    return _browsers[key]


@contextlib.contextmanager
def _without_limits() -> Iterator[None]:
    """Lift a worker's limits for processes that start within this context.

    A browser reserves more address space than a machine has memory, and runs during many calls.
    """
    kinds = (resource.RLIMIT_AS, resource.RLIMIT_CPU)
    before = {kind: resource.getrlimit(kind) for kind in kinds}
    try:
        for kind, (_, hard) in before.items():
            resource.setrlimit(kind, (hard, hard))
        yield
    finally:
        for kind, limits in before.items():
            resource.setrlimit(kind, limits)
