"""A free worker: groups as a collector's, by request, part and version."""

import pytest
import torch

from components.collector.group import GroupCollector
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.cluster import async_rollout
from rlcomp.cluster.async_rollout import AsyncWorker, sampled_responses
from rlcomp.cluster.serialization import SerializedStages
from rlcomp.cluster.slot_scheduler import RolloutGroup, RolloutRow
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import DataError
from rlcomp.interfaces.cluster import AsyncSettings, PromptRange, RolloutRequest
from rlcomp.metrics import recording
from rlcomp.testing import make_batch, tiny_policy


def collector(decoding=None):
    torch.manual_seed(1)
    policy = tiny_policy(scale=4.0, decoding=decoding)
    return GroupCollector(policy=policy, group_size=2, max_new_tokens=4)


def worker(stage, **settings):
    carried = SerializedStages([stage])
    made = AsyncWorker(carried.data(), AsyncSettings(**{"seats": 8, "look_every": 3} | settings))
    made.load([each.clone() for each in carried.weights])
    return made, carried


def request(place, texts, number=4, of=3, seed=77):
    batch = make_batch(prompt=encode_texts(texts))
    return RolloutRequest(number, None, 0.5, 9, (seed,), PromptRange(place, len(texts), of), batch)


def whole(stage, texts, seed=77):
    stage.generator.manual_seed(seed)
    batch = make_batch(prompt=encode_texts(texts))
    with recording() as ledger, torch.no_grad():
        return stage(batch), ledger


@pytest.mark.parametrize(
    "decoding", [None, Decoding(top_k=5, replay=True), Decoding(temperature=0.7, top_p=0.8)]
)
def test_groups_are_those_of_the_whole_batch_however_they_come(decoding):
    texts = ["1+1=", "2+2=", "3"]
    made, carried = worker(collector(decoding))
    expected, ledger = whole(collector(decoding), texts)

    assert not made.busy
    made.take(request(2, texts[2:]))
    made.take(request(0, texts[:2]))
    replies = []
    while made.busy:
        replies += made.turn()

    assert sorted(reply.part.first for reply in replies) == [0, 1, 2]
    for reply in replies:
        place = reply.part.first
        mine = expected[2 * place : 2 * place + 2]
        assert (reply.number, reply.version, reply.part) == (4, 0, PromptRange(place, 1, 3))
        assert reply.seconds >= 0
        assert decode_texts(reply.rows["response"]) == decode_texts(mine["response"])
        assert set(reply.rows.keys()) == set(mine.keys())
        assert torch.equal(reply.rows["truncated"], mine["truncated"])
        width = reply.rows["tokens"].shape[1]
        assert torch.equal(reply.rows["tokens"], mine["tokens"][:, :width])
        close = torch.allclose(
            reply.rows["rollout_log_probs"], mine["rollout_log_probs"][:, :width], atol=1e-5
        )
        assert close
        if "sampling_mask" in mine.keys():
            assert torch.equal(reply.rows["sampling_mask"], mine["sampling_mask"][:, :width])
    total = sum(reply.ledger.sums["rollout/tokens"] for reply in replies)
    assert total == ledger.sums["rollout/tokens"]
    assert len(carried.weights) == len(made.weights)


def test_tokens_have_the_version_of_the_weights_that_were_loaded_before_the_turn():
    stage = collector()
    made, _ = worker(stage)
    made.take(request(0, ["1+1="]))

    assert made.turn() == []
    stage.policy.updated()
    stage.policy.updated()
    made.load([each.clone() for each in SerializedStages([stage]).weights])
    (reply,) = made.turn()

    found = reply.rows["policy_version"][reply.rows["response_mask"]].view(2, -1)
    assert found.tolist() == [[0, 0, 0, 2]] * 2
    assert reply.version == 2
    assert reply.rows["policy_version"][~reply.rows["response_mask"]].sum() == 0


def test_the_slots_get_new_weights(monkeypatch):
    made, carried = worker(collector())
    told = []
    monkeypatch.setattr(made.scheduler, "renew", lambda: told.append(torch.is_grad_enabled()))

    made.load([each.clone() for each in carried.weights])

    assert told == [False]


def test_seconds_are_those_of_turns_since_the_reply_before(monkeypatch):
    made, _ = worker(collector(), seats=2, look_every=4)
    made.take(request(0, ["1", "2"], of=2))
    clock = iter([10.0, 12.0, 20.0, 25.0])
    monkeypatch.setattr(async_rollout.time, "perf_counter", lambda: next(clock))

    first, second = made.turn(), made.turn()

    # Two rows a turn, each to its end: a group in each turn, of 2 s and of 5 s.
    assert [reply.seconds for reply in first + second] == [2.0, 5.0]
    assert not made.busy


def test_seconds_of_turns_without_a_reply_are_those_of_the_next_one(monkeypatch):
    made, _ = worker(collector(), look_every=2)
    made.take(request(0, ["1"], of=1))
    clock = iter([10.0, 12.0, 20.0, 25.0])
    monkeypatch.setattr(async_rollout.time, "perf_counter", lambda: next(clock))

    assert made.turn() == []
    assert [reply.seconds for reply in made.turn()] == [7.0]


def test_a_prompt_that_leaves_no_room_is_refused():
    made, _ = worker(collector())

    with pytest.raises(DataError, match="lower max_new_tokens"):
        made.take(request(0, ["1" * 400]))


def test_samples_of_a_group_are_padded_with_zeros():
    rows = [RolloutRow([1], None, 9), RolloutRow([1], None, 9)]
    rows[0].tokens, rows[0].log_probs, rows[0].stopped = [5, 6, 7], [-1.0, -2.0, -3.0], True
    rows[1].tokens, rows[1].log_probs = [8], [-4.0]
    rows[0].sampling_mask = [torch.tensor([[1], [2]]), torch.tensor([[3]])]
    rows[1].sampling_mask = [torch.tensor([[4]])]

    found = sampled_responses(RolloutGroup("a", rows))

    assert found.tokens.tolist() == [[5, 6, 7], [8, 0, 0]]
    assert found.log_probs.tolist() == [[-1.0, -2.0, -3.0], [-4.0, 0.0, 0.0]]
    assert found.lengths.tolist() == [3, 1]
    assert found.truncated.tolist() == [False, True]
    assert found.sampling_mask[..., 0].tolist() == [[1, 2, 3], [4, 0, 0]]
    rows[0].sampling_mask = rows[1].sampling_mask = []
    assert sampled_responses(RolloutGroup("a", rows)).sampling_mask is None


def test_the_sets_of_a_single_row_stand_at_its_tokens():
    masks = [torch.tensor([[1, 2]], dtype=torch.uint8), torch.tensor([[3, 4]], dtype=torch.uint8)]
    row = RolloutRow(
        [5], None, 4, tokens=[7, 8], log_probs=[-1.0, -2.0], sampling_mask=masks, stopped=True
    )

    found = sampled_responses(RolloutGroup(None, [row]))

    assert found.sampling_mask.tolist() == [[[1, 2], [3, 4]]]
    assert found.truncated.tolist() == [False]
