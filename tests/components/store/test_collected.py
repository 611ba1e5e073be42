"""Rows that are collected and drawn again. What is kept is counted by hand."""

import pytest
import torch
from tensordict import TensorDict

from components.store import AnswerReplay, CollectedAnswers
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.errors import CheckpointError, FlowError
from rlcomp.metrics import recording
from rlcomp.testing import make_batch


def rows(answers, rewards, *, groups=None, valid=None, correct=None):
    """Rows "p0" -> answer; one token a letter, two of prompt."""
    groups = groups or [0] * len(answers)
    width = 2 + max(map(len, answers))
    tokens = torch.zeros(len(answers), width, dtype=torch.int64)
    filled = torch.zeros(len(answers), width, dtype=torch.bool)
    for row, answer in enumerate(answers):
        tokens[row, : 2 + len(answer)] = torch.tensor([112, 48 + groups[row], *answer.encode()])
        filled[row, : 2 + len(answer)] = True
    response = filled.clone()
    response[:, :2] = False
    right = [reward > 0 for reward in rewards] if correct is None else correct
    return make_batch(
        tokens=tokens,
        attention_mask=filled,
        response_mask=response,
        prompt=[f"p{group}" for group in groups],
        response=encode_texts(answers),
        reward=rewards,
        reward_valid=valid or [True] * len(answers),
        group_id=groups,
        correct=right,
    )


def show(store, batch):
    with recording() as ledger:
        assert store(batch) is batch
    return ledger.means()


def held(store):
    found = store.rows()
    pairs = zip(decode_texts(found["prompt"]), decode_texts(found["response"]), strict=True)
    return ["".join(pair) for pair in pairs]


def test_right_answers_that_were_judged_are_kept_once():
    store = CollectedAnswers()
    batch = rows(["ab", "c", "ab", "d"], [1.0, 0.0, 1.0, 1.0], valid=[True, True, True, False])
    assert show(store, batch) == {"collected/kept_fraction": 0.25, "collected/rows": 1}
    # The same answer to another prompt is another; a longer row widens the others.
    found = show(store, rows(["ab", "ab", "abcde"], [1.0, 1.0, 1.0], groups=[0, 1, 1]))
    assert found == {"collected/kept_fraction": pytest.approx(2 / 3), "collected/rows": 3}
    assert held(store) == ["p0ab", "p1ab", "p1abcde"]
    assert store.rows()["tokens"].tolist() == [
        [112, 48, 97, 98, 0, 0, 0],
        [112, 49, 97, 98, 0, 0, 0],
        [112, 49, 97, 98, 99, 100, 101],
    ]


def test_the_best_of_each_group_is_the_first_of_the_highest_valid_reward():
    store = CollectedAnswers(choose="best_of_group")
    show(
        store,
        rows(
            ["a", "b", "c", "d", "e", "f", "g"],
            [0.2, 0.7, 0.7, -1.0, -0.5, 9.0, 0.0],
            groups=[0, 0, 0, 1, 1, 1, 2],
            valid=[True, True, True, True, True, False, False],
        ),
    )
    assert held(store) == ["p0b", "p1e"]


def test_all_that_was_judged_may_be_kept_and_twice():
    store = CollectedAnswers(choose="all", distinct=False)
    show(store, rows(["a", "a", "b"], [0.0, 1.0, 1.0], valid=[True, True, False]))
    assert held(store) == ["p0a", "p0a"]


def test_a_limit_holds():
    store = CollectedAnswers(choose="all", limit=3)
    show(store, rows(["a", "b"], [1.0, 1.0]))
    assert show(store, rows(["c", "d"], [1.0, 1.0]))["collected/kept_fraction"] == 0.5
    assert show(store, rows(["e"], [1.0]))["collected/rows"] == 3
    assert held(store) == ["p0a", "p0b", "p0c"]


def test_a_phase_begins_with_an_empty_store_unless_told():
    for emptied, left in [(True, ["p0a"]), (False, ["p0a", "p0b"])]:
        store = CollectedAnswers(emptied=emptied)
        show(store, rows(["b"] if emptied else ["a"], [1.0]))
        store.begin_phase()
        assert store.num_offered == (0 if emptied else 1)
        show(store, rows(["a"] if emptied else ["b"], [1.0]))
        assert held(store) == left
    store.begin_phase()
    assert store.num_offered == 2


def filled():
    store = CollectedAnswers(choose="all")
    show(store, rows(["a", "bcd", "e"], [1.0, 0.5, 0.0], groups=[0, 1, 2]))
    show(store, rows(["f", "g"], [1.0, 0.5]))
    return store


def drawn(replay):
    return decode_texts(replay(TensorDict({}, batch_size=[]))["response"])


def test_every_row_is_drawn_once_an_epoch():
    replay = AnswerReplay(store=filled(), batch_size=2)
    seen = [word for _ in range(5) for word in drawn(replay)]
    assert sorted(seen[:5]) == sorted(seen[5:]) == ["a", "bcd", "e", "f", "g"]
    assert seen[:5] != seen[5:] or replay.epoch == 1


def test_a_batch_is_as_wide_as_its_rows():
    replay = AnswerReplay(store=filled(), batch_size=1)
    widths = {}
    for _ in range(5):
        batch = replay(TensorDict({}, batch_size=[]))
        widths[decode_texts(batch["response"])[0]] = batch["tokens"].shape[1]
    assert widths == {"a": 3, "bcd": 5, "e": 3, "f": 3, "g": 3}


def test_a_resumed_run_draws_the_same_rows():
    store = filled()
    replay = AnswerReplay(store=store, batch_size=3)
    drawn(replay)
    place, rest = replay.run_state(), store.run_state()
    expected = [drawn(replay) for _ in range(4)]

    other = CollectedAnswers(choose="all")
    again = AnswerReplay(store=other, batch_size=3)
    again.load_run_state(place)
    other.load_run_state(rest)
    assert [drawn(again) for _ in range(4)] == expected
    # What it has seen is known: a row that is shown again is not kept again.
    assert show(other, rows(["a"], [1.0]))["collected/kept_fraction"] == 0
    assert other.num_offered == 6


def test_an_empty_store_says_why():
    store = CollectedAnswers()
    show(store, rows(["a", "b"], [0.0, 0.0]))
    with pytest.raises(FlowError, match=r"of 2 rows it kept none .choose is 'correct'"):
        drawn(AnswerReplay(store=store, batch_size=2))
    assert store.run_state() == {"shown": 2, "rows": {}}


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.pop("tokens"),
        lambda rows: rows.update(more=torch.zeros(5)),
        lambda rows: rows.update(tokens=3),
        lambda rows: rows.update(reward=torch.zeros(())),
    ],
)
def test_a_foreign_state_is_refused(change):
    state = filled().run_state()
    change(state["rows"])
    with pytest.raises(CheckpointError):
        CollectedAnswers().load_run_state(state)


@pytest.mark.parametrize(("name", "value"), [("seed", -1), ("epoch", 2**63), ("cursor", 10**30)])
def test_a_place_that_no_run_reaches_is_refused(name, value):
    replay = AnswerReplay(store=CollectedAnswers(), batch_size=1)

    with pytest.raises(CheckpointError, match=f"'{name}' is"):
        replay.load_run_state({**replay.run_state(), name: value})


def test_a_store_cannot_have_been_shown_fewer_rows_than_none():
    with pytest.raises(CheckpointError, match="'shown' is -1"):
        CollectedAnswers().load_run_state({"shown": -1, "rows": {}})
