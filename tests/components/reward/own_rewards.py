"""Rewards of a user's own, called by dotted path."""

import re


def equal(response, answer):
    return float(response == answer)


def judged(response, answer, level, **columns):
    """Return named parts; "?..." cannot be judged, "!..." raises an error."""
    if response.startswith("?"):
        return None
    if response.startswith("!"):
        raise ValueError("a mistake")
    return {"right": float(response == answer), "level": level, "others": len(columns)}


def drawn(seed):
    return {"draw": seed % 1009 / 1009, "right": float(seed % 3 == 0)}


def given(response):
    return {"nan": float("nan"), "none": None, "inf": float("inf"), "big": 1e39, "text": "1"}.get(
        response, 0.5
    )


def huge(response):
    return {"a": 1.0, "b": 10**400}


def everything(prompts, completions, answer, level=None, **rest):
    assert sorted(rest) == ["conversation", "tag"]
    shown = [prompt if isinstance(prompt, str) else prompt[-1]["content"] for prompt in prompts]
    result = [one if isinstance(one, str) else one[0]["content"] for one in completions]
    return [
        len(question) + 10 * len(reply) + 100 * len(gold) + 1000 * (number or 0)
        for question, reply, gold, number in zip(shown, result, answer, level, strict=True)
    ]


def too_few(completions):
    return [1.0]


def no_list(completions):
    return 1.0


def fails(completions):
    raise RuntimeError("no judge")


def told(completions, trainer_state, log_metric, seed):
    log_metric("length", sum(map(len, completions)) / len(completions))
    return [float(trainer_state.global_step), float(seed % 2)]


async def awaited(response):
    return float(len(response))


class Judge:
    """Right with at least so many places in common."""

    def __init__(self, *, threshold):
        self.threshold = threshold

    def __call__(self, response, answer):
        return float(sum(a == b for a, b in zip(response, answer, strict=False)) >= self.threshold)


# Reward functions of TRL's signature, written from the formulas that TRL documents.
def soft_overlong(completion_ids, completions, **columns):
    """DAPO (arXiv:2503.14476, eq. 13): 0 up to L - C, then linear down to -1 at L."""
    longest, cache = columns["longest"], columns["cache"]
    rewards = []
    for ids, end, width in zip(completion_ids, longest, cache, strict=True):
        over = len(ids) - (end - width)
        rewards.append(0.0 if over <= 0 else -1.0 if len(ids) > end else -over / width)
    return rewards


async def repetition(prompts, completions, completion_ids, size, most, **_):
    """``most (1 - distinct n-grams / n-grams)``; 0 without n-grams."""
    rewards = []
    for ids, n, penalty in zip(completion_ids, size, most, strict=True):
        grams = [tuple(ids[at : at + n]) for at in range(len(ids) - n + 1)]
        rewards.append(penalty * (1 - len(set(grams)) / len(grams)) if grams else 0.0)
    return rewards


def think_format(completions, **columns):
    """1 for one thought in front, then an answer; completions are lists of messages."""
    form = re.compile(r"<think>(?!.*<think>)(.*?)</think>.*", re.DOTALL)
    return [float(form.fullmatch(one[0]["content"]) is not None) for one in completions]
