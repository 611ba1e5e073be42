"""One rank is told that it is alone; several need a word that says how they share the run."""

import warnings

import pytest

from rlcomp.cli.ranks import check_rank_settings
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.errors import RlcompWarning, UserError


@pytest.fixture
def started(monkeypatch):
    """As torchrun starts a process, one of so many; by itself where there is no number."""

    def start(size=None):
        for name, value in (("WORLD_SIZE", size), ("RANK", size and "0")):
            if value is None:
                monkeypatch.delenv(name, raising=False)
            else:
                monkeypatch.setenv(name, value)

    return start


def plan(*words):
    return plan_of(compose_config(["recipe=grpo", *words]))


def test_a_process_by_itself_is_told_that_it_shares_with_nobody(started):
    started()
    with pytest.warns(RlcompWarning, match="the only rank .* torchrun --standalone"):
        check_rank_settings(plan("parallel=shard"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_rank_settings(plan())


@pytest.mark.parametrize("size", ["1", "2"])
def test_processes_of_torchrun_are_not_warned(started, size):
    started(size)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_rank_settings(plan("parallel=replicate"))


def test_several_processes_need_the_word(started):
    started("2")
    with pytest.raises(UserError, match="parallel=replicate"):
        check_rank_settings(plan())
