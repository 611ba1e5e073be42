#!/bin/sh
# Every arm of a seed learns to sort four digits, by 100 steps of warm start and 60 of GRPO: rlvr.sh RUNS SEED
set -e
runs=$1 seed=$2
for arm in base next_token rpt rpt_random rpt_result rpt_entropy rpt_no_thought rlp; do
  [ -d "$runs/$arm/$seed" ] || continue
  place=$runs/rlvr/$arm/$seed
  [ -d "$place" ] || rlcomp recipe=grpo base="$runs/$arm/$seed" \
    task.length=4 demonstrations.batch_size=64 prompts.batch_size=32 group_size=8 \
    phases.warm_start.steps=100 phases.warm_start.every.evaluation=50 phases.rl.steps=60 \
    phases.rl.every.evaluation=20 seed="$seed" directory="$place"
done
