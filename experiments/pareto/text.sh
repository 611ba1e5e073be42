#!/bin/sh
# Sentiment and length of text: text.sh RUNS SEEDS trains every method with both objectives alike,
# text.sh RUNS SEEDS front at the four other points of its front. SEEDS: 0,1,2.
set -e
runs=$1 seeds=$2 points=${3:-alike} named=$(echo "$2" | tr , _)
setting="experiment=pareto_text base=$runs/base/\${seed} seed=$seeds"

for seed in $(echo "$seeds" | tr , ' '); do
  [ -d "$runs/base/$seed" ] || rlcomp recipe=pretrain model=tiny corpus.longest=128 \
    model.hidden_size=64 model.intermediate_size=192 demonstrations.batch_size=32 \
    phases.pretraining.steps=100 phases.pretraining.every.evaluation=100 \
    seed="$seed" directory="$runs/base/$seed"
done

arm() { # METHOD OVERRIDES...: both objectives alike
  place=$runs/$1/alike/$named && shift
  [ "$points" != alike ] || [ -d "$place" ] || rlcomp -m $setting "$@" directory="$place"
}

front() { # METHOD KEY OVERRIDES...: weights, or units, of the two objectives
  place=$runs/$1/front/$named key=$2 && shift 2
  [ "$points" != front ] || [ -d "$place" ] || rlcomp -m $setting "$@" directory="$place" \
    "$key={sentiment: 0.1, length: 0.9},{sentiment: 0.3, length: 0.7},{sentiment: 0.7, length: 0.3},{sentiment: 0.9, length: 0.1}"
}

# All of them: PPO's loss, advantages of the same group baseline, divided by running scales.
signed='recipe=pama advantage@advantage.advantage=group_mean'
arm linear $signed pareto@advantage.aggregator=linear checkpoint.keep=2
front linear advantage.aggregator.weights $signed pareto@advantage.aggregator=linear
arm mgda $signed learner=per_objective pareto@learner.aggregator=mgda
front mgda learner.aggregator.scales $signed learner=per_objective \
  pareto@learner.aggregator=scaled pareto@learner.aggregator.aggregator=mgda
arm pama_scalar recipe=pama pareto@advantage.aggregator=pama_scalar
front pama_scalar advantage.aggregator.scales recipe=pama pareto@advantage.aggregator=scaled \
  pareto@advantage.aggregator.aggregator=pama_scalar
arm pama_vector recipe=pama
arm pama_critic recipe=pama_critic group_size=1 prompts.batch_size=64 value_learner.num_minibatches=2
# One policy, with the steps of the five runs of the others, asked at five preferences.
place=$runs/conditioned/$named
[ "$points" != front ] || [ -d "$place" ] ||
  rlcomp -m $setting recipe=conditioned loss=ppo phases.rl.steps=200 directory="$place"
