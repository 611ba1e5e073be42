"""Broken command lines: a message with place, value, remedy; code 2; no model built."""

import os
import resource
import subprocess
import sys
from dataclasses import dataclass

import pytest

import rlcomp.model.build as model_build

# Each composes a whole run, and more than one.
pytestmark = pytest.mark.slow


@dataclass
class Bad:
    """A command line, and what its message must name.

    ``late``: the part that is wrong holds the model, so it can only be looked at behind it.
    """

    line: list[str]
    path: str
    value: str
    remedy: str
    late: bool = False


TABLE = {
    # Unknown names.
    "settings of a tracker that is not chosen": Bad(
        ["tracker.project=foo"], "tracker.project", "tracker", "a setting of tracker=wandb"
    ),
    "settings of no tracker": Bad(
        ["+tracker.project=foo"], "tracker has settings", "tracker", "add tracker=wandb"
    ),
    "no base": Bad(["model=pretrained"], "base is not set", "model", "set base=DIR"),
    "base that is no folder": Bad(
        ["base=/nowhere/model"], "base is", "'/nowhere/model'", "set base=DIR, a folder of save_pr"
    ),
    "base that is no name of the hub either": Bad(
        ["base=runs/today/model"], "base is", "'runs/today/model'", "set base=DIR"
    ),
    "model that is no folder": Bad(
        ["model=pretrained", "model.path=./nowhere"],
        "model.path is",
        "'./nowhere'",
        "set model.path=",
    ),
    "rate that is a list": Bad(
        ["learner.optimizer.lr=[1e-4,1e-3]"],
        "learner.optimizer.lr=[1e-4,1e-3]: ",
        "a learning rate must be a number",
        "rlcomp -m learner.optimizer.lr=1e-4,1e-3",
    ),
    "rate that is a list, of another house": Bad(
        ["learning_rate=[1e-4, 1e-3]"],
        "learning_rate=",
        "must be a number",
        "rlcomp -m learner.optimizer.lr=1e-4,1e-3\n",
    ),
    "rate without its sign": Bad(
        ["learner.optimizer.lr=1e6"],
        "learner.optimizer.lr is 1e6: ",
        "must be at most 100",
        "set learner.optimizer.lr=1e-6, if",
    ),
    "text with special characters": Bad(
        ["reward.x=my runs/lr=1e-4, it's"],
        "reward.x=my runs/lr=1e-4, it's: the value needs quotes",
        "and the word as well:",
        'well: "reward.x=\\"my runs/lr=1e-4, it\'s\\""\n',
    ),
    "quote that is not closed": Bad(
        ["reward.x='a"], "reward.x='a: cannot be read", "a quote", "is not closed"
    ),
    "spaces in a sweep": Bad(
        ["-m", "seed=0,", "1,", "2"], "seed=0,: it ends in a comma", "no", "rlcomp -m seed=0,1,2"
    ),
    "space in a sweep": Bad(
        ["-m", "advantage=group_mean,", "leave_one_out"],
        "advantage=group_mean,",
        "comma",
        "no spaces",
    ),
    "config file": Bad(
        ["--config", "grpo.yaml"], "--config", "chosen by name", "-cd FOLDER experiment=NAME"
    ),
    "config by its name": Bad(
        ["--config-name=grpo"], "--config-name=grpo", "recipe=NAME", "-cd FOLDER"
    ),
    "reward in a file": Bad(
        ["reward=my_reward.py"],
        "reward",
        "no such",
        "reward=function reward.function=my_reward.FUN",
    ),
    "reward by its path": Bad(
        ["reward=mine.brevity"], "reward", "no such", "reward=function reward.function=mine.brevity"
    ),
    "letters in another order": Bad(["recipe=gpro"], "recipe", "gpro", "did you mean 'grpo'"),
    "text with a comma": Bad(
        ["prompt=chat", "prompt.system=Hello, you"], "prompt.system", "a sweep", "a text has quotes"
    ),
    "preferences": Bad(["recipe=kto"], "recipe=kto", "no such option", "recipe=dpo loss=kto"),
    "reward model": Bad(["recipe=rm"], "recipe=rm", "no such option", "none trains a reward model"),
    "baseline of another house": Bad(
        ["advantage=reinforce_baseline"], "advantage", "no such", "recipe=reinforce_pp_baseline"
    ),
    "file": Bad(
        ["mine/sft.yaml"], "mine/sft.yaml", "a file is no setting", "-cd FOLDER experiment=sft"
    ),
    "setting of another option": Bad(
        ["task.path=a/b"],
        "task.path",
        "a setting of",
        "task=benchmark, task=bfcl, task=file, task=gsm8k",
    ),
    "another library's word": Bad(
        ["learning_rate=1e-6"], "learning_rate", "not in", "here it is learner.optimizer.lr=1e-6"
    ),
    "end of our word": Bad(
        ["optimizer.lr=1"], "optimizer.lr is", "not in", "learner.optimizer.lr=1"
    ),
    "name of the hub for a file": Bad(
        ["task=file", "task.path=openai/gsm8k"], "task", "'openai/gsm8k'", "task=hub task.name=open"
    ),
    "folder of configs that is not there": Bad(
        ["-cd", "nowhere", "recipe=gropo", "rollout.m=1"],
        "-cd nowhere",
        "nowhere",
        "there is no such folder",
    ),
    "group": Bad(["los=grpo"], "los is not in the config", "los", "did you mean 'loss'?"),
    "option": Bad(["recipe=gropo"], "recipe", "gropo", "did you mean 'grpo'?"),
    "nested option": Bad(["loss/ratio=tokn"], "loss/ratio", "tokn", "did you mean 'token'?"),
    "nested group": Bad(["loss/rato=token"], "loss/rato", "rato", "did you mean loss/ratio=token?"),
    "key": Bad(
        ["learner.optimizr.lr=1"], "learner.optimizr", "optimizr", "did you mean 'optimizer'?"
    ),
    "argument": Bad(
        ["+learner.epoch=3"],
        "learner.epoch",
        "learner (Learner) takes no",
        "did you mean 'epochs'?",
    ),
    "dashes": Bad(["--lr", "3"], "--lr", "3", "here it is learner.optimizer.lr=3"),
    "dashes before a group": Bad(["--recipe=grpo"], "--recipe", "grpo", "it is recipe=grpo"),
    "dashes without a value": Bad(
        ["--beta", "-m"], "--beta", "beta", "kl_controller.kl_coef=VALUE"
    ),
    "dashes before nothing of ours": Bad(
        ["--lr_find", "3"], "--lr_find", "no such setting", "rlcomp --help"
    ),
    "forced": Bad(["++learning_rate=1"], "learning_rate is added", "no", "learner.optimizer.lr"),
    "forced below": Bad(["++optim.lr=1"], "optim is added", "nothing", "learner.optimizer.lr"),
    "group without its place": Bad(
        ["optimizer=adamw"], "optimizer", "has another path", "write optimizer@learner.optimizer=ad"
    ),
    "word of TRL": Bad(
        ["num_generations=8"], "num_generations", "not in the config", "here it is group_size"
    ),
    "word of TRL, added": Bad(
        ["+num_generations=8"], "num_generations is added", "nothing", "here it is group_size"
    ),
    "word of verl": Bad(
        ["actor_rollout_ref.rollout.n=8"],
        "actor_rollout_ref.rollout.n",
        "not in the config",
        "here it is group_size",
    ),
    "words of verl": Bad(
        [
            "algorithm.adv_estimator=rloo",
            "actor_rollout_ref.rollout.n=8",
            "data.train_batch_size=64",
        ],
        "algorithm.adv_estimator is not in the config; here it is advantage=leave_one_out\n",
        "prompts.batch_size=64 (prompts a step",
        "whole line: rlcomp advantage=leave_one_out group_size=8 prompts.batch_size=64",
    ),
    "a word of verl beside one that is nobody's": Bad(
        ["actor_rollout_ref.rollout.n=8", "learner.optimizr.lr=1"],
        "here it is group_size=8\nlearner.optimizr",
        "optimizr",
        "did you mean 'optimizer'?",
    ),
    "settings of an option that is not there": Bad(
        ["advantage=ga", "advantage.gae_lambda=1", "actor_rollout_ref.rollout.n=8"],
        "advantage=ga: there is no such option",
        "ga",
        "'gae'? (known: gae, gpg, noon_gae, turn_gae, gdpo, …)\nactor_rollout_ref.rollout.n is",
    ),
    "estimator of verl": Bad(["advantage=rloo"], "advantage", "rloo", "advantage=leave_one_out"),
    "model of the hub": Bad(
        ["model=Qwen/Qwen3-0.6B"], "model", "Qwen3-0.6B", "base=Qwen/Qwen3-0.6B"
    ),
    "option without its group": Bad(["dapo"], "dapo", "of what?", "such as recipe=dapo"),
    "added and mistyped": Bad(
        ["+gruop_size=3"], "gruop_size is added", "nothing", "did you mean 'group_size'?"
    ),
    "phase key": Bad(["+phases.rl.evry=3"], "phases.rl.evry", "unknown", "did you mean 'every'?"),
    "mistyped phase key": Bad(
        ["phases.rl.step=3"], "phases.rl.step is not in", "step", "did you mean 'steps'?"
    ),
    "phase in epochs": Bad(
        ["phases.rl.epochs=3"],
        "phases.rl.epochs is not in the config (known: every, stages, steps)",
        "epochs",
        "steps); phases are counted in steps: phases.rl.steps=...\n",
    ),
    "key that a part does not know": Bad(
        ["decoding.colour=1"],
        "decoding.colour is not in",
        "(known: ",
        "); there is no other setting: leave this out\n",
    ),
    "key of an empty mapping": Bad(
        ["recipe=sac", "loss.period.loss_actor=2"],
        "loss.period.loss_actor is not in the config",
        "loss.period is empty",
        "a + adds to it: +loss.period.loss_actor=2\n",
    ),
    "key that begins like one": Bad(
        ["decoding.temp=1"], "decoding.temp is not in", "temp", "did you mean 'temperature'?"
    ),
    "key of another library, its words turned": Bad(
        ["learner.clip_grad=1"],
        "learner.clip_grad is not in",
        "a similar setting is grad_clip",
        "which is learner.max_grad_norm\n",
    ),
    "key that other places have": Bad(
        ["decoding.max_tokens=9"],
        "decoding.max_tokens is not in",
        "here it is max_new_tokens=9",
        "the whole line: rlcomp max_new_tokens=9",
    ),
    "rank of PEFT": Bad(
        ["adapter=lora", "adapter.r=16", "reference=none"],
        "adapter.r is not in the config",
        "here it is adapter=lora adapter.rank=16\n",
        "the whole line: rlcomp adapter=lora adapter.rank=16 reference=none",
    ),
    "dropout of PEFT": Bad(
        ["adapter=lora", "adapter.dropout=0.05"],
        "adapter.dropout is not in",
        "adapter=lora has no dropout",
        "leave it out\n",
    ),
    "decimal comma": Bad(
        ["learner.optimizer.lr=0,0001"],
        "learner.optimizer.lr=0,0001: ",
        "a decimal has a point, learner.optimizer.lr=0.0001",
        "several values are a sweep, rlcomp -m learner.optimizer.lr=0,0001\n",
    ),
    "what is held by name": Bad(
        ["recipe=agent", "environment=tools", "tool=calculator"],
        "tool=calculator: ",
        "each tool has a name",
        "write +tool@environment.tools.calculator=calculator\n",
    ),
    "another name for what has to be given": Bad(
        ["recipe=agent", "environment=trl", "environment.factory=my.Env"],
        "environment.factory is not in the config",
        "environment.name has to be set",
        "environment.name=my.Env\n",
    ),
    "list without brackets": Bad(
        ["adapter=lora", "adapter.target_modules=q_proj,v_proj"],
        "adapter.target_modules=q_proj,v_proj: several values are a sweep, rlcomp -m adapter.targ",
        "a list has brackets, 'adapter.target_modules=[q_proj,v_proj]'",
        "a text has quotes, 'adapter.target_modules=\"q_proj,v_proj\"'\n",
    ),
    "stage": Bad(
        ["phases.rl.stages=[promts,rollout]"],
        "phases.rl.stages[0]",
        "'promts'",
        "did you mean 'prompts'?",
    ),
    "stage beside": Bad(
        ["+phases.rl.every.evaluatoin=3"],
        "phases.rl.every",
        "'evaluatoin'",
        "did you mean 'evaluation'?",
    ),
    "evaluation that is taken away": Bad(
        ["~evaluation"],
        "phases.rl.every: no node 'evaluation', which it names",
        "leave it out there as well",
        "'~phases.rl.every.evaluation'",
    ),
    "file for a module": Bad(
        ["reward=function", "reward.function=my/judge.py:right"],
        "reward: FunctionReward: function is 'my/judge.py:right'",
        "must be a dotted path",
        "set reward.function=my.judge.right\n",
    ),
    "file of a reward": Bad(
        ["reward=judge.py:right"],
        "reward=judge.py:right: there is no such option",
        "here: ",
        "reward=function reward.function=judge.right\n",
    ),
    "file for a target": Bad(
        ["advantage._target_=mine/parts.py:Centred"],
        "advantage._target_ is 'mine/parts.py:Centred'",
        "must be a dotted path",
        "set advantage._target_=mine.parts.Centred\n",
    ),
    "target without its lines": Bad(
        ["~advantage", "+advantage.target=mine.Centred"],
        "'advantage' has 'target'",
        "which has to be _target_",
        "write _target_: mine.Centred\n",
    ),
    "checkpoint that is gone": Bad(
        ["resume=other/step-00000009"],
        "step-00000009",
        "other",
        "step-00000001",
    ),
    "stage that is no part": Bad(
        ["phases.rl.stages=[seed]"],
        "phases.rl.stages[0]",
        "'seed' is 0",
        "name a node, or delete it",
    ),
    "renamed key": Bad(
        ["+reward._keys_.rewrd=x"], "reward._keys_.rewrd", "rewrd", "did you mean 'reward'?"
    ),
    "module": Bad(
        ["reward._target_=components.reward.anser.ExactMatch"],
        "reward._target_",
        "components.reward.anser",
        "did you mean 'answer'?",
    ),
    "class": Bad(
        ["reward._target_=components.reward.answer.ExactMach"],
        "reward._target_",
        "'ExactMach'",
        "did you mean 'ExactMatch'?",
    ),
    "package": Bad(
        ["reward._target_=no_such_parts.Reward"],
        "reward._target_",
        "'no_such_parts'",
        "is it installed?",
    ),
    "reference to a node": Bad(
        ["evaluation.reward=${rewrd}"], "evaluation.reward", "'rewrd'", "did you mean 'reward'?"
    ),
    "architecture": Bad(
        ["model.architecture=qwen3.5x"], "model", "'qwen3.5x'", "did you mean 'qwen3"
    ),
    # Values.
    "type": Bad(["prompts.batch_size=2.5"], "prompts.batch_size", "2.5", "must be an integer; set"),
    "text for a number": Bad(
        ["loss.trust_region.clip_low=wide"],
        "loss.trust_region.clip_low",
        "'wide'",
        "must be a number; it is a distance from 1",
    ),
    "range": Bad(
        ["loss.trust_region.clip_low=1.5"],
        "loss.trust_region.clip_low",
        "1.5",
        "must be less than 1",
    ),
    "nothing": Bad(
        ["rollout.group_size=0"], "rollout.group_size", "0", "must be greater than 0; set"
    ),
    "choice": Bad(
        ["kl=in_reward", "kl.estimator=k4"],
        "kl.estimator",
        "'k4'",
        "must be one of 'k1', 'k2', 'k3'",
    ),
    "settings of the sampler": Bad(
        ["decoding.temperature=-1"], "decoding.temperature", "-1", "must be at least 0; set"
    ),
    "steps": Bad(["phases.rl.steps=many"], "phases.rl.steps", "'many'", "must be an integer; set"),
    "steps below nothing": Bad(["phases.rl.steps=-1"], "phases.rl.steps", "-1", "at least 0; set"),
    "every nothing": Bad(
        ["phases.rl.every.evaluation=0"],
        "phases.rl.every.evaluation",
        "0",
        "must be a number of steps, or null",
    ),
    "seed": Bad(["seed=-1"], "seed", "-1", "must be at least 0; set seed=..."),
    "directory": Bad(["directory="], "directory", "''", "must not be empty; set directory=..."),
    "device": Bad(["device=gpu"], "device", "'gpu'", "set device=cuda (a GPU)"),
    "learning rate": Bad(
        ["learner.optimizer.lr=-1"],
        "learner.optimizer (torch.optim.AdamW)",
        "learner.optimizer.lr=-1",
        "Invalid learning rate: -1; change one of",
    ),
    "learning rate that is no number": Bad(
        ["learner.optimizer.lr=1e--5"], "learner.optimizer.lr", "'1e--5'", "a number; set learner."
    ),
    "setting that torch refuses": Bad(
        ["learner.optimizer.betas=[0.9,2.0]"],
        "learner.optimizer",
        "learner.optimizer.betas=[0.9, 2.0]",
        "change one",
    ),
    "missing value": Bad(["recipe=gsm8k"], "task.path", "???", "set it with task.path=..."),
    "missing argument": Bad(
        ["~model.hidden_size"], "model", "'hidden_size'", "set +model.hidden_size=..."
    ),
    "regular expression": Bad(
        ["reward=regex", "reward.pattern='(a'"], "reward: Regex: pattern", "'(a'", "unterminated"
    ),
    "sizes that do not divide": Bad(
        ["model.num_attention_heads=7"], "model", "num_attention_heads 7", "does not divide"
    ),
    "option that is a number": Bad(
        ["advantage=3"], "advantage=3", "int", "choose an option by name"
    ),
    "value that cannot be read": Bad(
        ["loss=a=b"], "loss=a=b", "a=b", "value needs quotes, and the word as well: 'loss=\"a=b\"'"
    ),
    "sweep without -m": Bad(["seed=1,2"], "seed=1,2", "are a sweep", "rlcomp -m"),
    # How parts stand together.
    "cycle": Bad(
        ["policy.model=${policy}"],
        "policy.model",
        "circular: policy.model -> policy",
        "-> policy.model",
    ),
    "loss that goes beside another": Bad(
        ["loss=kl", "kl=none"],
        "loss.reduction",
        "is ${loss.reduction}, itself",
        "choose another loss=..., and add this one by a name of its own, such as "
        "+loss@learner.losses.x=...",
    ),
    "reserved key": Bad(
        ["+reward._recursive_=false"],
        "reward._recursive_",
        "False",
        "_keys_ are understood; delete it",
    ),
    "forbidden target": Bad(
        ["reward._target_=os.system"], "reward._target_", "os.system", "blocklist"
    ),
    "key nobody wrote": Bad(
        ["kl=in_loss", "reference=none"],
        "phases.rl.stages: stage learner",
        "'ref_log_probs'",
        "choose reference=frozen (the usual one) or reference=frozen_full",
    ),
    "stage left out": Bad(
        ["phases.rl.stages=[prompts,rollout,old_log_probs,advantage,learner]"],
        "phases.rl.stages: stage advantage",
        "'reward'",
        "add reward to the list before advantage",
    ),
    "wrong order": Bad(
        ["phases.rl.stages=[prompts,rollout,old_log_probs,advantage,reward,reference,learner]"],
        "phases.rl.stages: stage advantage",
        "'reward'",
        "move reward before advantage",
    ),
    "KL counted twice": Bad(
        ["kl=in_reward", "+loss@learner.losses.kl=kl"],
        "phases.rl",
        "kl and by learner.losses.kl",
        "keep one (~learner.losses.kl)",
    ),
    "group of one": Bad(
        ["rollout.group_size=1"],
        "rollout.group_size",
        "1",
        "set rollout.group_size=8 or choose another advantage",
    ),
    "no phases": Bad(["~phases"], "phases", "needs phases", "choose a recipe: recipe=grpo"),
    "phases of nothing": Bad(
        ["~phases.rl", "~phases.warm_start"], "phases", "is empty", "choose a recipe: recipe=grpo"
    ),
    "stages of nothing": Bad(
        ["phases.rl.stages=[]"], "phases.rl.stages", "[]", "must be a list of node names"
    ),
    # Data, tokenizers, models.
    "missing file": Bad(
        ["task=file", "task.path=rowz.jsonl"], "task", "'rowz.jsonl'", "did you mean 'rows.jsonl'?"
    ),
    "missing folder": Bad(
        ["task=file", "task.path=/nowhere/rows.jsonl"],
        "task",
        "'/nowhere/rows.jsonl'",
        "set another",
    ),
    "empty file": Bad(
        ["task=file", "task.path=empty.jsonl"], "task", "'empty.jsonl'", "set another path"
    ),
    "malformed line": Bad(
        ["task=file", "task.path=malformed.jsonl"],
        "task",
        "malformed.jsonl:2",
        "each line must be one object",
    ),
    "answer that is null": Bad(
        ["task=file", "task.path=null.jsonl"],
        "null.jsonl:2: column 'answer' is empty (null)",
        "null",
        "give the row one, or take it out",
    ),
    "table of another program": Bad(
        ["task=file", "task.path=table.csv"],
        "'table.csv' is not a file of a known kind",
        "csv",
        "write table.jsonl with python -c",
    ),
    "missing column": Bad(
        ["task=file", "task.path=rows.jsonl", "task.answer_field=gold"],
        "task: rows.jsonl:1",
        "'gold'",
        "known: answer, question",
    ),
    "batch larger than the task": Bad(
        ["task.length=2", "prompts.batch_size=200", "demonstrations.batch_size=2"],
        "prompts",
        "batch_size is 200",
        "or less",
    ),
    "demonstrations larger than the task": Bad(
        ["task.length=2", "demonstrations.batch_size=200"],
        "demonstrations",
        "batch_size is 200",
        "or less, or remove the warm start ('~phases.warm_start' '~demonstrations')",
    ),
    "no held-out examples": Bad(
        ["task.length=2", "task.held_out=0", "prompts.batch_size=2", "demonstrations.batch_size=2"],
        "task.held_out",
        "0",
        "set task.held_out=0.1 (",
        late=True,
    ),
    "character outside the alphabet": Bad(
        [
            "tokenizer.characters='0123>'",
            "task.length=2",
            "prompts.batch_size=2",
            "demonstrations.batch_size=2",
        ],
        "tokenizer.characters",
        "'4'",
        "use tokenizer=byte",
    ),
    "prompt longer than the context": Bad(
        # A demonstration takes 7 + 6 + 1 tokens, an answer may take 8.
        ["context_length=14"],
        "context_length 14",
        "'999999>' has 7 tokens, and with max_new_tokens 8 that exceeds context_length 14, as ",
        "set context_length=15 or more, lower max_new_tokens",
    ),
    "demonstration longer than the context": Bad(
        ["context_length=8"], "demonstrations", "8", "set context_length=14 or more"
    ),
    "tokenizer of another model": Bad(
        ["model=pretrained", "model.path=misfit"],
        "model at 'misfit'",
        "vocab_size is 5, but the tokenizer has 24",
        "use the tokenizer that belongs to the model, or call model.resize_token_embeddings(24)",
    ),
    "context longer than the model's": Bad(
        ["model=pretrained", "model.path=small", "context_length=4096"],
        "context_length",
        "4096",
        "set context_length=64 or less",
    ),
    "model of the hub, offline": Bad(
        ["model=pretrained", "model.path=nobody/nothing"],
        "rlcomp: model.path is 'nobody/nothing': the hub cannot be reached and it is not",
        "in the local cache",
        "go online, download it (hf download nobody/nothing), or set model.path=FOLDER",
    ),
    "base of the hub, offline": Bad(
        ["base=nobody/nothing"], "rlcomp: base is 'nobody/nothing': the", "cache", "base=FOLDER"
    ),
    "missing tokenizer": Bad(
        ["tokenizer=pretrained", "tokenizer.path=./nowhere"],
        "tokenizer.path is",
        "'./nowhere'",
        "set tokenizer.path=DIR",
    ),
    "folder without a tokenizer": Bad(
        ["tokenizer=pretrained", "tokenizer.path=misfit"],
        "tokenizer",
        "'misfit'",
        "save one with tokenizer.save_pretrained",
    ),
    "missing extra": Bad(
        ["recipe=control_ppo"], "environment", "'gymnasium'", "pip install 'rlcomp[envs]'"
    ),
    # Going on.
    "overwrite that is no truth": Bad(["overwrite=maybe"], "overwrite", "'maybe'", "true or false"),
    "overwrite of what must go on": Bad(
        ["overwrite=true", "resume=must"], "overwrite is true", "must", "leave one of them out"
    ),
    "resume that is no word": Bad(
        ["resume=true"], "resume is True", "True", "set resume=auto, must, never, or the path"
    ),
    "nothing to go on from": Bad(
        ["resume=must"], "resume is must", "checkpoints", "or start one with resume=auto"
    ),
    "no checkpoint at a path": Bad(
        ["resume=/nowhere"], "resume", "/nowhere", "name a run's directory, or one of its"
    ),
    "checkpoint of another run": Bad(
        ["resume=other"], "other", "differ in '", "choose another directory", late=True
    ),
}


