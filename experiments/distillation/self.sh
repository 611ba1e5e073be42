#!/bin/sh
# Self-distillation with three teachers: ./self.sh DIRECTORY SEED... A seed takes about a CPU minute.
set -e
to=$1
shift
for seed in "$@"; do
    for which in frozen_full refreshed_full live_full; do
        rlcomp recipe=self_distillation reference@reference.reference=$which seed="$seed" \
            directory="$to/$which/$seed"
    done
done
