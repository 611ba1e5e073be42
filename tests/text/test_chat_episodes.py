"""Rows of chat episodes: ids as transformers renders them, masks, log-probs of both engines."""

import warnings

import pytest
import torch

from rlcomp.batch import decode_texts, encode_columns
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.engine import Engine
from rlcomp.engine.session import TurnSample
from rlcomp.episodes.episode import episode_rows
from rlcomp.episodes.host import Start
from rlcomp.episodes.in_process import InProcessHosts
from rlcomp.episodes.player import Player
from rlcomp.episodes.rollout import EpisodeLimits, Rollout
from rlcomp.errors import ConfigError, RlcompWarning
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example
from rlcomp.model.language_model import LanguageModel
from rlcomp.testing import make_batch, tiny_model
from rlcomp.text.chat import ChatPrompt
from rlcomp.text.token_bytes import token_bytes

# Deepseek's prompt opens a thought that its template leaves out of earlier turns.
KEEP = ["chatml", "llama3", "mistral", "gemma", "qwen3", "phi3", "zephyr"]
families = pytest.mark.parametrize("family", KEEP)


class Guide:
    """Greets, answers every turn but one that says ``end``, and tells how often it was asked."""

    stops = ("!",)

    def __init__(self):
        self.heard = []

    def reset(self, example, seed):
        return Turn(observation=example.columns.get("first", ""))

    def step(self, action):
        self.heard.append(action)
        return Turn(observation=f"No {len(self.heard)}:", closing=" go on", done="end" in action)

    def facts(self):
        return {"asked": float(len(self.heard))}

    def close(self):
        pass


def plain(tokenizer, text):
    return tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]


class Scripted:
    """A session that says what it is told to; ``.`` at the end is the stop token, ``~`` a cut."""

    def __init__(self, template, turns):
        self.template, self.turns = template, [*turns]

    def opened(self, contexts):
        self.contexts = [list(context) for context in contexts]
        return self

    def extend(self, row, tokens):
        self.contexts[row] += tokens

    def generate(self, rows, *, limits, texts):
        text = self.turns.pop(0)
        tokens = plain(self.template.tokenizer, text.rstrip(".~"))
        tokens += [self.template.stop_id] if text.endswith(".") else []
        self.contexts[0] += tokens
        return [TurnSample(tokens, [-1.0] * len(tokens), text.endswith("~"))]

    def close(self, rows):
        pass


def play(prompt, turns, first="", context=None):
    session = Scripted(prompt.template, turns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RlcompWarning)
        dialogues = prompt.dialogues(["Sum?"], [{}])
    tokenizer = prompt.tokenizer
    rollout = Rollout(
        session.opened,
        dialogues,
        InProcessHosts().host(Guide),
        tokenizer,
        token_bytes(tokenizer),
        EpisodeLimits(turns=4, turn_tokens=99, observation_tokens=50, context=context),
    )
    (episode,) = rollout.run([Start(Example("Sum?", "", "", columns={"first": first}), 0)])
    assert episode.broken == ""
    return episode


def conversation_ids(tokenizer, *said, first=""):
    """The conversation of turns with the guide, in the ids of transformers."""
    talk = [{"role": "user", "content": f"Sum?{first}"}]
    for number, turn in enumerate(said, start=1):
        talk.append({"role": "assistant", "content": turn})
        if number < len(said):
            talk.append({"role": "user", "content": f"No {number}: go on"})
    return tokenizer.apply_chat_template(talk, return_dict=False)


# How the turns of an episode end: with the stop token, with a text, at the limit.
ENDS = {
    "tokens": ["Two.", "Four.", "end."],
    "texts": ["Two!", "Four!", "end!"],
    "both": ["Two!", "Four.", "end!"],
    "at the limit": ["Two.", "Four!", "and~"],
}


