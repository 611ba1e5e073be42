"""Command lines that are run in a folder of bad files, where no model may be built."""

import sys
import time

import pytest

import rlcomp.model.build as model_build


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the files that the command lines name."""
    from rlcomp.checkpoint.writer import Checkpoint

    folder = tmp_path_factory.mktemp("bad")
    (folder / "rows.jsonl").write_text('{"question": "1", "answer": "2"}\n')
    (folder / "empty.jsonl").write_text("")
    (folder / "table.csv").write_text("question,answer\n1,2\n")
    (folder / "null.jsonl").write_text(
        '{"question": "1", "answer": "2"}\n{"question": "2", "answer": null}\n'
    )
    (folder / "malformed.jsonl").write_text('{"question": "1", "answer": "2"}\n{"question": \n')
    for name, vocabulary in (("misfit", 5), ("small", 24)):
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(
            f'{{"model_type": "qwen2", "vocab_size": {vocabulary}, "hidden_size": 8, '
            '"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, '
            '"intermediate_size": 8, "max_position_embeddings": 64}'
        )
    where = {"phase": 0, "step": 1, "total": 1, "trackers": {}, "inputs": {}}
    Checkpoint(directory=str(folder / "other"), keep=1).save({}, where)
    return folder


class Built(Exception):
    """A model was built although the mistake could be seen before."""


@pytest.fixture
def no_model(monkeypatch):
    def refuse(*_, **__):
        raise Built

    for name in ("from_config", "from_pretrained"):
        monkeypatch.setattr(model_build.AutoModelForCausalLM, name, refuse)


@pytest.fixture
def told(place, tmp_path, monkeypatch, capsys, rlcomp):
    """Exit code, message and CPU seconds of a command line, run from the folder above."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setitem(sys.modules, "gymnasium", None)

    def run(*words):
        directory = (
            [] if any(w.startswith("directory=") for w in words) else [f"directory={tmp_path}"]
        )
        start = time.process_time()
        code = rlcomp(*words, *directory)
        return code, capsys.readouterr().err, time.process_time() - start

    return run
