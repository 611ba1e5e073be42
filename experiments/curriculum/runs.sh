#!/bin/sh
# The orders of pairs: ./runs.sh RUNS SEED..., from the repository.
set -e
to=$1
shift
# The reward model as it is, on pairs of the policy's answers that the utility orders without noise.
probe='+pairing@true_pairs=best_worst +learner@probe_learner=reward_model probe_learner.name=probe
    probe_learner.losses.reward_model=${comparison} probe_learner.optimizer.lr=1e-12'
stages='stages:[prompts,conditioning,pair_rollout,utility,true_pairs,probe_learner]'
few='phases.rl.every={evaluation:10} ~phases.reward_model.every'

arm() ( # NAME SEED LAST OVERRIDES...: LAST is the last phase of the reward model
    name=$1 seed=$2 last=$3
    shift 3
    rlcomp recipe=curriculum_rlaif base="$to/start/$seed" '~phases.warm_start' $probe $few \
        "+phases.probe={after:$last,steps:8,$stages}" phases.rl.after=probe "$@" seed="$seed" directory="$to/$name/$seed"
)

# Ten rounds of four steps of each kind, instead of forty steps of one after the other.
turns() {
    last=reward_model
    for round in 1 2 3 4 5 6 7 8 9 10; do
        for kind in easy bridge reward_model; do
            echo "+phases.$kind$round={like:$kind,after:$last,steps:4}"
            last=$kind$round
        done
    done
}

three='~phases.easy.every ~phases.bridge.every'
for seed in "$@"; do
    rlcomp recipe=sft task.descending=0.7 phases.warm_start.steps=200 phases.warm_start.every.evaluation=200 \
        phases.warm_start.every.checkpoint=200 seed="$seed" directory="$to/start/$seed"
    arm easy_first "$seed" reward_model $three '~phases.easy.after'
    arm hard_first "$seed" easy $three '~phases.reward_model.after' phases.bridge.after=reward_model phases.easy.after=bridge
    arm in_turns "$seed" reward_model10 $three $(turns) '~phases.easy.after' phases.easy.steps=0 phases.bridge.steps=0 \
        phases.reward_model.steps=0
done
