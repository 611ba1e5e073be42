# ---
# jupyter:
#   jupytext:
#     formats: py:percent
# ---

# %% [markdown]
# # A pipeline, part by part
#
# This page builds a small reinforcement-learning run out of its parts: a task, a model, a reward,
# an advantage, a loss, a learner, two phases. Each part is tried alone before the next one joins
# it. It is a plain Python file: run it with `python docs/tutorial.py`, or open it as a notebook
# with jupytext. It takes seconds on one CPU core. Every number claimed here is asserted, and the
# tests run all cells.
#
# Three ideas carry everything:
#
# - a batch is one TensorDict, and its keys are fixed by a schema (`docs/keys.md`);
# - a part is a map from TensorDict to TensorDict that declares which keys it reads and writes;
# - a run is a list of such parts, repeated.

# %%
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from functools import partial
from pathlib import Path
from tempfile import mkdtemp

import torch
from tensordict import TensorDict
from torch.optim import AdamW

from rlcomp import JsonLines, LanguageModel, Make, Phase, Decoding
from rlcomp import causal_lm, character_tokenizer, run_phases
from rlcomp.batch import decode_texts, encode_texts

# %% [markdown]
# ## A task
#
# A task is an indexed set of examples. Nothing is stored: the example is computed from its index.
# The held-out part is chosen by a hash of the prompt, so it does not depend on any order.

# %%
from components import Sorting

task = Sorting(length=4, held_out=0.1)
example = task.example(3142)
print(example)
assert (example.prompt, example.answer) == ("3142>", "1234")
assert len(task) == 10_000

# %% [markdown]
# ## A tokenizer and a model
#
# `Make` gives each object a name and a seed of its own: it depends on the run's seed and the name
# only. Adding a part later does not change how the others are initialised. The same names in a
# config give the same numbers.

# %%
make = Make(seed=0)
tokenizer = character_tokenizer(characters="0123456789>")
model = make(
    "model",
    causal_lm,
    tokenizer=tokenizer,
    hidden_size=64,
    num_hidden_layers=2,
    intermediate_size=128,
    num_attention_heads=4,
    num_key_value_heads=4,
    context_length=16,
)
policy = make("policy", LanguageModel, model=model, tokenizer=tokenizer, decoding=Decoding())
print(sum(weight.numel() for weight in model.parameters()), "weights")

# %% [markdown]
# ## Sampling
#
# `answer_prompts` returns a batch: `B = prompts x group_size` rows. A row is prompt, response,
# padding. The end-of-sequence token is an action like any other.

# %%
from rlcomp import answer_prompts

rollout = answer_prompts(
    policy,
    ["3142>", "9987>"],
    group_size=4,
    max_new_tokens=6,
    generator=torch.Generator().manual_seed(0),
)
print(rollout)
print(decode_texts(rollout["response"]))
assert rollout.batch_size == torch.Size([8])
assert rollout["group_id"].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]

# %% [markdown]
# What sampling recorded is what scoring says. Without this the importance ratio of an on-policy
# step is not 1.

# %%
with torch.no_grad():
    scored = policy(rollout.copy())
gap = (scored["log_probs"] - rollout["rollout_log_probs"]).abs().max()
print(f"largest difference: {float(gap):.1e} nats")
assert gap < 1e-5

# %% [markdown]
# ## A look at keys
#
# Every part says what it reads and writes. The schema says what a key is.

# %%
from rlcomp.keys import SCHEMA

print("reads ", policy.in_keys)
print("writes", policy.out_keys)
print(SCHEMA["advantage"])
assert policy.in_keys == ["tokens", "attention_mask", "response_mask"]
assert SCHEMA["advantage"].shape == "B T"

# %% [markdown]
# ## A reward
#
# Texts travel as bytes, so that rows can be indexed and joined like any tensor. `ExactMatch` reads
# three texts. An answer that cannot be judged would get `reward_valid` False, not reward 0.

# %%
from components import ExactMatch

