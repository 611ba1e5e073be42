#!/bin/sh
# Masks that a policy makes for itself, random ones, and ones that get harder: runs.sh RUNS SEED
set -e
runs=$1 seed=$2

arm() { # NAME OVERRIDES...: a run; one that has ended is left as it is
  place=$runs/$1/$seed && shift
  [ -d "$place" ] || rlcomp "$@" seed="$seed" directory="$place"
}

# One base and one warm start for all arms.
arm base recipe=pretrain experiment=hops_base
arm warm recipe=pretrain_zero experiment=hops base="$runs/base/$seed" phases.rl.steps=0

# As many questions and answers a step for those that do not ask themselves.
steps="recipe=pretrain_zero experiment=hops phases.warm_start.steps=0 base=$runs/warm/$seed"
given="collector@rollout=group ~rollout.largest_share loss/weight=none ~prompts.task prompts.batch_size=32"
arm self_made $steps
arm random $steps $given sampler@prompts=pools 'prompts.tasks=${hops}' \
  'prompts.weights_start={one: 1, two: 1, three: 1, four: 1}' \
  'prompts.weights_end={one: 1, two: 1, three: 1, four: 1}'
arm oracle $steps $given curriculum=frontier 'prompts.tasks=${hops}'
