#!/bin/sh
# Every arm of a seed at held-out positions, at once and after a thought: levels.sh RUNS SEED POSITION [EXPERIMENT]
# EXPERIMENT=scratchpad, with POSITION=result, for what scratchpad.sh has run.
set -e
runs=$1 seed=$2 position=$3 experiment=${4:+$4,}evaluation_only
for arm in base next_token rpt rpt_random rpt_result rpt_entropy rpt_no_thought rlp; do
  [ -d "$runs/$arm/$seed" ] || continue
  # RLP's policies go on with the text behind a thought, without a box and without an end.
  [ $arm = rlp ] && reward=continuation_match || reward=prefix_match
  place=$runs/levels/$arm/$position/$seed
  [ -d "$place" ] || rlcomp recipe=rpt "experiment=[$experiment]" base="$runs/$arm/$seed" \
    proxy.path="$runs/base/$seed" position="$position" reward=$reward \
    evaluation.num_prompts=512 +evaluator@direct=next_token direct.name=direct \
    'direct.suppressed_tokens=["<think>","</think>","\boxed{","}","<eos>"]' \
    'phases.evaluation_only.stages=[evaluation,direct]' seed="$seed" directory="$place"
done
