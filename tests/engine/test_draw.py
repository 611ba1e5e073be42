import pytest
import torch

from rlcomp.engine.decoding import Decoding, unpack_mask
from rlcomp.engine.draw import SampledTokens, Transcript, draw_tokens
from rlcomp.engine.stopping import StopRule
from rlcomp.engine.uniforms import ForkUniforms, Uniforms


def test_a_draw_in_chunks_gives_the_same_tokens(monkeypatch):
    logits = torch.randn(23, 7, generator=torch.Generator().manual_seed(1))
    uniform = torch.rand(23, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    decoding = Decoding(top_p=0.9, replay=True)
    suppressed = torch.arange(7) == 3

    whole = draw_tokens(logits, uniform, decoding, suppressed)
    # 2 rows of 7 at a time.
    monkeypatch.setattr("rlcomp.engine.draw._LOGITS_PER_DRAW", 14)
    parts = draw_tokens(logits, uniform, decoding, suppressed)

    assert torch.equal(parts.tokens, whole.tokens)
    assert torch.equal(parts.log_probs, whole.log_probs)
    assert torch.equal(parts.sampling_mask, whole.sampling_mask)
    assert not (parts.tokens == 3).any()
    assert not unpack_mask(parts.sampling_mask, 7)[:, 3].any()


@pytest.mark.parametrize("decoding", [Decoding(top_p=0.9), Decoding(replay=True)])
def test_masks_are_recorded_only_for_replay(decoding):
    drawn = draw_tokens(torch.zeros(2, 4), torch.zeros(2, 1).double(), decoding, None)

    assert drawn.sampling_mask is None


def test_uniform_numbers_do_not_depend_on_the_order_of_steps():
    steps = Uniforms(3, torch.Generator().manual_seed(0))
    again = Uniforms(3, torch.Generator().manual_seed(0))

    third = again.at(2)

    assert [steps.at(n).shape for n in range(3)] == [(3, 1)] * 3
    assert torch.equal(steps.at(2), third)
    assert torch.equal(steps.at(0), again.at(0))
    assert not torch.equal(again.at(0), again.at(1))


def step(*tokens):
    return SampledTokens(torch.tensor(tokens), -torch.tensor(tokens).float())


def test_a_transcript_assembles_its_segments():
    # Row 1 ends at once with EOS, 9; then rows 2 and 0 go on, in that order, beside a filler.
    transcript = Transcript(3)
    transcript.write([0, 1, 2], 0, [step(1, 9, 2)])
    transcript.write([2, 0], 1, [step(3, 4, 7), step(9, 5, 7)])

    stop = StopRule([9], [3, 3, 3])
    for rows, tokens in (([0, 1, 2], [1, 9, 2]), ([2, 0], [3, 4]), ([2, 0], [9, 5])):
        stop.take(rows, torch.tensor(tokens))

    sampled = transcript.responses(stop)

    assert sampled.tokens[0].tolist() == [1, 4, 5]
    assert sampled.tokens[2].tolist() == [2, 3, 9]
    assert sampled.lengths.tolist() == [3, 1, 3]
    assert sampled.truncated.tolist() == [True, False, False]
    assert sampled.log_probs[2].tolist() == [-2, -3, -9]


def test_numbers_of_seeded_rows_are_independent_of_other_rows():
    draw = torch.Generator().manual_seed(1)
    alone = ForkUniforms(1, draw, [7])
    among = ForkUniforms(3, torch.Generator().manual_seed(2), [5, 7, 7])
    steps = range(130)  # more than two blocks

    own = torch.cat([alone.at(step) for step in steps])
    others = torch.cat([among.at(step) for step in reversed(steps)], 1).flip(1)

    assert torch.equal(others[1], own[:, 0])
    assert torch.equal(others[2], own[:, 0])
    assert not torch.equal(others[0], own[:, 0])
    assert len(own.unique()) == 130
    # A fork draws by itself, and leaves the others as they are.
    among.fork()
    again = torch.cat([among.at(step) for step in steps], 1)
    assert torch.equal(again[:3], others)
    assert not torch.equal(again[3], others[2])


def test_rewind_undoes_numbers_drawn_in_advance():
    ahead, plain = (Uniforms(2, torch.Generator().manual_seed(4)) for _ in range(2))

    actual = [ahead.steps_from(0, 3), ahead.steps_from(3, 3)]
    ahead.rewind(4)

    assert torch.equal(torch.cat(actual)[:4], torch.stack([plain.at(n) for n in range(4)]))
    assert torch.equal(ahead.generator.get_state(), plain.generator.get_state())
    assert torch.equal(ahead.at(5), plain.at(5))
