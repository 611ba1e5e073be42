"""Seats, rows and patience by hand: what decodes is scripted, the clock is set."""

import pytest
import torch

from rlcomp.cluster.slot_scheduler import RolloutGroup, RolloutRow, SlotScheduler
from rlcomp.engine.session import TurnSample
from rlcomp.interfaces.cluster import AsyncSettings


class Scripted:
    """Rows whose contexts say how long they get; each step takes a second.

    A row's n-th token is 100 times its length plus n; its last one stops it.
    """

    def __init__(self, clock):
        self.clock, self.seated, self.told, self.closed, self.renewed = clock, {}, {}, [], 0

    def add(self, contexts):
        places = [len(self.told) + n for n in range(len(contexts))]
        for place, (length,) in zip(places, contexts, strict=True):
            self.seated[place] = self.told[place] = length
        return places

    def advance(self, numbers):
        said = {}
        self.clock[0] += max(map(len, numbers.values()))
        for place, own in numbers.items():
            length = self.told[place]
            done = length - self.seated[place]
            new = range(done, min(done + len(own), length))
            self.seated[place] -= len(new)
            tokens = [100 * length + n for n in new]
            said[place] = TurnSample(tokens, [-0.5 * n for n in new], self.seated[place] > 0)
        return said

    def close(self, rows):
        self.closed += rows

    def renew(self):
        self.renewed += 1


def numbers(start, count):
    return torch.full((count,), float(start))


def group(name, *lengths, limit=99):
    return RolloutGroup(name, [RolloutRow([length], numbers, limit) for length in lengths])


def seating(seats, look_every=2, patience=None):
    clock = [0.0]
    decodes = Scripted(clock)
    settings = AsyncSettings(seats=seats, look_every=look_every, patience=patience)
    return SlotScheduler(lambda: decodes, settings, lambda: clock[0]), decodes, clock


def test_a_row_that_ends_gives_its_seat_to_the_next_of_the_group_behind():
    rows, decodes, clock = seating(seats=2)
    for each in (group("a", 2, 6), group("b", 2, 2)):
        rows.add(each)

    # Two seats: a's rows (2, 6 tokens). After 2 steps the first seat is free: b's first row, then
    # b's second: b is complete at 6 s, when a's second row has its 6 tokens as well.
    found = [[each.data for each in rows.turn(version)] for version in range(3)]

    assert found == [[], [], ["a", "b"]]
    assert clock[0] == 6.0
    assert decodes.closed == [0, 2, 1, 3]
    assert not rows.busy
    assert rows.turn(9) == []
    assert clock[0] == 6.0


def test_tokens_have_the_version_of_the_turn_that_sampled_them():
    rows, _, _ = seating(seats=3)
    made = group("a", 5, 1)
    rows.add(made)

    for version in (7, 8, 10):
        rows.turn(version)

    assert made.rows[0].tokens == [500, 501, 502, 503, 504]
    assert made.rows[0].log_probs == [0.0, -0.5, -1.0, -1.5, -2.0]
    assert made.rows[0].versions == [7, 7, 8, 8, 10]
    assert made.rows[1].versions == [7]
    assert [row.stopped for row in made.rows] == [True, True]


def test_a_group_ends_with_its_last_row_independently_of_earlier_groups():
    rows, _, _ = seating(seats=4)
    for each in (group("long", 5, 1), group("short", 2, 1)):
        rows.add(each)

    assert [each.data for each in rows.turn(0)] == ["short"]
    assert [each.data for each in rows.turn(0)] == []
    assert [each.data for each in rows.turn(0)] == ["long"]


def test_a_limit_ends_a_row_and_no_number_is_drawn_beyond_it():
    asked = []

    def kept(start, count):
        asked.append((start, count))
        return numbers(start, count)

    rows, _, _ = seating(seats=1)
    made = RolloutGroup("a", [RolloutRow([9], kept, 3)])
    rows.add(made)

    assert rows.turn(0) == []
    assert rows.turn(0) == [made]
    assert asked == [(0, 2), (2, 1)]
    assert (made.rows[0].tokens, made.rows[0].stopped) == ([900, 901, 902], False)


@pytest.mark.parametrize(("patience", "turns"), [(4.0, 2), (3.9, 2), (4.1, 3), (2.0, 1)])
def test_a_group_is_closed_when_its_patience_is_over(patience, turns):
    # Turns end at 2, 4, 6 s, and both rows began at 0.
    rows, decodes, _ = seating(seats=2, patience=patience)
    made = group("a", 50, 1)
    rows.add(made)

    found = [rows.turn(0) for _ in range(turns)]

    assert found == [[]] * (turns - 1) + [[made]]
    assert [len(row.tokens) for row in made.rows] == [2 * turns, 1]
    assert [row.stopped for row in made.rows] == [False, True]
    assert decodes.closed[-1] == 0


def test_patience_counts_from_when_the_last_row_of_a_group_begins():
    # One seat: the second row begins at 4 s, and the group is closed at 4 + 3 <= 8 s.
    rows, _, clock = seating(seats=1, patience=3.0)
    made = group("a", 4, 50)
    rows.add(made)

    assert [rows.turn(0) for _ in range(4)] == [[], [], [], [made]]
    assert made.sampling_start == 4.0
    assert clock[0] == 8.0
    assert [len(row.tokens) for row in made.rows] == [4, 4]


def test_new_weights_reach_the_slots_after_they_exist():
    rows, decodes, _ = seating(seats=1)

    rows.renew()
    assert decodes.renewed == 0
    rows.add(group("a", 1))
    rows.turn(0)
    rows.renew()
    assert decodes.renewed == 1
