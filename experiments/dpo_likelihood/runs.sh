#!/bin/sh
# The runs of this page: ./runs.sh DIRECTORY SEED... A seed takes about two CPU minutes.
set -e
to=$1
shift
for seed in "$@"; do
    start=$to/start/$seed
    rlcomp recipe=sft seed="$seed" directory="$start"
    from="base=$start ~phases.warm_start seed=$seed learner.optimizer.lr=1e-3 phases.preference.steps=40"
    often="phases.preference.every.evaluation=10"
    for loss in dpo dpop dpo_nll; do
        rlcomp recipe=dpo loss=$loss $from $often phases.preference.every.held_out=10 \
            pairs.batch_size=64 directory="$to/late_digit/$loss/$seed"
        rlcomp recipe=online_dpo experiment=own_pairs loss=$loss $from \
            directory="$to/own_samples/$loss/$seed"
    done
    # The likelihood of the chosen answers alone.
    rlcomp recipe=dpo loss=dpo_nll loss.pair_coef=0 $from $often phases.preference.every.held_out=10 \
        pairs.batch_size=64 directory="$to/late_digit/nll/$seed"
    rlcomp recipe=online_dpo task=sorting_pairs loss=dpo $from $often +evaluator@held_out=preferences \
        +phases.preference.every.held_out=10 directory="$to/fresh_samples/dpo/$seed"
done
