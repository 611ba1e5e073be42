"""What is told of a model's folder: its files, and memory and time of a step, by hand."""

import json

import pytest
import yaml

from rlcomp.cli import model_facts as module
from rlcomp.cli.model_facts import model_facts
from rlcomp.config.options import config_directory
from rlcomp.config.plan import Plan
from rlcomp.config.reader import Node
from rlcomp.errors import DataError

# 1,000 operations and 1e12 bytes a second: only the operations count.
COMPUTE, READ = (1000.0, 1e12), (1e12, 100.0)


def shards(folder, *tensors, name="model.safetensors"):
    entries = {f"t{n}": {"dtype": kind, "shape": shape} for n, (kind, shape) in enumerate(tensors)}
    header = json.dumps({"__metadata__": {"a": "b"}} | entries).encode()
    (folder / name).write_bytes(len(header).to_bytes(8, "little") + header)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "mine"}))
    shards(tmp_path, ("F32", [10, 10]))
    return tmp_path


NODES = {
    "prompts": Node("prompts", "a.Prompts", {"batch_size": 2}),
    "rollout": Node("rollout", "a.Group", {"max_new_tokens": 5, "group_size": 3}),
    "learner": Node("learner", "a.Learner", {"epochs": 2}),
    "reference": Node("reference", "a.Frozen"),
    "old_log_probs": Node("old_log_probs", "a.Recomputed"),
}


def facts(folder, nodes=NODES, speed=COMPUTE, monkeypatch=None, **tree):
    if monkeypatch is not None:
        monkeypatch.setattr(module, "_measure_speed", lambda: speed)
    found = [*model_facts(Plan({"base": str(folder)} | tree, nodes, {}))]
    return {line.split()[0]: " ".join(line.split()[1:]) for line in found}


def config(folder, **values):
    (folder / "config.json").write_text(json.dumps(values))


def test_where_no_folder_of_a_model_is_named_nothing_is_told(tmp_path):
    assert facts(tmp_path) == facts("") == facts(tmp_path / "gone") == {}
    assert [*model_facts(Plan({}, {}, {}))] == []


def test_an_architecture_has_its_sizes(folder):
    config(
        folder,
        architectures=["A", "B"],
        model_type="mine",
        num_hidden_layers=3,
        hidden_size=64,
        num_attention_heads=4,
        num_experts=8,
        vocab_size=100,
    )
    told = facts(folder)["architecture"]
    assert told == "A, 3 layers, 64 wide, 4 heads, 8 experts, 100 tokens"
    config(folder, architectures=[], model_type="mine")
    assert facts(folder)["architecture"] == "mine"
    config(folder, text_config={"num_hidden_layers": 2, "n_ctx": 7}, num_hidden_layers=5)
    assert facts(folder)["architecture"] == "unknown, 2 layers"
    assert facts(folder)["context"].startswith("at most 7 tokens")


@pytest.mark.parametrize(
    "name", ["max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length"]
)
def test_the_context_has_many_names(folder, name):
    config(folder, **{name: 12})

    told = facts(folder, context_length=9)["context"]
    assert told == "at most 12 tokens; context_length here is 9"
    config(folder)
    assert (
        facts(folder)["context"]
        == "at most an unknown number of tokens; context_length here is not set"
    )


def test_weights_of_all_files_are_counted_by_their_type(folder):
    shards(folder, ("F32", [2, 3, 4]), ("BF16", [5]), ("F32", []), name="model-2.safetensors")

    assert facts(folder)["weights"] == "130 (F32 125, BF16 5)"
    for file in folder.glob("*.safetensors"):
        file.unlink()
    assert facts(folder)["weights"] == "0 (no *.safetensors)"
    assert "memory" not in facts(folder)


def test_the_largest_header_is_read_and_a_larger_one_refused(folder, monkeypatch):
    size = int.from_bytes((folder / "model.safetensors").read_bytes()[:8], "little")
    monkeypatch.setattr(module, "_MAX_HEADER_BYTES", size)
    assert facts(folder)["weights"].startswith("100 ")
    monkeypatch.setattr(module, "_MAX_HEADER_BYTES", size - 1)
    with pytest.raises(DataError, match=r"its header has .* bytes, more than"):
        facts(folder)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").mkdir()
    with pytest.raises(DataError, match="is no regular file"):
        facts(folder)


def test_a_config_that_cannot_be_read_is_told(folder):
    (folder / "config.json").write_text("{")
    with pytest.raises(DataError, match=r"config\.json cannot be read"):
        facts(folder)
    (folder / "config.json").write_text("[]")
    assert facts(folder)["architecture"] == "unknown"


def test_a_chat_template_is_a_file_or_a_setting_and_used_by_a_prompt(folder):
    chat = NODES | {"prompt": Node("prompt", "rlcomp.text.chat.ChatPrompt")}
    text = NODES | {"prompt": Node("prompt", "rlcomp.text.prompt.TextPrompt")}

    assert (
        " ".join(facts(folder)["chat"].split())
        == "template none; prompts are plain text (prompt=text)"
    )
    (folder / "tokenizer_config.json").write_text('{"chat_template": "a"}')
    assert facts(folder, chat)["chat"] == "template in tokenizer_config.json, used"
    assert facts(folder, text)["chat"] == (
        "template in tokenizer_config.json, not used: prompt=chat uses it"
    )
    (folder / "chat_template.jinja").write_text("a")
    assert facts(folder, chat)["chat"] == "template chat_template.jinja, used"
    assert facts(folder)["chat"].endswith("not used: prompt=chat uses it")


