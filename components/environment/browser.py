"""Environment of a web page in a headless browser."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from rlcomp.arguments import Checked, NonEmptyText, PositiveFloat
from rlcomp.errors import DataError, require
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example
from rlcomp.sandbox.page import HEIGHT, WIDTH, Page, PageActionError, find_browser

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
    "</click>": re.compile(r"<click>(?P<target>[^<>]*)</click>"),
    "</type>": re.compile(r'<type into="(?P<target>[^"<>]*)">(?P<text>.*)</type>', re.DOTALL),
    "</scroll>": re.compile(r"<scroll>\s*(?P<direction>down|up)\s*</scroll>"),
}


class Browser(metaclass=Checked):
    """Web page in a headless browser: click, type, scroll; the page's state decides the reward.

    The page is the column ``page``, without network (:mod:`rlcomp.sandbox.page`). Observations are
    its accessibility tree, one line per element, with a number for interactive ones. The reward of
    the turn ``<done/>`` is 1 if the JavaScript expression in the column ``goal`` is ``true`` in the
    page, else 0 (also if it raises).

    A turn without a possible action gets a message and is one of the episode's turns. A page that
    hangs or crashes makes the episode fail.

    Args:
        program: Chromium or Chrome; null: the one in ``$CHROMIUM`` or on the path.
        timeout: time limit of an action, in seconds.
        boxes: whether observations hold the boxes of elements, ``[box=x,y,width,height]``.

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
        self.program = find_browser(program)
        self.timeout = timeout
        self.boxes = boxes
        self.page: Page | None = None
        self.goal = ""
        self._facts = {"clicks": 0.0, "texts": 0.0, "scrolls": 0.0, "mistakes": 0.0}
        self._facts["resolved"] = math.nan

    def reset(self, example: Example, seed: int) -> Turn:
        """Open the page; return the instructions and the first observation.

        Raises:
            DataError: a column is missing, the goal is no expression, or it is true already.
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
        """Execute the action of a turn.

        Raises:
            RlcompError: the browser has ended.
        """
        assert self.page is not None
        if action.rstrip().endswith("<done/>"):
            self._facts["resolved"] = float(self.page.holds(self.goal))
            return Turn(reward=self._facts["resolved"], done=True)
        try:
            self._act(self.page, action.rstrip())
        except PageActionError as error:
            self._facts["mistakes"] += 1
            return self._turn(self.page, f"Not done: {error}\n")
        return self._turn(self.page, "")

    def _act(self, page: Page, action: str) -> None:
        ending = next((stop for stop in _ACTIONS if action.endswith(stop)), "")
        if not ending:
            raise PageActionError(
                f"the turn must end with an action: one of {', '.join(self.stops)} ends it"
            )
        kind = ending[2:-1]
        match = _ACTIONS[ending].fullmatch(action, max(0, action.rfind(f"<{kind}")))
        if match is None:
            raise PageActionError(f"this is not the form of <{kind}>")
        if kind == "scroll":
            page.scroll(0.5 if match["direction"] == "down" else -0.5)
        elif kind == "click":
            _click(page, match["target"].strip())
        else:
            _write(page, match["target"].strip(), match["text"])
        self._facts[{"click": "clicks", "type": "texts", "scroll": "scrolls"}[kind]] += 1

    def _turn(self, page: Page, text: str) -> Turn:
        content = text + page.snapshot(boxes=self.boxes)
        # Escape the closing text in the page, so that the page cannot end the observation.
        content = content.replace("</page>", "<\\/page>")
        return Turn(observation=f"\n<page>\n{content}", closing="\n</page>\n")

    def facts(self) -> Mapping[str, float]:
        """Return the numbers of actions by kind, of ``mistakes``, and the verdict, ``resolved``.

        ``clicks``, ``texts`` and ``scrolls`` count the actions that were done, ``mistakes`` the
        turns without a possible action. ``resolved`` is the final reward, NaN before ``<done/>``.
        """
        return dict(self._facts)

    def close(self) -> None:
        """Close the page."""
        if self.page is not None:
            self.page.close()


def _click(page: Page, target: str) -> None:
    if _ELEMENT.fullmatch(target):
        page.click(target)
    else:
        page.click_at(*_box_centre(target))


def _write(page: Page, target: str, text: str) -> None:
    if _ELEMENT.fullmatch(target):
        page.write(target, text)
    else:
        page.write_at(*_box_centre(target), text)


def _box_centre(target: str) -> tuple[float, float]:
    """Return the centre of a box ``x,y,width,height``."""
    box = _BOX.fullmatch(target)
    if box is None:
        raise PageActionError(
            f"{target!r:.60} is no element such as e6, and no box x,y,width,height"
        )
    x, y, width, height = map(float, box.groups())
    return x + width / 2, y + height / 2


def _text(example: Example, column: str) -> str:
    value = example.columns.get(column)
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"the column {column!r} is {value!r:.80}: must be a text")
    return value
