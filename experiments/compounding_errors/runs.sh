#!/bin/sh
# Cost against horizon on the track: runs.sh RUNS SEEDS (0,1,2). About a CPU minute a seed.
set -e
runs=$1 seeds=$2

arm() ( # NAME OVERRIDES...: a run for each seed, unless they are there, and their CPU time, alone in this subshell
    place=$runs/$1
    shift
    [ -d "$place" ] && return
    rlcomp -m "$@" seed="$seeds" directory="$place"
    times > "$place/times"
)

arm bc recipe=bc
arm bc_more recipe=bc demonstration_environment.num_envs=22
arm dagger recipe=dagger
# 200 cars, 800 steps and the noise of the others at test; episodes of training are cut after 200 steps.
arm sac recipe=sac environment=track environment.num_envs=16 environment.max_steps=200 environment@evaluation_environment=track \
    evaluation_environment.num_envs=200 evaluation_environment.max_steps=800 '~evaluation_environment.name' '~environment.name' \
    evaluator@evaluation=horizon '~evaluation.max_steps' phases.rl.steps=150