@pytest.mark.parametrize(
    ("eos", "ids", "stops"),
    [
        ("<a>", [1, 2, 9], "<a>, <b>"),
        ({"content": "<b>"}, 1, "<b>, <a>"),
        (None, 2, "<b>"),
        ("<a>", None, "<a>"),
        (None, None, "none"),
    ],
)
def test_tokens_that_end_an_answer_come_once(folder, eos, ids, stops):
    added = [{"id": 1, "content": "<a>"}, {"id": 2, "content": "<b>"}, 3]
    (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": added}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": eos}))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ids}))

    assert facts(folder)["stop"] == f"tokens {stops}"


@pytest.mark.parametrize(
    ("dtype", "each"), [(None, 1), ("bfloat16", 0.5), ("float64", 2), ("x", 1)]
)
def test_memory_is_that_of_weights_gradients_moments_and_reference(folder, dtype, each):
    shards(folder, ("F32", [10**9 // 4]))
    arguments = {} if dtype is None else {"dtype": dtype}
    nodes = NODES | {"model": Node("model", "a.Model", arguments)}

    told = facts(folder, nodes)["memory"]
    assert told.startswith(
        f"{5 * each:.2f} GB (weights {each:.2f}, gradients {each:.2f}, AdamW {2 * each:.2f}, "
        f"reference {each:.2f}), and activations"
    )


def test_a_reference_that_is_none_or_the_policy_itself_needs_no_memory(folder):
    shards(folder, ("F32", [10**9 // 4]))
    for option in ("none", "adapter_off"):
        target = yaml.safe_load((config_directory() / "reference" / f"{option}.yaml").read_text())[
            "_target_"
        ]
        nodes = NODES | {"reference": Node("reference", target)}
        assert facts(folder, nodes)["memory"].startswith("4.00 GB ")
    adapted = facts(folder, NODES | {"adapter": Node("adapter", "a.lora")})["memory"]
    assert adapted.startswith("1.00 GB (weights 1.00); the adapters take little, ")


# 6 answers of 5 tokens, 30 in all; 100 weights: 2 * 100 * 30 operations are 6 seconds.
def test_time_is_that_of_the_operations(folder, monkeypatch):
    told = facts(folder, monkeypatch=monkeypatch)["time"]
    assert told.startswith("at least 54 s a step on this CPU (answers 6, scoring 12, learner 36)")
    assert "all 6 answers have 5 tokens" in told

    few = {"prompts": NODES["prompts"], "rollout": Node("rollout", "a.One", {"max_new_tokens": 5})}
    told = facts(folder, few, monkeypatch=monkeypatch)["time"]
    assert told.startswith("at least 8 s a step on this CPU (answers 2, learner 6)")

    lora = NODES | {"adapter": Node("adapter", "a.lora")}
    told = facts(folder, lora, monkeypatch=monkeypatch)["time"]
    assert "(answers 6, scoring 12, learner 24)" in told


def test_time_is_that_of_reading_the_weights_where_that_is_more(folder, monkeypatch):
    # 400 bytes at 100 a second, five times.
    told = facts(folder, speed=READ, monkeypatch=monkeypatch)["time"]
    assert "(answers 20, " in told
    assert "1e+03 GFLOP/s" in told


@pytest.mark.parametrize("name", ["reference", "old_log_probs"])
def test_what_is_scored_anew_takes_a_pass_each(folder, monkeypatch, name):
    nodes = {key: node for key, node in NODES.items() if key != name}
    assert "scoring 6," in facts(folder, nodes, monkeypatch=monkeypatch)["time"]
    nodes = NODES | {name: Node(name, "rlcomp.run.stages.Nothing")}
    assert "scoring 6," in facts(folder, nodes, monkeypatch=monkeypatch)["time"]
    # Of a reference that a rollout is, and log-probabilities that the rollout has.
    nodes = NODES | {"old_log_probs": Node("old_log_probs", "a.rollout.RolloutLogProbs")}
    assert "scoring 6," in facts(folder, nodes, monkeypatch=monkeypatch)["time"]


def test_time_is_not_estimated_without_answers_or_with_experts(folder):
    for node, name in (("prompts", "batch_size"), ("rollout", "max_new_tokens")):
        nodes = NODES | {node: Node(node, "a.B", {name: "${x}"})}
        assert facts(folder, nodes)["time"].startswith("not estimated: no stage")
        assert facts(folder, {k: v for k, v in NODES.items() if k != node})["time"].startswith(
            "not estimated: no stage"
        )
    for name in ("num_experts", "num_local_experts"):
        config(folder, **{name: 4})
        assert facts(folder)["time"].startswith("not estimated: not every token")


def test_the_speed_is_of_a_product_and_of_a_sum(monkeypatch):
    seconds = iter([0.5, 0.25, 1.0, 2.0, 3.0, 8.0, 4.0, 16.0])
    monkeypatch.setattr(module, "_measure_seconds", lambda call: call() is None or next(seconds))

    # 2 * 768^3 operations in a quarter of a second, 4 * 2^24 bytes in 4.
    assert module._measure_speed() == (2 * 768**3 / 0.25, 4 * 2**24 / 4.0)


def test_a_call_takes_some_time(monkeypatch):
    clock = iter([1.0, 3.5, 7.0, 7.0])
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(clock))

    assert module._measure_seconds(lambda: None) == 2.5
    assert module._measure_seconds(lambda: None) == 1e-9
