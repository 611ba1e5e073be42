#!/bin/sh
# Coverage of a warm start, and of what two methods make of it, on two families: runs.sh RUNS SEEDS
# SEEDS counts from 0 (0,1,2): the number of a job of a sweep is its seed.
set -e
runs=$1 seeds=$2

arm() { # NAME OVERRIDES...: a run for each seed, unless they are there
  place=$runs/$1 && shift
  [ -d "$place" ] || rlcomp -m "$@" seed="$seeds" directory="$place"
}

branches() { # FAMILY: both methods, each from the warm start of its seed
  for method in group_mean_std pass_at_k_training; do
    arm "$1/$method" base="$runs/$1/warm/\${seed}" experiment=coverage_$1 phases.warm_start.steps=0 \
      advantage=$method
  done
}

# Sums are learnt at once, after 500 steps or after 1,200: the base is where .4 of the answers are right.
arm sums/warm experiment=coverage_sums model.architecture=gpt2 phases.rl.steps=0 phases.warm_start.steps=3000 \
  phases.warm_start.every.evaluation=50 early_stop=reached early_stop.high=0.4 \
  +phases.warm_start.every.early_stop=1
branches sums
arm median/warm experiment=coverage_median phases.rl.steps=0
branches median
