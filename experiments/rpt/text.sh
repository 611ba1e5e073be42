#!/bin/sh
# Four ways to spend 150 s on a base that has read the shipped text: text.sh RUNS SEED
set -e
runs=$1 seed=$2 base=$1/base/$2

arm() { # NAME OVERRIDES...: a run, unless it is there
  place=$runs/$1/$seed && shift
  [ -d "$place" ] || rlcomp "$@" seed="$seed" directory="$place"
}

arm base recipe=pretrain
arm next_token recipe=pretrain +base="$base" model=trained tokenizer=trained \
  '~model.hidden_size' '~model.intermediate_size' phases.pretraining.steps=500 \
  phases.pretraining.every.evaluation=100 phases.pretraining.every.checkpoint=500
for each in rpt:entropy rpt_random:random rlp:random; do
  case $each in rlp:*) recipe=rlp steps=200 ;; *) recipe=rpt steps=400 ;; esac
  arm "${each%:*}" recipe=$recipe position="${each#*:}" base="$base" phases.warm_start.steps=100 \
    phases.warm_start.every.evaluation=100 phases.warm_start.every.checkpoint=100 \
    phases.rl.steps=$steps phases.rl.every.evaluation=100 phases.rl.every.checkpoint=$steps
done
