import itertools
from unittest.mock import patch

import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from rlcomp.engine import attention
from rlcomp.engine.packing import pack, pack_prompts, split_by_tokens

CPU = torch.device("cpu")


def make_batch(tokens, response_mask, attention_mask=None):
    tokens, mask = torch.tensor(tokens), torch.tensor(response_mask).bool()
    filled = torch.ones_like(mask) if attention_mask is None else torch.tensor(attention_mask) > 0
    entries = {"tokens": tokens, "attention_mask": filled, "response_mask": mask}
    return TensorDict(entries, batch_size=[len(tokens)])


def three_rows():
    """Rows 0 and 2 answer the prompt (5, 6), row 1 answers the prompt (9)."""
    return make_batch(
        [[5, 6, 7, 8, 1, 0], [9, 4, 1, 0, 0, 0], [5, 6, 3, 1, 0, 0]],
        [[0, 0, 1, 1, 1, 0], [0, 1, 1, 0, 0, 0], [0, 0, 1, 1, 0, 0]],
        [[1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0]],
    )


def tile_size(size):
    return patch.object(attention, "_TILE", size)


def sees(packed):
    """Return whether each packed token (rows) attends to another (columns), shape ``[N, N]``."""
    visible = torch.zeros(len(packed.ids), len(packed.ids), dtype=torch.bool)
    for tile in packed.tiles:
        own = torch.arange(len(visible))[tile.rows]
        before = [torch.arange(len(visible))[packed.tiles[number].rows] for number in tile.prefix]
        before = torch.cat([own[:0], *before])
        if tile.mask is None:
            visible[own[:, None], before] = True
            visible[tile.rows, tile.rows] = own[:, None] >= own
            continue
        assert set(tile.mask.unique().tolist()) <= {0.0, -torch.inf}
        visible[own[:, None], torch.cat([before, own])] = tile.mask == 0
    return visible


def test_equal_prompts_are_packed_once_and_last_tokens_left_out():
    packed, _ = pack(three_rows())

    # The prompt of rows 0 and 2, what follows it in row 2 but for the last token, then in row 0;
    # the prompt of row 1, and what follows it.
    assert packed.ids.tolist() == [5, 6, 3, 7, 8, 9, 4]
    assert packed.positions.tolist() == [0, 1, 2, 2, 3, 0, 1]


def test_shared_prefixes_of_branches_are_packed_once():
    # One prompt (2); (3, 4) is shared by rows 0 to 2, then 5 by rows 0 and 1; row 3 begins row 0.
    batch = make_batch(
        [[2, 3, 4, 5, 6, 9], [2, 3, 4, 5, 7, 9], [2, 3, 4, 8, 6, 9], [2, 3, 4, 5, 0, 0]],
        [[0, 1, 0, 1, 1, 1], [0, 1, 0, 1, 1, 1], [0, 1, 0, 1, 1, 1], [0, 1, 0, 1, 0, 0]],
    )

    with tile_size(3):
        packed, listed = pack(batch)
        tiles = packed.tiles

    assert packed.ids.tolist() == [2, 3, 4, 5, 6, 7, 8, 6]
    # Before 3, 5, 6, 9 of row 0; of row 1; before 3, 8, 6, 9 of row 2; before 3, 5 of row 3.
    assert listed.packed_indices.tolist() == [0, 2, 3, 4, 0, 2, 3, 5, 0, 2, 6, 7, 0, 2]
    assert [(tile.rows, tile.prefix) for tile in tiles] == [
        (slice(0, 3), ()),
        (slice(3, 6), (0,)),
        (slice(6, 8), (0,)),
    ]
    assert (tiles[1].mask == 0).int().tolist() == [
        [1, 1, 1, 1, 0, 0],
        [1, 1, 1, 1, 1, 0],
        [1, 1, 1, 1, 0, 1],
    ]


def test_a_branch_larger_than_a_tile_is_split():
    batch = make_batch(
        [[2, 3, 4, 5, 6, 9], [2, 3, 4, 7, 6, 9], [2, 8, 4, 5, 6, 9]], [[0, 1, 1, 1, 1, 1]] * 3
    )

    with tile_size(2):
        packed, _ = pack(batch)
        tiles = packed.tiles

    assert packed.ids.tolist() == [2, 3, 4, 5, 6, 7, 6, 8, 4, 5, 6]
    assert [(tile.rows, tile.prefix) for tile in tiles] == [
        (slice(0, 1), ()),
        (slice(1, 3), (0,)),
        (slice(3, 5), (0, 1)),
        (slice(5, 7), (0, 1)),
        (slice(7, 11), (0,)),
    ]


