import pytest

from rlcomp.errors import UserError
from rlcomp.parallel.world import local_rank, rank_and_size


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ({}, (0, 1)),
        ({"WORLD_SIZE": ""}, (0, 1)),
        ({"WORLD_SIZE": "1"}, (0, 1)),
        ({"WORLD_SIZE": "1", "RANK": "0"}, (0, 1)),
        ({"WORLD_SIZE": "12", "RANK": "11"}, (11, 12)),
    ],
)
def test_torchrun_says_which_rank_of_how_many(words, found):
    assert rank_and_size(words) == found


@pytest.mark.parametrize("size", ["0", "two", "-1"])
def test_a_number_of_ranks_that_is_none_is_refused(size):
    with pytest.raises(UserError, match=rf"^WORLD_SIZE is '{size}': .*unset it$"):
        rank_and_size({"WORLD_SIZE": size, "RANK": "0"})


@pytest.mark.parametrize("rank", [None, "", "2", "x", "-1"])
def test_a_rank_that_is_none_of_them_is_refused(rank):
    words = {"WORLD_SIZE": "2"} | ({} if rank is None else {"RANK": rank})

    with pytest.raises(UserError, match=r"^WORLD_SIZE is 2 and RANK is .*-per-node 2 -m rlc"):
        rank_and_size(words)


def test_the_environment_is_that_of_the_process(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")

    assert (rank_and_size(), local_rank()) == ((2, 3), 1)
    assert local_rank({}) == 0
