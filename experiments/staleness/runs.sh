#!/bin/sh
# The demo with old rollouts: runs.sh RUNS SEEDS (0,1,2) [OVERRIDES...]
set -e
runs=$1 seeds=$2
shift 2

run() { # NAME OVERRIDES...: a run for each seed, unless they are there
  place=$runs/$1 && shift
  [ -d "$place" ] || rlcomp -m "$@" prompts.batch_size=32 phases.rl.steps=100 phases.rl.every.evaluation=20 \
    seed="$seeds" directory="$place"
}

run grpo/0 recipe=grpo kl=none "$@"
for staleness in 1 2 4 8; do
  run grpo/$staleness recipe=grpo kl=none collector@rollout=delayed rollout.staleness=$staleness "$@"
  run decoupled/$staleness recipe=areal_decoupled rollout.staleness=$staleness "$@"
done
