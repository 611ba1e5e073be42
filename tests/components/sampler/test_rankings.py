"""Whole rankings of a file, as K adjacent rows."""

import json

import pytest
import torch
from tensordict import TensorDict

from components.loss.comparison import PlackettLuce
from components.sampler.labels import Rankings
from components.task.labels import PreferenceTask
from rlcomp.batch import decode_texts
from rlcomp.errors import DataError
from rlcomp.testing import check_component
from rlcomp.text.tokenizer import byte_tokenizer

TOKENIZER = byte_tokenizer()
ROWS = [
    {"prompt": "p", "responses": ["bad", "best", "mid"], "ranking": [1, 2, 0]},
    {"prompt": "q", "responses": ["x", "y", "z"], "ratings": [5, 5, 1]},
]


def sampler(path, rows=ROWS, size=3, **settings):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = PreferenceTask(path=str(path), held_out=0.0, ratings="ranking")
    own = {"batch_size": 2, "group_size": size, "context_length": 32, **settings}
    return Rankings(task=task, tokenizer=TOKENIZER, **own)


def test_a_ranking_is_adjacent_rows_with_its_order_as_the_reward(tmp_path):
    batch = sampler(tmp_path / "a.jsonl")(TensorDict({}, []))

    tokens = [
        row[mask].tolist()[:-1]
        for row, mask in zip(batch["tokens"], batch["response_mask"], strict=True)
    ]
    found = {
        prompt: (TOKENIZER.batch_decode(tokens[n : n + 3]), batch["reward"][n : n + 3].tolist())
        for n, prompt in ((n, decode_texts(batch["prompt"])[n]) for n in (0, 3))
    }
    # The second is best, then the third: 2 for the best of three, down to 0.
    assert found["p"] == (["bad", "best", "mid"], [0.0, 2.0, 1.0])
    assert found["q"] == (["x", "y", "z"], [5.0, 5.0, 1.0])
    assert batch["group_id"].tolist() == [0, 0, 0, 1, 1, 1]
    assert batch["reward_valid"].all()


def test_plackett_luce_learns_from_its_rows(tmp_path):
    batch = sampler(tmp_path / "a.jsonl", rows=ROWS[:1], batch_size=1)(TensorDict({}, []))
    batch["model_score"] = torch.tensor([0.0, 2.0, 1.0], requires_grad=True)
    loss = PlackettLuce(group_size=3)

    value = loss(batch)["loss"]

    # Best first, scores 2, 1, 0: log(e^2 + e + 1) - 2 + log(e + 1) - 1.
    e = torch.tensor(1.0).exp()
    expected = (e**2 + e + 1).log() - 2 + (e + 1).log() - 1
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"size": 4}, "has 3 ranked answers, but group_size is 4"),
        ({"context_length": 5}, "tokens"),
        ({"rows": [{"prompt": "p", "chosen": "a", "rejected": "b"}] * 2}, "is not a ranking"),
        ({"rows": [ROWS[0], {**ROWS[1], "responses": ["x", "y" * 40, "z"]}]}, "tokens"),
    ],
)
def test_what_is_no_ranking_of_so_many_answers_or_too_long_is_refused(tmp_path, settings, why):
    with pytest.raises(DataError, match=why):
        sampler(tmp_path / "a.jsonl", **settings)


def test_messages_are_rankings_too(tmp_path):
    said = [[{"role": "assistant", "content": text}] for text in ("a", "b")]
    asked = [{"role": "user", "content": "p"}]
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"prompt": asked, "responses": said, "ranking": [1, 0]}) + "\n")

    (example,) = PreferenceTask(path=str(path), ratings="ranking").examples

    assert example.demonstration == "b"
    assert [answer[0] for answer in example.columns["ranked_answers"]] == ["a", "b"]


def test_each_ranked_answer_has_a_rating(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(ROWS[0]) + "\n")

    found = PreferenceTask(path=str(path), ratings="each").examples

    assert [(e.demonstration, e.columns["rating"]) for e in found] == [
        ("bad", 0.0),
        ("best", 2.0),
        ("mid", 1.0),
    ]


def test_it_keeps_the_contract(tmp_path):
    check_component(sampler(tmp_path / "a.jsonl"))
