"""A classifier of several labels: its outputs, its score, and the folder it becomes."""

import pytest
import torch

from components.evaluator.reward_model import LabelRanking
from components.reward.reward_model import LearnedReward, ScorerReward
from rlcomp.batch import encode_texts
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.metrics import recording
from rlcomp.model.export import export_scorer
from rlcomp.model.language_model import LanguageModel
from rlcomp.model.scorer import LabelClassifier
from rlcomp.testing import tiny_model
from rlcomp.text.rows import encode_rows
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="ab?")


def classifier(labels=("rude", "wrong"), **settings):
    torch.manual_seed(0)
    model = tiny_model(TOKENIZER, context_length=32)
    policy = LanguageModel(model=model, tokenizer=TOKENIZER, decoding=Decoding())
    made = LabelClassifier(policy=policy, labels=labels, **settings)
    with torch.no_grad():
        made.score_head.weight.normal_(generator=torch.Generator().manual_seed(1))
    return made


def rows(*responses):
    return encode_rows(TOKENIZER, ["?"] * len(responses), list(responses))


def test_the_log_odds_are_the_head_of_the_last_state():
    made = classifier()
    ids = torch.tensor([TOKENIZER("?ab")["input_ids"]])
    with torch.no_grad():
        state = made.backbone(input_ids=ids).last_hidden_state[0, -1]

    found = made(rows("ab", "aaaa"))["label_logits"]

    assert found.shape == (2, 2)
    torch.testing.assert_close(found[0], state @ made.score_head.weight)
    assert found.requires_grad


@pytest.mark.parametrize(("score", "column"), [(None, 0), ("rude", 0), ("wrong", 1)])
def test_as_a_reward_it_is_the_log_odds_of_one_label(score, column):
    made = classifier(score=score)
    some = rows("ab", "b")

    reward = ScorerReward(scorers=[made])(some.copy())["reward"]

    torch.testing.assert_close(reward, made.logits(some)[:, column].detach())


def test_the_folder_says_the_same_of_each_label_by_name(tmp_path):
    made = classifier()
    export_scorer(made, tmp_path)
    some = rows("ab", "bba", "a")
    some["prompt"], some["response"] = encode_texts(["?"] * 3), encode_texts(["ab", "bba", "a"])

    for number, label in enumerate(made.labels):
        reward = LearnedReward(path=str(tmp_path), label=label)(some.copy())["reward"]
        torch.testing.assert_close(
            reward, made.logits(some)[:, number].detach(), atol=1e-5, rtol=1e-5
        )


@pytest.mark.parametrize(
    ("settings", "told"),
    [({"labels": ["a", "a"]}, "name each once"), ({"score": "ruder"}, "did you mean 'rude'")],
)
def test_labels_that_cannot_work_are_refused(settings, told):
    with pytest.raises(ConfigError, match=told):
        classifier(**settings)


class Texts:
    """Four held-out texts; of the last the second label is unknown, and nobody has the third."""

    held_out = 1.0

    def __len__(self):
        return 4

    def example(self, index):
        labels = [(1, 1, 0), (0, 0, 0), (1, 0, 0), (0, None, 0)][index]
        named = dict(zip(("rude", "wrong", "never"), labels, strict=True))
        return Example("?" + "a" * index, "", "", columns={"labels": named})


class Counts(LabelClassifier):
    """Log-odds: the number of ``a`` for the first label, 0 for the second, -1 for the third."""

    def logits(self, batch):
        count = (batch["tokens"] == TOKENIZER.convert_tokens_to_ids("a")).sum(1).double()
        return torch.stack([count, 0 * count, 0 * count - 1], 1)


def test_four_held_out_texts_by_hand():
    policy = classifier().policy
    made = Counts(policy=policy, labels=("rude", "wrong", "never"))
    with recording() as told:
        LabelRanking(scorer=made, task=Texts(), name="held")(None)
    found = told.means()

    # rude: texts 0 to 3 have scores 0, 1, 2, 3; those with it 0 and 2. One of four pairs is won;
    # precision down to 2: 1/2, down to 0: 2/4. wrong: equal scores.
    assert found["held/rude/auc"] == pytest.approx(1 / 4)
    assert found["held/rude/ap"] == pytest.approx(1 / 2)
    assert found["held/rude/share"] == 1 / 2
    assert found["held/wrong/auc"] == 1 / 2
    assert found["held/wrong/ap"] == found["held/wrong/share"] == pytest.approx(1 / 3)
    assert not [name for name in found if "never" in name]
    assert found["held/auc"] == pytest.approx((1 / 4 + 1 / 2) / 2)
    assert found["held/ap"] == pytest.approx((1 / 2 + 1 / 3) / 2)
    # softplus of: rude -0, 1, -2, 3; wrong three times 0; never four times -1.
    nats = torch.nn.functional.softplus(
        torch.tensor([0.0, 1.0, -2.0, 3.0, 0.0, 0.0, 0.0, -1.0, -1.0, -1.0, -1.0])
    )
    assert found["held/nll"] == pytest.approx(float(nats.mean()))


class Doubtful(Texts):
    """Labels 0, 1/2 and .4 of three texts: what is at least as likely as not counts as there."""

    def __len__(self):
        return 3

    def example(self, index):
        return Example(
            "?" + "a" * index, "", "", columns={"labels": {"rude": [0, 0.5, 0.4][index]}}
        )


def test_a_label_of_one_half_is_there():
    class One(LabelClassifier):
        def logits(self, batch):
            tokens = batch["tokens"] == TOKENIZER.convert_tokens_to_ids("a")
            return tokens.sum(1, keepdim=True).double()

    made = One(policy=classifier().policy, labels=("rude",))
    with recording() as told:
        LabelRanking(scorer=made, task=Doubtful())(None)

    # Scores 0, 1, 2; the second alone has it.
    assert told.means()["held_out/rude/share"] == pytest.approx(1 / 3)
    assert told.means()["held_out/rude/auc"] == 1 / 2
