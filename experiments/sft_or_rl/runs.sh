#!/bin/sh
# SFT and RL on one value of a rule, from policies that know them all: runs.sh RUNS SEEDS
# SEEDS counts from 0 (0,1,2): the number of a job of a sweep is its seed.
set -e
runs=$1 seeds=$2

arm() { # NAME OVERRIDES...: a run for each seed, unless they are there
  place=$runs/$1 && shift
  [ -d "$place" ] || rlcomp -m "$@" seed="$seeds" directory="$place"
}

branch() { # NAME OVERRIDES...: from the warm start, on what is trained on; what is not is asked beside it
  name=$1 && shift
  arm "$name" base="$runs/$task/warm/\${seed}" recipe=grpo kl=none measure=other_task prompts.batch_size=32 \
    +task@other_task.task=$task task=$task "$@"
}

sft() { # NAME OVERRIDES...
  name=$1 && shift
  branch "$task/$name" phases.rl.steps=0 phases.warm_start.steps=100 phases.warm_start.every.evaluation=5 \
    +phases.warm_start.every.other_task=5 demonstrations.batch_size=128 "$@"
}

rl() { # NAME OVERRIDES...
  name=$1 && shift
  branch "$task/$name" phases.warm_start.steps=0 phases.rl.every.evaluation=5 phases.rl.every.other_task=5 "$@"
}

both() { # WHAT IS TRAINED ON AND WHAT IS ASKED: all arms of a task
  sft sft sft_learner.optimizer.lr=1e-3 "$@"
  sft sft_slow sft_learner.optimizer.lr=2e-4 "$@"
  rl rl phases.rl.steps=50 "$@"
  rl rl_slow phases.rl.steps=150 learner.optimizer.lr=1e-4 "$@"
}

task=substitution
arm $task/warm recipe=sft task=$task phases.warm_start.steps=75
both 'task.values=[3]' 'other_task.task.values=[0,1,2,4,5,6,7,8,9]'
task=two_orders
arm $task/warm recipe=sft task=$task phases.warm_start.steps=100
both 'task.orders=[up]' 'other_task.task.orders=[down]'
