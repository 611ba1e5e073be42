#!/bin/sh
# A maze that pays at its exit, with credit by episode and by state: runs.sh RUNS SEEDS (0,1,2)
set -e
runs=$1 seeds=$2

arm() { # NAME OVERRIDES...: a run for each seed, unless they are there
  place=$runs/$1 && shift
  [ -d "$place" ] || rlcomp -m recipe=maze phases.rl.every.evaluation=3 "$@" seed="$seeds" directory="$place"
}

arm grpo advantage=group_mean_std
arm gigpo
arm gigpo_shuffled collector@rollout=shuffled_anchors
arm grpo_discounted advantage=group_mean_std environment.discount=0.95 reward.correct_from=0.5
arm gigpo_others advantage.baseline=others
arm gigpo_undiscounted advantage.gamma=1
arm gigpo_undiscounted_shuffled advantage.gamma=1 collector@rollout=shuffled_anchors
arm turn_return advantage=turn_return advantage.outcome=false advantage.gamma=0.95
