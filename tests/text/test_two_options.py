"""Two options of a model, and why it has no verdict."""

import inspect

import pytest
from tensordict import TensorDict

from components.judge import GenerativeJudge
from components.pairwise_judge.option import OptionLogProbJudge
from components.reward.judge import JudgeScore
from components.reward_check import RewardCheck
from components.writer import LanguageModelWriter
from rlcomp.batch import encode_texts
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.judge import AnswerPair, NoVerdict
from rlcomp.seed import node_path, seeded
from rlcomp.testing import tiny_policy
from rlcomp.text.chat import ChatPrompt, prompt_format_of_model
from rlcomp.text.prompt import TextPrompt
from rlcomp.text.tokenizer import byte_tokenizer, character_tokenizer
from rlcomp.text.two_options import TwoOptions

CHAT = "{% for m in messages %}<{{ m['content'] }}>{% endfor %}"
CHAT += "{% if add_generation_prompt %}={% else %}{{ eos_token }}{% endif %}"
IGNORE_NO_VERDICT = pytest.mark.filterwarnings("ignore:.*no verdict:rlcomp.errors.RlcompWarning")


def policy(template=None, **settings):
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = template
    far = {"scale": 4.0, "vector_scale": 4.0, "context_length": 96}
    return tiny_policy(tokenizer=tokenizer, **{**far, **settings})


def test_questions_use_the_chat_template_of_the_model():
    model = policy(CHAT)
    judge = GenerativeJudge(model=model, template="{reference}|{prediction}?", least_mass=0.0)
    plain = GenerativeJudge(
        model=model,
        template="<{reference}|{prediction}?>=",
        least_mass=0.0,
        prompt=TextPrompt(tokenizer=model.tokenizer),
    )

    assert judge("a", "b") == pytest.approx(plain("a", "b"), abs=1e-6)
    assert isinstance(judge.prompt, ChatPrompt)
    pairs = OptionLogProbJudge(model=model, template="{prompt}{first}{second}", least_mass=0.0)
    assert isinstance(pairs.prompt, ChatPrompt)
    assert isinstance(LanguageModelWriter(model=model).prompt, ChatPrompt)


def test_questions_without_a_template_are_plain_text():
    model = policy()

    assert isinstance(prompt_format_of_model(None, model.tokenizer), TextPrompt)
    assert isinstance(LanguageModelWriter(model=model).prompt, TextPrompt)


def test_a_writer_without_the_stop_token_raises():
    model = policy(CHAT.replace("{{ eos_token }}", "{{ pad_token }}"))

    with pytest.raises(ConfigError, match="ends a turn by '<pad>', but the policy stops at"):
        LanguageModelWriter(model=model)


def options(model, no_verdict, least_mass=0.0, **settings):
    own = {"prompt": None, "least_mass": least_mass, "no_verdict": no_verdict, **settings}
    return TwoOptions(model, ("yes", "no"), **own)


def test_shares_do_not_depend_on_the_batch_size():
    model = policy()
    texts = ["one?", "a longer question?", "b"]

    at_once = options(model, NoVerdict("J"))
    alone = options(model, NoVerdict("J"), batch_size=1)
    result = at_once.shares(at_once.encode(texts))

    assert len(set(result)) == 3
    assert alone.shares(alone.encode(texts)) == pytest.approx(result, abs=1e-5)


def test_spellings_that_the_tokenizer_cannot_write_are_left_out():
    tokenizer = character_tokenizer(characters="yesnoY?")
    model = tiny_policy(tokenizer=tokenizer, scale=4.0, vector_scale=4.0)

    result = options(model, NoVerdict("J"))

    assert result._tails == [tokenizer(["yes", "Yes"])["input_ids"], tokenizer(["no"])["input_ids"]]
    with pytest.raises(DataError, match="no token for 'm'"):
        TwoOptions(model, ("maybe", "no"), prompt=None, least_mass=0.0, no_verdict=NoVerdict("J"))


