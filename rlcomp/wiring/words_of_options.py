"""What options of groups are called here, by what the literature or other configs call them."""

from __future__ import annotations

from rlcomp.wiring.words_of_runs import CHAT, DATA, LORA, PRETRAINED
from rlcomp.wiring.words_of_training import TRAINING

_REWARD_MODEL = (
    "no recipe, for none trains a reward model; one that exists already is reward=learned"
)

# Options of groups, as the literature or other configs name them.
OPTIONS = {
    ("advantage", "grpo"): "advantage=group_mean_std",
    ("advantage", "reinforce"): "recipe=reinforce_pp",
    ("advantage", "reinforce_baseline"): "recipe=reinforce_pp_baseline",
    ("advantage", "reinforce_plus_plus_baseline"): "recipe=reinforce_pp_baseline",
    ("advantage", "grpo_passk"): "recipe=pass_at_k_training",
    ("advantage", "dr_grpo"): "advantage=group_mean",
    ("advantage", "rloo"): "advantage=leave_one_out",
    ("advantage", "loo"): "advantage=leave_one_out",
    ("advantage", "remax"): "recipe=remax",
    ("advantage", "opo"): "advantage=length_weighted",
    ("advantage", "reinforce_plus_plus"): "recipe=reinforce_pp",
    ("recipe", "reinforce_plus_plus"): "recipe=reinforce_pp",
    ("recipe", "reinforce++"): "recipe=reinforce_pp",
    ("recipe", "reinforce_baseline"): "recipe=reinforce_pp_baseline",
    **{
        ("recipe", name): f"recipe=dpo loss={name}"
        for name in ("kto", "orpo", "simpo", "ipo", "cpo")
    },
    **{("recipe", name): _REWARD_MODEL for name in ("rm", "reward", "reward_model", "prm")},
    ("kl", "k1"): "kl.estimator=k1",
    ("kl", "k2"): "kl=in_loss_k2",
    ("kl", "k3"): "kl.estimator=k3",
    ("loss", "bnpo"): "loss/reduction=token_mean",
    ("loss", "vanilla"): "loss=ppo",
    ("loss/reduction", "seq-mean-token-mean"): "loss/reduction=sequence_mean",
    ("loss/reduction", "seq-mean-token-sum"): "loss/reduction=sequence_sum",
    ("loss/reduction", "seq-mean-token-sum-norm"): "loss/reduction=fixed_length",
    ("loss/reduction", "token-mean"): "loss/reduction=token_mean",
    ("reward", "accuracy"): "reward=exact_match (or last_number, boxed, numeric)",
    ("reward", "accuracy_reward"): "reward=exact_match (or last_number, boxed, numeric)",
    ("reward", "math"): "reward=symbolic (or boxed, numeric)",
    ("reward", "math_verify"): "reward=symbolic (or boxed, numeric)",
    ("reward", "reward_model"): "reward=learned reward.path=DIR",
    ("reward", "model"): "reward=learned reward.path=DIR",
    ("tracker", "tensorboardx"): "tracker=tensorboard",
    ("tracker", "w&b"): "tracker=wandb",
    ("task", "jsonl"): DATA,
    ("task", "parquet"): DATA,
    ("task", "dataset"): DATA,
    ("engine", "vllm"): TRAINING["use_vllm"],
    ("engine", "hf"): "engine=transformers",
    ("prompt", "messages"): CHAT,
    ("prompt", "conversation"): CHAT,
    ("prompt", "conversational"): CHAT,
    ("prompt", "plain"): "prompt=text",
    ("reference", "ema"): "reference=refreshed",
    ("model", "lora"): LORA,
    ("model", "hf"): PRETRAINED,
}

# Options of Hydra's plugins, and what pip installs for each; empty where it is always there.
PLUGINS = {
    "hydra/launcher": {
        "basic": "",
        "joblib": "'rlcomp[sweep]'",
        "submitit_local": "'rlcomp[slurm]'",
        "submitit_slurm": "'rlcomp[slurm]'",
    },
    "hydra/sweeper": {"basic": "", "optuna": "'rlcomp[optuna]'"},
}
