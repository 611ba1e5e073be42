#!/bin/sh
# A reward with a loophole, with and without KL, and an honest one: runs.sh RUNS SEEDS, from the repository
set -e
runs=$1 seeds=$2

arm() { # NAME OVERRIDES...: a run for each seed, unless they are there
  place=$runs/$1 && shift
  [ -d "$place" ] || rlcomp -m recipe=grpo early_stop=reward_hacking +reward@true_reward=exact_match \
    'hacking_monitor.verifier=${true_reward}' 'evaluation.reward=${true_reward}' max_new_tokens=16 \
    prompts.batch_size=32 phases.warm_start.steps=60 phases.warm_start.every.evaluation=60 \
    phases.rl.steps=100 phases.rl.every.evaluation=10 "$@" seed="$seeds" directory="$place"
}

loophole='reward=function reward.function=experiments.reward_hacking.proxy.share_of_digits reward_pool=in_process'
arm hacked $loophole kl=none early_stop.gap_above=1000 # watched, and never stopped
arm stopped $loophole kl=none
arm held $loophole kl=in_loss kl_controller.kl_coef=0.2
arm honest kl=none
