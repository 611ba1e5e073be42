#!/bin/sh
# The runs of this page: ./runs.sh DIRECTORY SEED... A seed takes about two and a half CPU minutes.
set -e
to=$1
shift
for seed in "$@"; do
    start=$to/start/$seed
    rlcomp recipe=sft task.descending=0.7 phases.warm_start.steps=200 phases.warm_start.every.evaluation=200 \
        phases.warm_start.every.checkpoint=200 seed="$seed" directory="$start"
    from="recipe=instruct_gpt base=$start ~phases.warm_start seed=$seed phases.reward_model.steps=32"
    from="$from phases.reward_model.every.checkpoint=32 phases.rl.steps=40 phases.rl.every.evaluation=20"
    from="$from phases.rl.every.checkpoint=40"
    gold='+evaluator@hacking_monitor=hacking_monitor hacking_monitor.verifier=${utility}'
    gold="$gold hacking_monitor.share=1.0 +phases.rl.every.hacking_monitor=1"
    for coef in 0 0.03 0.1 0.3; do
        rlcomp $from $gold reward.normalised=true kl_controller.kl_coef=$coef directory="$to/one/$coef/$seed"
        rlcomp $from $gold experiment=reward_ensemble kl_controller.kl_coef=$coef \
            directory="$to/four/$coef/$seed"
    done
done
