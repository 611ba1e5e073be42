"""Own keys: declared by components beside the schema."""

import pytest
import torch
from tensordict import TensorDict

from rlcomp.batch import cat
from rlcomp.component import Component, per_token
from rlcomp.errors import ConfigError
from rlcomp.interfaces.loss import LossPart
from rlcomp.key_declarations import declare_keys
from rlcomp.keys import SCHEMA, Spec, lookup, prompt_keys, spec
from rlcomp.testing import check_component, example_batch, make_batch

TURN = ("B T", "int64", "which turn wrote the token (of these tests)")


class Writer(Component):
    """Numbers the tokens of the response."""

    keys = {"test_turn": TURN, "test_pair": ("B", "int64", "a pair", {"offset": "test_pair"})}
    reads = ("response_mask",)
    writes = ("test_turn",)

    def forward(self, batch):
        batch["test_turn"] = batch["response_mask"].long()
        return batch


class Reader(Component):
    """Weighs the tokens of turn 1."""

    keys = {"test_turn": TURN}
    reads = ("test_turn", "response_mask")
    writes = ("token_weight",)

    def forward(self, batch):
        weight = ((batch["test_turn"] == 1) & batch["response_mask"]).float()
        return batch.set("token_weight", weight)


class Inherits(Writer):
    """The keys of a base are there as well."""

    keys = {"test_more": ("B", "float", "more")}
    writes = ("test_turn", "test_more")

    def forward(self, batch):
        return super().forward(batch).set("test_more", torch.zeros(len(batch)))


@pytest.mark.parametrize("part", [Writer(), Reader(), Inherits()], ids=lambda p: type(p).__name__)
def test_parts_with_own_keys_keep_the_contract(part):
    check_component(part)


def test_an_own_key_passes_by_hand_from_part_to_part():
    batch = Reader()(Writer()(example_batch(("response_mask",))))

    assert torch.equal(batch["token_weight"], batch["response_mask"].float())


def test_an_own_key_is_known_where_keys_are_looked_up():
    batch = example_batch(("test_turn", "reward"))

    assert spec("test_turn").meaning == TURN[2]
    assert per_token(batch) == ["test_turn"]
    assert lookup("nobody_has_this") is None


def test_an_unknown_key_suggests_the_nearest_own_ones_included():
    with pytest.raises(ConfigError, match=r"'test_turm' is not a key .* did you mean 'test_turn'"):
        spec("test_turm")


def test_whoever_reads_an_own_key_of_another_class_is_told_to_declare_it():
    pattern = r"Foreign: 'test_turn' is not .*: declare it in keys as \S+Writer does, \[B,T\] int64"
    with pytest.raises(ConfigError, match=pattern):
        type("Foreign", (Component,), {"reads": ("test_turn",)})


@pytest.mark.parametrize(
    ("key", "literal", "pattern"),
    [
        (
            "test_turn",
            ("B", "int64", TURN[2]),
            r"\[B\] int64, .* but \S+Writer declares it as \[B,T\]",
        ),
        ("test_turn", ("B T", "int64", "another"), r"'another', but \S+ declares it as"),
        ("test_turn", (*TURN, {"pad": -1}), r"pad=-1, but \S+ declares it as"),
        (
            "reward",
            ("B", "bool", "right"),
            r"\[B\] bool, 'right', but the schema declares it as \[B\]",
        ),
        ("test_bad", ("B T", "int64"), r"must be \(shape, dtype, meaning\)"),
        ("test_bad", ("T", "int64", "no rows"), r"must be \(shape, dtype, meaning\)"),
        (
            "test_bad",
            ("B", "int32", "a dtype"),
            "dtype is one of float, int64, bool, uint8, nested",
        ),
        (
            "test_bad",
            ("B", "int64", "a typo", {"ofset": "x"}),
            "a dict of further fields .*: pad, offset",
        ),
        ("test_bad", "abc", r"must be \(shape, dtype, meaning\)"),
    ],
)
def test_a_contradiction_is_refused_by_name(key, literal, pattern):
    with pytest.raises(ConfigError, match=rf"Other\.keys: '{key}' is .*{pattern}"):
        type("Other", (Component,), {"keys": {key: literal}})


