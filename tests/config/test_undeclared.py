"""Parts that read what they do not declare, and parts that record under one name."""

import sys
import textwrap

import pytest

from rlcomp.config.declarations import read_declaration
from rlcomp.config.resolve import compose_or_explain, plan_of
from rlcomp.errors import RlcompWarning

PART = """
from rlcomp import Component

class Silent(Component):
    {declared}

    def forward(self, batch):
        batch["reward"] = {read}
        return batch
"""


@pytest.fixture
def part(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name, read, declared='writes = ("reward",)'):
        text = textwrap.dedent(PART).format(read=read, declared=declared)
        (tmp_path / f"{name}.py").write_text(text)
        return f"{name}.Silent"

    yield write
    for name in [name for name in sys.modules if name.startswith("part_of_mine")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("read", "declared", "told"),
    [
        ('batch["truncated"].float()', 'writes = ("reward",)', ("truncated",)),
        (
            'batch["truncated"] + batch["answer"] + batch["truncated"]',
            'writes = ("reward",); reads = ("answer",)',
            ("truncated",),
        ),
        ('batch["truncated"].float()', 'writes = ("reward",); reads = ("truncated",)', ()),
        ('batch["truncated"].float()', 'writes = ("reward",); optional = ("truncated",)', ()),
        ('batch["reward"] + 1', 'writes = ("reward",)', ()),
        ('{"truncated": 1}["truncated"]', 'writes = ("reward",)', ()),
        ("batch[0]", 'writes = ("reward",)', ()),
    ],
)
def test_keys_that_forward_reads_and_nobody_declares(part, read, declared, told, request):
    name = f"part_of_mine_{abs(hash(request.node.name))}"

    assert read_declaration(part(name, read, declared)).undeclared == told


def test_a_run_is_told_of_them(part):
    target = part("part_of_mine_in_a_run", 'batch["truncated"].float()')
    words = ["shaping=none", f"shaping._target_={target}"]

    with pytest.warns(RlcompWarning) as told:
        plan_of(compose_or_explain(words), words)

    assert [str(one.message) for one in told] == [
        "shaping (Silent) reads 'truncated' without declaring it, so that no check finds it "
        "missing: write reads = ('truncated',) in its class"
    ]


def test_learners_of_one_name_are_told():
    words = ["sft_learner.name=learner"]

    with pytest.warns(RlcompWarning) as told:
        plan_of(compose_or_explain(words), words)

    assert [str(one.message) for one in told] == [
        "sft_learner and learner record their metrics under one name, learner/...: set "
        "sft_learner.name=sft_learner"
    ]
