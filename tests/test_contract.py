"""Every option under ``conf`` composes, builds and keeps the contract.

Nothing is listed here by hand but the values a user has to give (:data:`GIVEN`): a new yaml or a
new component is found by itself.
"""

import importlib
import inspect
import json
import os
import pkgutil
import re
import sys
from functools import cache
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.core.utils import setup_globals
from omegaconf import OmegaConf, open_dict
from tensordict import TensorDict

import components
from components.store import AnswerReplay
from rlcomp.batch import encode_columns, encode_texts
from rlcomp.component import Component
from rlcomp.config.build import Builder
from rlcomp.config.checks.values import check_arguments
from rlcomp.config.declarations import read_declaration
from rlcomp.config.finding import messages
from rlcomp.config.plan import read
from rlcomp.config.resolve import plan_of
from rlcomp.errors import MissingExtra
from rlcomp.interfaces.loss import Loss
from rlcomp.keys import CONTROL, SCHEMA
from rlcomp.run.check_flow import built_flow
from rlcomp.testing import check_component, check_loss, example_batch

setup_globals()

CONF = Path(__file__).resolve().parents[1] / "conf"
OPTIONS = sorted(
    file.relative_to(CONF).with_suffix("").as_posix()
    for file in CONF.glob("**/*.yaml")
    if file.parent != CONF
)
RECIPES = [option.split("/")[1] for option in OPTIONS if option.startswith("recipe/")]

CORPUS = ["+task@corpus=running_sum", "corpus.size=500", "+position=result"]
# A suite asks a model that reads any text.
SUITE = ["base=FOLDER/bytes", "tokenizer=byte", "context_length=2048"]


def suite(name, *words):
    own = ["task.path=FOLDER/rows.jsonl", "max_new_tokens=4", "num_prompts=4", *words]
    return [*SUITE, *(f"{name}.{word}" for word in own)]


LABELS = ["task.path=FOLDER/labels.jsonl", "task.labels=[a,b]"]
ENDPOINT = ["probe.endpoint.url=http://127.0.0.1:1/v1", "probe.endpoint.model=m"]
BASE = [
    "base=FOLDER/bytes",
    "tokenizer=byte",
    "context_length=2048",
    "task@corpus=text",
    "corpus.path=FOLDER/text.txt",
]

FEW = [
    f"{each}=4"
    for name in ("coverage", "progress")
    for each in (f"{name}.num_prompts", f"{name}.samples_per_prompt")
]

# Their losses are torchrl's.
CONTROL_RECIPES = {
    *("bc", "contrastive", "control_ppo", "dagger", "dqn", "her", "hil_serl", "rlpd"),
    *("sac", "td3", "trpo"),
    *("flow_grpo", "action_grpo", "offline_to_online"),
}

OF_FLOWS = (
    *("collector/flow_samples", "evaluator/flow", "learner/flow_matching", "loss/flow_matching"),
    *("model/flow_policy", "reward/mode_distance", "sampler/points"),
)
OF_ACTION_TOKENS = (
    *("collector/action_episodes", "evaluator/action_tokens", "expert/clumsy_reacher"),
    "model/action_tokens",
)

OFFLINE = ["recipe=offline_to_online", "dataset.path=FOLDER/pendulum.jsonl"]
OFFLINE_METHODS = ("bc", "cql", "diffusion_bc", "iql", "td3_bc")

