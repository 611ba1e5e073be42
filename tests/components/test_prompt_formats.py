"""Samplers, collectors and evaluators ask by the prompt format they are given, all alike."""

from dataclasses import dataclass, field

import pytest
import torch
from tensordict import TensorDict

from components.collector.group import GroupCollector
from components.conditioning import PolicyPromptRows, TextPrefix
from components.evaluator.accuracy import Accuracy
from components.evaluator.objectives import ObjectivesEvaluator
from components.evaluator.rollouts import RolloutLog
from components.objectives import MultiObjectiveReward
from components.pareto.scalarisation import LinearScalarisation
from components.reward.answer import ExactMatch
from components.reward.surface import Brevity
from components.sampler.curriculum import Curriculum
from components.sampler.demonstrations import Demonstrations
from components.sampler.pools import TaskPools
from components.sampler.prompts import Epochs, Uniform
from components.sampler.task_curriculum import Frontier
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.data.examples import held_out_examples, prompt_batch
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.task import Example
from rlcomp.metrics import recording
from rlcomp.testing import tiny_policy
from rlcomp.text.chat import ChatPrompt
from rlcomp.text.tokenizer import byte_tokenizer

TEMPLATE = (
    "{% for turn in messages %}{{ turn.role[0] }}:{{ turn.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}"
)
CONVERSATION = {
    "messages": [
        {"role": "user", "content": "1+1"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "+3"},
    ],
    "completion": [{"role": "assistant", "content": "5"}],
}
TALK = Example("+3", "5", "5", source="talk", columns={"conversation": CONVERSATION})
PLAIN = Example("4+4", "8", "8")
# EOS is 1; a byte of the template or of a text stands for itself.
ASKED_TALK, ASKED_PLAIN = "u:1+1<eos>a:2<eos>u:+3<eos>a:", "u:4+4<eos>a:"


@dataclass
class Listed:
    examples: list[Example] = field(default_factory=lambda: [TALK, PLAIN])
    held_out: float = 0.0

    def __len__(self) -> int:
        return len(self.examples)

    def example(self, index: int) -> Example:
        return self.examples[index]


@pytest.fixture(scope="module")
def tokenizer():
    made = byte_tokenizer()
    made.chat_template = TEMPLATE
    return made


@pytest.fixture(scope="module")
def chat(tokenizer):
    return ChatPrompt(tokenizer=tokenizer)


@pytest.fixture(scope="module")
def policy(tokenizer):
    return tiny_policy(tokenizer=tokenizer, context_length=64)


def beginnings(tokenizer, rows, lengths):
    """The text of the first tokens of each row."""
    pairs = zip(rows["tokens"].tolist(), lengths, strict=True)
    return [tokenizer.decode(row[:length]) for row, length in pairs]


def test_a_collector_asks_with_the_whole_conversation(tokenizer, chat, policy):
    collector = GroupCollector(policy=policy, group_size=2, max_new_tokens=3, prompt=chat)

    rows = collector(prompt_batch([TALK, PLAIN]))

    starts = rows["response_mask"].int().argmax(1).tolist()
    asked = [ASKED_TALK] * 2 + [ASKED_PLAIN] * 2
    assert beginnings(tokenizer, rows, starts) == asked
    assert starts == [len(text.replace("<eos>", "!")) for text in asked]


def test_a_collector_asks_what_a_conditioning_made_of_the_last_message(tokenizer, chat, policy):
    collector = GroupCollector(policy=policy, group_size=1, max_new_tokens=3, prompt=chat)
    batch = prompt_batch([TALK, PLAIN])
    batch["policy_prompt"] = encode_texts(["7:+3", "2:4+4"])

    rows = collector(batch)

    starts = rows["response_mask"].int().argmax(1).tolist()
    wanted = ["u:1+1<eos>a:2<eos>u:7:+3<eos>a:", "u:2:4+4<eos>a:"]
    assert beginnings(tokenizer, rows, starts) == wanted


def test_what_ends_a_turn_must_end_the_policys_response(tokenizer, policy):
    other = byte_tokenizer()
    other.chat_template = TEMPLATE.replace("eos_token", "pad_token")
    prompt = ChatPrompt(tokenizer=other)
    settings = {"policy": policy, "max_new_tokens": 3, "prompt": prompt}

    with pytest.raises(ConfigError, match="ends a turn by '<pad>', but the policy stops"):
        GroupCollector(group_size=1, **settings)
    with pytest.raises(ConfigError, match="ends a turn by '<pad>', but the policy stops"):
        Accuracy(task=Listed(held_out=0.99), reward=ExactMatch(), **settings)


