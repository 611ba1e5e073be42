#!/bin/sh
# Branches from one checkpoint of a warm start on running sums: sums.sh RUNS SEEDS
# SEEDS is a list from 0 on, such as 0,1,2: the number of a job of a sweep is then its seed.
set -e
runs=$1 seeds=$2 steps=60

arm() { # NAME OVERRIDES...: a run for each seed, unless they are there
  place=$runs/$1 && shift
  [ -d "$place" ] || rlcomp -m "$@" seed="$seeds" directory="$place"
}

from() { # RUNS OF WHAT: what branches have in common; the proxy of the filter is the base
  echo recipe=rpt experiment=skewed_sums "base=$1/\${seed}" "proxy.runs.base=$runs/base/\${seed}"
}

arm base recipe=pretrain experiment=skewed_sums_base
# To the first evaluation above .35, so that every branch has something to gain and something to start from.
arm warm $(from "$runs/base") phases.rl.steps=0 early_stop=reached early_stop.high=0.35 \
  +phases.warm_start.every.early_stop=1 dynamic_sampling=none