# What the user has to give, and what makes a check fast. FOLDER: a model, a task, a function.
GIVEN = {
    "action/freeze": ["probe.parameters=embed"],
    "action/restore": [
        "probe.snapshot={_target_: components.action.Snapshot, policy: '${policy}'}"
    ],
    "store/replay": ["+store@kept=collected", "probe.store=${kept}"],
    "store/replay_pairs": ["+store@kept=pairs", "probe.store=${kept}"],
    "advantage/gdpo": ["probe.weights={a: 1.0, b: 0.5}"],
    "parallel/hybrid": ["probe.parts=2"],
    "collector/delayed": ["probe.collector.group_size=2"],
    "collector/group": ["probe.group_size=2"],
    "collector/episodes": [
        "probe.group_size=2",
        "recipe=agent",
        "tokenizer.characters='0123456789+=<>|?'",
    ],
    "collector/branching": [
        "probe.group_size=2",
        "probe.initial_rollouts=1",
        "recipe=arpo",
        "tokenizer.characters='0123456789+=<>|?'",
    ],
    "collector/shuffled_anchors": [
        "probe.collector.group_size=2",
        "recipe=agent",
        "tokenizer.characters='0123456789+=<>|?'",
    ],
    "collector/traces": [
        "probe.group_size=2",
        "recipe=traces",
        "agent_pool=in_process",
        "tokenizer.characters='0123456789+=<>|?'",
    ],
    "player/traces": ["probe.agent=components.worlds.lookup.agent.agent"],
    "collector/vine": [
        "probe.group_size=2",
        "recipe=agent",
        "tokenizer.characters='0123456789+=<>|?'",
    ],
    "collector/self_play": [
        "probe.group_size=2",
        "recipe=self_play",
        "tokenizer.characters='0123456789+=?abht'",
    ],
    "evaluator/exploitability": ["recipe=self_play"],
    "evaluator/past_selves": ["recipe=self_play", "probe.num_prompts=2"],
    "player/seats": ["recipe=self_play"],
    "task/tactic_steps": ["probe.theorems=${theorems}"],
    "evaluator/proofs": ["probe.task=${theorems}", "probe.num_prompts=4"],
    "collector/mask_game": ["probe.group_size=2", "tokenizer=byte"],
    "collector/pretrain_zero": [
        "probe.group_size=2",
        "recipe=pretrain_zero",
        *BASE,
    ],
    "environment/tools": ["+probe.tools.calculator._target_=components.tool.Calculator"],
    "learner/off_policy": [
        "recipe=sac",
        "probe.optimizer.lr={actor_network: 0.1, qvalue_network: 0.1, log_alpha: 0.1}",
    ],
    "loss/cloning_likelihood": ["recipe=sac"],
    "collector/goal_steps": ["recipe=her"],
    "dataset/file": ["recipe=sac", "probe.path=FOLDER/pendulum.jsonl"],
    "learner/demonstrations": [*OFFLINE, "offline=bc"],
    "learner/iql": OFFLINE,
    "loss/iql": OFFLINE,
    "recipe/offline_to_online": ["dataset.path=FOLDER/pendulum.jsonl"],
    **{f"offline/{name}": ["dataset.path=FOLDER/pendulum.jsonl"] for name in OFFLINE_METHODS},
    **{name: ["recipe=flow_grpo"] for name in OF_FLOWS},
    **{name: ["recipe=action_grpo"] for name in OF_ACTION_TOKENS},
    "replay/hindsight": ["recipe=her"],
    "replay/reprioritise": ["recipe=sac", "replay=prioritized"],
    "replay/half_half": ["recipe=rlpd"],
    "replay/extend_interventions": ["recipe=rlpd"],
    "replay/future": ["recipe=contrastive"],
    "expert/u_maze_guide": ["recipe=rlpd"],
    "intervention/scripted": ["recipe=rlpd"],
    "intervention/function": [
        "recipe=rlpd",
        "probe.function={_target_: contract_parts.brevity, _partial_: true}",
    ],
    "intervention/queue": [
        "recipe=rlpd",
        "probe.device={_target_: contract_parts.brevity, _partial_: true}",
    ],
    "model/gaussian_network_actor": ["recipe=contrastive"],
    "model/contrastive_critic": ["recipe=contrastive"],
    "loss/rlpd": ["recipe=rlpd"],
    "loss/contrastive": ["recipe=contrastive"],
    "learner/contrastive": ["recipe=contrastive"],
    "learner/state_value": ["recipe=trpo"],
    "optimizer/adam_groups": ["probe.lr={actor: 1.0}"],
    "sampler_engine/server": ["sampler_engine.url=http://127.0.0.1:1/v1"],
    "sampler_engine/vllm": ["sampler_engine.url=http://127.0.0.1:1/v1"],
    "sampler_engine/sglang": ["sampler_engine.url=http://127.0.0.1:1/v1"],
    "curriculum/families": ["prompts.families={sort: {easy: '${task}'}}"],
    "curriculum/frontier": ["prompts.tasks={easy: '${task}'}"],
    "feedback/answer_kinds": ["probe.kinds={digit: '[0-9]'}"],
    "feedback/pass_rate": ["sampler@prompts=curriculum"],
    "conditioning/embedding": ["+objective=brevity", "tokenizer=character_preference"],
    "conditioning/text_prefix": ["+objective=brevity"],
    "environment/gymnasium_text": ["probe.name=FrozenLake-v1"],
    "environment/openenv": [
        "probe.name=contract_parts.brevity",
        "probe.settings.base_url=http://localhost:8080",
    ],
    "environment/skyrl_gym": ["probe.name=gsm8k"],
    "environment/textarena": ["probe.name=GuessTheNumber-v0-raw"],
    "environment/trl": ["probe.name=contract_parts.World"],
    "environment/browser": ["probe.program=/bin/sh"],  # it is there, and not started
    "evaluator/accuracy": ["probe.num_prompts=4"],
    "evaluator/accuracy_by_column": ["probe.num_prompts=4", "probe.by=prompt_length"],
    "evaluator/budget": ["probe.num_prompts=4", "probe.budgets=[2]", "probe.think_end='>'"],
    "evaluator/coverage": ["probe.num_prompts=4", "probe.samples_per_prompt=4"],
    "evaluator/forgetting": ["probe.num_prompts=4", "probe.task=${task}"],
    "evaluator/perplexity": ["probe.num_prompts=4", "reference=frozen"],
    "evaluator/hacking_monitor": ["probe.verifier=${reward}"],
    "evaluator/objectives": ["+objective=brevity", "probe.num_prompts=4"],
    "evaluator/next_token": ["probe.num_prompts=4"],
    "evaluator/episodes": ["probe.max_steps=5"],
    "evaluator/shifted": ["recipe=trpo", "probe.max_steps=5", "probe.shifts={weak: {force: 5.0}}"],
    "evaluator/preferences": ["recipe=dpo", "probe.num_pairs=4"],
    "evaluator/rated_answers": [
        "recipe=reward_model",
        "experiment=ratings",
        "probe.num_answers=4",
        "probe.task=${rated}",
    ],
    "evaluator/reward_model": ["recipe=reward_model", "probe.num_pairs=4", "probe.figure=null"],
    "learner/reward_model": ["recipe=reward_model"],
    "environment/lean": ["probe.backend.path=FOLDER/sessions.jsonl"],
    "lean_backend/dojo": ["probe.url=https://example.org/repo", "probe.commit='0'"],
    "lean_backend/replay": ["probe.path=FOLDER/sessions.jsonl"],
    "lean_backend/wasm": ["probe.folder=FOLDER/lean"],
    "loss/plackett_luce": ["probe.group_size=2"],
    "loss/multi_label": ["recipe=text_classifier", *LABELS],
    "evaluator/labels": ["recipe=text_classifier", *LABELS],
    "recipe/text_classifier": LABELS,
    "sampler/labelled_texts": ["recipe=text_classifier", *LABELS, "probe.batch_size=4"],
    "scorer/label_classifier": ["recipe=text_classifier", *LABELS],
    "task/labelled_texts": ["probe.path=FOLDER/labels.jsonl", "probe.labels=[a,b]"],
    "reward/scored": ["recipe=instruct_gpt"],
    "evaluator/value_quality": [
        "value=critic",
        "advantage=gae",
        "probe.num_prompts=4",
        "probe.continuations=2",
    ],
    "experiment/coverage": FEW,
    "experiment/coverage_median": FEW,
    "experiment/coverage_sums": FEW,
    "experiment/dialogue_pairs": ["task.path=FOLDER/pairs.jsonl"],
    "experiment/rankings": ["ranked.path=FOLDER/rankings.jsonl", "loss.group_size=2"],
    "experiment/hops": ["base=FOLDER/bytes"],
    "experiment/pareto": ["+objective=brevity"],
    "experiment/pareto_text": ["base=FOLDER/bytes"],
    "early_stop/reached": ["early_stop.high=0.5"],
    "early_stop/reward_hacking": ["hacking_monitor.verifier=${reward}"],
    "experiment/scratchpad": ["base=FOLDER/bytes"],
    "experiment/sentiment_length": ["base=FOLDER/bytes"],
    "experiment/skewed_sums": ["base=FOLDER/bytes"],
    "filter/thought_only": ["tokenizer=byte"],
    "judge/generative": ["base=FOLDER/bytes", "tokenizer=byte"],
    "collector/revised": ["base=FOLDER/bytes", "tokenizer=byte"],
    "pairing/constructed": ["base=FOLDER/bytes", "tokenizer=byte"],
    "pairing/judged": ["base=FOLDER/bytes", "tokenizer=byte"],
    "kl/in_loss": ["recipe=grpo"],
    "kl/in_reward_full": ["tokenizer.characters='012345'"],
    "kl_baseline/mismatched": ["recipe=dpo", "loss=kto"],
    "learner/gradient": ["probe.losses={policy: '${loss}'}"],
    "measure/budget": ["budget.num_prompts=4", "budget.budgets=[2]", "budget.think_end='>'"],
    "measure/coverage": [
        "coverage.num_prompts=4",
        "coverage.samples_per_prompt=4",
        "coverage_training.num_prompts=4",
        "coverage_training.samples_per_prompt=4",
    ],
    "measure/forgetting": ["forgetting.num_prompts=4", "forgetting.task=${task}"],
    "measure/other_task": ["other_task.num_prompts=4", "other_task.task=${task}"],
    "measure/past_selves": ["past_selves.num_prompts=2"],
    "measure/perplexity": ["perplexity.num_prompts=4"],
    "mismatch/monitor": ["probe.max_mean_gap=null"],
    "mismatch/recomputed": ["probe.max_mean_gap=null"],
    "model/soup": [
        "probe.runs={a: FOLDER/model, b: FOLDER/model}",
        "probe.weights={a: 0.5, b: 0.5}",
        "tokenizer=pretrained",
        "tokenizer.path=FOLDER/tokenizer",
    ],
    "model/tiny_conditioned": ["tokenizer=character_preference"],
    "model/pretrained": [
        "probe.path=FOLDER/model",
        "probe.context_length=32",
        "tokenizer=pretrained",
        "tokenizer.path=FOLDER/tokenizer",
    ],
    "objective/learned": ["objectives.parts.learned.path=FOLDER/classifier"],
    "objectives/several": ["probe.parts={right: '${reward}'}"],
    "pareto/constrained": ["probe.maximise=right", "probe.thresholds={short: 0.5}"],
    "pareto/expected": ["probe.function={_target_: torch.logsumexp, _partial_: true, dim: 0}"],
    "pareto/scaled": ["probe.scales={right: 2.0, short: 0.5}"],
    "position/easy": ["probe.proxy=${model}", "base=FOLDER/bytes"],
    "position/entropy": ["probe.proxy=${model}", "base=FOLDER/bytes"],
    "position/hard": ["probe.proxy=${model}", "base=FOLDER/bytes"],
    "position/medium": ["probe.proxy=${model}", "base=FOLDER/bytes"],
    "position/pattern": ["probe.pattern='(5)'"],
    "position/top_fifth": ["probe.proxy=${model}", "base=FOLDER/bytes"],
    "prompt/chat": ["tokenizer=byte", "probe.template=FOLDER/chat.jinja"],
    "prompt/chat_tools": [
        "tokenizer=byte",
        "context_length=1024",
        "probe.template=FOLDER/tools.jinja",
        "~phases.warm_start",
        "~demonstrations",
    ],
    "recipe/next_segment": BASE,
    "recipe/pretrain_zero": BASE,
    "recipe/quiet_star": BASE,
    "recipe/rlp": BASE,
    "recipe/rpt": BASE,
    "recipe/gsm8k": ["task.path=FOLDER/rows.jsonl"],
    "reference/adapter_off": ["adapter=lora"],
    "reference/teachers": [
        "+teacher=trained",
        "probe.references={digits: {_target_: components.reference.teacher.TeacherReference, "
        "policy: '${policy}', teacher: '${teacher}', full: false}}",
    ],
    "reference/teachers_full": [
        "+teacher=trained",
        "probe.references={digits: {_target_: components.reference.teacher.TeacherReference, "
        "policy: '${policy}', teacher: '${teacher}', full: true}}",
    ],
    "reference/teacher": ["+teacher=trained"],
    "reference/teacher_by_spans": ["+teacher=trained"],
    "teacher/given": [
        "teacher_model.path=FOLDER/model",
        "tokenizer=pretrained",
        "tokenizer.path=FOLDER/tokenizer",
        "model=pretrained",
        "model.path=FOLDER/model",
    ],
    "reference/pretrained": [
        "probe.model.path=FOLDER/model",
        "probe.model.context_length=32",
        "tokenizer=pretrained",
        "tokenizer.path=FOLDER/tokenizer",
    ],
    "reward/brevity": ["probe.longest=4"],
    "reward/by_column": ["probe.routes={digits: '${right}'}"],
    "reward/conditional_match": ["probe.think_start='='"],
    "reward/dense_match": ["probe.think_start='='"],
    "reward/fact": ["probe.fact=a"],
    "reward/function": ["probe.function={_target_: contract_parts.brevity, _partial_: true}"],
    "reward/gibberish": ["probe.below=-3"],
    "reward/information_gain": ["base=FOLDER/bytes", "tokenizer=byte", "probe.think_start='='"],
    "reward/judged_segment": ["tokenizer=byte"],
    "reward/length": ["probe.target=4"],
    "reward/learned": ["probe.path=FOLDER/classifier"],
    "reward/majority_vote": ["probe.reward=${verifier}"],
    "reward/regex": ["probe.pattern='5'"],
    "reward/shuffled": ["probe.reward=${reward}"],
    "reward/steps": ["probe.step.function={_target_: contract_parts.brevity, _partial_: true}"],
    "reward/thought_likelihood": ["base=FOLDER/bytes", "tokenizer=byte"],
    "reward/mask_game": ["base=FOLDER/bytes"],
    "reward/prefix_match": ["base=FOLDER/bytes"],
    "task/annotated_text": ["base=FOLDER/bytes"],
    "pairwise_judge/ensemble": [
        "+pairwise_judge@one=simulated",
        "probe.judges={one: '${one}'}",
    ],
    "endpoint/chat": ["probe.url=http://127.0.0.1:1/v1", "probe.model=m"],
    "judge/endpoint": ENDPOINT,
    "pairwise_judge/endpoint": ENDPOINT,
    "pairwise_judge/reasoned": [*SUITE, "probe.writer.max_new_tokens=4"],
    "pairwise_judge/reasoned_parsed": [*SUITE, "probe.writer.max_new_tokens=4"],
    "pairwise_judge/learned": ["probe.path=FOLDER/classifier"],
    "pairwise_judge/recorded": ["probe.path=FOLDER/verdicts.jsonl"],
    "reward/judged": SUITE,
    "reward/rubric": [*SUITE, "probe.criteria={short: 1.0}"],
    "reward/tournament": [*SUITE],
    "reward/ruler": [*SUITE, "probe.writer.max_new_tokens=4"],
    "writer/endpoint": ENDPOINT,
    "writer/language_model": [*SUITE, "probe.max_new_tokens=4"],
    "reward/weighted_sum": ["probe.parts={right: '${reward}'}", "probe.weights={right: 2.0}"],
    "sampler/demonstrations": ["probe.batch_size=4"],
    "sampler/labelled": ["probe.batch_size=4", "probe.task={_target_: contract_parts.Labelled}"],
    "sampler/pairs": ["probe.batch_size=4", "recipe=dpo"],
    "sampler/step_labels": [
        "probe.batch_size=4",
        "+task@labelled=sorting_graded",
        "probe.task=${labelled}",
    ],
    "evaluator/step_labels": [
        "recipe=reward_model",
        "experiment=step_labels",
        "probe.num_answers=4",
        "probe.task=${labelled}",
    ],
    "task/step_labels": ["probe.path=FOLDER/steps.jsonl"],
    "reward/process_scored": ["+scorer=process"],
    "potential/token_score": ["+scorer=process"],
    "shaping/implicit_process": ["+scorer=implicit"],
    "sampler/rankings": [
        "probe.batch_size=4",
        "probe.group_size=4",
        "+task@ranked=preferences",
        "ranked.path=FOLDER/rankings.jsonl",
        "ranked.ratings=ranking",
        "probe.task=${ranked}",
    ],
    "sampler/rated": ["probe.batch_size=4", "+task@rated=sorting_graded", "probe.task=${rated}"],
    "task/documents": ["probe.task=${task}"],
    "task/mixture": ["probe.tasks={sort: '${task}'}"],
    "task/planted": ["probe.task=${task}"],
    "task/reasoning_gym": ["probe.name=leg_counting", "probe.size=40"],
    "sampler/families": ["probe.families={sort: {easy: '${task}'}}"],
    "sampler/frontier": ["probe.tasks={easy: '${task}'}"],
    "sampler/pools": [
        "probe.tasks={easy: '${task}'}",
        "probe.weights_start={easy: 1.0}",
        "probe.weights_end={easy: 1.0}",
    ],
    "sandbox/remote": ["probe.url=http://localhost:8080"],
    "shaping/l1_exact": ["probe.target_length=4"],
    "shaping/l1_max": ["probe.target_length=4"],
    "shaping/soft_overlong": ["probe.buffer=4"],
    **{f"suite/{name}": suite(name) for name in ("aime", "gsm8k", "jsonl", "math500")},
    "suite/ifeval": suite("ifeval", "task.path=FOLDER/asked.jsonl"),
    "suite/humaneval": [
        *suite("humaneval", "task.path=FOLDER/asked.jsonl", "task.answer_field=key"),
        "sandbox=portable",
    ],
    "suite/mbpp": [
        *suite("mbpp", "task.path=FOLDER/asked.jsonl", "task.answer_field=key"),
        "mbpp.task.prompt_template='{prompt}'",
        "sandbox=portable",
    ],
    "task/bfcl": ["probe.path=FOLDER/episodes.jsonl"],
    "task/benchmark": ["probe.path=FOLDER/rows.jsonl", "probe.names=[]", "probe.form=rows"],
    "task/file": ["probe.path=FOLDER/rows.jsonl"],
    "task/gsm8k": ["probe.path=FOLDER/rows.jsonl"],
    "task/preferences": ["probe.path=FOLDER/pairs.jsonl"],
    "task/hub": ["probe.name=FOLDER/rows.jsonl"],
    "task/mask_proposal": BASE,
    "task/masked_span": BASE,
    "task/next_result": CORPUS,
    "task/step_pairs": ["recipe=dpo", "probe.separator=''"],
    "task/next_segment": BASE,
    "task/next_token_instructed": CORPUS,
    "task/text": ["probe.path=FOLDER/rows.jsonl", "probe.field=question", "probe.shortest=1"],
    "tool/bm25": [
        "probe.corpus=FOLDER/rows.jsonl",
        "probe.indexed='{question}'",
        "probe.shown='{answer}'",
    ],
    "tokenizer/bpe": ["+task@corpus=shakespeare"],
    "tokenizer/pretrained": ["probe.path=FOLDER/tokenizer"],
    "value/verbalised": [
        "tokenizer=value_words",
        "word_learner.num_minibatches=1",
    ],
    "value/objective_critic": [  # the names of the example batch
        "objectives=several",
        "objectives.parts={b: '${reward}'}",
        "objectives.first=a",
    ],
}