def assert_told_early(told, bad, limit=3):
    code, message, seconds = told(*bad.line)

    for fragment in (bad.path, bad.value, bad.remedy):
        assert fragment in message
    assert message.startswith("rlcomp: ")
    assert "Traceback" not in message
    assert code == 2
    assert seconds < limit


@pytest.mark.usefixtures("no_model")
@pytest.mark.parametrize("name", [name for name, bad in TABLE.items() if not bad.late])
def test_a_broken_command_line_is_told_before_a_model_is_built(told, name):
    # In this process, whose coverage may be measured: three times the work.
    assert_told_early(told, TABLE[name], limit=10)


@pytest.mark.parametrize("name", [name for name, bad in TABLE.items() if bad.late])
def test_what_can_only_be_seen_behind_the_model_is_told_before_the_first_step(told, name, tmp_path):
    # Behind the building of a model, and on a busy machine.
    assert_told_early(told, TABLE[name], limit=6)

    assert not (tmp_path / "metrics.jsonl").exists()


def test_the_table_is_as_long_as_promised():
    assert len(TABLE) >= 30
    assert sum(not bad.late for bad in TABLE.values()) >= 30


@pytest.mark.usefixtures("no_model")
def test_independent_mistakes_are_told_in_one_go(told):
    _, message, _ = told(
        "prompts.batch_size=0",
        "+reward._keys_.rewrd=x",
        "kl=in_reward",
        "reference=none",
        "seed=-1",
    )

    for fragment in (
        "prompts.batch_size is 0",
        "reward._keys_.rewrd",
        "'ref_log_probs'",
        "seed is -1",
    ):
        assert message.count(fragment) == 1


