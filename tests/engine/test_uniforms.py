import pytest
import torch

from rlcomp.engine.uniforms import SliceGenerator, Uniforms, uniform


def part(first, prompts, of, seed=3):
    return SliceGenerator(first, prompts, of).manual_seed(seed)


def test_a_slice_has_the_numbers_of_the_whole_batch():
    # 4 prompts of 3 rows; the third one alone has rows 6, 7 and 8.
    whole = torch.rand(12, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(3))

    actual = uniform(3, part(2, 1, 4))

    assert actual.tolist() == whole[6:9].tolist()


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_steps_of_all_slices_are_those_of_the_batch(workers):
    # 8 prompts of 2 rows each.
    whole = Uniforms(16, torch.Generator().manual_seed(1))
    size = 8 // workers
    parts = [Uniforms(2 * size, part(n * size, size, 8, seed=1)) for n in range(workers)]

    for step in (0, 2, 1):
        assert torch.equal(torch.cat([each.at(step) for each in parts]), whole.at(step))


def test_was_used_tells_whether_numbers_were_drawn():
    generator = part(0, 1, 2)

    torch.rand(2, generator=generator)
    before = generator.was_used
    uniform(1, generator)

    assert (before, generator.was_used) == (False, True)


def test_rows_not_a_multiple_of_prompts_are_refused():
    with pytest.raises(ValueError, match=r"5 rows .* 2 prompts"):
        uniform(5, part(0, 2, 4))


def test_a_whole_batch_may_have_any_number_of_rows():
    actual = uniform(5, part(0, 3, 3))

    plain = torch.rand(5, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    assert torch.equal(actual, plain)
