"""Parts of one's own with a slip in them: the message names the file, the key, the remedy."""

import sys

import pytest

CODE = """
import torch
from rlcomp import Component
from rlcomp.interfaces.loss import LossPart

class NoSuper(Component):
    reads = ("reward", "response_mask")
    writes = ("advantage",)

    def __init__(self, scale=1.0):
        self.scale = scale

    def forward(self, batch):
        return batch

class Late(NoSuper):
    def __init__(self):
        self.baseline = torch.nn.Parameter(torch.zeros(1))
        super().__init__()

class Clip(LossPart):
    reads = ("ratio", "advantage", "response_mask")
    writes = ("surrogate",)

    def __init__(self, clip_low=0.2, clip_high=0.2):
        self.clip_low = clip_low

    def forward(self, batch):
        return batch

class Plural(Component):
    reads = ("reward", "response_mask")
    writes = ("advantages",)

    def forward(self, batch):
        return batch

class Slip(Component):
    reads = ("rewardz",)
    writes = ("advantage",)
    keys = {"rewardz": ("B", "float", "a slip")}

    def forward(self, batch):
        return batch
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A folder with a module of slips, and a yaml in no group."""
    (tmp_path / "slips_of_mine.py").write_text(CODE)
    (tmp_path / "conf").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("slips_of_mine", None)


BEGIN = "must begin with super().__init__()\n"


@pytest.mark.parametrize(
    ("line", "start", "end"),
    [
        (["advantage._target_=slips_of_mine.NoSuper"], "advantage: NoSuper: its __init__ (", BEGIN),
        (["advantage._target_=slips_of_mine.Late"], "advantage: Late: its __init__ (", BEGIN),
        (
            ["loss.trust_region._target_=slips_of_mine.Clip"],
            "loss.trust_region: Clip: its __init__ (",
            BEGIN,
        ),
        (
            ["advantage._target_=slips_of_mine.Plural"],
            "phases.rl.stages: stage learner (Learner) reads 'advantage', and advantage (Plural)",
            "writes 'advantages': did you mean 'advantage'?\n",
        ),
        (
            ["advantage._target_=slips_of_mine.Slip"],
            "phases.rl.stages: stage advantage (Slip) reads 'rewardz'",
            "which no stage writes: did you mean 'reward'?\n",
        ),
    ],
)
@pytest.mark.usefixtures("no_model", "mine")
def test_a_slip_in_a_part_is_told_before_a_model_is_built(told, line, start, end):
    code, message, _ = told("advantage=group_mean", *line)

    assert code == 2
    assert message.startswith(f"rlcomp: {start}")
    assert message.endswith(end)
    assert len(message.splitlines()) == 1
    if end == BEGIN:
        assert "slips_of_mine.py, line " in message


@pytest.mark.usefixtures("mine")
def test_by_hand_it_is_told_as_well():
    from slips_of_mine import Late, NoSuper

    from rlcomp.errors import ConfigError

    for kind in (NoSuper, Late):
        with pytest.raises(ConfigError, match=f"^{kind.__name__}: its __init__ .*super"):
            kind()


def test_of_many_options_that_write_a_key_three_are_named(told):
    code, message, _ = told("phases.rl.stages=[prompts,rollout,reward,old_log_probs,learner]")

    assert code == 2
    assert ", which no earlier stage writes: add advantage to the list before learner" in message
    _, message, _ = told("value=critic")
    assert "reads 'returns', which no earlier stage writes: choose advantage=gae" in message
    assert "or another of them, or take another value_learner" in message
