"""Rule-based, learned and generative rewards side by side in one run, each on its own domain."""

import json

import pytest
from transformers import AutoModelForSequenceClassification

from rlcomp import character_tokenizer
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.files.json_lines import read_lines
from rlcomp.run.launch import launch
from rlcomp.testing import tiny_model

pytestmark = [pytest.mark.no_cover, pytest.mark.slow]

CHARACTERS = "0123456789+-*/=()>: ,?x\\boed{}"
WORDS = [
    "recipe=several_domains",
    "+task@praise=file",
    "praise.path=praise.jsonl",
    "+reward@liked=learned",
    "liked.path=judge",
    "+task@segments=file",
    "segments.path=segments.jsonl",
    "+reward@agreed=judged_segment",
    "judge@agreed.judge=generative",
    "agreed.think_end='='",
    "agreed.judge.template='{reference}{prediction}?'",
    "agreed.judge.yes_text='1'",
    "agreed.judge.no_text='0'",
    "agreed.judge.least_mass=0",
    "+task.tasks.praise=${praise}",
    "+task.tasks.segments=${segments}",
    "+reward.routes.praise=${liked}",
    "+reward.routes.segments=${agreed}",
    "task.held_out=0.25",
    f"tokenizer.characters='{CHARACTERS}'",
    "phases.warm_start.steps=120",
    "phases.rl.steps=3",
    "prompts.batch_size=20",
    "group_size=4",
    "evaluation.num_prompts=16",
    "directory=run",
]


def test_every_kind_scores_its_own_domain(tmp_path, monkeypatch, needs):
    needs("strict")
    monkeypatch.chdir(tmp_path)
    for name, response in (("praise", "7"), ("segments", "=\\boxed{7}")):
        rows = [{"question": f"{n}>", "answer": "7", "demonstration": response} for n in range(40)]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(text)
    tokenizer = character_tokenizer(characters=CHARACTERS)
    tiny_model(tokenizer, context_length=64).save_pretrained("judge")
    judge = AutoModelForSequenceClassification.from_pretrained("judge", num_labels=1)
    judge.config.pad_token_id = tokenizer.pad_token_id
    judge.save_pretrained("judge")
    tokenizer.save_pretrained("judge")
    config = compose_config(
        [*WORDS, *(f"{name}.demonstration_field=demonstration" for name in ("praise", "segments"))]
    )

    launch(config, plan_of(config))

    rows = [row for row in read_lines(tmp_path / "run" / "metrics.jsonl") if row["phase"] == "rl"]
    for name in ("sums", "code", "instructions", "praise", "segments"):
        assert any(f"reward/{name}/mean" in row for row in rows)
        assert all(row.get(f"reward/{name}/invalid_fraction", 0) == 0 for row in rows)
    liked = [row["reward/praise/mean"] for row in rows if "reward/praise/mean" in row]
    assert all(value % 1 for value in liked)  # a logit
    agreed = [row["reward/segments/mean"] for row in rows if "reward/segments/mean" in row]
    assert any(0 < value < 1 for value in agreed)  # a probability
