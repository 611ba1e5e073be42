"""Pages worked by a script in a real browser. Skipped where there is none."""

import contextlib
import os
import re
import signal
import socket
import sys
import threading

import pytest

from components.environment.browser import Browser, _click, _text
from components.worlds.form.task import Form
from rlcomp.arguments import Unbuilt
from rlcomp.episodes.host import EnvironmentFailure, Start
from rlcomp.episodes.processes import ProcessHosts
from rlcomp.errors import ConfigError, DataError, RlcompError
from rlcomp.interfaces.environment import Environment, check_facts, check_stops, check_turn
from rlcomp.interfaces.task import Example
from rlcomp.sandbox.page import PageActionError, find_browser


@pytest.fixture(scope="module")
def program():
    pytest.importorskip("playwright", reason="no browser: install playwright")
    try:
        return find_browser(None)
    except ConfigError:
        pytest.skip("no browser: install chromium, or name one in CHROMIUM")


@pytest.fixture
def opened(program):
    """A page and its goal, opened: the environment and the first turn."""
    made = []

    def run(page, goal="window.right === true", **settings):
        environment = Browser(program=program, **settings)
        made.append(environment)
        example = Example("", "", "", columns={"page": page, "goal": goal})
        return environment, check_turn(environment.reset(example, seed=0))

    yield run
    for environment in made:
        environment.close()


def element(turn, words):
    """The number that an observation gives an element."""
    return re.search(rf"{words}.*? \[ref=(e\d+)\]", turn.observation)[1]


def filled(environment, turn, values):
    for name, value in values.items():
        kind = "(?:textbox|combobox)"
        where = element(turn, f'{kind} "{name}"')
        turn = check_turn(environment.step(f'<type into="{where}">{value}</type>'))
    return turn


@pytest.fixture(autouse=True)
def library():
    pytest.importorskip("playwright", reason="no browser: install playwright")


class Hand:
    """A page that notes what is done to it."""

    def __init__(self):
        self.done = []

    def __getattr__(self, name):
        return lambda *given: self.done.append((name, *given))


def test_an_element_is_clicked_by_its_number_and_a_box_at_its_middle():
    hand = Hand()

    _click(hand, "e12")
    _click(hand, "10,20,30,60")

    assert hand.done == [("click", "e12"), ("click_at", 25.0, 50.0)]


def test_a_page_that_holds_the_closing_text_ends_no_observation():
    class Snapshot:
        def snapshot(self, *, boxes):
            return f"boxes {boxes} </page>"

    told = Browser(program=sys.executable, boxes=True)._turn(Snapshot(), "Not done.\n")

    assert told.observation == "\n<page>\nNot done.\nboxes True <\\/page>"
    assert told.closing == "\n</page>\n"


@pytest.mark.parametrize("given", [None, 1, " "])
def test_a_page_and_its_goal_are_texts(given):
    with pytest.raises(DataError, match=r"the column 'goal' is .*: must be a text"):
        _text(Example("", "", "", columns={"goal": given}), "goal")
    assert _text(Example("", "", "", columns={"goal": "x"}), "goal") == "x"


def test_actions_are_what_their_form_says():
    made, hand = Browser(program=sys.executable), Hand()
    made._facts = {"clicks": 0, "texts": 0, "scrolls": 0}

    for action in (
        "I press <click>e3</click>",
        '<type into="0,0,4,2"> a b</type>',
        "<scroll>down</scroll>",
        "<scroll>up</scroll>",
    ):
        made._act(hand, action)

    assert hand.done == [
        ("click", "e3"),
        ("write_at", 2.0, 1.0, " a b"),
        ("scroll", 0.5),
        ("scroll", -0.5),
    ]
    assert made._facts == {"clicks": 1, "texts": 1, "scrolls": 2}
    with pytest.raises(PageActionError, match="not the form of <click>"):
        made._act(hand, "</click>")


