#!/bin/sh
# All runs of the experiment, one thread each: runs.sh [DIRECTORY] [SEEDS]
where=${1:-runs/interventions}
for seed in ${2:-0 1 2 3 4}; do
    rlcomp recipe=hil_serl seed="$seed" directory="$where/hil_serl-$seed"
    rlcomp recipe=rlpd seed="$seed" directory="$where/rlpd-$seed"
    rlcomp recipe=rlpd demonstration_environment.num_envs=34 seed="$seed" directory="$where/more-$seed"
done
for seed in ${2:-0 1 2 3 4}; do
    rlcomp recipe=rlpd replay@sample=sample seed="$seed" directory="$where/sac-$seed"
done
