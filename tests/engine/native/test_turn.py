import ctypes

import torch

from rlcomp.engine.decoding import Decoding
from rlcomp.engine.draw import TokenDraw
from rlcomp.engine.native.turn import DecodeRequest, StopConditions
from rlcomp.engine.session import TurnSample


def integers(pointer, count):
    return list((ctypes.c_int64 * count).from_address(pointer))


def test_what_the_library_is_asked():
    barred = torch.tensor([False, True, False, True])
    uniform = torch.tensor([[0.25, 0.5], [0.75, 0.125], [0.0, 0.5]], dtype=torch.float64).flip(1)
    ends = StopConditions({3, 2}, [b"ab", b"c"], [b"", b"xy", b"z", b"q"])
    steps = DecodeRequest(
        [7, 4], limits=[2, 9], uniform=uniform, draw=TokenDraw(Decoding(temperature=0.5), barred),
        ends=ends, closes=True,
    )  # fmt: skip
    asked = steps.struct

    assert (asked.count, asked.steps, asked.temperature) == (2, 3, 0.5)
    assert integers(asked.rows, 2) == [7, 4]
    assert integers(asked.limits, 2) == [2, 9]
    numbers = (ctypes.c_double * 6).from_address(asked.uniform)
    assert list(numbers) == [0.5, 0.25, 0.125, 0.75, 0.5, 0.0]
    assert integers(asked.suppressed, asked.num_suppressed) == [1, 3]
    assert integers(asked.stops, asked.num_stops) == [2, 3]
    assert ctypes.string_at(asked.texts.bytes, 3) == b"abc"
    assert integers(asked.texts.ends, asked.texts.count) == [2, 3]
    assert integers(asked.table.ends, asked.table.count) == [0, 2, 3, 4]
    assert (asked.goes_on, asked.closes) == (0, 1)


def test_without_texts_no_table_is_handed_over():
    steps = DecodeRequest(
        [0], limits=[1], uniform=torch.zeros(1, 1, dtype=torch.float64),
        draw=TokenDraw(Decoding()), ends=StopConditions([1], (), [b"a"]), goes_on=True,
    )  # fmt: skip

    assert (steps.struct.texts.count, steps.struct.table.count) == (0, 0)
    assert (steps.struct.num_suppressed, steps.struct.goes_on, steps.struct.closes) == (0, 1, 0)


def test_what_rows_said_is_cut_at_their_ends():
    steps = DecodeRequest(
        [0, 1], limits=[2, 2], uniform=torch.zeros(2, 2, dtype=torch.float64),
        draw=TokenDraw(Decoding()), ends=StopConditions([1]),
    )  # fmt: skip
    steps.tokens[:] = torch.tensor([[1, 0], [5, 6]])
    steps.log_probs[:] = torch.tensor([[-1.0, 0.0], [-2.0, -0.5]])
    steps.lengths[:] = torch.tensor([1, 2])
    steps.ended[0] = 1

    assert steps.turns() == [TurnSample([1], [-1.0], False), TurnSample([5, 6], [-2.0, -0.5], True)]