def test_spellings_of_the_same_tokens_count_once():
    from tokenizers.normalizers import Lowercase

    tokenizer = character_tokenizer(characters="yesno?")
    tokenizer.backend_tokenizer.normalizer = Lowercase()
    model = tiny_policy(tokenizer=tokenizer, scale=4.0, vector_scale=4.0)

    result = options(model, NoVerdict("J"))

    assert result._tails == [[tokenizer.encode("yes")], [tokenizer.encode("no")]]


def test_only_spellings_that_fit_the_context_count(monkeypatch):
    model = policy(context_length=12)
    asked, seen = options(model, NoVerdict("J")), []
    log_probs = model.log_probs
    monkeypatch.setattr(
        model, "log_probs", lambda rows, **more: seen.append(rows) or log_probs(rows, **more)
    )

    (question,) = asked.encode(["nine long"])
    assert asked.shares([question]) != [None]

    # Of 3 tokens and less: yes, Yes and YES; no, No and NO, and those behind one character.
    answers = [
        row[mask].tolist()
        for row, mask in zip(seen[0]["tokens"], seen[0]["response_mask"], strict=True)
    ]
    said = {*model.tokenizer.batch_decode(answers)}
    assert max(map(len, said)) == 3
    assert {"yes", "Yes", "YES", "no", "No", "NO", " no"} <= said
    assert len(said) == len(answers)


def test_a_low_mass_warns_with_judge_mass_and_greedy_answer():
    model = policy()
    with seeded(0, "reward.judge"):
        why = NoVerdict("Generative")
    asked = options(model, why, least_mass=1.0)
    questions = asked.encode(["so?", "and?"])

    with pytest.warns(match=r"reward.judge \(Generative\): 2 of 2 questions") as caught:
        assert asked.shares(questions) == [None, None]

    mass = sum(asked._masses(questions[:1])[0])
    assert f"in every spelling, is {mass:.2g} " in why.reason
    assert f"the likeliest answer is {asked._greedy_answer(questions[0])[:60]!r}" in why.reason
    assert "reward.judge.template" in why.reason
    asked.shares(questions)
    assert len(caught) == 1
    assert node_path() == ""


def test_questions_longer_than_the_context_warn():
    why = NoVerdict("Generative")
    asked = options(policy(context_length=8), why)

    with pytest.warns(match="1 of 2 questions have no verdict: they are longer than the context"):
        result = asked.shares(asked.encode(["a long question", "so?"]))

    assert [one is None for one in result] == [True, False]


@IGNORE_NO_VERDICT
def test_an_invalid_reward_names_the_judge():
    rows = TensorDict(
        {key: encode_texts([key] * 2) for key in ("prompt", "response", "answer")}, [2]
    )
    rows["group_id"] = encode_texts(["", ""])[:, :0].sum(1).long()
    with seeded(0, "reward.judge"):
        judge = GenerativeJudge(model=policy(), template="{reference}{prediction}", least_mass=1.0)

    scored = JudgeScore(judge=judge)(rows)

    with pytest.raises(
        DataError, match=r"2 of 2 rewards are invalid.*reward.judge \(GenerativeJudge\)"
    ):
        RewardCheck()(scored)


def test_an_invalid_reward_names_a_judge_without_verdict():
    rows = TensorDict({key: encode_texts([key]) for key in ("prompt", "response", "answer")}, [1])
    rows["group_id"] = encode_texts([""])[:, :0].sum(1).long()

    def undecided(prediction, reference):
        return None

    with pytest.raises(DataError, match=r"its judge, .*undecided, gave no verdict"):
        RewardCheck()(JudgeScore(judge=undecided)(rows))


def test_a_verdict_has_no_reason():
    model = policy()
    asked = options(model, why := NoVerdict("J"))

    assert asked.shares(asked.encode(["so?"])) != [None]
    assert why.reason == ""
    assert OptionLogProbJudge(model=model, template="{prompt}{first}{second}")([]) == []
    assert AnswerPair("p", "a", "b").answer == ""


@pytest.mark.parametrize(("part", "numbers"), [(TwoOptions, {"batch_size": 64})])
def test_default_numbers(part, numbers):
    given = inspect.signature(part.__init__).parameters.values()

    assert {p.name: p.default for p in given if isinstance(p.default, (int, float))} == numbers
