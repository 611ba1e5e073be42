#!/bin/sh
# Two experts of 150 steps a seed, and soups of them: soups.sh EXPERTS SOUPS
set -e
for seed in 0 1 2 3 4; do
  for expert in '{correctness: 1, brevity: 0}' '{correctness: 0, brevity: 1}'; do
    case $expert in *': 1, '*) name=right ;; *) name=short ;; esac
    [ -d "$1/$name/$seed" ] || rlcomp experiment=pareto recipe=linear_mo phases.rl.steps=150 \
      phases.rl.every.checkpoint=150 "objectives.aggregator.weights=$expert" \
      seed=$seed "directory=$1/$name/$seed"
  done
  for share in 0 0.25 0.5 0.75 1; do
    short=$(awk "BEGIN {print 1 - $share}")
    rlcomp recipe=linear_mo experiment=evaluation_only evaluator@evaluation=objectives model=soup \
      "model.runs={right: $1/right/$seed, short: $1/short/$seed}" \
      "model.weights={right: $share, short: $short}" seed=$seed "directory=$2/$share/$seed"
  done
done