# Options that only some recipes can take, with one of them.
AT_HOME = {
    **{f"offline/{name}": "offline_to_online" for name in OFFLINE_METHODS},
    "measure/past_selves": "self_play",
    "collector/search": "expert_iteration",
    "prover/search": "expert_iteration",
    "evaluator/proofs": "expert_iteration",
    "task/tactic_steps": "expert_iteration",
    "task/tactic_scripts": "expert_iteration",
    "reference/moving_average": "grpo",
    "reward/weighted_sum": "grpo",
    "experiment/own_pairs": "online_dpo",
    "adapter/none": "grpo",
    "loss/bc": "bc",
    "loss/cql": "her",
    "loss/diffusion_bc": "bc",
    "loss/td3_bc": "her",
    "value/none": "action_grpo",
    "loss/tdpo": "dpo",
    "loss/tdpo1": "dpo",
    "experiment/domain_teachers": "on_policy_distillation",
    "experiment/teacher_of_bytes": "on_policy_distillation",
    "experiment/prime": "grpo",
    "experiment/reward_ensemble": "instruct_gpt",
    "experiment/dialogue_pairs": "reward_model",
    "experiment/rankings": "reward_model",
    "experiment/ratings": "reward_model",
    "experiment/step_labels": "reward_model",
    "prompt/chat_tools": "retool",
    "experiment/hops": "pretrain_zero",
    "experiment/hops_base": "pretrain",
    "experiment/scratchpad": "rpt",
    "experiment/scratchpad_base": "pretrain",
    "experiment/pareto_text": "pama",
    "experiment/sentiment_length": "pama",
    "experiment/skewed_sums": "rpt",
    "experiment/skewed_sums_base": "pretrain",
    "experiment/useless_tool": "tool_star",
}