def test_each_response_token_is_predicted_by_the_one_before_it():
    _, listed = pack(three_rows())

    # Rows 0, 1, 2: before 7, 8, 1 stand 6, 7, 8; before 4, 1 stand 9, 4; before 3, 1 stand 6, 3.
    assert listed.packed_indices.tolist() == [1, 3, 4, 5, 6, 1, 2]
    assert listed.targets.tolist() == [7, 8, 1, 4, 1, 3, 1]
    assert listed.flat_indices.tolist() == [2, 3, 4, 6 + 1, 6 + 2, 12 + 2, 12 + 3]


def test_small_groups_share_a_tile_with_a_mask():
    packed, _ = pack(three_rows())

    assert [(tile.rows, tile.prefix) for tile in packed.tiles] == [(slice(0, 7), ())]
    assert (packed.tiles[0].mask == 0).int().tolist() == [
        [1, 0, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0, 0],
        [1, 1, 0, 1, 0, 0, 0],
        [1, 1, 0, 1, 1, 0, 0],
        [0, 0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0, 1, 1],
    ]


def test_a_large_group_is_split_after_its_prompt():
    with tile_size(3):
        tiles = pack(three_rows())[0].tiles

    assert [(tile.rows, tile.prefix) for tile in tiles] == [
        (slice(0, 2), ()),
        (slice(2, 5), (0,)),
        (slice(5, 7), ()),
    ]
    assert tiles[0].mask is None
    assert (tiles[1].mask == 0).int().tolist() == [
        [1, 1, 1, 0, 0],
        [1, 1, 0, 1, 0],
        [1, 1, 0, 1, 1],
    ]
    assert tiles[2].mask is None


def test_answers_beyond_a_tile_take_several_tiles():
    with tile_size(2):
        tiles = pack(three_rows())[0].tiles

    assert [(tile.rows, tile.prefix) for tile in tiles] == [
        (slice(0, 2), ()),
        (slice(2, 3), (0,)),
        (slice(3, 5), (0,)),
        (slice(5, 7), ()),
    ]


def test_a_tile_after_a_longer_prefix_has_a_mask():
    rows = [[2, 3, 4, 5, 6, 7, 8, 9], [2, 3, 4, 5, 8, 7, 6, 9]]
    batch = make_batch(rows, [[0, 0, 0, 0, 1, 1, 1, 1]] * 2)

    with tile_size(5):
        tiles = pack(batch)[0].tiles

    # Three tokens after four: computing these again would cost more than the mask.
    assert [(tile.rows, tile.prefix) for tile in tiles] == [
        (slice(0, 4), ()),
        (slice(4, 7), (0,)),
        (slice(7, 10), (0,)),
    ]
    assert (tiles[2].mask == 0).int().tolist() == [
        [1, 1, 1, 1, 1, 0, 0],
        [1, 1, 1, 1, 1, 1, 0],
        [1, 1, 1, 1, 1, 1, 1],
    ]


def test_a_single_long_row_has_no_mask():
    batch = make_batch([[1, 2, 3, 4, 5]], [[0, 0, 1, 1, 1]])

    with tile_size(3):
        tiles = pack(batch)[0].tiles

    assert [(tile.rows, tile.prefix, tile.mask) for tile in tiles] == [(slice(0, 4), (), None)]


def test_a_hole_in_the_response_is_packed_and_not_predicted():
    batch = make_batch([[1, 2, 3, 4, 5, 6]], [[0, 1, 0, 0, 1, 0]])

    packed, listed = pack(batch)

    assert packed.ids.tolist() == [1, 2, 3, 4]
    assert (listed.packed_indices.tolist(), listed.targets.tolist()) == ([0, 3], [2, 5])


def test_a_row_without_response_is_not_packed():
    batch = make_batch([[1, 2, 3], [1, 4, 5]], [[0, 0, 0], [0, 0, 1]])

    packed, listed = pack(batch)

    assert packed.ids.tolist() == [1, 4]
    assert listed.flat_indices.tolist() == [5]


def test_a_response_token_in_column_0_is_left_out():
    first = make_batch([[1, 2, 3]], [[1, 0, 1]])
    only = make_batch([[1, 2, 3]], [[1, 0, 0]])

    assert pack(first)[1].flat_indices.tolist() == [2]
    assert len(pack(only)[1].flat_indices) == 0


def test_without_response_one_token_is_packed():
    packed, listed = pack(make_batch([[3, 4], [5, 6]], [[0, 0], [0, 0]]))

    assert (packed.ids.tolist(), packed.positions.tolist()) == ([3], [0])
    assert len(listed.packed_indices) == len(listed.flat_indices) == len(listed.targets) == 0
    assert sees(packed).tolist() == [[True]]


def test_the_unused_token_is_valid():
    batch = make_batch([[-12345, -1]], [[0, 0]], [[0, 0]])

    assert pack(batch)[0].ids.tolist() == [0]


