#!/bin/sh
# RLPD with and without interventions, and SAC alone: runs.sh RUNS SEEDS (0,1,2). About two CPU minutes a seed.
set -e
runs=$1 seeds=$2

arm() ( # NAME OVERRIDES...: a run for each seed, unless they are there, and their CPU time, alone in this subshell
    place=$runs/$1
    shift
    [ -d "$place" ] && return
    rlcomp -m "$@" seed="$seeds" directory="$place"
    times > "$place/times"
)

arm hil_serl recipe=hil_serl
arm rlpd recipe=rlpd
# As many demonstrated steps as the guide walks with interventions.
arm more recipe=rlpd demonstration_environment.num_envs=34
arm sac recipe=rlpd replay@sample=sample