# What the run itself hands over: the composed config.
FILLED_IN = {"config"}

IFEVAL = {
    "prompt": ["Say no comma.", "Say no comma.", "Say five words."],
    "response": ["a, b", "a b", ""],
    "answer": ["", "", ""],
    "columns": [
        {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]},
        {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]},
        {
            "instruction_id_list": ["length_constraints:number_words"],
            "kwargs": [{"num_words": 5, "relation": "at least"}],
        },
    ],
}

CALLS = {
    "prompt": ["Add 1 and 2.", "Add 1 and 2.", "Be quiet."],
    "response": ["add(a=1, b=2)", "add(a=1)", ""],
    "answer": ["", "", ""],
    "columns": [{"ground_truth": [{"add": {"a": [1], "b": [2]}}]}] * 2 + [{"ground_truth": []}],
}


THOUGHT = {
    "prompt": ["312>", "312>", ""],
    "response": ["123=2", "132=2", ""],
    "answer": ["2", "2", ""],
    "columns": [{"reasoning": "123=2"}, {"reasoning": "123=2"}, {"reasoning": ""}],
}


def tagged(*answers, **columns):
    """Rows with the same columns and these answers in tags."""
    responses = [f"<answer>{text}</answer>" for text in answers]
    empty = [""] * len(answers)
    columns = [columns] * len(answers)
    return {"prompt": empty, "response": responses, "answer": empty, "columns": columns}


