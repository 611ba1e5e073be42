#!/bin/sh
# Masks that a policy makes for itself, and three kinds of questions that it does not: runs.sh RUNS SEED
set -e
runs=$1 seed=$2 base=$1/base/$2
# The same for all: how answers are drawn, which groups are learnt from, how far a step may go.
steps="decoding.temperature=1.0 filter=zero_variance loss/trust_region=clip_higher
  phases.warm_start.steps=100 phases.warm_start.every.evaluation=100 phases.warm_start.every.checkpoint=100
  phases.rl.steps=150 phases.rl.every.evaluation=50 phases.rl.every.checkpoint=150"
one_form="phases.warm_start.stages=[demonstrations,sft_learner]"
masked="task=masked_span ~task.horizon ~task.max_context reward=mask_game position=words position.longest=2"

arm() { # NAME OVERRIDES...: a run; one that has ended is left as it is
  place=$runs/$1/$seed && shift
  [ -d "$place" ] || rlcomp "$@" seed="$seed" directory="$place"
}

arm base recipe=pretrain
arm self_made recipe=pretrain_zero base="$base" $steps
arm self_made_kl recipe=pretrain_zero base="$base" $steps kl=in_loss kl_controller.kl_coef=0.1
arm random_span recipe=rpt dynamic_sampling=none base="$base" $steps $one_form $masked
arm next_token recipe=rpt dynamic_sampling=none base="$base" $steps $one_form position=random
arm top_fifth recipe=rpt dynamic_sampling=none base="$base" $steps $one_form position=top_fifth

# Where they end, each at the held-out questions of all.
for arm in self_made self_made_kl random_span next_token top_fifth; do
  for asked in random_span next_token top_fifth; do
    place=$runs/ends/$arm/$asked/$seed
    case $asked in
      random_span) task=$masked ;;
      next_token) task="position=random" ;;
      top_fifth) task="position=top_fifth" ;;
    esac
    [ -d "$place" ] || rlcomp recipe=rpt experiment=evaluation_only base="$runs/$arm/$seed" \
      proxy.runs.base="$base" $task evaluation.num_prompts=512 seed="$seed" directory="$place"
  done
done