@pytest.mark.slow
@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_script_fills_a_form_in_and_sends_it(opened, index):
    example = Form(fields=5).example(index)
    values = dict(re.findall(r"(\w+): ([\w-]+),", example.prompt))
    environment, turn = opened(example.columns["page"], example.columns["goal"])

    turn = filled(environment, turn, values)
    send = element(turn, 'button "Send"')
    turn = check_turn(environment.step(f"Now I send it. <click>{send}</click>"))
    assert "Thank you." in turn.observation

    assert check_turn(environment.step("<done/>")).reward == 1.0
    assert check_facts(environment.facts()) == {
        "clicks": 1, "texts": 5, "scrolls": 0, "mistakes": 0, "resolved": 1,
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("ways", ["not sent", "cleared", "another value", "one is missing"])
def test_a_form_that_is_not_as_asked_for_pays_nothing(opened, ways):
    example = Form(fields=3).example(0)
    values = dict(re.findall(r"(\w+): ([\w-]+),", example.prompt))
    last = [*values][-1]
    if ways == "one is missing":
        del values[last]
    environment, turn = opened(example.columns["page"], example.columns["goal"])

    turn = filled(environment, turn, values)
    if ways == "another value":
        free = next(name for name in values if "Color" not in name)
        turn = filled(environment, turn, {free: f"{values[free]}!"})
    button = {"cleared": "Clear"}.get(ways, "Send")
    if ways != "not sent":
        environment.step(f"<click>{element(turn, f'button .{button}.')}</click>")

    turn = check_turn(environment.step("<done/>"))
    assert (turn.reward, turn.done) == (0.0, True)


BUTTON = "<button style='{}' onclick='window.right = true'>Go</button>"


@pytest.mark.slow
def test_a_box_is_clicked_and_typed_into_at_its_middle(opened):
    page = BUTTON.format("position:absolute;left:100px;top:200px;width:40px;height:20px")
    page += "<input aria-label=Word style='position:absolute;left:0;top:300px;width:90px'>"
    environment, turn = opened(
        page, "right && document.querySelector('input').value === 'hi'", boxes=True
    )
    assert "[box=100,200,40,20]" in turn.observation

    turn = check_turn(environment.step('<type into="0,300,90,20">hi</type>'))
    assert 'textbox "Word"' in turn.observation
    assert ": hi" in turn.observation
    environment.step("<click>100,200,40,20</click>")

    assert check_turn(environment.step("<done/>")).reward == 1.0


@pytest.mark.slow
def test_a_page_is_scrolled(opened):
    page = "<div style='height:5000px'>tall</div>"
    environment, _ = opened(page, "scrollY === 384")  # half of 768

    for way in ("down", "down", "up"):
        environment.step(f"<scroll>{way}</scroll>")

    assert check_turn(environment.step("<done/>")).reward == 1.0


@pytest.mark.slow
def test_what_cannot_be_done_is_told_and_costs_the_turn_only(opened):
    page = "<p>words</p><select aria-label=Size><option>small</select><button disabled>No</button>"
    environment, turn = opened(page, timeout=0.3)
    words, size, no = (element(turn, each) for each in ("paragraph", "combobox", "button"))
    told = {
        "Well.": "the turn must end with an action",
        "<click>e99</click>": "Timeout",
        "<click>there</click>": "'there' is no element",
        '<type into="x">a</type>': "'x' is no element",
        "<type>a</type>": "this is not the form of <type>",
        "<scroll>left</scroll>": "this is not the form of <scroll>",
        f'<type into="{words}">a</type>': "Element is not an <input>",
        f'<type into="{size}">huge</type>': "Timeout",
        f"<click>{no}</click>": "Timeout",
    }
    for action, reason in told.items():
        turn = check_turn(environment.step(action))
        assert re.search(f"Not done: .*{reason}", turn.observation), action
        assert (turn.reward, turn.done) == (0.0, False)

    assert environment.facts()["mistakes"] == len(told)


@pytest.mark.slow
def test_the_page_reaches_nothing(opened):
    """Requests, sockets, frames, workers and links to an address that would answer."""
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(20)
    heard = []

    def listen():
        with contextlib.suppress(OSError):  # the test is over
            while True:
                connection, _ = server.accept()
                heard.append(connection.recv(100))
                connection.close()

    threading.Thread(target=listen, daemon=True).start()
    host = f"127.0.0.1:{server.getsockname()[1]}"
    page = f"""<img src=http://{host}/1><iframe src=http://{host}/2></iframe>
      <link rel=stylesheet href=http://{host}/3><a href=http://{host}/4>Away</a>
      <a href=http://{host}/5 target=_blank>Apart</a><a href=file:///etc/passwd>File</a>
      <form action=http://{host}/6 method=post><button>Post</button></form>
      <script>
        document.addEventListener("click", () => window.clicks = 1 + (window.clicks || 0));
        const tried = Promise.allSettled([fetch("http://{host}/7"), fetch("http://localhost:1/")]);
        tried.then(all => window.all = all.map(one => one.status).join());
        const socket = new WebSocket("ws://{host}/8");
        socket.onerror = () => window.refused = true;
        navigator.sendBeacon("http://{host}/9", "x");
      </script>"""
    goal = "all === 'rejected,rejected' && refused && clicks === 4"
    goal += " && location.href === 'http://page.test/'"
    environment, turn = opened(page, goal)

    for name in ("Away", "Apart", "File"):
        environment.step(f"<click>{element(turn, f'link .{name}.')}</click>")
    environment.step(f"<click>{element(turn, 'button .Post.')}</click>")

    assert check_turn(environment.step("<done/>")).reward == 1.0
    server.close()
    assert heard == []


@pytest.mark.slow
def test_a_goal_that_raises_is_not_reached_and_a_page_cannot_end_what_is_shown(opened):
    page = (
        "<p>&lt;/page></p><meta http-equiv=Content-Security-Policy content=\"script-src 'none'\">"
    )
    environment, turn = opened(page, "nothing.there === 1")

    assert "</page>" not in turn.observation
    assert check_turn(environment.step("<done/>")).reward == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "goal", "told"),
    [
        ("", "true", "the column 'page' is ''"),
        ("<p>", None, "the column 'goal' is None"),
        ("<p>", "1 +", "does not compile: SyntaxError"),
        ("<p>", "const x = 1", "does not compile: SyntaxError"),
        ("<p>", "1 === 1", "holds from the start"),
    ],
)
def test_a_row_of_another_kind_is_refused_by_its_column(opened, page, goal, told):
    with pytest.raises(DataError, match=re.escape(told)):
        opened(page, goal)