# Of broken programs, whose time and memory are their limits: what was measured differs each time.
PROGRAMS = {
    "prompt": ["# Double.\n"] * 3,
    "response": ["```\ndef double(\n```", "```\nfirst + second\n```", ""],
    "answer": ["", "", ""],
    "columns": [
        {
            "test_list": ["assert double(2) == 4"],
            "test_imports": [],
            "test": "def check(candidate): assert candidate(2) == 4",
            "entry_point": "double",
            "input_output": [{"input": "2", "output": "4"}],
            "inputs": [[2], [3]],
            "outputs": [4, 6],
        }
    ]
    * 3,
}
CODE = ("calls", "expression", "stdio", "tests", "tests_humaneval")
BOX = tagged("[0, 0, 2, 2]", "[0, 0, 1, 2]", "no", true_box=[0, 0, 2, 2])
DETECTED = '[{"box": [0, 0, 2, 2], "label": "cat"}]'

# Texts for what cannot read those of an example batch (sums of two digits).
RATED = {"model_score": [0.5, -1.0, 2.0, 0.25], "reward": [1.0, 5.0, 3.0, 2.0]}
RANKED = {
    "model_score": [0.5, -1.0, 2.0, 0.25, 1.0, 1.5, -0.5, 3.0],
    "reward": [1.0, 0.0, 0.5, 2.0, 1.0, 1.0, 3.0, -1.0],
    "group_id": [3, 3, 0, 0, 5, 5, 1, 1],
}
TEXTS = {
    **dict.fromkeys(
        ("experiment/coverage", "experiment/coverage_median", "experiment/coverage_sums"), THOUGHT
    ),
    "collector/search": {"prompt": ["⊢p→p\n", "⊢q→q∨p\n"]},
    "reward/countdown": {
        "prompt": ["3 7 2:13=", "3 7 2:13=", "1 2:3="],
        "response": ["3*2+7", "3+7+2", ""],
        "answer": ["7+3*2", "7+3*2", "1+2"],
    },
    **dict.fromkeys(("loss/plackett_luce", "experiment/rankings"), RANKED),
    "loss/ordinal_regression": RATED,
    "experiment/ratings": RATED,
    "value/verbalised": {  # a response is one piece
        "prompt": ["31:", "2:"],
        "answer": ["13", "2"],
        "tokens": [[5, 3, 12, 3, 5, 1], [4, 12, 4, 1, 0, 0]],
        "attention_mask": [[True] * 6, [True] * 4 + [False] * 2],
        "response_mask": [[False] * 3 + [True] * 3, [False, False, True, True, False, False]],
    },
    "reference/columns": {
        "chosen": [True, False],
        "response_mask": [[False, True], [False, True]],
        "columns": [{"ref_chosen_logps": -1.0, "ref_rejected_logps": [-2.0]}] * 2,
    },
    **dict.fromkeys(("reward/ifeval", "reward/ifeval_loose", "suite/ifeval"), IFEVAL),
    **dict.fromkeys(("reward/box_overlap", "reward/box_giou"), BOX),
    "reward/tool_calls": CALLS,
    "reward/stack_program": {
        "prompt": ["t=", "t=", "t="],
        "response": ["ii", "i", ""],
        "answer": ["tkkkk"] * 3,
        "columns": [{"stack": "3", "wanted": "5"}] * 3,
    },
    # Of leg_counting with these arguments the first answer is 292.
    "reward/reasoning_gym": {
        **tagged("292", "1"),
        "response": ["292", "1"],
        "columns": [
            {
                "reasoning_gym": {
                    "name": "leg_counting",
                    "settings": {},
                    "seed": 1,
                    "size": 3,
                    "index": 0,
                }
            }
        ]
        * 2,
    },
    **dict.fromkeys(
        ("reference/teachers", "reference/teachers_full", "reward/by_column"),
        tagged("5", "6", verify_with="digits"),
    ),
    "experiment/domain_teachers": tagged("5", "6", verify_with="up"),
    "reward/constraints": tagged(
        '{"a": 1, "b": 2}', "{}", variables={"a": [1, 2], "b": [1, 2]}, constraints=["a < b"]
    ),
    "reward/gui_action": tagged(
        '{"action": "click", "point": [1, 1]}',
        '{"action": "type"}',
        true_action={"action": "click", "box": [0, 0, 2, 2]},
    ),
    "reward/detections": tagged(DETECTED, "[]", true_boxes=json.loads(DETECTED)),
    "reward/key_frames": tagged("[1, 5]", "[1]", true_frames=[1, 5]),
    **dict.fromkeys([f"reward/code_{name}" for name in CODE], PROGRAMS),
    **dict.fromkeys(("suite/humaneval", "suite/mbpp"), PROGRAMS),
}