def test_an_evaluation_asks_and_shows_as_training_does(tokenizer, chat, policy):
    evaluator = Accuracy(
        policy=policy,
        task=Listed(held_out=0.9999),
        reward=ExactMatch(),
        max_new_tokens=3,
        samples_per_prompt=1,
        prompt=chat,
    )
    order = {"+3": ASKED_TALK, "4+4": ASKED_PLAIN}
    wanted = [order[example.prompt] for example in evaluator.examples]

    rows = evaluator.answers(evaluator.policy_prompts, 1, None)
    with recording() as ledger:
        evaluator(TensorDict({}, batch_size=[]))

    starts = rows["response_mask"].int().argmax(1).tolist()
    assert sorted(wanted) == sorted(order.values())
    assert beginnings(tokenizer, rows, starts) == wanted
    assert [sample["prompt"] for sample in ledger.samples] == wanted


def test_conversations_that_end_alike_are_both_held_out():
    other = Example("+3", "9", "9", source="other", columns={"conversation": {"messages": [1]}})

    assert len(held_out_examples(Listed([TALK, other, TALK], held_out=0.9999), 3, seed=0)) == 2


def test_a_log_of_rollouts_shows_the_whole_prompt_and_the_tokens_behind_it(chat, policy):
    collector = GroupCollector(policy=policy, group_size=1, max_new_tokens=3, prompt=chat)
    batch = collector(prompt_batch([TALK, PLAIN]))

    with recording() as ledger:
        RolloutLog(policy=policy, prompt=chat)(batch)

    assert [sample["prompt"] for sample in ledger.samples] == [ASKED_TALK, ASKED_PLAIN]
    lengths = batch["response_mask"].sum(1).tolist()
    assert [len(sample["tokens"]) for sample in ledger.samples] == lengths


def test_a_log_of_episodes_begins_where_the_row_leaves_its_prompt(tokenizer, chat, policy):
    # Of an episode whose environment spoke first that is within the prompt's last message.
    ids = tokenizer("u:4+4 now", split_special_tokens=True)["input_ids"] + [1]
    ids += tokenizer("a:8")["input_ids"]
    batch = prompt_batch([PLAIN])
    batch["tokens"], batch["attention_mask"] = torch.tensor([ids]), torch.ones(1, len(ids)).bool()
    batch["response_mask"] = batch["attention_mask"].clone()
    batch["response_mask"][:, :-1] = False
    batch["group_id"], batch["response"] = torch.zeros(1).long(), encode_texts(["8"])

    with recording() as ledger:
        RolloutLog(policy=policy, prompt=chat)(batch)

    (sample,) = ledger.samples
    assert "".join(sample["tokens"]) == " now<eos>a:8"
    assert sample["trained"] == [0] * 7 + [1]


def demonstrations(tokenizer, chat, **changes):
    torch.manual_seed(0)
    settings = {"task": Listed(), "tokenizer": tokenizer, "batch_size": 2, "context_length": 64}
    return Demonstrations(**{**settings, "prompt": chat, **changes})


def test_a_demonstration_trains_every_turn_of_the_assistant(tokenizer, chat):
    rows = demonstrations(tokenizer, chat)()

    shown = {
        tokenizer.decode(row["tokens"][row["attention_mask"]]): tokenizer.decode(
            row["tokens"][row["response_mask"]]
        )
        for row in rows
    }
    assert shown == {f"{ASKED_TALK}5<eos>": "2<eos>5<eos>", f"{ASKED_PLAIN}8<eos>": "8<eos>"}


def test_the_longest_demonstration_is_that_of_the_template(tokenizer, chat):
    longest = len(f"{ASKED_TALK}5<eos>".replace("<eos>", "!"))

    demonstrations(tokenizer, chat, context_length=longest)
    with pytest.raises(DataError, match=f"have {longest} tokens, which exceeds context_length"):
        demonstrations(tokenizer, chat, context_length=longest - 1)


