import torch
from tensordict import TensorDict

from components.replay.stages import Extend, ExtendInterventions
from components.replay.uniform import UniformReplay


def steps(start, count, copies=1):
    """Steps whose observations are numbered."""
    shape = (copies, count)
    number = torch.arange(start, start + copies * count).float().view(*shape, 1)
    flag = torch.zeros(*shape, 1, dtype=torch.bool)
    after = {"observation": number + 0.5, "reward": -number, "done": flag, "terminated": flag}
    return TensorDict(
        {"observation": number, "action": 2 * number, "loc": number, "next": after},
        batch_size=shape,
    )


def test_the_steps_of_the_intervener_are_stored_and_no_others():
    buffer = UniformReplay(capacity=50)
    Extend(replay=buffer)(steps(100, 1))
    batch = steps(0, 3, copies=2)
    batch["intervened"] = torch.tensor([[0, 1, 1], [0, 0, 1]]).bool()[..., None]

    handed = ExtendInterventions(replay=buffer)(batch)

    assert handed is batch
    assert buffer.rows()["observation"].flatten().tolist() == [100.0, 1.0, 2.0, 5.0]
    assert "intervened" not in buffer.rows().keys()
    assert "loc" not in buffer.rows().keys()


def test_where_nobody_intervenes_nothing_is_stored():
    buffer = UniformReplay(capacity=50)
    quiet = steps(0, 3).set("intervened", torch.zeros(1, 3, 1, dtype=torch.bool))

    ExtendInterventions(replay=buffer)(steps(0, 3))
    ExtendInterventions(replay=buffer)(quiet)

    assert len(buffer) == 0
