#!/bin/sh
# Four ways to spend 220 s on a base that has read the shipped text: text.sh RUNS SEED
set -e
runs=$1 seed=$2 base=$1/base/$2

arm() { # NAME OVERRIDES...: a run, unless it is there
  place=$runs/$1/$seed && shift
  [ -d "$place" ] || rlcomp "$@" seed="$seed" directory="$place"
}

arm base recipe=pretrain
arm next_token recipe=pretrain base="$base" \
  phases.pretraining.steps=700 \
  phases.pretraining.every.evaluation=100 phases.pretraining.every.checkpoint=700
rl="phases.warm_start.steps=100 phases.warm_start.every.evaluation=100 phases.warm_start.every.checkpoint=100
  phases.rl.every.evaluation=100 phases.rl.every.checkpoint=100"
arm rpt recipe=rpt dynamic_sampling=none base="$base" $rl phases.rl.steps=400
arm rpt_random recipe=rpt dynamic_sampling=none position=random base="$base" $rl phases.rl.steps=400
arm rlp recipe=rlp base="$base" $rl phases.rl.steps=200 \
  +reward@judged=continuation_match 'evaluation.reward=${judged}'
