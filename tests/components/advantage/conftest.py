import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from tensordict import TensorDict

GOLDEN = Path(__file__).parents[2] / "golden" / "policy"


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


@pytest.fixture(scope="session")
def golden():
    """Of a file of verl's: each case's arguments, rows, and advantage."""

    def cases(name):
        with safe_open(GOLDEN / f"{name}.safetensors", "pt") as file:
            for case, arguments in json.loads(file.metadata()["cases"]).items():
                mask = file.get_tensor(f"{case}/in/response_mask")
                reward = file.get_tensor(f"{case}/in/token_level_rewards").sum(1)
                given = rows(reward, file.get_tensor(f"{case}/in/index"), mask)
                yield arguments, given, file.get_tensor(f"{case}/out/advantages")

    return cases


@pytest.fixture(scope="session")
def golden_of_trl():
    """Of a file of TRL's: arguments, rows of one token, each reward, their weights, advantage."""

    def cases(name):
        with safe_open(GOLDEN / f"{name}.safetensors", "pt") as file:
            for case, arguments in json.loads(file.metadata()["cases"]).items():
                each = file.get_tensor(f"{case}/in/rewards_per_func")
                group = torch.arange(len(each)) // arguments["num_generations"]
                valid, mask = ~each.isnan().any(1), torch.ones(len(each), 1)
                found = [key for key in file.keys() if key == f"{case}/in/weights"]
                weights = file.get_tensor(found[0]).tolist() if found else None
                given = rows(each[:, 0], group, mask, valid)
                yield arguments, given, each, weights, file.get_tensor(f"{case}/out/advantages")

    return cases