TASKS = {"tasks": {"easy": Listed()}}
SAMPLERS = {
    "uniform": (Uniform, {"task": Listed()}),
    "epochs": (Epochs, {"task": Listed()}),
    "curriculum": (Curriculum, {"task": Listed()}),
    "frontier": (Frontier, TASKS),
    "pools": (TaskPools, {**TASKS, "weights_start": {"easy": 1.0}, "weights_end": {"easy": 1.0}}),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_measures_prompts_as_the_policy_reads_them(name, tokenizer, chat):
    cls, given = SAMPLERS[name]
    longest = len(ASKED_TALK.replace("<eos>", "!"))
    settings = {"tokenizer": tokenizer, "batch_size": 1, "max_new_tokens": 4, "prompt": chat}

    cls(context_length=longest + 4, **given, **settings)
    with pytest.raises(DataError, match=f"has {longest} tokens, and with max_new_tokens 4"):
        cls(context_length=longest + 3, **given, **settings)


def test_a_text_that_is_to_be_continued_is_no_message(tokenizer, chat):
    cut = Listed([Example("To be", "", " or not", source="To be or not")])
    settings = {"tokenizer": tokenizer, "batch_size": 1, "context_length": 64}
    told = "a response has to continue the task's prompts, such as 'To be'.*prompt=text"

    with pytest.raises(ConfigError, match=told):
        Uniform(task=cut, max_new_tokens=4, prompt=chat, **settings)
    with pytest.raises(ConfigError, match=told):
        Demonstrations(task=cut, prompt=chat, **settings)
    Uniform(task=cut, max_new_tokens=4, **settings)


@pytest.mark.parametrize("more", [{"turns": ("a", "b", "c")}, {"columns": {"seed": 3}}])
def test_what_an_environment_takes_part_in_is_no_text_to_be_continued(tokenizer, chat, more):
    example = Example("To be", "", " or not", source="To be or not", **more)
    settings = {"tokenizer": tokenizer, "batch_size": 1, "context_length": 64}

    made = Uniform(task=Listed([example]), max_new_tokens=4, prompt=chat, **settings)

    assert decode_texts(made(TensorDict({}, batch_size=[]))["prompt"]) == ["To be"]


def test_conversations_are_refused_where_prompts_are_texts(tokenizer):
    with pytest.raises(ConfigError, match=r"rows are conversations.*prompt=chat"):
        demonstrations(tokenizer, None)


def preference(tokenizer, chat, context_length):
    return TextPrefix(
        objectives=MultiObjectiveReward(
            parts={"b": Brevity(longest=4)}, aggregator=LinearScalarisation(weights=None)
        ),
        levels=3,
        task=Listed(),
        tokenizer=tokenizer,
        context_length=context_length,
        max_new_tokens=4,
        prompt=chat,
    )


def test_a_preference_stands_in_the_users_message(tokenizer, chat):
    # Two objectives of one digit and a colon in front of "+3".
    longest = len(ASKED_TALK.replace("<eos>", "!")) + 3

    batch = preference(tokenizer, chat, longest + 4)(demonstrations(tokenizer, chat)())
    rows = PolicyPromptRows(tokenizer=tokenizer, prompt=chat)(batch)

    for row, text in zip(rows, decode_texts(batch["policy_prompt"]), strict=True):
        steps, _, asked = text.partition(":")
        assert (len(steps), sum(map(int, steps))) == (2, 3)
        before, said = ("u:1+1<eos>a:2<eos>", "5") if asked == "+3" else ("", "8")
        whole = tokenizer.decode(row["tokens"][row["attention_mask"]])
        assert whole == f"{before}u:{steps}:{asked}<eos>a:{said}<eos>"
        assert tokenizer.decode(row["tokens"][row["response_mask"]]) == f"{said}<eos>"
    with pytest.raises(DataError, match=f"has {longest} tokens"):
        preference(tokenizer, chat, longest + 3)


def test_the_evaluator_of_objectives_asks_in_the_format_too(chat, policy):
    pytest.importorskip("moocore")
    evaluator = ObjectivesEvaluator(
        policy=policy,
        task=Listed(held_out=0.9999),
        reward=ExactMatch(),
        objectives=MultiObjectiveReward(
            parts={"b": Brevity(longest=4)}, aggregator=LinearScalarisation(weights=None)
        ),
        max_new_tokens=3,
        prompt=chat,
    )

    assert evaluator.prompt is chat