# A task of ten labelled answers.
LABELLED = [
    "from rlcomp.interfaces.task import Example",
    "class Labelled:",
    "    held_out = 0.0",
    "    def __len__(self): return 10",
    "    def example(self, index):",
    "        return Example(f'{index}>', '1', '1', columns={'desirable': index % 2 == 0})",
]


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A pretrained model, the rows of a task, and a module with a reward function."""
    from transformers import AutoModelForSequenceClassification

    from rlcomp.testing import tiny_model
    from rlcomp.text.tokenizer import byte_tokenizer, character_tokenizer

    where = tmp_path_factory.mktemp("given")
    rows = [{"question": f"{n}+1=", "answer": f"#### {n + 1}"} for n in range(40)]
    verdict = {"prompt": "1+3=", "first": "4", "second": "5", "probability": 0.9}
    labels = [{"prompt": f"{n}", "a": n % 2, "b": None if n % 3 else 1} for n in range(80)]
    (where / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in labels))
    (where / "verdicts.jsonl").write_text(json.dumps(verdict) + "\n")
    (where / "sessions.jsonl").write_text("")
    (where / "lean" / "lib").mkdir(parents=True)
    for name in ("lean.js", "lean.wasm"):
        (where / "lean" / name).touch()
    (where / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    rules = {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}
    tests = {"test": "def check(f):\n    assert f(1) == 1\n", "entry_point": "f"}
    tests |= {"test_list": ["assert f(1) == 1"], "test_imports": []}
    asked = [{"key": n, "prompt": f"{n}?", **rules, **tests} for n in range(4)]
    episode = {"id": "a", "question": [], "involved_classes": ["MathAPI"]}
    (where / "episodes.jsonl").write_text(json.dumps(episode) + "\n")
    (where / "asked.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked))
    parts = ["def brevity(response): return -len(response)", "class World:"]
    parts += ["    def reset(self, **row): ...", "    def look(self): ..."]
    pairs = [{"prompt": f"{n}+1=", "chosen": f"{n + 1}", "rejected": "0"} for n in range(40)]
    (where / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in pairs))
    several = {"prompt": "1", "responses": ["1", "2", "3", "4"], "ranking": [2, 0, 3, 1]}
    ranked = "".join(json.dumps({**several, "prompt": str(n)}) + "\n" for n in range(60))
    (where / "rankings.jsonl").write_text(ranked)
    steps = {"prompt": "1+1=", "completions": ["1", "+1"], "labels": [True, 0.5]}
    (where / "steps.jsonl").write_text(json.dumps(steps) + "\n")
    parts += LABELLED
    (where / "contract_parts.py").write_text("\n".join(parts) + "\n")
    turns = "{% for turn in messages %}{{ turn.content }}{{ eos_token }}{% endfor %}"
    (where / "chat.jinja").write_text(turns)
    (where / "tools.jinja").write_text("{% if tools %}{{ tools | tojson }}{% endif %}" + turns)
    pendulum = {"observation": [1.0, 0.0, 0.0], "action": [0.5], "reward": -1.0}
    pendulum |= {"next_observation": [1.0, 0.0, 0.1], "terminated": False}
    (where / "pendulum.jsonl").write_text((json.dumps(pendulum) + "\n") * 4)
    lines = [f"Line {n} of a text that is long enough.\n" for n in range(200)]
    (where / "text.txt").write_text("".join(lines))
    tokenizer = character_tokenizer(characters="0123456789+=")
    model = tiny_model(tokenizer, context_length=32)
    model.save_pretrained(where / "model")
    tokenizer.save_pretrained(where / "tokenizer")
    reader = tiny_model(byte_tokenizer(), context_length=2048)
    reader.save_pretrained(where / "bytes")
    byte_tokenizer().save_pretrained(where / "bytes")
    # Of bytes: it reads whatever a policy writes. One output, so that no label has to be named.
    model.config.update({"num_labels": 1, "vocab_size": len(byte_tokenizer()), "pad_token_id": 0})
    classifier = AutoModelForSequenceClassification.from_config(model.config)
    classifier.save_pretrained(where / "classifier")
    byte_tokenizer().save_pretrained(where / "classifier")
    sys.path.append(str(where))
    yield where
    sys.path.remove(str(where))


@cache
def config(*overrides):
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        return compose("config", overrides=[*overrides, "directory=x"], return_hydra_config=True)


@cache
def alone(*overrides):
    """Some options by themselves, which is a tenth of the work of a recipe."""
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        return compose(overrides=list(overrides))


def composed(*overrides):
    """A recipe with overrides; what they say of its probes is composed once for all recipes."""
    own = [text for text in overrides if text.lstrip("+").startswith("probe") or "@probe" in text]
    found = OmegaConf.create(plain(*(text for text in overrides if text not in own)))
    if own:
        with open_dict(found):
            found.update(alone(*own))
    return found


@cache
def plain(*overrides):
    """A config without Hydra's own settings, which are half of it, as plain values."""
    found = OmegaConf.to_container(config(*overrides), resolve=False)
    del found["hydra"]
    return found


