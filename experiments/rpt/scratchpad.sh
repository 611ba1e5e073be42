#!/bin/sh
# The same on sums whose result has to be computed, with thoughts that compute: scratchpad.sh RUNS SEED
set -e
runs=$1 seed=$2 base=$1/base/$2

arm() { # NAME OVERRIDES...: a run, unless it is there
  place=$runs/$1/$seed && shift
  [ -d "$place" ] || rlcomp "$@" seed="$seed" directory="$place"
}

arm base recipe=pretrain experiment=scratchpad_base
arm next_token recipe=pretrain experiment=scratchpad_base base="$base" \
  '~tokenizer.vocab_size' '~model.architecture' '~model.num_hidden_layers' \
  phases.pretraining.steps=3000 \
  phases.pretraining.every.evaluation=500 phases.pretraining.every.checkpoint=3000
arm rpt_result recipe=rpt dynamic_sampling=none experiment=scratchpad base="$base"
arm rpt_entropy recipe=rpt dynamic_sampling=none experiment=scratchpad base="$base" position=entropy position.min_context=1
# Answers without a thought are short: more steps in the same time.
arm rpt_no_thought recipe=rpt dynamic_sampling=none experiment=scratchpad base="$base" task.thought=null \
  phases.warm_start.steps=1500 phases.warm_start.every.evaluation=500 \
  phases.warm_start.every.checkpoint=1500 phases.rl.steps=60
arm rlp recipe=rlp experiment=scratchpad base="$base" \
  +reward@judged=continuation_match 'evaluation.reward=${judged}'
