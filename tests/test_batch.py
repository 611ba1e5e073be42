import functools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

import components.collector.mask_game  # noqa: F401 - declares answers_group_id
from rlcomp.batch import (
    cat,
    decode_columns,
    decode_texts,
    encode_columns,
    encode_texts,
    keep_prompt,
    pad_right,
    trim,
)
from rlcomp.errors import DataError, ShapeError
from rlcomp.testing import make_batch


def rows(widths: list[int], start: int = 1) -> TensorDict:
    """Rows of 1, 2, 3, ... with the given numbers of tokens, right-padded."""
    width = max(widths)
    tokens = torch.arange(start, start + len(widths))[:, None].expand(-1, width)
    mask = torch.arange(width)[None, :] < torch.tensor(widths)[:, None]
    return make_batch(
        tokens=torch.where(mask, tokens, 0),
        attention_mask=mask,
        group_id=torch.arange(len(widths)),
        prompt=[str(n) * n for n in widths],
    )


@given(st.lists(st.text(), max_size=5))
def test_texts_survive_the_round_trip(texts):
    expected = [text.encode("utf-8", "replace").decode() for text in texts]

    assert decode_texts(encode_texts(texts)) == expected


def test_texts_are_ended_and_filled_with_0xff():
    # "né" is 6e c3 a9 in UTF-8; the longest row still has its end mark.
    assert encode_texts(["né", ""]).tolist() == [[0x6E, 0xC3, 0xA9, 255], [255] * 4]


def test_a_lone_surrogate_becomes_a_question_mark():
    assert decode_texts(encode_texts(["a\udcffb"])) == ["a?b"]


def test_a_text_with_zero_bytes_keeps_them():
    assert decode_texts(encode_texts(["a\0", "\0"])) == ["a\0", "\0"]


def test_no_texts_make_an_empty_table():
    table = encode_texts([])

    assert table.shape[0] == 0
    assert decode_texts(table) == []


@given(st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4), min_size=1, max_size=4))
def test_cat_keeps_every_row_in_order(shapes):
    parts = [rows(widths) for widths in shapes]

    joined = cat(parts)

    kept = [row["tokens"][row["attention_mask"]].tolist() for row in joined]
    given_rows = [row["tokens"][row["attention_mask"]].tolist() for part in parts for row in part]
    assert kept == given_rows
    texts = [text for part in parts for text in decode_texts(part["prompt"])]
    assert decode_texts(joined["prompt"]) == texts


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5), min_size=1, max_size=4))
def test_cat_keeps_groups_together_and_apart(groups):
    parts = [make_batch(group_id=ids) for ids in groups]

    joined = cat(parts)["group_id"].tolist()

    # The true group of a row is (which batch, its id there): same groups, same ids, and only those.
    true = [(batch, group) for batch, ids in enumerate(groups) for group in ids]
    for a, first in enumerate(true):
        for b, second in enumerate(true):
            assert (joined[a] == joined[b]) == (first == second)


def test_cat_keeps_what_is_posed_with_those_who_answer():
    # Of the first batch the answers 9 are gone: nobody else may come to stand for them.
    entries = [([4, 7, 7], [7, -1, 9]), ([0, 1, 1], [1, -1, -1])]
    parts = [
        make_batch(group_id=ids, answers_group_id=answers_group_id)
        for ids, answers_group_id in entries
    ]

    joined = cat(parts)

    # 4 ... 9 become 0 ... 5, then 0 and 1 become 6 and 7.
    assert joined["group_id"].tolist() == [0, 3, 3, 6, 7, 7]
    assert joined["answers_group_id"].tolist() == [3, -1, 5, 7, -1, -1]


def test_cat_pads_with_zero_and_false():
    joined = cat([rows([1]), rows([3])])

    assert joined["tokens"].tolist() == [[1, 0, 0], [1, 1, 1]]
    assert joined["attention_mask"].tolist() == [[True, False, False], [True] * 3]


def test_cat_of_nothing_is_refused():
    with pytest.raises(ShapeError, match="at least one batch"):
        cat([])


def test_cat_names_the_key_only_one_batch_has():
    with pytest.raises(ShapeError, match="group_id"):
        cat([rows([1]), rows([1]).exclude("group_id")])