@cache
def choices(recipe):
    """Group (without its package) -> the options a recipe chooses from it."""
    found = {}
    for group, name in config(f"recipe={recipe}").hydra.runtime.choices.items():
        found.setdefault(group.split("@")[0], []).append(name)
    return found


# Recipe -> its choices.
CHOICES = {}


@pytest.fixture(scope="session")
def choices_of_recipes(tmp_path_factory):
    """Fill CHOICES; one process composes the recipes, and the others read its file."""
    own = tmp_path_factory.getbasetemp()
    file = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "choices.json"
    if not file.exists():
        part = own / "choices.json.part"
        part.write_text(json.dumps({recipe: choices(recipe) for recipe in RECIPES}))
        part.replace(file)
    CHOICES.update(json.loads(file.read_text()))


@cache
def recipes_for(group, name):
    """Recipes, those first that choose the option, then those that choose from its group.

    An option that is spread over the config is told apart by what a recipe without it lacks, so
    there those come first that choose another one from its group.
    """
    if f"{group}/{name}" in AT_HOME:
        return [AT_HOME[f"{group}/{name}"]]
    spread = is_global(f"{group}/{name}")
    return sorted(
        RECIPES,
        key=lambda r: (
            (name in CHOICES[r].get(group, ())) == spread,
            group not in CHOICES[r],
            r != "grpo",
        ),
    )


def is_global(option):
    return "@package _global_" in (CONF / f"{option}.yaml").read_text()


def given(option, folder):
    return [text.replace("FOLDER", str(folder)) for text in GIVEN.get(option, [])]


def plans(option, folder):
    """The plan of the first recipe the option fits into, the errors, and the option's own nodes."""
    group, name = option.rpartition("/")[::2]
    recipes = [name] if group == "recipe" else recipes_for(group, name)
    if shares_a_plan(option):
        plan, errors = shared_plan(recipes[0], folder)
        node = own_node(option)
        if all("probe_" in error and node not in error for error in errors):
            return plan, [], nodes_below(plan, node)
    first = None
    for recipe in recipes:
        if group == "recipe":
            own = [f"recipe={name}"]
        elif is_global(option):
            own = [f"recipe={recipe}", f"{'' if group in CHOICES[recipe] else '+'}{group}={name}"]
        else:
            own = [f"recipe={recipe}", f"+{group}@probe={name}"]
        plan, errors = read_and_check(*own, *given(option, folder))
        first = first or (plan, errors, nodes_of(option, plan, own[0]))
        if not errors:
            return plan, errors, nodes_of(option, plan, own[0])
    return first


def own_node(option):
    """The name of its node; Hydra would replace ``_group_`` in it."""
    return f"probe_{''.join(word.title() for word in re.split('[/_]', option))}"


def shares_a_plan(option):
    """An option is one node of a recipe, and asks nothing of the rest of it."""
    single = not option.startswith("recipe/") and not is_global(option)
    return single and all(text.lstrip("+").startswith("probe.") for text in GIVEN.get(option, []))


@cache
def shared_plan(recipe, folder):
    """The plan of a recipe with all options that it is the first for, and the errors."""
    words = []
    for option in filter(shares_a_plan, OPTIONS):
        group, name = option.rpartition("/")[::2]
        if recipes_for(group, name)[0] == recipe:
            words.append(f"+{group}@{own_node(option)}={name}")
            words += [t.replace("probe", own_node(option), 1) for t in given(option, folder)]
    return read_and_check(f"recipe={recipe}", *words)


def read_and_check(*overrides):
    plan, errors = read(composed(*overrides))
    errors += [error for error in messages(check_arguments(plan)) if error not in errors]
    return plan, errors


