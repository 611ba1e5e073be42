import json

from rlcomp.run.suites import open_suites
from rlcomp.testing.tiny import tiny_model
from rlcomp.text.tokenizer import byte_tokenizer

WORDS = ["+suite=[jsonl]", "jsonl.task.path=sums.jsonl", "jsonl.max_new_tokens=4"]


def test_weights_are_told_by_the_files_of_a_folder_and_not_by_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    row = {"question": "1+1=", "answer": "2"}
    (tmp_path / "sums.jsonl").write_text(json.dumps(row) + "\n")
    tokenizer = byte_tokenizer()
    for seed in (0, 1):
        tiny_model(tokenizer, context_length=256, seed=seed).save_pretrained(f"model_{seed}")
        tokenizer.save_pretrained(f"model_{seed}")

    def weights(model):
        (opened,) = open_suites(str(model), ["jsonl"], WORDS, (), trust=False)
        return opened.settings["weights"]

    assert weights("model_0") == weights(tmp_path / "model_0") != weights("model_1")
