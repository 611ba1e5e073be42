import torch
from tensordict import TensorDict

from components.advantage.monte_carlo import GreedyBaseline
from components.collector.group import GreedyBaselineCollector, GroupCollector
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.engine.decoding import Decoding
from rlcomp.metrics import recording
from rlcomp.testing import make_batch, tiny_policy
from rlcomp.text.answers import answer_prompts


def prompts() -> TensorDict:
    return make_batch(prompt=["1+2=", "7="], answer=["3", "7"])


def collector(group_size: int = 2, **decoding) -> GreedyBaselineCollector:
    torch.manual_seed(1)
    policy = tiny_policy(decoding=Decoding(**decoding))
    return GreedyBaselineCollector(policy=policy, group_size=group_size, max_new_tokens=4)


def test_a_greedy_answer_stands_behind_the_sampled_ones_of_its_group():
    batch = collector()(prompts())

    assert batch["group_id"].tolist() == [0, 0, 0, 1, 1, 1]
    assert batch["greedy"].tolist() == [False, False, True, False, False, True]
    assert decode_texts(batch["prompt"]) == ["1+2="] * 3 + ["7="] * 3
    assert decode_texts(batch["answer"]) == ["3"] * 3 + ["7"] * 3


def test_so_it_does_in_many_groups_with_the_sampled_ones_in_their_order():
    # Sorts that are not stable move equal entries from about 16 rows on.
    texts = [f"{number}=" for number in range(20)]
    given = TensorDict({key: encode_texts(texts) for key in ("prompt", "answer")}, batch_size=[20])
    made, again = collector(group_size=3), collector(group_size=3)

    batch = made(given)

    assert batch["group_id"].tolist() == [group for group in range(20) for _ in range(4)]
    assert batch["greedy"].tolist() == [False, False, False, True] * 20
    sampled = GroupCollector.forward(again, given)
    kept = batch["response"][~batch["greedy"]]
    assert decode_texts(kept) == decode_texts(sampled["response"])


def test_the_greedy_answer_is_the_policy_s_most_likely_token_each_time():
    made = collector()
    batch = made(prompts())

    greedy = answer_prompts(
        made.policy,
        ["1+2=", "7="],
        group_size=1,
        max_new_tokens=4,
        decoding=Decoding(temperature=0.0),
        generator=torch.Generator(),
    )
    assert decode_texts(batch["response"][batch["greedy"]]) == decode_texts(greedy["response"])


def test_it_writes_what_it_declares():
    given = prompts().set("example_id", torch.tensor([5, 3]))

    batch = collector()(given)

    assert set(batch.keys()) == {*GreedyBaselineCollector.writes, *given.keys()}
    assert batch["example_id"].tolist() == [5, 5, 5, 3, 3, 3]


def test_the_greedy_answer_keeps_a_set_of_its_own_where_sets_are_replayed():
    made = collector(top_k=3, replay=True)
    batch = made(prompts())

    assert "sampling_mask" in made.may_write
    torch.testing.assert_close(batch["rollout_log_probs"], made.policy.log_probs(batch))
    assert not batch["rollout_log_probs"][batch["greedy"]].any()


def test_every_row_s_log_probs_are_those_of_the_sampling_policy():
    made = collector()
    batch = made(prompts())

    torch.testing.assert_close(batch["rollout_log_probs"], made.policy.log_probs(batch))


def test_one_sample_to_a_prompt_is_enough_for_the_baseline():
    batch = collector(group_size=1)(prompts())
    batch["reward"] = torch.tensor([1.0, 0.0, 0.0, 2.0])
    batch["reward_valid"] = torch.ones(4, dtype=torch.bool)

    result = GreedyBaseline()(batch)

    assert result["advantage"].amin(1).tolist() == [0.0, 0.0, -2.0, 0.0]
    assert result["advantage"].amax(1).tolist() == [1.0, 0.0, 0.0, 0.0]


def test_only_sampled_rows_are_measured():
    with recording() as ledger:
        batch = collector()(prompts())

    sampled = batch[~batch["greedy"]]
    tokens = float(sampled["response_mask"].sum())
    assert ledger.means()["rollout/tokens"] == tokens
    assert ledger.means()["rollout/length"] == tokens / 4
    assert ledger.means()["rollout/truncated"] == sampled["truncated"].double().mean().item()


def test_what_belongs_to_the_prompt_goes_with_the_greedy_answer_too():
    given = prompts().set("example_id", torch.tensor([5, 3]))
    columns = {"tests": encode_texts(["a", "bb"])}
    given["columns"] = TensorDict(columns, batch_size=[2])

    batch = collector()(given)

    of_first = batch["example_id"] == 5
    assert bool(batch["greedy"][of_first].any())
    assert bool(batch["greedy"][~of_first].any())
    texts = decode_texts(batch["columns", "tests"])
    assert texts == ["a" if first else "bb" for first in of_first.tolist()]
