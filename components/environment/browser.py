"""Browser: a web page to be worked, judged by its own state."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from rlcomp.arguments import Checked, NonEmptyText, PositiveFloat
from rlcomp.errors import DataError, require
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example
from rlcomp.sandbox.page import HEIGHT, WIDTH, Page, Refused, program_of

MANUAL = f"""
Each of your turns ends with one action:
<click>e6</click> clicks the element [ref=e6].
<type into="e6">text</type> puts a text into a field, or chooses the option of that name.
<scroll>down</scroll> or <scroll>up</scroll> moves the page by half a window.
<done/> says that all is done.
In place of e6: x,y,width,height, a box of the window ({WIDTH} by {HEIGHT}), for its middle.
"""
_ELEMENT = re.compile(r"e\d{1,6}|f\d{1,4}e\d{1,6}")
_NUMBER = r"\s*(\d{1,5}(?:\.\d{1,3})?)\s*"
_BOX = re.compile(rf"\[?{','.join([_NUMBER] * 4)}\]?")
_ACTIONS = {
    "</click>": re.compile(r"<click>(?P<where>[^<>]*)</click>"),
    "</type>": re.compile(r'<type into="(?P<where>[^"<>]*)">(?P<text>.*)</type>', re.DOTALL),
    "</scroll>": re.compile(r"<scroll>\s*(?P<way>down|up)\s*</scroll>"),
}


class Browser(metaclass=Checked):
    """A web page in a headless browser: click, type, scroll; the page's own state is the verdict.

    The page is the text of the column ``page``; it reaches no network, and every address but its
    own is refused (:mod:`rlcomp.sandbox.page`). Observations are its accessibility tree, a line an
    element, interactive ones with a number. The turn ``<done/>`` pays 1 if the expression of
    JavaScript in the column ``goal`` is ``true`` in the page, else 0; one that raises is not.

    A turn without an action, or one that the page does not let happen, is told so and costs the
    turn. A page that hangs or crashes breaks the episode.

    Args:
        program: Chromium or Chrome; null: the one of ``$CHROMIUM``, or in the path.
        timeout: limit of an action, in seconds.
        boxes: whether observations tell where elements are, ``[box=x,y,width,height]``.

    Raises:
        ConfigError: there is no browser.
        MissingExtra: playwright is not installed.
    """

    stops = ("</click>", "</type>", "</scroll>", "<done/>")

    def __init__(
        self,
        *,
        program: NonEmptyText | None = None,
        timeout: PositiveFloat = 2.0,
        boxes: bool = False,
    ) -> None:
        require("playwright.sync_api", "browser")
        self.program = program_of(program)
        self.timeout = timeout
        self.boxes = boxes
        self.page: Page | None = None
        self.goal = ""
        self.told = {"clicks": 0.0, "texts": 0.0, "scrolls": 0.0, "mistakes": 0.0}
        self.told["resolved"] = math.nan

    def reset(self, example: Example, seed: int) -> Turn:
        """Open the page; tell what can be done, and what is there.

        Raises:
            DataError: a column is missing, the goal is no expression, or holds already.
        """
        del seed
        html, self.goal = (_text(example, name) for name in ("page", "goal"))
        self.page = Page(html, self.program, self.timeout)
        if fault := self.page.fault(self.goal):
            raise DataError(
                f"the column 'goal' is {self.goal!r:.80}, which does not compile: {fault}"
            )
        if self.page.holds(self.goal):
            raise DataError(f"the column 'goal' is {self.goal!r:.80}, which holds from the start")
        return self._turn(self.page, MANUAL)

    def step(self, action: str) -> Turn:
        """Do what a turn asks for.

        Raises:
            RlcompError: the browser has gone.
        """
        assert self.page is not None
        if action.rstrip().endswith("<done/>"):
            self.told["resolved"] = float(self.page.holds(self.goal))
            return Turn(reward=self.told["resolved"], done=True)
        try:
            self._do(self.page, action.rstrip())
        except Refused as refused:
            self.told["mistakes"] += 1
            return self._turn(self.page, f"Not done: {refused}\n")
        return self._turn(self.page, "")

    def _do(self, page: Page, action: str) -> None:
        ending = next((stop for stop in _ACTIONS if action.endswith(stop)), "")
        if not ending:
            raise Refused(
                f"the turn must end with an action: one of {', '.join(self.stops)} ends it"
            )
        kind = ending[2:-1]
        found = _ACTIONS[ending].fullmatch(action, max(0, action.rfind(f"<{kind}")))
        if found is None:
            raise Refused(f"this is not the form of <{kind}>")
        if kind == "scroll":
            page.scroll(0.5 if found["way"] == "down" else -0.5)
        elif kind == "click":
            _click(page, found["where"].strip())
        else:
            _write(page, found["where"].strip(), found["text"])
        self.told[{"click": "clicks", "type": "texts", "scroll": "scrolls"}[kind]] += 1

    def _turn(self, page: Page, text: str) -> Turn:
        shown = text + page.snapshot(boxes=self.boxes)
        # A page that holds the closing text ends nothing.
        shown = shown.replace("</page>", "<\\/page>")
        return Turn(observation=f"\n<page>\n{shown}", closing="\n</page>\n")

    def facts(self) -> Mapping[str, float]:
        """Clicks, texts, scrolls, mistakes; and, once done, the verdict."""
        return dict(self.told)

    def close(self) -> None:
        """Close the page."""
        if self.page is not None:
            self.page.close()


def _click(page: Page, where: str) -> None:
    if _ELEMENT.fullmatch(where):
        page.click(where)
    else:
        page.click_at(*_middle(where))


def _write(page: Page, where: str, text: str) -> None:
    if _ELEMENT.fullmatch(where):
        page.write(where, text)
    else:
        page.write_at(*_middle(where), text)


def _middle(where: str) -> tuple[float, float]:
    """The middle of a box, ``x,y,width,height``."""
    box = _BOX.fullmatch(where)
    if box is None:
        raise Refused(f"{where!r:.60} is no element, such as e6, and no box x,y,width,height")
    x, y, width, height = map(float, box.groups())
    return x + width / 2, y + height / 2


def _text(example: Example, column: str) -> str:
    value = example.columns.get(column)
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"the column {column!r} is {value!r:.80}: must be a text")
    return value
