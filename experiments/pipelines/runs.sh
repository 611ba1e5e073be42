#!/bin/sh
# Every pipeline as it is, evaluated more often: ./runs.sh RUNS SEED..., from the repository.
set -e
to=$1
shift

run() ( # RECIPE SEED, then PHASE=STEPS between two evaluations
    recipe=$1 seed=$2
    shift 2
    often=$(for each in "$@"; do echo "++phases.${each%=*}.every={evaluation:${each#*=}}"; done)
    rlcomp recipe="$recipe" $often seed="$seed" directory="$to/$recipe/$seed"
)

for seed in "$@"; do
    run instruct_gpt "$seed" warm_start=40 rl=5
    run llama3 "$seed" warm_start=25 rejection_sft=25 dpo=10
    run r1_zero "$seed" pretraining=50 rl=15
    run r1 "$seed" warm_start=25 rl=5 rejection_sft=25
    run magistral "$seed" warm_start=50 rl=15
    run deepseek_v32_specialists "$seed" warm_start=50 up_specialist=5 down_specialist=5 distillation=25 rl=10
    run constitutional "$seed" warm_start=150 revision_sft=10 rl=5
    run self_rewarding "$seed" warm_start=100 dpo=10
    run mid_training "$seed" pretraining=50 mid_training=75 rl=10
done
