"""Keys that the source of a forward reads, as far as it is plain."""

import ast

import pytest

from rlcomp.config.forward_reads import forward_reads


def lineage(*texts):
    return [("m", ast.parse(text).body[0]) for text in texts]


def forward(*lines):
    return "class A:\n    def forward(self, batch, other=None):\n" + "".join(
        f"        {line}\n" for line in lines
    )


@pytest.mark.parametrize(
    ("line", "keys"),
    [
        ("x = batch['a'] + batch['b'] * batch['a']", ("a", "b")),
        ("batch['a'] = 1", ()),
        ("del batch['a']", ()),
        ("batch['a'] = batch['b']", ("b",)),
        ("x = other['a']", ()),
        ("x = self['a']", ()),
        ("x = batch[0]", ()),
        ("x = batch[name]", ()),
        ("x = batch.inner['a']", ()),
        ("x = batch['loss_weight'] + batch['row_weight'] + batch['c']", ("c",)),
        ("x = [batch['a'] for y in batch]", ("a",)),
    ],
)
def test_a_key_is_read_where_the_batch_is_asked_for_it(line, keys):
    assert forward_reads(lineage(forward(line))) == keys


def test_the_first_forward_of_a_lineage_counts_and_other_methods_do_not():
    other = "class B:\n    size = 3\n    def helper(self, batch):\n        return batch['h']\n"
    first, second = forward("return batch['a']"), forward("return batch['b']")

    assert forward_reads(lineage(other)) == ()
    assert forward_reads(lineage(other, first, second)) == ("a",)
    assert forward_reads(lineage("class C:\n    forward = None\n", second)) == ("b",)
    assert forward_reads([]) == ()
    assert forward_reads(lineage("class D:\n    def forward():\n        return batch['a']\n")) == ()