@pytest.mark.parametrize(
    ("key", "literal", "pattern"),
    [
        ("", ("B", "int64", "x"), "'' is not a key"),
        ("a b", ("B", "int64", "x"), "'a b' is not a key"),
        (3, ("B", "int64", "x"), "3 is not a key"),
        ("test_bad", ("B", "int64", 5), r"must be \(shape, dtype, meaning\)"),
        ("test_bad", ("B", "int64", "x", {"per_prompt": "no"}), "per_prompt 'no': must be True or"),
        ("test_bad", ("B", "int64", "x", {"pad": "0"}), "pad '0': must be a whole number from"),
        ("test_bad", ("B W", "uint8", "x", {"pad": 256}), r"from 0 to 255 \(uint8\)"),
        ("test_bad", ("B T", "bool", "x", {"pad": 2}), r"from 0 to 1 \(bool\)"),
        ("test_bad", ("B T", "int64", "x", {"pad": 2**63}), "pad .*: must be a whole number"),
        (
            "test_bad",
            ("B T", "int64", "x", {"pad": -(2**63) - 1}),
            "pad .*: must be a whole number",
        ),
        ("test_bad", ("B T", "int64", "x", {"pad": True}), "pad True: must be a whole number"),
        ("test_bad", ("B", "nested", "x", {"pad": 1}), "pad 1: must be left out: nested"),
        ("test_bad", ("B", "float", "x", {"offset": "ids"}), "offset 'ids': must be .* int64 only"),
        ("test_bad", ("B", "int64", "x", {"offset": 1}), "offset 1: must be the name of a family"),
        ("test_bad", ("B", "int64", "x", {"absent": "x"}), "absent 'x': must be .* nested texts"),
        ("test_bad", ("B", "float", "x", {"example": "big"}), "example 'big': must be one of log"),
    ],
)
def test_a_specification_that_cannot_be_is_refused(key, literal, pattern):
    with pytest.raises(ConfigError, match=rf"^Other\.keys: .*{pattern}"):
        declare_keys("Other", {key: literal})


@pytest.mark.parametrize("value", [5, "reward", (3, None), {"reward"}, None])
def test_keys_that_are_no_tuple_of_texts_are_refused(value):
    with pytest.raises(
        ConfigError, match=r'^Other\.reads is .*: must be .* such as \("reward",\)$'
    ):
        type("Other", (Component,), {"reads": value})


@pytest.mark.parametrize(
    ("name", "value", "pattern"),
    [
        ("min_group_size", "2", "'2': must be a whole number, at least 1"),
        ("min_group_size", True, "True: must be a whole number, at least 1"),
        ("min_group_size", 0, "0: must be a whole number, at least 1"),
        ("fresh", "no", "'no': must be True or False"),
        ("keeps_prompt", 1, "1: must be True or False"),
        ("contained", None, "None: must be True or False"),
        ("drops_rows", "yes", "'yes': must be True or False"),
        ("exclusive", ("kl",), r"\('kl',\): must be a text"),
        ("equation", 1, "1: must be a text"),
        ("runs", "stages", "'stages': must be a tuple of names of arguments"),
        ("watches", "metric", "'metric': must be a tuple of names of arguments"),
    ],
)
def test_a_declaration_of_the_wrong_type_is_refused(name, value, pattern):
    with pytest.raises(ConfigError, match=rf"^Other\.{name} is {pattern}"):
        type("Other", (Component,), {name: value})


def test_step_keys_that_are_no_tuple_are_refused():
    with pytest.raises(
        ConfigError, match=r"^Other\.step_keys is 'reward': must be a tuple of keys"
    ):
        type("Other", (LossPart,), {"step_keys": "reward"})


@pytest.mark.parametrize("pad", [2**63 - 1, -(2**63)])
def test_the_outermost_ids_may_pad(pad):
    name = f"test_outermost_{pad < 0}"
    declare_keys("a.Part", {name: ("B T", "int64", "x", {"pad": pad})})

    assert lookup(name).pad == pad


