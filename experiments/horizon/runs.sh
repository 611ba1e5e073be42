#!/bin/sh
# Success by the number of steps that a task needs: runs.sh RUNS SEEDS (0,1,2) [OVERRIDES...]
set -e
runs=$1 seeds=$2
shift 2

arm() { # NAME STEPS OVERRIDES...: a run for each seed, unless they are there
  place=$runs/$1/$2 steps=$2 && shift 2
  [ -d "$place" ] || rlcomp -m recipe=agent task.fewest="$steps" task.hops="$steps" player.max_turns=$((steps + 2)) \
    task.asked=0.6 demonstrations.batch_size=64 prompts.batch_size=8 \
    phases.warm_start.steps=150 phases.warm_start.every.evaluation=150 phases.rl.steps=40 phases.rl.every.evaluation=10 learner.optimizer.lr=5e-4 \
    evaluation.num_prompts=64 "$@" seed="$seeds" directory="$place"
}

for steps in 2 4 6 8; do
  arm outcome $steps "$@"
  arm states $steps advantage=gigpo "$@"
  arm turns $steps environment=lookup_paid advantage=turn_return "$@"
done
