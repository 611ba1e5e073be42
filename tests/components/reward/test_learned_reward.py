import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, Qwen2Config

from components.reward.reward_model import LearnedReward
from rlcomp.batch import encode_texts
from rlcomp.errors import ConfigError, DataError, ShapeError
from rlcomp.model.text_classifier import classify, load_classifier, train_classifier
from rlcomp.testing import make_batch
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="ab>")
NAMES = {0: "many_a", 1: "ends_in_b"}


def classifier(labels=NAMES, seed=0):
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(TOKENIZER),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        intermediate_size=24,
        max_position_embeddings=16,
        id2label=dict(labels),
        pad_token_id=TOKENIZER.pad_token_id,
    )
    return AutoModelForSequenceClassification.from_config(config)


def saved(folder, labels=NAMES):
    classifier(labels).save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    return str(folder)


def batch(*responses):
    return make_batch(
        prompt=[">"] * len(responses),
        response=list(responses),
    )


def test_the_named_output_at_the_last_token_is_the_reward(tmp_path):
    path = saved(tmp_path)
    model, _ = load_classifier(path)
    # Characters a, b, > are the tokens 2, 3, 4; unpadded, so that the last position is the last.
    with torch.no_grad():
        expected = float(model(input_ids=torch.tensor([[4, 2, 3]])).logits[0, 1])

    result = LearnedReward(path=path, label="ends_in_b")(batch("ab", "bbbbbb"))

    assert result["reward"][0].item() == pytest.approx(expected, abs=1e-6)
    assert result["correct"][0].item() == (expected > 0)


def test_padding_and_the_size_of_a_pass_change_nothing(tmp_path):
    path, responses = saved(tmp_path), ("a", "bbbbbbb", "ab", "", "aaaa")

    alone = LearnedReward(path=path, label="many_a", batch_size=1)(batch(*responses))
    together = LearnedReward(path=path, label="many_a")(batch(*responses))

    torch.testing.assert_close(alone["reward"], together["reward"])


def test_a_model_of_one_output_needs_no_label(tmp_path):
    result = LearnedReward(path=saved(tmp_path, {0: "good"}))(batch("a", "b"))

    assert result["reward"].shape == (2,)
    assert not result["reward"].requires_grad


def test_an_empty_text_cannot_be_judged(tmp_path):
    some = batch("a", "")
    some["prompt"] = encode_texts(["", ""])

    assert LearnedReward(path=saved(tmp_path), label="many_a")(some)["reward_valid"].tolist() == [
        True,
        False,
    ]


def test_a_batch_of_empty_texts_is_harmless(tmp_path):
    some = batch("")
    some["prompt"] = encode_texts([""])

    assert LearnedReward(path=saved(tmp_path), label="many_a")(some)["reward"].tolist() == [0.0]


def test_it_is_in_evaluation_mode_without_gradients(tmp_path):
    reward = LearnedReward(path=saved(tmp_path), label="many_a")

    assert not reward.model.training
    assert not any(parameter.requires_grad for parameter in reward.parameters())


@pytest.mark.parametrize(
    ("label", "words"),
    [
        (None, "has 2 outputs: name one of many_a, ends_in_b"),
        ("many_b", "label is 'many_b'; did you mean 'many_a'"),
    ],
)
def test_the_output_must_be_one_of_the_model(tmp_path, label, words):
    with pytest.raises(ConfigError, match=words):
        LearnedReward(path=saved(tmp_path), label=label)


def test_missing_and_empty_folders_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"no reward model: '.*nowhere' is not a folder"):
        LearnedReward(path=str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"it needs config.json and model.safetensors"):
        LearnedReward(path=str(tmp_path))


def test_a_language_model_without_a_head_is_no_classifier(tmp_path):
    tiny = AutoModelForCausalLM.from_config(classifier().config)
    tiny.save_pretrained(tmp_path)
    TOKENIZER.save_pretrained(tmp_path)

    with pytest.raises(DataError, match=r"it lacks score.weight"):
        LearnedReward(path=str(tmp_path), label="many_a")


def test_a_text_too_long_for_the_model_is_refused(tmp_path):
    with pytest.raises(DataError, match="a text has 18 tokens, but the reward model holds 16"):
        LearnedReward(path=saved(tmp_path), label="many_a")(batch("a" * 17))


def test_it_learns_half_known_labels():
    draw = torch.Generator().manual_seed(0)
    marks = torch.randint(2, (256, 6), generator=draw).tolist()
    texts = ["".join("ab"[mark] for mark in row) for row in marks]
    truth = torch.tensor([[t.count("a") > 3, t.endswith("b")] for t in texts]).float()
    unknown = torch.rand(256, 2, generator=draw) < 0.5
    model = classifier()

    history = train_classifier(
        model,
        TOKENIZER,
        texts,
        truth.masked_fill(unknown, torch.nan),
        epochs=15,
        batch_size=32,
        lr=1e-2,
    )

    with torch.no_grad():
        right = (classify(model, TOKENIZER, texts) > 0) == truth.bool()
    # Labels it never saw are right as well: all of them in each of 10 runs (texts, weights and
    # order of seeds 0 to 9). Untrained, 12 classifiers were right in .25 to .80.
    assert right[unknown].float().mean() > 0.95
    # The last loss was .003 to .004, the first .51 to .60 (mean .54, sd .024); untrained, .67 up.
    assert history[-1] < 0.1 < history[0]
    assert not model.training


def test_an_unknown_label_does_not_change_its_output():
    model = classifier()
    before = model.score.weight.detach().clone()
    labels = torch.tensor([[1.0, torch.nan], [0.0, torch.nan]])

    train_classifier(model, TOKENIZER, ["aa", "bb"], labels, epochs=2, lr=1e-2)

    after = model.score.weight.detach()
    assert not after[0].equal(before[0])
    # Weights without gradient change by weight decay alone (0.01 a step at lr 0.01).
    torch.testing.assert_close(after[1], before[1] * (1 - 1e-4) ** 2)


def test_a_column_per_output_is_needed():
    with pytest.raises(ShapeError, match=r"labels has shape \[2, 1\], but there are 2 texts and 2"):
        train_classifier(classifier(), TOKENIZER, ["a", "b"], torch.zeros(2, 1))
