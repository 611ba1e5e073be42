"""What settings of training are called here: batches, lengths, optimiser, loss, KL, reward."""

from __future__ import annotations

from rlcomp.wiring.words_of_runs import PRETRAINED

_PROMPTS = "prompts.batch_size (prompts a step, each answered group_size times)"
_EVALUATED = "nothing to set: evaluations sample as decoding says, and greedily as well"
_STEPS = "phases.rl.steps (phases.warm_start.steps for the demonstrations)"
_KL_LOSS = "kl=in_loss (kl=none leaves it out)"
_ADVANTAGE = "advantage=group_mean_std (GRPO), advantage=leave_one_out (RLOO) or advantage=gae"
_LOSS = "a part, loss=dapo, or a whole recipe=dapo"

# By the last words of an option, as their configs and command lines have it.
TRAINING = {
    "model.path": PRETRAINED,
    "critic.lr": "value_learner.optimizer.lr (recipe=ppo)",
    "critic.optim.lr": "value_learner.optimizer.lr (recipe=ppo)",
    "val_kwargs.n": "evaluation.samples_per_prompt",
    "val_kwargs.temperature": _EVALUATED,
    "val_kwargs.top_p": _EVALUATED,
    "evaluation.temperature": _EVALUATED,
    "evaluation.top_p": _EVALUATED,
    # batches
    "num_generations": "group_size",
    "n_samples_per_prompt": "group_size",
    "n": "group_size",
    "num_return_sequences": "group_size",
    "train_batch_size": _PROMPTS,
    "rollout_batch_size": _PROMPTS,
    "generation_batch_size": _PROMPTS,
    "batch_size": _PROMPTS,
    "per_device_train_batch_size": f"{_PROMPTS}; learner.micro_batch_tokens bounds the memory",
    "per_device_eval_batch_size": "evaluation.num_prompts (held-out prompts, not a device's share)",
    "gradient_accumulation_steps": (
        "learner.micro_batch_tokens: tokens of a forward pass, gradients of a minibatch are summed"
    ),
    "steps_per_generation": "learner.num_minibatches (optimiser steps a batch)",
    "num_mini_batches": "learner.num_minibatches",
    "ppo_mini_batch_size": "learner.num_minibatches (how many there are, not their size)",
    "micro_train_batch_size": "learner.micro_batch_tokens (tokens, not samples)",
    "ppo_micro_batch_size": "learner.micro_batch_tokens (tokens, not samples)",
    "ppo_micro_batch_size_per_gpu": "learner.micro_batch_tokens (tokens, not samples)",
    "ppo_max_token_len_per_gpu": "learner.micro_batch_tokens",
    "num_iterations": "learner.epochs",
    "num_ppo_epochs": "learner.epochs",
    "ppo_epochs": "learner.epochs",
    "max_epochs": "learner.epochs",
    "num_train_epochs": _STEPS,
    "total_epochs": _STEPS,
    "num_episodes": _STEPS,
    "total_episodes": _STEPS,
    "total_training_steps": _STEPS,
    "max_steps": _STEPS,
    # lengths and sampling
    "max_tokens": "max_new_tokens",
    "max_completion_length": "max_new_tokens",
    "max_response_length": "max_new_tokens",
    "generate_max_len": "max_new_tokens",
    "response_length": "max_new_tokens",
    "max_prompt_length": "context_length (prompt and response together)",
    "prompt_max_len": "context_length (prompt and response together)",
    "max_length": "context_length (prompt and response together)",
    "max_seq_length": "context_length (prompt and response together)",
    "temperature": "decoding.temperature",
    "top_p": "decoding.top_p",
    "top_k": "decoding.top_k",
    "min_p": "decoding.min_p",
    "use_vllm": "sampler_engine=vllm, a server (docs/engines.md)",
    "mask_truncated_completions": "filter=overlong",
    # optimiser
    "learning_rate": "learner.optimizer.lr",
    "actor_learning_rate": "learner.optimizer.lr",
    "lr": "learner.optimizer.lr",
    "critic_learning_rate": "value_learner.optimizer.lr (recipe=ppo)",
    "weight_decay": "learner.optimizer.weight_decay",
    "adam_beta1": "learner.optimizer.betas (a pair)",
    "adam_beta2": "learner.optimizer.betas (a pair)",
    "optim": "optimizer@learner.optimizer=adamw (or muon, sgd)",
    "lr_scheduler_type": "schedule@learner.schedule=linear (or constant, cosine)",
    "warmup_ratio": "learner.schedule.warmup (a share of the steps)",
    "lr_warmup_steps_ratio": "learner.schedule.warmup (a share of the steps)",
    "warmup_steps": "learner.schedule.warmup (a share of the steps)",
    "lr_warmup_steps": "learner.schedule.warmup (a share of the steps)",
    "max_grad_norm": "learner.max_grad_norm",
    "grad_clip": "learner.max_grad_norm",
    "gradient_clip_val": "learner.max_grad_norm",
    "gradient_clipping": "learner.max_grad_norm",
    "max_norm": "learner.max_grad_norm",
    # loss
    "loss_type": _LOSS,
    "epsilon": "loss.trust_region.clip_low and loss.trust_region.clip_high",
    "cliprange": "loss.trust_region.clip_low and loss.trust_region.clip_high",
    "clip_ratio": "loss.trust_region.clip_low and loss.trust_region.clip_high",
    "eps_clip": "loss.trust_region.clip_low and loss.trust_region.clip_high",
    "clip_ratio_low": "loss.trust_region.clip_low",
    "eps_clip_low": "loss.trust_region.clip_low",
    "clip_ratio_high": "loss.trust_region.clip_high",
    "epsilon_high": "loss.trust_region.clip_high",
    "eps_clip_high": "loss.trust_region.clip_high",
    "clip_ratio_c": "loss/trust_region=dual_clip",
    "delta": "loss/trust_region=dual_clip",
    "loss_agg_mode": "loss/reduction=token_mean (or sequence_mean, fixed_length)",
    "importance_sampling_level": "loss/ratio=token or loss/ratio=sequence",
    "cliprange_value": "value_learner.losses.value.clip (recipe=ppo)",
    "value_clip": "value_learner.losses.value.clip (recipe=ppo)",
    "vf_coef": "value_learner.losses.value.value_coef (recipe=ppo)",
    "entropy_coeff": "entropy_bonus=fixed",
    "ent_coef": "entropy_bonus=fixed",
    "entropy_loss_coef": "entropy_bonus=fixed",
    # KL
    "beta": "kl_controller.kl_coef",
    "kl_coef": "kl_controller.kl_coef",
    "init_kl_coef": "kl_controller.kl_coef",
    "kl_loss_coef": "kl_controller.kl_coef",
    "kl_ctrl": "kl_controller=fixed or kl_controller=adaptive",
    "kl_penalty": "kl.estimator and learner.losses.kl.estimator",
    "kl_estimator": "kl.estimator and learner.losses.kl.estimator",
    "kl_loss_type": "learner.losses.kl.estimator",
    "use_kl_loss": _KL_LOSS,
    "use_kl_in_reward": "kl=in_reward",
    "sync_ref_model": "reference=refreshed",
    "ref_model_mixup_alpha": "reference=refreshed reference.mix",
    "ref_model_sync_steps": "reference=refreshed reference.period",
    "ref_model": "reference=frozen",
    # advantage and reward
    "adv_estimator": _ADVANTAGE,
    "advantage_estimator": _ADVANTAGE,
    "scale_rewards": "advantage=group_mean_std, advantage=group_mean or advantage=group_batch_std",
    "norm_adv_by_std_in_grpo": "advantage=group_mean_std, or advantage=group_mean for none",
    "gamma": "advantage.gamma (recipe=ppo)",
    "lam": "advantage.gae_lambda (recipe=ppo)",
    "lambd": "advantage.gae_lambda (recipe=ppo)",
    "gae_lambda": "advantage.gae_lambda (recipe=ppo)",
    "reward_funcs": (
        "reward=exact_match, or your own: reward=function "
        "'reward.function={_target_: my_module.score, _partial_: true}'"
    ),
    "reward_fn": "reward=function 'reward.function={_target_: my_module.score, _partial_: true}'",
    "custom_reward_function": (
        "reward=function 'reward.function={_target_: my_module.score, _partial_: true}'"
    ),
    "reward_weights": "reward=weighted_sum",
}
