import ctypes

import torch

from rlcomp.engine.decoding import Decoding
from rlcomp.engine.draw import TokenDraw
from rlcomp.engine.native.session import DecodeRequest, StopConditions
from rlcomp.engine.session import TurnSample


def integers(pointer, count):
    return list((ctypes.c_int64 * count).from_address(pointer))


def test_a_request_describes_the_turn():
    suppressed = torch.tensor([False, True, False, True])
    uniform = torch.tensor([[0.25, 0.5], [0.75, 0.125], [0.0, 0.5]], dtype=torch.float64).flip(1)
    ends = StopConditions({3, 2}, [b"ab", b"c"], [b"", b"xy", b"z", b"q"])
    request = DecodeRequest(
        [7, 4], limits=[2, 9], uniform=uniform,
        draw=TokenDraw(Decoding(temperature=0.5), suppressed),
        ends=ends, closes=True,
    )  # fmt: skip
    struct = request.struct

    assert (struct.count, struct.steps, struct.temperature) == (2, 3, 0.5)
    assert integers(struct.rows, 2) == [7, 4]
    assert integers(struct.limits, 2) == [2, 9]
    numbers = (ctypes.c_double * 6).from_address(struct.uniform)
    assert list(numbers) == [0.5, 0.25, 0.125, 0.75, 0.5, 0.0]
    assert integers(struct.suppressed, struct.num_suppressed) == [1, 3]
    assert integers(struct.stops, struct.num_stops) == [2, 3]
    assert ctypes.string_at(struct.texts.bytes, 3) == b"abc"
    assert integers(struct.texts.ends, struct.texts.count) == [2, 3]
    assert integers(struct.table.ends, struct.table.count) == [0, 2, 3, 4]
    assert (struct.goes_on, struct.closes) == (0, 1)


def test_a_request_without_stop_texts_has_no_token_table():
    request = DecodeRequest(
        [0], limits=[1], uniform=torch.zeros(1, 1, dtype=torch.float64),
        draw=TokenDraw(Decoding()), ends=StopConditions([1], (), [b"a"]), continues=True,
    )  # fmt: skip

    struct = request.struct
    assert (struct.texts.count, struct.table.count, struct.num_suppressed) == (0, 0, 0)
    assert (struct.goes_on, struct.closes) == (1, 0)


def test_turns_are_cut_at_their_lengths():
    request = DecodeRequest(
        [0, 1], limits=[2, 2], uniform=torch.zeros(2, 2, dtype=torch.float64),
        draw=TokenDraw(Decoding()), ends=StopConditions([1]),
    )  # fmt: skip
    request.tokens[:] = torch.tensor([[1, 0], [5, 6]])
    request.log_probs[:] = torch.tensor([[-1.0, 0.0], [-2.0, -0.5]])
    request.lengths[:] = torch.tensor([1, 2])
    request.ended[0] = 1

    first, second = request.turns()
    assert first == TurnSample([1], [-1.0], False)
    assert second == TurnSample([5, 6], [-2.0, -0.5], True)
