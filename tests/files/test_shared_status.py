import os

from rlcomp.files.shared_status import SharedStatus, describe_place


def in_another_process(act):
    child = os.fork()
    if not child:
        act()
        os._exit(0)
    os.waitpid(child, 0)


def test_what_a_run_says_of_itself_is_there_after_its_process():
    watch = SharedStatus(watched=True)

    in_another_process(lambda: [watch.at("rl", 2, 9, "réward"), watch.end({"exit_code": 3})])

    assert watch.place() == {"phase": "rl", "step": 2, "steps": 9, "stage": "réward"}
    assert watch.ended() == {"exit_code": 3}


def test_a_run_that_has_said_nothing_is_nowhere():
    watch = SharedStatus()

    watch.doing("writing the record")

    assert (watch.place(), watch.ended(), watch.signals, watch.watched) == ({}, {}, 0, False)


def test_what_a_run_does_changes_and_its_step_stays():
    watch = SharedStatus()
    watch.at("rl", 2, 9, "a reward of many words")

    watch.doing("logging")

    assert watch.place() == {"phase": "rl", "step": 2, "steps": 9, "stage": "logging"}


def test_signals_are_counted_across_processes():
    watch = SharedStatus()

    def count():
        watch.signals += 1

    in_another_process(count)
    count()

    assert watch.signals == 2
    watch.signals = 300
    assert watch.signals == 255


def test_the_longest_verdict_fits():
    watch = SharedStatus()
    told = {"error": "\x1b" * 8000, "traceback": "\x1b" * 32000}

    watch.end(told)

    assert watch.ended() == told


def test_a_place_in_words():
    assert describe_place({"phase": "rl", "step": 2, "steps": 9, "stage": "x"}) == (
        "in stage 'x', phase 'rl', step 2 of 9"
    )
