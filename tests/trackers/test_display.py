import io
import re

import pytest
from rich.console import Console

from rlcomp.trackers import display
from rlcomp.trackers.display import Display

PHASES = {"warm_start": 2, "rl": 3}


def shown(terminal, done=0, rewound=None, **phases):
    out = io.StringIO()
    view = Display(seed=3, console=Console(file=out, force_terminal=terminal, width=100))
    if rewound:
        view.rewind(rewound)
    view.start(phases or PHASES, done)
    return view, out


def step(view, total, phase, number, **metrics):
    named = {name.replace("__", "/"): value for name, value in metrics.items()}
    view.log(total, phase, number, {"time/step": 0.5, **named}, [])


def plain(out):
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue())


def test_the_start_says_seed_and_phases():
    view, out = shown(False)
    view.finish()

    assert out.getvalue() == "seed 3: warm_start for 2 steps, then rl for 3 steps\n"


def test_a_continued_run_says_from_where():
    _, out = shown(False, done=2)

    assert out.getvalue().endswith("rl for 3 steps, continued after step 2\n")


def test_without_a_terminal_the_first_and_the_last_step_of_a_phase_are_lines(monkeypatch):
    monkeypatch.setattr(display.time, "monotonic", lambda: 100.0)
    view, out = shown(False)
    for number in (1, 2, 3):
        step(view, 2 + number, "rl", number, reward__mean=number / 4)
    view.finish()

    assert out.getvalue().splitlines()[1:] == ["rl 1/3  reward 0.250", "rl 3/3  reward 0.750"]


def test_without_a_terminal_there_is_a_line_every_ten_seconds(monkeypatch):
    clock = iter([100.0, 100.0, 105.0, 111.0, 111.0])
    monkeypatch.setattr(display.time, "monotonic", lambda: next(clock))
    view, out = shown(False, rl=9)
    for number in (1, 2, 3):
        step(view, number, "rl", number)

    assert [line.split()[1] for line in out.getvalue().splitlines()[1:]] == ["1/9", "3/9"]


def test_a_line_holds_what_was_recorded_last_and_nothing_else():
    view, out = shown(False)
    step(view, 1, "warm_start", 1, loss__sft=2.0, evaluation__sampled=0.5, evaluation__greedy=0.625)
    step(view, 2, "warm_start", 2, kl__reference=0.01, rollout__tokens=600.0, loss__policy=9.0)

    # 600 tokens in half a second.
    assert out.getvalue().splitlines()[-1] == (
        "warm_start 2/2  sampled 0.500  greedy 0.625  KL 0.010  loss 2.000  1,200 tok/s"
    )


def test_a_resumed_display_shows_the_values_of_before():
    view, _ = shown(False)
    step(view, 1, "warm_start", 1, reward__mean=0.5)
    again, out = shown(False, done=1, rewound=view.position())
    step(again, 2, "warm_start", 2)

    assert out.getvalue().splitlines()[-1] == "warm_start 2/2  reward 0.500"


def test_on_a_terminal_every_phase_has_a_bar_and_the_values_stand_below():
    view, out = shown(True)
    step(view, 1, "warm_start", 1, reward__mean=0.5)
    view.finish()

    assert re.search(r"warm_start .*1/2", plain(out))
    assert re.search(r"rl .*0/3", plain(out))
    assert "reward 0.500" in plain(out)


def test_on_a_terminal_a_resumed_run_stands_where_it_stood():
    view, out = shown(True, done=4)
    view.finish()

    assert re.search(r"warm_start .*2/2", plain(out))
    assert re.search(r"rl .*2/3", plain(out))


@pytest.mark.parametrize("terminal", [True, False])
def test_what_ended_a_phase_is_a_line_of_plain_text(terminal):
    view, out = shown(terminal)
    told = {"phase": "rl", "step": 2, "steps": 3, "reason": "KL 0.25 above 0.1, at 'x'"}
    view.phase_ended(4, {**told, "best": None})
    view.finish()

    # Numbers and quoted words have no colour of their own.
    assert "seed 3: warm_start for 2 steps, then rl for 3 steps\n" in out.getvalue()
    assert "rl ended after step 2 of 3: KL 0.25 above 0.1, at 'x'\n" in out.getvalue()


def test_the_terminal_is_left_as_it_was():
    view, out = shown(True)
    step(view, 1, "warm_start", 1)
    view.finish()

    # The cursor was hidden and is shown again.
    assert out.getvalue().rindex("\x1b[?25h") > out.getvalue().rindex("\x1b[?25l")


def test_finishing_before_the_start_is_no_error():
    out = io.StringIO()
    Display(seed=0, console=Console(file=out)).finish()

    assert out.getvalue() == ""
