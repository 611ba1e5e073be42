#!/bin/sh
# Branches from one checkpoint of a warm start on running sums: sums.sh RUNS SEEDS
# SEEDS counts from 0 (0,1,2): the number of a job of a sweep is its seed.
set -e
runs=$1 seeds=$2

arm() { # NAME OVERRIDES...: a run for each seed, unless they are there
  place=$runs/$1 && shift
  [ -d "$place" ] || rlcomp -m "$@" seed="$seeds" directory="$place"
}

branch() { # NAME OVERRIDES...: from the warm start; the filter asks the base, as it did before that
  name=$1 && shift
  arm "$name" recipe=rpt base="$runs/warm/\${seed}" proxy.path="$runs/base/\${seed}" \
    evaluation.num_prompts=256 evaluation.samples_per_prompt=4 "$@"
}

arm base recipe=pretrain experiment=skewed_sums_base
# To the first evaluation above .35, which leaves every branch something to gain and to start from.
arm warm recipe=rpt experiment=skewed_sums base="$runs/base/\${seed}" dynamic_sampling=none \
  phases.rl.steps=0 early_stop=reached early_stop.high=0.35 +phases.warm_start.every.early_stop=1

branch stop 'experiment=[skewed_sums,evaluation_only]' dynamic_sampling=none \
  'phases.evaluation_only.stages=[evaluation,longer]'
branch imitation experiment=skewed_sums dynamic_sampling=none phases.rl.steps=0 \
  phases.warm_start.steps=40 phases.warm_start.every.evaluation=40 demonstrations.batch_size=128 \
  schedule@sft_learner.schedule=linear sft_learner.optimizer.lr=2e-3
branch rpt experiment=skewed_sums dynamic_sampling=none phases.warm_start.steps=0 learner.optimizer.lr=3e-4
branch rejection experiment=skewed_sums phases.warm_start.steps=0 \
  dynamic_sampling=refill filter@varied=correct refill.rows=128 refill.max_tries=20 \
  'phases.rl.stages=[prompts,rollout,reward,feedback,sft_learner]' \
  schedule@sft_learner.schedule=linear sft_learner.optimizer.lr=3e-4
branch rpt_random experiment=skewed_sums dynamic_sampling=none phases.warm_start.steps=0 \
  learner.optimizer.lr=3e-4 position=random position.min_context=3 '~position.threshold'
