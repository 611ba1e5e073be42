import pytest
import torch
from tensordict import TensorDict


def rows(reward, group_id, response_mask, valid=None):
    entries = {
        "reward": reward,
        "reward_valid": torch.ones_like(reward, dtype=torch.bool) if valid is None else valid,
        "group_id": group_id,
        "response_mask": response_mask.bool(),
    }
    return TensorDict(entries, batch_size=[len(reward)])


@pytest.fixture(scope="session")
def three_and_one():
    """From three rewards: a group of rows with 3, 1, 2 tokens, and a group of one with 2."""
    mask = torch.tensor([[0, 1, 1, 1], [1, 0, 0, 0], [1, 0, 1, 0], [1, 0, 1, 0]])
    return lambda *reward: rows(torch.tensor([*reward, 9.0]), torch.tensor([0, 0, 0, 5]), mask)


@pytest.fixture(scope="session")
def of_rows():
    """The advantage on the first token of each response."""

    def first(result):
        place = result["response_mask"].long().argmax(1, keepdim=True)
        return result["advantage"].gather(1, place)[:, 0].tolist()

    return first


@pytest.fixture(scope="session")
def drawn():
    """From a seed: float64 rewards in three groups, an empty row, masks with holes, an invalid."""

    def draw(seed):
        generator = torch.Generator().manual_seed(seed)
        reward = torch.randint(-2, 4, (9,), generator=generator).double()
        mask = torch.rand(9, 5, generator=generator) < 0.6
        mask[0] = False
        group_id = torch.randint(0, 3, (9,), generator=generator)
        return rows(reward, group_id, mask, torch.arange(9) != 4)

    return draw
