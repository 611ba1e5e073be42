#!/bin/sh
# Every arm of a seed at held-out positions, with and without thinking: levels.sh RUNS SEED POSITION [OVERRIDES]
set -e
runs=$1 seed=$2 position=$3 && shift 3
for arm in base next_token rpt rpt_random rpt_entropy rpt_no_thought rlp; do
  [ -d "$runs/$arm" ] || continue
  # What stands behind RLP's thoughts is no box.
  [ $arm = rlp ] && reward=continuation_match || reward=first_token_match
  place=$runs/levels/$arm/$position/$seed
  [ -d "$place" ] || rlcomp recipe=rpt "$@" experiment=evaluation_only base="$runs/$arm/$seed" \
    proxy.runs.base="$runs/base/$seed" position="$position" reward=$reward \
    evaluation.num_prompts=512 +evaluator@direct=next_token direct.name=direct \
    'phases.evaluation_only.stages=[evaluation,direct]' seed="$seed" directory="$place"
done
