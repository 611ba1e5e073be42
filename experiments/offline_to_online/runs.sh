#!/bin/sh
# Offline on the early steps of a run of SAC, then online: runs.sh RUNS SEEDS (0,1,2). About nine CPU minutes a seed.
set -e
runs=$1 seeds=$2

arm() ( # NAME OFFLINE OVERRIDES...: a run for each seed, unless they are there, and their CPU time, alone in this subshell
    place=$runs/$1 offline=$2
    shift 2
    [ -d "$place" ] && return
    rlcomp -m recipe=offline_to_online offline="$offline" dataset.path="$runs/steps.safetensors" phases.offline.steps=300 \
        phases.offline.every.evaluation=25 "$@" seed="$seeds" directory="$place"
    times > "$place/times"
)

# Until the greedy return of SAC is at -179: of its 4,160 steps, 200 have -1,074 on average.
if [ ! -f "$runs/steps.safetensors" ]; then
    rlcomp recipe=sac seed=10 phases.rl.steps=200 directory="$runs/sac"
    python experiments/offline_to_online/data.py "$runs/sac" "$runs/steps.safetensors"
fi

online="phases.online.every.evaluation=20 targets.updater.tau=0.02"
arm bc bc
arm diffusion_bc diffusion_bc
arm iql iql $online loss.objective.temperature=0.3 loss.objective.expectile=0.9
arm td3_bc td3_bc $online loss.objective.alpha=100
arm cql cql $online
# The same learners without their terms for offline data.
arm td3 td3_bc targets.updater.tau=0.02 loss.objective.alpha=1e6 phases.online=null
arm sac_offline cql loss=sac targets.updater.tau=0.02 phases.online=null
# What is learnt without information: rewards of a batch are dealt out to other steps of it.
arm shuffled td3_bc targets.updater.tau=0.02 loss.objective.alpha=100 phases.online=null \
    +replay@shuffled=shuffled_rewards 'updates.stages=[sample,shuffled,learner,targets]'
