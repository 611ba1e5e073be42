import pytest

from rlcomp.config.checks.data_parallel import check_ranks, describe_ranks, shared_learners
from rlcomp.config.compose import compose_config
from rlcomp.config.finding import messages
from rlcomp.config.plan import read


def plan(*words):
    found, errors = read(compose_config(words))
    assert errors == []
    return found


def test_one_process_has_nothing_to_share():
    assert messages(check_ranks(plan("recipe=trpo"))) == []
    assert describe_ranks(plan("recipe=grpo")) == []


@pytest.mark.parametrize("word", ["replicate", "shard"])
def test_learners_of_tokens_are_shared(word):
    found = plan("recipe=ppo", f"parallel={word}")

    assert messages(check_ranks(found)) == []
    names = {node.path for node in shared_learners(found)}
    assert names == {"learner", "sft_learner", "value_learner"}
    (told,) = describe_ranks(found)
    assert told.startswith(f"ranks of torchrun ({word.capitalize()}): rank 0 runs all stages; ")
    assert all(name in told for name in names)


@pytest.mark.parametrize("recipe", ["trpo", "sac", "dqn", "td3", "control_ppo"])
def test_control_is_refused(recipe):
    (told,) = messages(check_ranks(plan(f"recipe={recipe}", "parallel=replicate")))

    assert told.startswith("parallel (Replicate): no learner of this recipe reads rows of tokens ")
    assert told.endswith(
        "use parallel=none, without torchrun; several seeds at once: rlcomp -m seed=0,1"
    )


@pytest.mark.parametrize("words", [["parallel=shard"], ["parallel=hybrid", "parallel.parts=2"]])
def test_parts_of_gradients_cannot_be_compared(words):
    told = messages(check_ranks(plan("recipe=upgrad", *words)))

    assert any(
        line.startswith("learner (PerObjectiveLearner) compares whole gradients of objectives, ")
        and line.endswith(": use parallel=replicate")
        for line in told
    )
    assert messages(check_ranks(plan("recipe=upgrad", "parallel=replicate"))) == []


def test_adapters_are_not_put_into_parts():
    told = messages(check_ranks(plan("recipe=grpo", "adapter=lora", "parallel=shard")))

    assert "learner trains adapters (" in " ".join(told)
    assert all(line.endswith("use parallel=replicate, or adapter=none") for line in told)
    assert messages(check_ranks(plan("recipe=grpo", "adapter=lora", "parallel=replicate"))) == []