def test_trim_cuts_the_columns_that_are_padding_everywhere():
    wide = cat([rows([1, 2]), rows([5])])[:2]

    cut = trim(wide)

    assert cut["tokens"].tolist() == [[1, 0], [2, 2]]
    assert cut["attention_mask"].shape == (2, 2)
    assert decode_texts(cut["prompt"]) == ["1", "22"]


def test_trim_leaves_one_column_of_a_batch_without_tokens():
    empty = rows([2])
    empty["attention_mask"] = torch.zeros(1, 2, dtype=torch.bool)

    assert trim(empty)["tokens"].shape == (1, 1)


def test_joined_texts_are_the_table_of_all_the_texts():
    parts = [make_batch(prompt=[t]) for t in ("a", "bbbb")]

    assert torch.equal(cat(parts)["prompt"], encode_texts(["a", "bbbb"]))


def test_trim_cuts_a_renamed_entry_by_its_shape_and_leaves_texts_alone():
    batch = rows([2, 1])
    batch["attention_mask"] = torch.tensor([[True, False], [True, False]])
    batch["shaped"], batch["note"] = torch.zeros(2, 2), encode_texts(["a", "b"])

    result = trim(batch)

    assert result["shaped"].shape == (2, 1)
    assert decode_texts(result["note"]) == ["a", "b"]


def columned(*rows: dict[str, object]) -> TensorDict:
    return make_batch(group_id=torch.arange(len(rows)), columns=encode_columns(rows))


def test_columns_come_back_row_by_row_without_what_a_row_lacks():
    rows = [{"tests": ["né"], "level": 3}, {"tests": None}, {"level": {"a": [1.5, None]}}]

    assert decode_columns(columned(*rows)) == [rows[0], {}, rows[2]]


def test_a_column_is_written_as_json():
    # [1] and null: five characters and the end mark make the width.
    table = encode_columns([{"n": [1]}, {}])["n"]

    assert decode_texts(table) == ["[1]", "null"]
    assert table.shape == (2, 5)


def test_what_is_no_json_is_named():
    with pytest.raises(DataError, match=r"batch: column 'seen' is \{1\}, which is not"):
        encode_columns([{"seen": {1}}])


NAN = float("nan")
DEEP = functools.reduce(lambda inner, _: [inner], range(65), 1)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"level": NAN}, "column 'level' is nan, which is not JSON"),
        ({"level": {"low": [1, -float("inf")]}}, "column 'level' is .*not JSON"),
        ({"level": 10**5000}, "column 'level' is .*not JSON"),
        ({"level": DEEP}, "column 'level' holds lists or mappings more than 64 deep"),
        ({"level": "é" * 2**19}, "column 'level' holds 1048578 bytes, more than 1048576"),
        ({7: "x"}, "the name of column 7 is not a text"),
        ({"\ud800": "x"}, r"the name of column '\\ud800' holds a lone surrogate"),
    ],
)
def test_a_column_that_a_batch_cannot_hold_is_named_with_its_row(columns, told):
    with pytest.raises(DataError, match=f"^example 1 of the batch: .*{told}"):
        encode_columns([{"level": 1}, columns])


def test_a_column_that_holds_itself_is_refused():
    level = [1]
    level.append(level)

    with pytest.raises(DataError, match="more than 64 deep"):
        encode_columns([{"level": level}])


def test_columns_at_the_limits_come_back():
    row = {"": DEEP[0], "a.b": "x" * (2**20 - 2), "keys": 2**63, "\n": True}

    assert decode_columns(columned(row)) == [row]


def test_batches_with_other_columns_join():
    without = make_batch(group_id=torch.zeros(1, dtype=torch.int64))
    first, second = columned({"a": "long text"}), columned({"a": "x", "b": 1}, {"b": 2})

    joined = cat([without, first, second])

    assert decode_columns(joined) == [{}, {"a": "long text"}, {"a": "x", "b": 1}, {"b": 2}]


def test_a_column_that_is_called_as_a_key_is_not_trimmed():
    batch = rows([2, 1])
    batch["tokens"] = torch.zeros(2, 5, dtype=torch.int64)
    batch["attention_mask"] = torch.tensor([[True, False, False, False, False]] * 2)
    batch["columns"] = encode_columns([{"tokens": "abc"}, {"tokens": "d"}])

    assert decode_columns(trim(batch)) == [{"tokens": "abc"}, {"tokens": "d"}]


def with_columns(**texts: list[str]) -> TensorDict:
    rows_ = len(next(iter(texts.values())))
    columns = {name: encode_texts(column) for name, column in texts.items()}
    return make_batch(columns=TensorDict(columns, batch_size=[rows_]))