def test_a_later_group_attends_to_its_own_prompt():
    # Each group reads 2 + 1 + 1: more than 3, so its prompt is a tile by itself.
    batch = make_batch([[2, 2, 3, 1], [2, 2, 4, 1], [5, 5, 3, 1], [5, 5, 4, 1]], [[0, 0, 1, 1]] * 4)

    with tile_size(3):
        tiles = pack(batch)[0].tiles

    assert [(tile.rows, tile.prefix) for tile in tiles] == [
        (slice(0, 2), ()),
        (slice(2, 4), (0,)),
        (slice(4, 6), ()),
        (slice(6, 8), (2,)),
    ]


def test_prompts_of_different_lengths_share_their_prefix():
    batch = make_batch(
        [[2, 2, 2, 2], [2, 2, 2, 2], [2, 3, 2, 2]], [[0, 1, 1, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    )

    # The prompts (2), (2, 2) and (2, 3), and one more token: (2, 2), (2, 2, 2) and (2, 3, 2).
    assert pack(batch)[0].ids.tolist() == [2, 2, 2, 3, 2]


def test_answers_of_one_token_are_predicted_by_the_prompt_alone():
    batch = make_batch([[1, 2, 3], [1, 2, 4]], [[0, 0, 1], [0, 0, 1]])

    packed, listed = pack(batch)

    assert packed.ids.tolist() == [1, 2]
    assert listed.packed_indices.tolist() == [1, 1]


def test_pack_prompts_keeps_equal_prompts_apart():
    packed = pack_prompts([[4, 5], [4, 5], [6]], CPU)

    assert packed.ids.tolist() == [4, 5, 4, 5, 6]
    assert packed.positions.tolist() == [0, 1, 0, 1, 0]
    assert sees(packed).int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 1, 1, 0],
        [0, 0, 0, 0, 1],
    ]


@st.composite
def batches(draw, max_rows=7):
    """Draw ragged rows of two ids, with repeated prompts, holes, empty rows and invalid padding."""
    count, width = draw(st.integers(1, max_rows)), draw(st.integers(1, 9))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    tokens = torch.randint(1, 3, (count, width), generator=generator)
    lengths = torch.randint(0, width + 1, (count, 1), generator=generator)
    starts = torch.randint(0, 4, (count, 1), generator=generator)
    column = torch.arange(width)
    mask = (column >= starts) & (column < lengths)
    mask &= torch.rand(count, width, generator=generator) < draw(st.sampled_from([0.0, 0.6, 1.0]))
    tokens = tokens.masked_fill(column >= lengths, draw(st.sampled_from([0, 1, -12345, 2**40])))
    entries = {"tokens": tokens, "attention_mask": column < lengths, "response_mask": mask}
    return TensorDict(entries, batch_size=[count])


@given(batches(), st.sampled_from([1, 2, 3, 5, 128]))
def test_a_predicting_token_attends_to_its_row_alone(batch, size):
    with tile_size(size):
        packed, listed = pack(batch)
    visible = sees(packed)
    places = batch["response_mask"].clone()
    places[:, 0] = False

    assert listed.flat_indices.tolist() == places.flatten().nonzero().flatten().tolist()
    for state, place, target in zip(
        listed.packed_indices, listed.flat_indices, listed.targets, strict=True
    ):
        row, t = divmod(int(place), places.shape[1])
        read = visible[state].nonzero().flatten()
        assert target == batch["tokens"][row, t]
        assert packed.positions[read].tolist() == list(range(t))
        assert packed.ids[read].tolist() == batch["tokens"][row, :t].tolist()
        # Each token attends to those before it in its row.
        for number, token in enumerate(read):
            assert visible[token].nonzero().flatten().tolist() == read[: number + 1].tolist()


@given(batches(), st.sampled_from([1, 2, 3, 5, 128]))
def test_every_prefix_is_packed_once_and_tiles_cover_the_list(batch, size):
    with tile_size(size):
        packed, _ = pack(batch)
    prefixes = set()
    for tokens, mask in zip(batch["tokens"].tolist(), batch["response_mask"].tolist(), strict=True):
        last = max((t for t, expected in enumerate(mask) if expected), default=0)
        prefixes |= {tuple(tokens[: n + 1]) for n in range(last)}

    assert len(packed.ids) == max(1, len(prefixes))
    covered = [token for tile in packed.tiles for token in range(tile.rows.start, tile.rows.stop)]
    assert covered == list(range(len(packed.ids)))


@given(batches(), st.integers(1, 40))
def test_split_by_tokens_has_every_row_once_within_the_budget(batch, budget):
    pieces = split_by_tokens(batch, budget)

    assert sorted(torch.cat(pieces).tolist()) == list(range(len(batch)))
    for rows in pieces:
        assert len(rows) == 1 or len(pack(batch[rows])[0].ids) <= budget


