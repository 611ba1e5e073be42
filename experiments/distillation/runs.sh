#!/bin/sh
# The runs of this page: ./runs.sh DIRECTORY SEED... A seed takes about four CPU minutes.
set -e
to=$1
shift
for seed in "$@"; do
    teacher=$to/teacher/$seed start=$to/start/$seed
    rlcomp recipe=sft model=tiny phases.warm_start.steps=300 sft_learner.optimizer.lr=3e-3 \
        schedule@sft_learner.schedule=linear seed="$seed" directory="$teacher"
    rlcomp recipe=sft model=micro phases.warm_start.steps=110 seed="$seed" directory="$start"
    distil="base=$start ~phases.warm_start teacher=given teacher_model.path=$teacher seed=$seed"
    often="phases.distillation.every.evaluation=10"
    rlcomp recipe=on_policy_distillation $distil $often directory="$to/reverse/$seed"
    rlcomp recipe=on_policy_distillation $distil $often loss.divergence=forward directory="$to/forward/$seed"
    rlcomp recipe=on_policy_distillation $distil $often loss.top_k=4 directory="$to/top4/$seed"
    rlcomp recipe=on_policy_distillation $distil $often reference=teacher old_log_probs=rollout \
        advantage=distilled loss=grpo loss/reduction=token_mean learner.optimizer.lr=1e-3 \
        directory="$to/advantage/$seed"
    rlcomp recipe=distillation $distil $often directory="$to/samples/$seed"
    rlcomp recipe=grpo base="$start" '~phases.warm_start' seed="$seed" kl=none prompts.batch_size=16 \
        learner.num_minibatches=1 learner.optimizer.lr=1e-3 phases.rl.steps=400 \
        phases.rl.every.evaluation=10 directory="$to/grpo/$seed"
done