@families
@pytest.mark.parametrize("ends", ENDS)
def test_a_row_of_three_turns_equals_the_rendered_template(family, ends, chat_tokenizer):
    tokenizer = chat_tokenizer(family)
    prompt = ChatPrompt(tokenizer=tokenizer)
    lead = " " if family == "mistral" else ""  # Mistral's own space, which the policy writes
    turns = [lead + turn for turn in ENDS[ends]]
    if family == "qwen3":  # as it writes a last turn without a thought
        turns[2] = f"<think>\n\n</think>\n\n{turns[2]}"

    episode = play(prompt, turns, first=" Now.")

    said = [turn.rstrip(".~").removeprefix("<think>\n\n</think>\n\n") for turn in ENDS[ends]]
    expected = conversation_ids(tokenizer, *said, first=" Now.")
    size = len(episode.ids)
    assert episode.ids == expected[:size]
    # Only what was sampled is trained: each turn, and the stop tokens that the policy wrote.
    for turn, text in zip(episode.turns, turns, strict=True):
        stop = [prompt.template.stop_id] if text.endswith(".") else []
        sampled = episode.ids[turn.start : turn.end]
        assert sampled == plain(tokenizer, text.rstrip(".~")) + stop
    places = [n for turn in episode.turns for n in range(turn.start, turn.end)]
    assert [n for n, trained in enumerate(episode.trained) if trained] == places
    assert places[-1] == size - 1
    assert episode.truncated == (ends == "at the limit")
    rows = episode_rows([episode], tokenizer, group_size=1, version=0, device=torch.device("cpu"))
    assert rows["response_mask"][0].nonzero()[:, 0].tolist() == places
    assert decode_texts(rows["response"]) == [turns[2].rstrip(".~")]
    heard = ["No 1: go on", "No 2: go on"]
    told = [turn.rstrip(".~") for turn in turns]
    transcript = f" Now.{told[0]}{heard[0]}{told[1]}{heard[1]}{told[2]}"
    assert decode_texts(rows["transcript"]) == [transcript]


def test_an_observation_without_room_ends_the_episode(chat_tokenizer):
    prompt = ChatPrompt(tokenizer=chat_tokenizer("chatml"))
    whole = play(prompt, ["Two!", "end!"])
    second = whole.turns[1].start

    just, full = (play(prompt, ["Two!", "end!"], context=room) for room in (second + 1, second))

    assert (len(just.turns), just.truncated) == (2, False)
    assert (len(full.turns), full.truncated) == (1, True)
    # No half of a frame: the row ends with what the policy sampled.
    assert full.ids == whole.ids[: whole.turns[0].end]


def test_a_first_observation_without_room_is_left_out(chat_tokenizer):
    prompt = ChatPrompt(tokenizer=chat_tokenizer("chatml"))
    (asked,) = prompt.encode(["Sum?"], [{}])

    episode = play(prompt, [], first=" and a half", context=len(asked) + 1)

    assert (episode.ids, episode.truncated, episode.turns) == (asked, True, [])


def policy_of(tokenizer, prompt, forward):
    """A policy that mostly writes two letters, the stop text and the stop token."""
    model = tiny_model(tokenizer, scale=2.0, context_length=512)
    a, b, text, stop = *plain(tokenizer, "ab!"), prompt.template.stop_id
    with torch.no_grad():
        head = model.lm_head.weight
        letter, end = head[a] * 20.0, head[text] * 20.0
        head *= 0.01
        # Of two that are opposite one is always likely.
        head[a], head[b], head[text], head[stop] = letter, -letter, end, -end
    return LanguageModel(
        model=model,
        tokenizer=tokenizer,
        decoding=Decoding(),
        engine=Engine(forward=forward),
        stop_tokens=[prompt.template.stop],
    )