@given(batches(), st.integers(1, 40))
def test_split_by_tokens_fills_pieces(batch, budget):
    pieces = split_by_tokens(batch, budget)

    for rows, after in itertools.pairwise(pieces):
        assert len(pack(batch[torch.cat([rows, after[:1]])])[0].ids) > budget


@given(batches())
def test_split_by_tokens_keeps_common_prefixes_together(batch):
    read = []
    for row in torch.cat(split_by_tokens(batch, 3)).tolist():
        columns = batch["response_mask"][row].nonzero().flatten().tolist()
        read.append(batch["tokens"][row, : max(columns, default=0)].tolist())

    assert read == sorted(read)


@given(batches(max_rows=4), st.integers(1, 40), st.sampled_from([2, 3]))
def test_split_by_tokens_keeps_units_together(batch, budget, unit_rows):
    batch = torch.cat([batch] * unit_rows)
    pieces = split_by_tokens(batch, budget, unit_rows)

    assert sorted(torch.cat(pieces).tolist()) == list(range(len(batch)))
    for rows in pieces:
        units = rows.view(-1, unit_rows)
        assert (units == units[:, :1] + torch.arange(unit_rows)).all()
        assert not (units[:, 0] % unit_rows).any()
        assert len(units) == 1 or len(pack(batch[rows])[0].ids) <= budget


def test_split_by_tokens_counts_a_shared_prompt_once():
    # Each row reads its prompt and one token more: 3 + 4 x 1 = 7 for the four that share theirs.
    tokens = [[2, 2, 2, answer, 1] for answer in (3, 4, 5, 6)] + [[3, 3, 3, 3, 1]]
    batch = make_batch(tokens, [[0, 0, 0, 1, 1]] * 5)

    assert [rows.tolist() for rows in split_by_tokens(batch, 7)] == [[0, 1, 2, 3], [4]]
    assert [rows.tolist() for rows in split_by_tokens(batch, 6)] == [[0, 1, 2], [3], [4]]


def test_split_by_tokens_counts_no_tokens_of_rows_without_response():
    # Row 0 reads nothing; row 1 reads its prompt of 3 and one token more: 4, row 2 its 2.
    batch = make_batch(
        [[2, 2, 2, 3, 1], [2, 2, 2, 3, 1], [4, 3, 1, 0, 0]],
        [[0, 0, 0, 0, 0], [0, 0, 0, 1, 1], [0, 1, 1, 0, 0]],
    )

    assert [rows.tolist() for rows in split_by_tokens(batch, 5)] == [[0, 1], [2]]


def test_long_answers_have_no_mask():
    # Two answers of 200 to a prompt of 2: each is one sequence after the prompt.
    tokens = torch.arange(2 * 202).reshape(2, 202)
    tokens[:, :2] = 7
    mask = torch.ones(2, 202, dtype=torch.bool)
    mask[:, :2] = False

    packed, _ = pack(TensorDict(tokens=tokens, attention_mask=tokens >= 0, response_mask=mask))

    assert [(tile.prefix, tile.mask) for tile in packed.tiles] == [
        ((), None),
        ((0,), None),
        ((0,), None),
    ]


def test_varlen_layout_agrees_with_the_tiles():
    # Rows of one prompt, one that begins another, a branch, and equal ones.
    rows = [[5, 6, 7, 8, 1], [5, 6, 7, 9, 1], [5, 6, 7, 9, 1], [5, 6, 2, 2, 2], [3, 5, 6, 7, 1]]
    batch = make_batch(rows, [[0, 0, 1, 1, 1]] * 5)

    packed, _ = pack(batch)
    paths = packed.varlen

    visible = {}
    for number in range(len(paths.query_starts) - 1):
        asks = range(int(paths.query_starts[number]), int(paths.query_starts[number + 1]))
        keys = paths.keys[
            int(paths.key_starts[number]) : int(paths.key_starts[number + 1])
        ].tolist()
        assert len(asks) <= paths.longest[0]
        assert len(keys) <= paths.longest[1]
        for place, token in enumerate(asks):
            visible[token] = keys[: len(keys) - len(asks) + place + 1]
            assert visible[token][-1] == token
    assert sorted(visible) == list(range(len(packed.ids)))
    actual = {tuple(packed.ids[keys].tolist()) for keys in visible.values()}
    # The last token of a row is not read.
    assert actual == {tuple(row[:end]) for row in rows for end in range(1, 5)}
    assert all(packed.positions[keys].tolist() == [*range(len(keys))] for keys in visible.values())
    assert paths.longest == (4, 4)
