#!/bin/sh
# Goals reached across a wall by depth: runs.sh RUNS SEEDS (0,1,2) [OVERRIDES...]; about two CPU minutes a seed.
set -e
runs=$1 seeds=$2
shift 2

arm() ( # DEPTH LR OVERRIDES...: a run for each seed, unless they are there, and their CPU time, alone in this subshell
    place=$runs/$1 depth=$1 lr=$2
    shift 2
    [ -d "$place" ] && return
    rlcomp -m recipe=contrastive network.depth="$depth" learner.optimizer.lr.actor="$lr" \
        evaluation_environment.num_envs=1000 phases.rl.every.checkpoint=50 "$@" seed="$seeds" directory="$place"
    times > "$place/times"
)

arm 4 1e-3 "$@"
arm 16 1e-3 "$@"
arm 64 3e-4 "$@"