reward = make("reward", ExactMatch)
texts = {"prompt": ["3142>"] * 4, "response": ["1234", "1243", "", "1234"], "answer": ["1234"] * 4}
judged = TensorDict({key: encode_texts(column) for key, column in texts.items()}, batch_size=[4])
judged = reward(judged)
print(judged["reward"])
assert judged["reward"].tolist() == [1.0, 0.0, 0.0, 1.0]

# %% [markdown]
# ## An advantage
#
# `GroupMean` takes the mean of the group off the reward: 1 - 1/2 and 0 - 1/2 here. It writes one
# number per token, and 0 outside the response.

# %%
from components import GroupMean

advantage = make("advantage", GroupMean)
judged["group_id"] = torch.zeros(4, dtype=torch.int64)
judged["response_mask"] = torch.tensor([[False, True, True]] * 3 + [[False, True, False]])
judged = advantage(judged)
print(judged["advantage"])
assert judged["advantage"][:, 1].tolist() == [0.5, -0.5, -0.5, 0.5]
assert judged["advantage"][3].tolist() == [0.0, 0.5, 0.0]

# %% [markdown]
# ## The loss by itself
#
# A loss holds no model. It is put together from a ratio, a trust region and a reduction, and it can
# be tried on four tensors. Two tokens, advantage 1: the first has become twice as likely, the
# second has not moved. The ratios are 2 and 1. The clip cuts 2 to 1.2. Each token weighs 1/2. The
# loss is -(1.2 + 1)/2 = -1.1.

# %%
from components import PolicyLoss
from components import TokenRatio
from components import TokenMean
from components import Clip

loss = PolicyLoss(ratio=TokenRatio(), trust_region=Clip(clip_high=0.2), reduction=TokenMean())
two_tokens = TensorDict(
    {
        "log_probs": torch.tensor([[0.5, 0.3]]).log(),
        "old_log_probs": torch.tensor([[0.25, 0.3]]).log(),
        "advantage": torch.ones(1, 2),
        "response_mask": torch.ones(1, 2, dtype=torch.bool),
    },
    batch_size=[1],
)
print(loss(two_tokens)["loss"])
assert abs(float(loss(two_tokens)["loss"]) + 1.1) < 1e-6

# %% [markdown]
# ## A learner
#
# The learner is the only stage with gradients. It runs the model once per micro-batch and then
# every loss on the result. Here is one for a warm start on demonstrations, and one for the policy
# loss.

# %%
from components import Learner
from components import SFTLoss
from components import Demonstrations

adamw = partial(AdamW, lr=2e-3, weight_decay=0.0)
demonstrations = make(
    "demonstrations",
    Demonstrations,
    task=task,
    tokenizer=tokenizer,
    batch_size=64,
    context_length=16,
)
sft_learner = make(
    "sft_learner",
    Learner,
    model=policy,
    losses={"sft": SFTLoss(reduction=TokenMean())},
    optimizer=adamw,
)
learner = make(
    "learner", Learner, model=policy, losses={"policy": loss}, optimizer=partial(adamw, lr=1e-3)
)

# %% [markdown]
# ## Two phases
#
# A phase is a number of steps and a list of stages. The first stage of a step gets an empty batch.
# `every` names what runs beside the batch now and then: here the accuracy on held-out prompts.

# %%
from components import GroupCollector
from components import Accuracy
from components import RolloutLogProbs
from components import Uniform

evaluation = make(
    "evaluation",
    Accuracy,
    policy=policy,
    task=task,
    reward=reward,
    num_prompts=128,
    samples_per_prompt=2,
    max_new_tokens=6,
)
prompts = make(
    "prompts",
    Uniform,
    task=task,
    tokenizer=tokenizer,
    batch_size=32,
    context_length=16,
    max_new_tokens=6,
)
rollouts = make("rollout", GroupCollector, policy=policy, group_size=8, max_new_tokens=6)
old_log_probs = make("old_log_probs", RolloutLogProbs)