@pytest.mark.usefixtures("no_model")
def test_one_mistake_is_told_once(told):
    _, message, _ = told("phases.rl.stages=[prompts,rolout,reward,old_log_probs,advantage,learner]")

    assert len(message.splitlines()) == 1


@pytest.mark.filterwarnings("ignore::rlcomp.errors.RlcompWarning")  # said before the first job, too
@pytest.mark.usefixtures("no_model")
def test_a_mistake_in_one_job_of_a_sweep_names_the_job(told, tmp_path):
    code, message, _ = told("-m", "prompts.batch_size=0,-1", f"directory={tmp_path}")

    assert "rlcomp: job 0: prompts.batch_size is 0" in message
    assert "rlcomp: job 1: prompts.batch_size is -1" in message
    assert code == 2


def in_subprocess(*words, cwd):
    """Exit code, message and CPU seconds of a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.returncode, done.stderr, spent


def environment():
    from pathlib import Path

    home = str(Path(model_build.__file__).parents[2])
    # Without the measuring of coverage, which would be timed as well.
    own = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    return {**own, "PYTHONPATH": home, "OMP_NUM_THREADS": "1"}


def test_a_shadowed_components_package_names_the_file_and_the_remedy(tmp_path):
    (tmp_path / "components").mkdir()
    (tmp_path / "components" / "__init__.py").write_text("")

    code, message, _ = in_subprocess("-m", "rlcomp", cwd=tmp_path)

    assert code == 2
    assert f"'components' is {tmp_path / 'components' / '__init__.py'}, which shadows" in message
    assert "rename your folder (or file), or run from another directory" in message


@pytest.mark.parametrize("file", [True, False])
def test_a_shadowing_file_or_bare_folder_is_named_too(tmp_path, file):
    if file:
        (tmp_path / "components.py").write_text("")
    else:
        (tmp_path / "components" / "reward").mkdir(parents=True)

    code, message, _ = in_subprocess("-m", "rlcomp", "seed=-1", cwd=tmp_path)

    # A folder without __init__.py gives way to ours: Python prefers the regular package.
    assert ("components.py, which shadows" in message) == file
    assert ("seed is -1" in message) == (not file)
    assert code == 2


@pytest.fixture(scope="module")
def import_seconds(tmp_path_factory):
    """What it costs to import all that a run needs."""
    code = "import hydra, rlcomp.run.launch, rlcomp.model.language_model"
    return in_subprocess("-c", code, cwd=tmp_path_factory.mktemp("import"))[2]


@pytest.mark.parametrize(
    "name",
    [
        "argument",
        pytest.param("key nobody wrote", marks=pytest.mark.slow),
        pytest.param("prompt longer than the context", marks=pytest.mark.slow),
    ],
)
def test_a_process_of_its_own_says_so_before_it_has_done_much_but_import(
    tmp_path, import_seconds, name
):
    bad = TABLE[name]

    code, message, spent = in_subprocess(
        "-m", "rlcomp", f"directory={tmp_path}/run", *bad.line, cwd=tmp_path
    )

    assert code == 2
    assert bad.remedy in message
    assert spent < 2 * import_seconds