def test_padded_cells_name_no_id():
    assert Spec("B T", "int64", "x", offset="turns").fill == -1
    assert Spec("B T", "int64", "x", offset="turns", pad=0).fill == 0
    assert Spec("B", "int64", "x", offset="turns").fill == 0
    declare_keys("package.Ids", {"test_ids": ("B T", "int64", "x", {"offset": "test_ids"})})
    parts = [make_batch(test_ids=[ids]) for ids in ([0, 2], [1])]

    assert cat(parts)["test_ids"].tolist() == [[0, 2], [3, -1]]


def test_keys_that_are_no_mapping_are_refused():
    with pytest.raises(ConfigError, match=r"Other\.keys is \('turn',\): must be a dict"):
        type("Other", (Component,), {"keys": ("turn",)})


def test_a_class_that_is_made_again_may_change_its_keys():
    declare_keys("notebook.Cell", {"test_cell": ("B", "int64", "first")})
    declare_keys("notebook.Cell", {"test_cell": ("B", "float", "second")})

    assert spec("test_cell").dtype == "float"


def test_a_key_of_the_schema_may_be_declared_as_the_schema_has_it():
    declare_keys("package.Part", {"reward": ("B", "float", "in other words")})

    assert spec("reward") is SCHEMA["reward"]


def test_own_keys_say_how_they_join():
    declare_keys("package.Joins", {"test_filled": ("B T", "int64", "x", {"pad": 9})})
    parts = [
        {"test_pair": [4, 6, -1], "test_filled": [[1], [2], [3]]},
        {"test_pair": [0, -1], "test_filled": [[1, 1], [2, 2]]},
    ]
    batches = [
        TensorDict(
            {k: torch.tensor(v) for k, v in part.items()}, batch_size=[len(part["test_pair"])]
        )
        for part in parts
    ]

    joined = cat(batches)

    # 4 ... 6 become 0 ... 2, then 0 becomes 3; -1 names nothing.
    assert joined["test_pair"].tolist() == [0, 2, -1, 3, -1]
    assert joined["test_filled"].tolist() == [[1, 9], [2, 9], [3, 9], [1, 1], [2, 2]]


def test_what_belongs_to_a_prompt_is_declared_so():
    declare_keys("package.Sampler", {"test_level": ("B", "int64", "x", {"per_prompt": True})})

    shared = {"prompt", "answer", "answer_ends", "example_id", "columns", "policy_prompt"}
    assert {*shared, "preference", "test_level"} <= prompt_keys()
    assert prompt_keys().isdisjoint({"tokens", "response", "group_id", "reward", "test_turn"})


@pytest.mark.parametrize(
    ("literal", "shape", "dtype"),
    [
        (("B", "float", "x"), (8,), torch.float32),
        (("B K", "float", "x"), (8, 2), torch.float32),
        (("B T", "float", "x"), (8, 10), torch.float32),
        (("B T K", "float", "x"), (8, 10, 2), torch.float32),
        (("B", "bool", "x"), (8,), torch.bool),
        (("B T", "bool", "x"), (8, 10), torch.bool),
        (("B", "int64", "x"), (8,), torch.int64),
        (("B T", "int64", "x"), (8, 10), torch.int64),
        (("B W", "bool", "x"), (8, 2), torch.bool),
        (("B T V/8", "uint8", "x"), (8, 10, 1), torch.uint8),
    ],
)
def test_an_example_of_an_own_key_has_its_shape_and_dtype(literal, shape, dtype):
    declare_keys("package.Example", {"test_example": literal})

    entry = example_batch(("test_example",))["test_example"]

    assert (tuple(entry.shape), entry.dtype) == (shape, dtype)


def test_an_example_of_texts_can_be_read():
    declare_keys("package.Example", {"test_note": ("B W", "uint8", "a text")})

    batch = example_batch(("test_note", "columns"))

    from rlcomp.batch import decode_texts

    assert len(decode_texts(batch["test_note"])) == 8
    assert [len(decode_texts(batch["columns", name])) for name in ("tests", "level")] == [8, 8]
