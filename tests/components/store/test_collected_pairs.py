"""Pairs that are collected and drawn again. What is kept is counted by hand."""

import pytest
import torch
from tensordict import TensorDict

from components.store import CollectedPairs, PairReplay
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.errors import CheckpointError
from rlcomp.metrics import recording
from rlcomp.testing import make_batch


def pairs(*answers, valid=None):
    """Rows of one letter each, two a pair: of "ab" the answer "a" is chosen, "b" rejected."""
    letters = list("".join(answers))
    token = torch.tensor([[112, ord(letter)] for letter in letters])
    each = torch.tensor(valid or [True] * len(answers)).repeat_interleave(2)
    chosen = torch.arange(len(letters)) % 2 == 0
    return make_batch(
        tokens=token,
        attention_mask=torch.ones_like(token).bool(),
        response_mask=torch.tensor([[False, True]]).expand(len(letters), 2),
        prompt=["p"] * len(letters),
        response=encode_texts(letters),
        reward=chosen.float(),
        reward_valid=each,
        group_id=torch.arange(len(letters)) // 2,
        correct=chosen,
        chosen=chosen,
    )


def told(batch):
    texts = decode_texts(batch["response"])
    return ["".join(texts[row : row + 2]) for row in range(0, len(texts), 2)]


def test_a_pair_is_kept_whole_and_once():
    store = CollectedPairs()
    with recording() as ledger:
        # "xy" is no pair; "ac" and "cb" share an answer with "ab", and are others.
        store(pairs("ab", "xy", "ac", "ab", "cb", valid=[True, False, True, True, True]))
    assert told(store.rows()) == ["ab", "ac", "cb"]
    assert ledger.means() == {"collected_pairs/kept_fraction": 0.6, "collected_pairs/rows": 6}
    assert store.rows()["chosen"].tolist() == [True, False] * 3


def test_a_pair_of_which_one_answer_was_not_judged_is_left_out():
    store, batch = CollectedPairs(), pairs("ab", "cd")
    batch["reward_valid"][1] = False
    store(batch)
    assert told(store.rows()) == ["cd"]


def test_a_limit_cuts_no_pair():
    store = CollectedPairs(limit=5)
    store(pairs("ab", "cd", "ef"))
    store(pairs("gh"))
    assert told(store.rows()) == ["ab", "cd"]


def test_pairs_are_drawn_whole_each_once_an_epoch():
    store = CollectedPairs()
    store(pairs("ab", "cd", "ef", "gh"))
    replay = PairReplay(store=store, batch_size=2)
    first, second = (replay(TensorDict({}, batch_size=[])) for _ in range(2))
    assert sorted(told(first) + told(second)) == ["ab", "cd", "ef", "gh"]
    assert first["chosen"].tolist() == [True, False, True, False]


def test_soft_labels_of_a_judge_are_kept_with_their_pairs():
    store, batch = CollectedPairs(), pairs("ab", "cd", "ef", valid=[True, False, True])
    batch["label_noise"] = torch.tensor([0.1, 0.3, 0.4]).repeat_interleave(2)
    store(batch)
    other = CollectedPairs()
    other.load_run_state(store.run_state())
    drawn = PairReplay(store=other, batch_size=2)(TensorDict({}, batch_size=[]))
    found = dict(zip(told(drawn), drawn["label_noise"].view(-1, 2).tolist(), strict=True))
    assert found == {"ab": pytest.approx([0.1] * 2), "ef": pytest.approx([0.4] * 2)}


def test_it_goes_on_where_it_was():
    store, other = CollectedPairs(), CollectedPairs()
    store(pairs("ab", "cd"))
    other.load_run_state(store.run_state())
    other(pairs("cd", "ef"))
    assert told(other.rows()) == ["ab", "cd", "ef"]


def test_rows_of_no_pair_are_refused():
    state = CollectedPairs()
    state(pairs("ab"))
    rows = {key: value for key, value in state.run_state()["rows"].items() if key != "chosen"}
    with pytest.raises(CheckpointError, match=r"other keys: \['chosen'\]"):
        CollectedPairs().load_run_state({"shown": 2, "rows": rows})
