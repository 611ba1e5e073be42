#!/bin/sh
# Branching rollouts on a task that only a tool can solve: runs.sh RUNS SEEDS (0,1,2)
set -e
runs=$1 seeds=$2

arm() { # NAME OVERRIDES...: a run for each seed, unless they are there
  place=$runs/$1 && shift
  [ -d "$place" ] || rlcomp -m recipe=arpo phases.rl.every.evaluation=5 evaluation.num_prompts=128 evaluation.samples_per_prompt=2 "$@" seed="$seeds" directory="$place"
}

arm plain collector@rollout=episodes
arm always branching=always
arm entropy
arm share attribution=share
