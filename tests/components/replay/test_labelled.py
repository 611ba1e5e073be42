import pytest
import torch
from tensordict import TensorDict

from components.replay.stages import ExtendLabelled, SampleLabelled
from components.replay.uniform import UniformReplay
from rlcomp.errors import FlowError
from rlcomp.metrics import recording
from rlcomp.testing import make_batch


def labelled(rounds):
    """What DAgger has after so many rounds: the union."""
    replay = UniformReplay(capacity=100)
    extend = ExtendLabelled(replay=replay)
    for place in range(rounds):
        number = torch.full((2, 3, 1), float(place))
        extend(
            TensorDict({"observation": number, "expert_action": -number, "action": number}, [2, 3])
        )
    return replay


def test_rounds_are_joined_with_the_experts_labels_alone():
    rows = labelled(2).rows()

    assert rows["observation"].flatten().tolist() == [0.0] * 6 + [1.0] * 6
    assert rows["expert_action"].flatten().tolist() == [0.0] * 6 + [-1.0] * 6
    assert "action" not in rows.keys()


def test_the_number_of_labels_is_recorded():
    extend = ExtendLabelled(replay=labelled(1))

    with recording() as ledger:
        extend(make_batch(observation=torch.ones(3, 1), expert_action=torch.ones(3, 1)))

    assert ledger.means() == {"replay/size": 9.0}


def test_a_batch_has_states_and_labels():
    rows = SampleLabelled(replay=labelled(3), batch_size=7)()

    assert rows.batch_size == (7,)
    assert torch.equal(rows["expert_action"], -rows["observation"])


def test_more_than_there_is_cannot_be_drawn():
    with pytest.raises(FlowError, match="holds 6 steps"):
        SampleLabelled(replay=labelled(1), batch_size=7)()


def test_by_itself_a_batch_has_64_rows():
    assert SampleLabelled(replay=labelled(11))().batch_size == (64,)
