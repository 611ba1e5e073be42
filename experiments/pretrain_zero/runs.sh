#!/bin/sh
# Masks that a policy makes for itself, and three kinds that it does not: runs.sh RUNS SEED
set -e
runs=$1 seed=$2 base=$1/base/$2
steps="phases.warm_start.steps=100 phases.warm_start.every.evaluation=100 phases.warm_start.every.checkpoint=100
  phases.rl.steps=150 phases.rl.every.evaluation=50 phases.rl.every.checkpoint=150"
masked="task=masked_span ~task.horizon ~task.max_context reward=mask_game"
spans="$masked phases.warm_start.stages=[demonstrations,sft_learner]"

arm() { # NAME OVERRIDES...: a run, unless it is there
  place=$runs/$1/$seed && shift
  [ -d "$place" ] || rlcomp "$@" seed="$seed" directory="$place"
}

arm base recipe=pretrain
arm self_made recipe=pretrain_zero base="$base" $steps
arm random_span recipe=rpt base="$base" $steps $spans position=words position.longest=2
arm top_fifth recipe=rpt base="$base" $steps $spans position=top_fifth
arm next_token recipe=rpt base="$base" $steps position=random

# Where they end, each at the held-out questions of all.
for arm in self_made random_span top_fifth next_token; do
  for asked in words top_fifth random; do
    place=$runs/ends/$arm/$asked/$seed
    case $asked in
      words) task="$masked position=words position.longest=2" ;;
      top_fifth) task="$masked position=top_fifth" ;;
      random) task="position=random" ;;
    esac
    [ -d "$place" ] || rlcomp recipe=rpt experiment=evaluation_only base="$runs/$arm/$seed" \
      proxy.runs.base="$base" $task evaluation.num_prompts=512 seed="$seed" directory="$place"
  done
done
