#!/bin/sh
# The rungs, each from the same base: ./runs.sh RUNS SEEDS, from the repository. SEEDS counts from 0
# (0,1,2): the number of a job of a sweep is its seed. About five CPU minutes for five seeds.
set -e
to=$1 seeds=$2

arm() ( # NAME OVERRIDES...: a run for each seed, and the CPU time of them all, alone in this subshell
    name=$1
    shift
    rlcomp -m "$@" seed="$seeds" directory="$to/$name"
    times > "$to/$name/times"
)

for seed in $(echo "$seeds" | tr , ' '); do
    python experiments/ladder/data.py "$to/data/$seed" "$seed"
done
# Given, and outside the bill: a base that has read mixed texts, and a better model.
rlcomp recipe=sft task=file task.path="$to/data/0/base.jsonl" context_length=48 phases.warm_start.steps=600 \
    phases.warm_start.every.evaluation=600 phases.warm_start.every.checkpoint=600 \
    schedule@sft_learner.schedule=linear seed=1000 directory="$to/base"
rlcomp recipe=sft task.length=5 context_length=48 phases.warm_start.steps=250 phases.warm_start.every.evaluation=250 \
    phases.warm_start.every.checkpoint=250 schedule@sft_learner.schedule=linear seed=1000 directory="$to/teacher"

asked='+task@test=file test.held_out=0 evaluation.split=training evaluation.task=${test} context_length=48'
plain="$asked test.path=$to/data/\${seed}/test.jsonl"
from="base=$to/base task=file task.path=$to/data/\${seed}/labelled.jsonl task.held_out=0"
none='phases.warm_start.steps=0 +phases.ask.steps=1 +phases.ask.stages=[evaluation]'
arm asked recipe=sft $from $plain $none
arm prompt recipe=sft $from $asked test.path="$to/data/\${seed}/test_with_examples.jsonl" $none
sft="recipe=sft $from $plain demonstrations.batch_size=64 schedule@sft_learner.schedule=linear"
sft="$sft phases.warm_start.steps=60 phases.warm_start.every.evaluation=60 phases.warm_start.every.checkpoint=null"
arm sft $sft sft_learner.optimizer.lr=5e-4
arm lora $sft sft_learner.optimizer.lr=5e-3 adapter=lora
rest="$from $plain ~phases.warm_start"
arm dpo recipe=online_dpo experiment=own_pairs $rest '~held_out' '~phases.preference.every.held_out' \
    phases.collect.steps=4 phases.collect.every.checkpoint=null phases.preference.steps=40 \
    phases.preference.every.evaluation=40 phases.preference.every.checkpoint=null learner.optimizer.lr=3e-4
arm distillation recipe=on_policy_distillation $rest teacher=given teacher_model.path="$to/teacher" \
    learner.optimizer.lr=1e-3 prompts.batch_size=128 phases.distillation.steps=60 \
    phases.distillation.every.evaluation=60 phases.distillation.every.checkpoint=null
arm rl recipe=grpo $rest kl=none prompts.batch_size=16 group_size=16 learner.num_minibatches=1 \
    learner.optimizer.lr=5e-4 phases.rl.steps=100 phases.rl.every.evaluation=100 phases.rl.every.checkpoint=null