def nodes_of(option, plan, recipe):
    if option.startswith("recipe/"):
        return plan.nodes
    if not is_global(option):
        return nodes_below(plan, "probe")
    base, _ = read(composed(recipe))
    return {
        path: node
        for path, node in plan.nodes.items()
        if path not in base.nodes or base.nodes[path].target != node.target
    }


def nodes_below(plan, name):
    return {p: n for p, n in plan.nodes.items() if p == name or p.startswith(f"{name}.")}


# Of the module, so that both tests of an option follow each other and share its plan.
@pytest.fixture(scope="module", params=OPTIONS)
def option(request):
    return request.param


@pytest.fixture(scope="module")
def planned(option, folder, choices_of_recipes):
    return plans(option, folder)


def test_every_option_composes_and_lists_exactly_its_constructors_arguments(option, planned):
    _, errors, mine = planned

    assert errors == [], "a value for ??? belongs into GIVEN"
    assert mine or "_target_" not in (CONF / f"{option}.yaml").read_text()
    for path, node in mine.items():
        declaration = read_declaration(node.target)
        # What is called later gets the rest of its arguments then.
        whole = node.target.startswith(("rlcomp.", "components.")) and not node.partial
        if whole and not declaration.open_ended:
            assert set(node.arguments) | FILLED_IN == set(declaration.parameters) | FILLED_IN, path
        elif not declaration.open_ended:
            assert set(node.arguments) <= set(declaration.parameters), path


# A judge of random weights says neither of its options.
@pytest.mark.filterwarnings("ignore:.*no verdict:rlcomp.errors.RlcompWarning")
def test_every_option_builds_and_keeps_the_contract(option, planned, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    if option == "adapter/qlora":  # only slow elsewhere, and refused for that
        monkeypatch.setattr("rlcomp.model.adapters._has_gpu", lambda: True)
    plan, _, mine = planned
    builder = Builder(plan, seed=0)

    try:
        built = [builder.build(node) for node in mine.values()]
    except MissingExtra as missing:
        pytest.skip(str(missing))

    # A recipe's parts are checked as the options they are.
    for part in built if not option.startswith("recipe/") else ():
        if isinstance(part, AnswerReplay):
            part.store(example_batch(part.store.reads))
        if isinstance(part, Component) and speaks_the_schema(part):
            check_component(part, texts(option))


def speaks_the_schema(part):
    """Not so: the parts of the run itself, and those of control, whose rows are steps."""
    ours = type(part).__module__.startswith("components.")
    flow = built_flow(part)
    return ours and not set(CONTROL) & (flow.reads | flow.writes) and flow.reads <= set(SCHEMA)


def texts(option):
    if option not in TEXTS:
        return None
    given = dict(TEXTS[option])
    columns = given.pop("columns", None)
    entries = {key: entry_of(column) for key, column in given.items()}
    if columns is not None:
        entries["columns"] = encode_columns(columns)
    rows = len(next(iter(entries.values())))
    # Read beside the columns, unless they are given.
    scored = option.startswith(("reference/", "experiment/domain_teachers"))
    if scored and not {"tokens", "response_mask"} & entries.keys():
        keys = ("tokens", "attention_mask", "response_mask")
        entries |= dict(example_batch(keys, rows=rows).items())
    return TensorDict(entries, batch_size=[rows])


def entry_of(column):
    return encode_texts(column) if isinstance(column[0], str) else torch.tensor(column)


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_is_sound(recipe, folder):
    config = composed(f"recipe={recipe}", *given(f"recipe/{recipe}", folder))

    assert plan_of(config).phases


@pytest.mark.parametrize("recipe", sorted(set(RECIPES) - CONTROL_RECIPES))
def test_every_loss_of_every_recipe_keeps_the_contract_of_losses(recipe, folder):
    plan, _, _ = plans(f"recipe/{recipe}", folder)
    builder = Builder(plan, seed=0)
    nodes = [node for node in plan.nodes.values() if node.target.startswith("components.loss.")]

    losses = [part for part in map(builder.build, nodes) if isinstance(part, Loss)]

    assert losses
    for loss in losses:
        check_loss(loss)


def component_classes():
    """Every public component under ``components``, as a dotted target."""
    for module in pkgutil.walk_packages(components.__path__, "components."):
        if module.ispkg:
            continue
        for name, cls in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            own = cls.__module__ == module.name and not name.startswith("_")
            if own and issubclass(cls, torch.nn.Module) and not inspect.isabstract(cls):
                yield f"{cls.__module__}.{name}"


@pytest.mark.parametrize("target", component_classes())
def test_every_component_is_named_by_a_yaml_of_its_concept(target):
    concept = target.split(".")[1]
    folder = CONF if concept == "worlds" else CONF / concept

    named = [file for file in folder.glob("**/*.yaml") if target in file.read_text()]

    assert named, f"no yaml under {folder} has _target_: {target}"


def test_every_component_folder_has_a_folder_of_options():
    parts = {Path(p.name.replace(".", "/")) for p in pkgutil.walk_packages(components.__path__, "")}
    folders = {p.name for p in pkgutil.iter_modules(components.__path__) if p.ispkg}

    assert parts
    assert folders - {"worlds"} <= {file.name for file in CONF.iterdir() if file.is_dir()}


LOSS_PARTS = sorted({t for t in component_classes() if t.startswith("components.loss.")})


@pytest.mark.parametrize("target", LOSS_PARTS)
def test_every_part_of_a_loss_states_its_equation_in_its_own_arguments(target):
    declaration = read_declaration(target)

    assert declaration.equation.isascii()
    assert " = " in declaration.equation
    assert set(re.findall(r"{(\w+)}", declaration.equation)) <= set(declaration.parameters)


@pytest.mark.parametrize("name", GIVEN)
def test_what_is_given_here_is_still_asked_for(name):
    assert name in OPTIONS