def test_cat_joins_the_texts_of_a_nested_entry():
    joined = cat([with_columns(tests=["[1]"]), with_columns(tests=["[1, 22]", ""])])

    assert decode_texts(joined["columns", "tests"]) == ["[1]", "[1, 22]", ""]


def test_cat_joins_the_named_parts_of_the_reward():
    parts = [make_batch(a=[n]) for n in (0.5, 2.0)]

    joined = cat([make_batch(rewards=part) for part in parts])

    assert joined["rewards", "a"].tolist() == [0.5, 2.0]


def test_cat_joins_the_labels_of_texts():
    # An unknown label is NaN, as a missing part of a nested entry, but labels are one tensor.
    parts = [TensorDict({"labels": torch.tensor([[n, n / 2]])}, batch_size=[1]) for n in (0.0, 1.0)]

    assert cat(parts)["labels"].tolist() == [[0.0, 0.0], [1.0, 0.5]]


def test_a_part_of_the_reward_that_one_batch_lacks_is_no_number_there():
    names = [("a",), ("b", "a"), ("b",)]
    parts = [TensorDict({n: torch.ones(2) for n in own}, batch_size=[2]) for own in names]

    joined = cat([make_batch(rewards=part) for part in parts])["rewards"]

    assert joined["a"].isnan().tolist() == [False] * 4 + [True] * 2
    assert joined["b"].isnan().tolist() == [True] * 2 + [False] * 4


def test_cat_fills_a_text_under_another_name_like_a_text():
    parts = [make_batch(note=[t]) for t in ("a", "bbbb")]

    assert decode_texts(cat(parts)["note"]) == ["a", "bbbb"]


def test_trim_leaves_the_columns_of_a_task_alone_whatever_they_are_called():
    batch = rows([1, 1]).update(with_columns(value=["ab", "c"]))
    batch["tokens"] = torch.ones(2, 3, dtype=torch.int64)
    batch["attention_mask"] = torch.tensor([[True, False, False]] * 2)

    result = trim(batch)

    assert result["tokens"].shape == (2, 1)
    assert decode_texts(result["columns", "value"]) == ["ab", "c"]


def test_what_belongs_to_a_prompt_is_kept_for_each_row_and_nothing_else():
    prompts = with_columns(tests=["x", "yy"]).update(
        {"example_id": torch.tensor([7, 9]), "reward": torch.tensor([1.0, 2.0])}
    )

    kept = keep_prompt(TensorDict({}, batch_size=[3]), prompts, torch.tensor([1, 0, 1]))

    assert sorted(kept.keys()) == ["columns", "example_id"]
    assert kept["example_id"].tolist() == [9, 7, 9]
    assert decode_texts(kept["columns", "tests"]) == ["yy", "x", "yy"]


def test_trim_cuts_the_tokens_of_nested_entries_as_well():
    nested = make_batch(loss_weight=torch.ones(2, 3))
    batch = TensorDict({"(prepared)": nested}, batch_size=[2])
    batch["attention_mask"] = torch.tensor([[True, True, False], [True, False, False]])

    assert trim(batch)["(prepared)", "loss_weight"].shape == (2, 2)


def test_padding_is_moved_behind_the_tokens_with_all_that_stands_along_them():
    mask = torch.tensor([[0, 0, 1, 1], [1, 0, 1, 0], [0, 0, 0, 0]])
    tokens = torch.tensor([[9, 9, 5, 6], [5, 9, 7, 9], [9, 9, 9, 9]])
    batch = make_batch(
        tokens=tokens,
        attention_mask=mask,
        response_mask=torch.tensor([[0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0]]).bool(),
        rollout_log_probs=-tokens.float(),
        reward=[1.0, 2.0, 3.0],
    )

    moved = pad_right(batch)

    assert moved["tokens"].tolist() == [[5, 6, 9, 9], [5, 7, 9, 9], [9, 9, 9, 9]]
    assert moved["attention_mask"].tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]]
    assert moved["response_mask"].nonzero().tolist() == [[0, 1], [1, 1]]
    assert moved["rollout_log_probs"][0].tolist() == [-5.0, -6.0, -9.0, -9.0]
    assert moved["reward"].tolist() == [1.0, 2.0, 3.0]
    assert batch["tokens"] is tokens
    assert batch["tokens"].tolist()[0] == [9, 9, 5, 6]