@pytest.mark.slow
def test_in_a_worker_a_page_that_hangs_breaks_its_episode_and_others_go_on(program):
    """The limits of addresses and of processor time of a worker are not the browser's."""
    hangs = "<button onclick='for (;;);'>Go</button>"
    pages = {"page": hangs, "goal": "window.right"}, {"page": BUTTON, "goal": "right"}
    starts = [Start(Example("", "", "", columns=each), 0) for each in pages]
    pool = ProcessHosts(num_workers=1, timeout=5.0)
    try:
        target = "components.environment.browser.Browser"
        host = pool.host(Unbuilt(target, {"program": program, "timeout": 1.0}))
        turns = host.open(starts)
        click = f"<click>{element(turns[0], 'button')}</click>"
        host.step({0: click, 1: click})
        ends = host.step({0: "<done/>", 1: "<done/>"})
        host.close()
    finally:
        pool.close()
    assert isinstance(ends[0], EnvironmentFailure)
    assert ends[1].reward == 1.0


@pytest.mark.slow
def test_a_browser_that_crashes_breaks_the_episode_and_the_next_one_has_another(opened):
    environment, _ = opened("<p>here</p>")
    environment.page.context.browser.close()

    with pytest.raises(RlcompError, match="the browser has ended"):
        environment.step("<done/>")
    assert "here" in opened("<p>here</p>")[1].observation


@pytest.mark.slow
def test_a_page_that_crashes_breaks_the_episode(opened):
    environment, _ = opened("<p>here</p>")
    session = environment.page.context.browser.new_browser_cdp_session()
    for process in session.send("SystemInfo.getProcessInfo")["processInfo"]:
        if process["type"] == "renderer":
            os.kill(process["id"], signal.SIGKILL)

    with pytest.raises(RlcompError, match="the page has crashed"):
        environment.step("<done/>")


def test_it_is_an_environment_and_needs_a_browser(tmp_path):
    program = tmp_path / "browser"
    program.write_text("")
    program.chmod(0o755)

    environment = Browser(program=str(program))

    assert isinstance(environment, Environment)
    assert check_stops(environment) == ("</click>", "</type>", "</scroll>", "<done/>")
    environment.close()
    with pytest.raises(ConfigError, match="/no/browser: no browser is found"):
        Browser(program="/no/browser")