warm_start = Phase(40, [demonstrations, sft_learner], {"evaluation": (40, evaluation)})
rl = Phase(
    60,
    [prompts, rollouts, reward, old_log_probs, advantage, learner],
    {"evaluation": (60, evaluation)},
)

# %% [markdown]
# ## What a flow error says
#
# Before the first step, every key that a stage reads must have been written by a stage before it.
# The same check runs on a config before torch is imported.

# %%
from rlcomp.errors import UserError

wrong = Phase(1, [prompts, rollouts, old_log_probs, advantage, reward, learner])
try:
    run_phases({"rl": wrong}, nodes=make.nodes, seed=0)
except UserError as error:
    message = str(error)
print(message)
assert "stage advantage (GroupMean) reads 'reward', 'reward_valid'" in message
assert "move reward before advantage" in message

# %% [markdown]
# ## Run
#
# Metrics go to `metrics.jsonl`, one line per step. Within the same version of torch the numbers are
# the same on every run.

# %%
directory = Path(mkdtemp(prefix="rlcomp-tutorial-"))
run_phases(
    {"warm_start": warm_start, "rl": rl},
    nodes=make.nodes,
    seed=0,
    trackers=[JsonLines(directory=str(directory))],
)

# %% [markdown]
# ## Look at it
#
# `summarise` puts the run into words and draws the curve. The lines are yours as well.

# %%
from rlcomp import summarise
from rlcomp import read_lines

print(summarise(directory))
steps = read_lines(directory / "metrics.jsonl")
rewards = [step["reward/mean"] for step in steps if "reward/mean" in step]
before, after = [step["evaluation/sampled"] for step in steps if "evaluation/sampled" in step]
print(f"held-out accuracy: {before:.2f} after the warm start, {after:.2f} at the end")
assert len(rewards) == 60
# Over 10 runs (10 seeds, three ways to compute the model) the mean reward rose
# by .33 on average (sd .04, least .26); .1 is 6 sd below.
assert sum(rewards[-5:]) / 5 > sum(rewards[:5]) / 5 + 0.1

# %%
from matplotlib.figure import Figure

figure = Figure(figsize=(6, 3), layout="constrained")
axes = figure.add_subplot(xlabel="step of the RL phase", ylabel="mean reward")
axes.plot(rewards)
figure.savefig(directory / "reward.png")
print(directory / "reward.png")

# %% [markdown]
# ## An advantage of your own
#
# A part is a class with two tuples and a `forward`. `check_component` holds it against the contract
# of every part: it writes what it declares, changes nothing else, ignores whatever stands outside
# the mask, does not depend on the order of rows, and more. This one takes the mean of the whole
# batch off.

# %%
from rlcomp import Component
from rlcomp import broadcast
from rlcomp.testing import check_component


class BatchMean(Component):
    reads = ("reward", "reward_valid", "response_mask")
    writes = ("advantage",)

    def forward(self, batch):
        reward, valid = batch["reward"], batch["reward_valid"]
        above = reward - reward[valid].mean()
        return broadcast(batch, torch.where(valid, above, 0.0))


check_component(BatchMean())

# %% [markdown]
# The check finds a mistake and says which law is broken. Here a row whose reward is not valid takes
# part in the mean.

# %%
from rlcomp.errors import ContractError


class Careless(BatchMean):
    def forward(self, batch):
        return broadcast(batch, batch["reward"] - batch["reward"].mean())


try:
    check_component(Careless())
except ContractError as error:
    broken = str(error)
print(broken)
assert "Careless" in broken

# %% [markdown]
# ## From here
#
# - On the command line the same parts have names: `rlcomp advantage=group_mean`. A class of your
#   own is `rlcomp advantage._target_=my_parts.BatchMean`.
# - `experiments/by_hand/sort_digits.py` is the whole demo by hand. It gives the numbers of the
#   command line, bit for bit.
# - `CONTRIBUTING.md` says how a part joins the project: a class, a yaml and a test.
