from types import SimpleNamespace

import pytest
import torch
from tensordict import TensorDict

from components.evaluator.self_play import VerdictQuality
from rlcomp.batch import encode_texts
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.task import Example
from rlcomp.metrics import recording
from rlcomp.testing import make_batch
from rlcomp.text.prompt import resolve_prompt_format
from rlcomp.text.rows import rows_from_ids
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="0123456789=>?yn")
IDS = TOKENIZER.get_vocab()

# Prompts of the judge, their truth, and its turns; "!" is EOS. A text is the more
# acceptable the more sevens precede the verdict: 3, 1, 1, 0, and 4 without a verdict.
GIVEN = {
    "1>77?": ("y", "7y!"),
    "2>27?": ("y", "n!"),
    "3>17?": ("n", "1y!"),
    "4>12?": ("n", "3n"),
    "5>777?": ("n", "7="),
}


class Judge:
    tokenizer = TOKENIZER
    device = torch.device("cpu")

    def generate(self, prompts, *, group_size, max_new_tokens, generator):
        self.asked = group_size, max_new_tokens
        ends = {**IDS, "!": TOKENIZER.eos_token_id}
        texts = {
            tuple(IDS[c] for c in text): [ends[c] for c in said]
            for text, (_, said) in GIVEN.items()
        }
        heads = [head for head in prompts for _ in range(group_size)]
        return rows_from_ids(TOKENIZER, heads, [texts[tuple(head)] for head in heads])

    def log_probs(self, rows, *, decoding):
        assert decoding.temperature == 1.0
        sevens = (rows["tokens"] == IDS["7"]).sum(1, keepdim=True).float()
        said = rows["tokens"]
        told = (said == IDS["y"]) * (sevens - 9.0) + (said == IDS["n"]) * -3.0
        # What is reasoned is as likely in both.
        return (told - 0.5) * rows["response_mask"]


class Answers:
    """All of them are held out."""

    held_out = 1.0
    texts = tuple(GIVEN)

    def __len__(self):
        return len(self.texts)

    def example(self, index):
        return Example(self.texts[index], GIVEN[self.texts[index]][0], "")


class Sums(Answers):
    texts = ("1>", "2>", "3>")

    def example(self, index):
        return Example(self.texts[index], "7", "7")


class Player:
    """Four matches: three right answers, two right verdicts; the environment of the last failed."""

    def __init__(self, turns=2):
        self.policies = [Judge(), Judge()]
        self.prompt = resolve_prompt_format(None, TOKENIZER)
        self.limits = SimpleNamespace(turn_tokens=5, turns=turns)

    silent = False

    def play(self, batch, *, group_size, decoding, generator, seed):
        self.asked = len(batch), group_size, decoding
        facts = {"right": [1.0, 0.0, 1.0, 1.0], "verdict_right": [1.0, 0.0, 0.0, 1.0]}
        if self.silent:
            facts = {"moves": [1.0] * 4}
        return make_batch(
            seat=torch.tensor([0] * 4 + [1] * 4),
            episode_error=["", "", "", "broken"] * 2,
            facts=TensorDict(
                # Told to every seat; those of the solver's rows do not count.
                {name: torch.tensor([0.0] * 4 + told) for name, told in facts.items()},
                batch_size=[8],
            ),
        )


def measured(answers=Answers, **settings):
    player = Player()
    part = VerdictQuality(player=player, task=Sums(), verdicts=answers(), **settings)
    with recording() as ledger:
        part(TensorDict({}, batch_size=[]))
    return player, ledger.means()


def test_matches_and_verdicts_by_hand():
    player, told = measured(samples_per_prompt=2)

    assert player.asked == (3, 2, None)
    assert player.policies[1].asked == (2, 5)
    # Of the three matches that did not fail.
    assert told["evaluation/right"] == pytest.approx(2 / 3)
    assert told["evaluation/verdict_right"] == pytest.approx(1 / 3)
    assert told["evaluation/given/judged"] == pytest.approx(4 / 5)
    # 77 is accepted and 12 rejected, both rightly; 777 has no verdict.
    assert told["evaluation/given/accuracy"] == pytest.approx(2 / 5)
    assert told["evaluation/given/accepted_wrong"] == pytest.approx(1 / 3)
    # Right: 3 and 1 sevens; wrong: 1 and 0. Of four pairs three are in order and one is a tie.
    assert told["evaluation/given/auc"] == pytest.approx(3.5 / 4)


def test_the_other_way_round_it_is_below_chance():
    _, told = measured(accept="n", reject="y", name="other")

    # All given answers that are labelled y are wrong ones now: the same scores rank them first.
    assert told["other/given/auc"] == pytest.approx(3.5 / 4)
    assert told["other/given/accuracy"] == pytest.approx(2 / 5)


class AllRight(Answers):
    texts = ("1>77?", "2>27?")


class AllWrong(Answers):
    texts = ("3>17?", "4>12?")


@pytest.mark.parametrize("answers", [AllRight, AllWrong])
def test_answers_of_one_kind_have_no_area(answers):
    _, told = measured(answers)

    assert told["evaluation/given/accuracy"] == 0.5
    assert "evaluation/given/auc" not in told
    assert ("evaluation/given/accepted_wrong" in told) == (answers is AllWrong)


def test_one_option_within_the_other_is_refused():
    with pytest.raises(ConfigError, match="evaluation: accept is 'y' and reject is 'ny'"):
        measured(reject="ny")


def test_a_stop_text_ends_the_turn():
    _, told = measured(stop="7")

    # "7y" ends before its verdict, and is none, as "7=" is.
    assert told["evaluation/given/judged"] == pytest.approx(3 / 5)
    assert told["evaluation/given/accuracy"] == pytest.approx(1 / 5)


def test_the_verdicts_must_be_of_the_same_options():
    with pytest.raises(ConfigError, match="the answer 'n' of its verdicts is neither accept='y'"):
        measured(reject="m")


def test_a_match_needs_two_turns():
    with pytest.raises(
        ConfigError, match=r"player\.max_turns is 1: evaluation needs matches of two"
    ):
        VerdictQuality(player=Player(turns=1), task=Sums(), verdicts=Answers())


def test_an_environment_of_another_kind_is_named():
    player = Player()
    player.silent = True
    part = VerdictQuality(player=player, task=Sums(), verdicts=Answers())

    with pytest.raises(DataError, match="reports no facts right and verdict_right"):
        part(TensorDict({}, batch_size=[]))


def test_matches_that_all_failed_are_not_measured():
    class Broken(Player):
        def play(self, batch, **settings):
            rows = super().play(batch, **settings)
            rows["episode_error"] = encode_texts(["broken"] * 8)
            return rows

    part = VerdictQuality(player=Broken(), task=Sums(), verdicts=Answers())
    with recording() as ledger:
        part(TensorDict({}, batch_size=[]))

    assert "evaluation/right" not in ledger.means()
    assert "evaluation/given/auc" in ledger.means()
