"""Models that exist already: of a folder, or of a run."""

import json

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of
from rlcomp.errors import CheckpointError, ConfigError, DataError
from rlcomp.model.load_model import pretrained_model, pretrained_tokenizer
from rlcomp.run.launch import launch
from rlcomp.testing import tiny_model
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="ab")
IDS = torch.tensor([[2, 3, 2]])
SMALL = ["model.hidden_size=16", "model.intermediate_size=16", "model.num_hidden_layers=1"]


def saved(tmp_path, **settings):
    model = tiny_model(TOKENIZER, seed=1, **settings)
    model.save_pretrained(tmp_path / "folder")
    TOKENIZER.save_pretrained(tmp_path / "folder")
    return model, str(tmp_path / "folder")


def test_a_folder_gives_its_model_and_its_tokenizer(tmp_path):
    model, path = saved(tmp_path, context_length=32)

    tokenizer = pretrained_tokenizer(path=path)
    loaded = pretrained_model(path=path, tokenizer=tokenizer, context_length=32)

    assert tokenizer.get_vocab() == TOKENIZER.get_vocab()
    assert torch.equal(loaded(IDS).logits, model(IDS).logits)
    with pytest.raises(
        ConfigError, match=r"context_length is 33, but the model .* holds 32 tokens"
    ):
        pretrained_model(path=path, tokenizer=tokenizer, context_length=33)
    with pytest.raises(ConfigError, match=r"its token 2 is 'a' \(3 in this one\)"):
        pretrained_model(path=path, tokenizer=character_tokenizer(characters="ba"))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with adapters, which are no identity any more."""
    words = ["adapter=lora", "adapter.rank=2", "phases.warm_start.steps=2", "phases.rl.steps=0"]
    directory = tmp_path_factory.mktemp("run")
    config = compose_config(
        [
            *SMALL,
            *words,
            "sft_learner.optimizer.lr=0.1",
            "demonstrations.batch_size=4",
            "evaluation.num_prompts=4",
            f"directory={directory}",
        ]
    )
    launch(config, plan_of(config))
    return directory


def test_a_run_gives_its_policy_with_adapters_merged(run):
    from rlcomp.model.load_model import load_policy

    policy, _ = load_policy(run)
    adapted = policy.model(IDS).logits.detach()

    tokenizer = pretrained_tokenizer(path=str(run))
    model = pretrained_model(path=str(run), tokenizer=tokenizer, context_length=32)

    torch.testing.assert_close(model(IDS).logits, adapted, atol=1e-5, rtol=0)
    assert all(value.requires_grad for value in model.parameters())
    assert not any("lora" in name for name, _ in model.named_parameters())
    for place in (run / "checkpoints", *(run / "checkpoints").glob("step-*")):
        assert pretrained_tokenizer(path=str(place)).get_vocab() == tokenizer.get_vocab()
    with pytest.raises(
        ConfigError, match=r"context_length is 33, but the model .* holds 32 tokens"
    ):
        pretrained_model(path=str(run), tokenizer=tokenizer, context_length=33)
    with pytest.raises(ConfigError, match=r"has 24 tokens|has another one"):
        pretrained_model(path=str(run), tokenizer=TOKENIZER)


def test_weights_may_be_read_in_bfloat16(tmp_path, run):
    _, path = saved(tmp_path)

    folder = pretrained_model(path=path, tokenizer=TOKENIZER, dtype="bfloat16")
    of_run = pretrained_model(
        path=str(run), tokenizer=pretrained_tokenizer(path=str(run)), dtype="bfloat16"
    )

    assert {value.dtype for value in folder.parameters()} == {torch.bfloat16}
    assert {value.dtype for value in of_run.parameters()} == {torch.bfloat16}


def test_shards_are_one_model_and_tied_weights_stay_tied(tmp_path):
    model = tiny_model(TOKENIZER, seed=1, tie_word_embeddings=True)
    model.save_pretrained(tmp_path, max_shard_size="2KB")
    TOKENIZER.save_pretrained(tmp_path)
    assert len(list(tmp_path.glob("*.safetensors"))) > 1

    loaded = pretrained_model(path=str(tmp_path), tokenizer=TOKENIZER)

    assert torch.equal(loaded(IDS).logits, model(IDS).logits)
    assert loaded.get_output_embeddings().weight is loaded.get_input_embeddings().weight


def test_the_row_of_a_pad_token_is_trained(tmp_path):
    config = LlamaConfig(
        vocab_size=4, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, pad_token_id=1, eos_token_id=1,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    TOKENIZER.save_pretrained(tmp_path)

    model = pretrained_model(path=str(tmp_path), tokenizer=TOKENIZER)
    model(torch.tensor([[2, 1, 3]])).logits.square().sum().backward()

    touched = model.get_input_embeddings().weight.grad.abs().sum(1) > 0
    assert touched.tolist() == [False, True, True, True]


def test_the_ends_of_a_text_come_with_the_folder(tmp_path):
    _, path = saved(tmp_path)
    file = tmp_path / "folder" / "generation_config.json"
    file.write_text(json.dumps({"eos_token_id": [1, 0]}))

    model = pretrained_model(path=path, tokenizer=TOKENIZER)

    assert model.generation_config.eos_token_id == [1, 0]


@pytest.mark.parametrize("read", [pretrained_tokenizer, pretrained_model])
def test_what_there_is_not_is_told(tmp_path, read):
    def reading(path):
        more = {} if read is pretrained_tokenizer else {"tokenizer": TOKENIZER}
        return read(path=path, **more)

    with pytest.raises(ConfigError, match=r"there is no base model; set base=DIR"):
        reading(None)
    with pytest.raises(DataError, match=r"is not a folder: write the path of one, or a hub name"):
        reading("runs/no/such")
    with pytest.raises(DataError, match=r"no (model|tokenizer) at"):
        reading(str(tmp_path))
    (tmp_path / "run.yaml").touch()
    with pytest.raises(CheckpointError, match="no whole checkpoint there"):
        reading(str(tmp_path))


def test_a_run_that_is_its_own_base_is_refused(run, tmp_path):
    import shutil

    from rlcomp.checkpoint.manifest import write_manifest
    from rlcomp.checkpoint.reader import open_checkpoint

    place = tmp_path / "step-00000002"
    shutil.copytree(open_checkpoint(run).path, place)
    text = (place / "config.yaml").read_text()
    text = text.replace("characters: 0123456789+-*/=()>: ,?", "")
    head, _, rest = text.partition("tokenizer:\n")
    after = rest[rest.index("model:\n") :]
    own = (
        "  _target_: rlcomp.model.load_model.pretrained_tokenizer\n"
        f"  path: {place}\n  trust: false\n"
    )
    (place / "config.yaml").write_text(f"{head}tokenizer:\n{own}{after}")
    (place / "manifest.json").unlink()
    write_manifest(place)

    with pytest.raises(CheckpointError, match="its run names itself as its base"):
        pretrained_tokenizer(path=str(place))