def between_turns(tokenizer, told):
    """The ids of transformers behind what an assistant said, up to his next turn."""
    talk = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "x"}]
    talk.append({"role": "user", "content": told})
    asked, whole = (
        tokenizer.apply_chat_template(some, add_generation_prompt=True, return_dict=False)
        for some in (talk[:1], talk)
    )
    assert whole[: len(asked) + 1] == [*asked, *plain(tokenizer, "x")]
    return whole[len(asked) + 1 :]


@pytest.mark.parametrize("forward", ["packed", "transformers"])
@pytest.mark.parametrize("family", ["chatml", "llama3", "gemma", "phi3"])
def test_sampled_and_scored_log_probs_agree_over_messages(family, forward, chat_tokenizer):
    tokenizer = chat_tokenizer(family)
    prompt = ChatPrompt(tokenizer=tokenizer)
    policy = policy_of(tokenizer, prompt, forward)
    player = Player(policy=policy, environment=Guide, max_turns=3, max_new_tokens=12, prompt=prompt)
    batch = make_batch(prompt=["Sum?"])
    batch["columns"] = encode_columns([{"first": " Now."}])

    rows = player.play(
        batch,
        group_size=24,
        decoding=None,
        generator=torch.Generator().manual_seed(0),
        seed=0,
    )

    result = policy.score(rows)
    torch.testing.assert_close(result, rows["rollout_log_probs"], atol=1e-5, rtol=0)
    ends = {"token": 0, "text": 0, "limit": 0}
    table, stop = token_bytes(tokenizer), prompt.template.stop_id
    for tokens, turn in zip(rows["tokens"].tolist(), rows["turn_id"].tolist(), strict=True):
        for number in range(max(turn) + 1):
            places = [place for place, of in enumerate(turn) if of == number]
            assert places == [*range(places[0], places[-1] + 1)]
            stopped = tokens[places[-1]] == stop
            said = b"".join(table[tokens[place]] for place in places)
            ends["token" if stopped else "text" if b"!" in said else "limit"] += 1
            if number < max(turn):
                between = between_turns(tokenizer, f"No {number + 1}: go on")
                between = between[1:] if stopped else between
                start = places[-1] + 1
                assert tokens[start : start + len(between)] == between
                assert turn[start + len(between)] == number + 1
    assert min(ends.values()) > 2, ends


def test_a_group_shares_its_prompt_and_diverges(chat_tokenizer):
    tokenizer = chat_tokenizer("chatml")
    prompt = ChatPrompt(tokenizer=tokenizer, observations="tool")
    player = Player(
        policy=policy_of(tokenizer, prompt, "packed"),
        environment=Guide,
        max_turns=3,
        max_new_tokens=12,
        prompt=prompt,
    )
    batch = make_batch(prompt=["Sum?"])

    rows, more = player.play_and_continue(
        batch, group_size=6, continuations=2, generator=torch.Generator(), seed=0
    )

    # A continuation shares all that stands before its first own turn, frames included.
    for of, turn, row in zip(more.row.tolist(), more.turn.tolist(), more.rows, strict=True):
        start = int((row["turn_id"] == turn).nonzero()[0])
        assert row["tokens"][:start].tolist() == rows["tokens"][of, :start].tolist()
    assert (more.turn > 0).any()


def test_a_template_that_rewrites_turns_raises_before_the_first_turn(chat_tokenizer):
    from copy import deepcopy

    tokenizer = deepcopy(chat_tokenizer("chatml"))
    policy = policy_of(tokenizer, ChatPrompt(tokenizer=tokenizer), "packed")
    tokenizer.chat_template = (
        "{% for m in messages[-2:] %}{{ m.content }}{{ eos_token }}{% endfor %}"
    )
    given = {"policy": policy, "environment": Guide, "max_turns": 3, "max_new_tokens": 4}

    with pytest.raises(ConfigError, match=r"prompt.observations is 'user', but"):
        Player(prompt=ChatPrompt(tokenizer=tokenizer), **given)
    Player(prompt=ChatPrompt(tokenizer=tokenizer, observations="inline"), **given)
