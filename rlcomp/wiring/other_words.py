"""What the options of TRL, verl, OpenRLHF and transformers are called here."""

from __future__ import annotations

import difflib
import re

from rlcomp.errors import as_dotted

_PROMPTS = "prompts.batch_size (prompts a step, each answered group_size times)"
_PREFERENCES = (
    "no recipe, for none trains on preferences; a loss of your own can (docs/how_to), and a reward "
    "model that exists already is reward=learned"
)
_LORA = "adapter=lora (adapter.rank, adapter.alpha, adapter.target_modules)"
_EVALUATED = "nothing to set: evaluations sample as decoding says, and greedily as well"
_PRETRAINED = "base=DIR (a folder, a run, or a name on the Hugging Face hub)"
_STEPS = "phases.rl.steps (phases.warm_start.steps for the demonstrations)"
_ATTENTION = "engine=auto, engine=portable or engine=transformers"
_KL_LOSS = "kl=in_loss (kl=none leaves it out)"
_SAVE = "phases.rl.every.checkpoint"
_ADVANTAGE = "advantage=group_mean_std (GRPO), advantage=leave_one_out (RLOO) or advantage=gae"
_LOSS = "a part, loss=dapo, or a whole recipe=dapo"
_DATA = "task=file task.path=FILE (or task=hub task.name=NAME)"
_CHAT = "prompt=chat (prompt=text takes texts as they stand)"
_ARGUMENTS = "prompt=chat prompt.arguments (a mapping: {enable_thinking: false})"
_TURNS = "prompt=chat (every turn of the assistant is trained, and nothing else)"
_MESSAGES = "task=file task.prompt_field (a column of texts, or of messages for prompt=chat)"
_ALONE = (
    "nothing to set: a run is one process on one device (device=cuda:0); several seeds at once are "
    "rlcomp -m seed=0,1 hydra/launcher=joblib"
)
_TRACKER = "tracker=wandb (or tracker=tensorboard, tracker=none)"

# PEFT's r and what verl and TRL call it.
RANKS = ("lora_r", "lora_rank", "adapter.r", "lora.r", "peft.r", "peft_config.r", "lora_config.r")

# By the last words of an option, as their configs and command lines have it.
_HERE = {
    "model.path": _PRETRAINED,
    "critic.lr": "value_learner.optimizer.lr (recipe=ppo)",
    "critic.optim.lr": "value_learner.optimizer.lr (recipe=ppo)",
    "val_kwargs.n": "evaluation.samples_per_prompt",
    "val_kwargs.temperature": _EVALUATED,
    "val_kwargs.top_p": _EVALUATED,
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
    "use_vllm": "engine=auto (generation is rlcomp's own)",
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
    # models and data
    "model_name_or_path": _PRETRAINED,
    "model_name": _PRETRAINED,
    "pretrain": _PRETRAINED,
    "attn_implementation": _ATTENTION,
    "torch_dtype": "engine=bfloat16 (products), or model=pretrained model.dtype=bfloat16 (weights)",
    "bf16": "engine=bfloat16",
    "fp16": "engine=bfloat16",
    "gradient_checkpointing": "engine.checkpointing (true or false)",
    "enable_gradient_checkpointing": "engine.checkpointing (true or false)",
    "use_peft": _LORA,
    **dict.fromkeys(RANKS, "adapter.rank (with adapter=lora)"),
    "lora_alpha": "adapter.alpha (with adapter=lora)",
    "lora_target_modules": "adapter.target_modules (with adapter=lora)",
    "target_modules": "adapter.target_modules (with adapter=lora)",
    **dict.fromkeys(
        ("lora_dropout", "adapter.dropout", "peft_config.dropout", "lora_config.dropout"),
        "nothing: adapter=lora has no dropout; leave it out",
    ),
    **dict.fromkeys(
        ("use_rslora", "use_dora", "modules_to_save", "lora_modules_to_save", "lora_task_type"),
        "nothing: adapter=lora is plain LoRA on linear layers; leave it out",
    ),
    "load_in_4bit": "nothing: weights are not quantised (model=pretrained loads them whole)",
    "load_in_8bit": "nothing: weights are not quantised (model=pretrained loads them whole)",
    "dataset_name": _DATA,
    "train_files": _DATA,
    "apply_chat_template": _CHAT,
    "chat_template": "prompt=chat prompt.template=FILE",
    "chat_template_path": "prompt=chat prompt.template=FILE",
    "custom_chat_template": "prompt=chat prompt.template=FILE",
    "chat_template_kwargs": _ARGUMENTS,
    "apply_chat_template_kwargs": _ARGUMENTS,
    "enable_thinking": _ARGUMENTS,
    "assistant_only_loss": _TURNS,
    "completion_only_loss": "prompt=text or prompt=chat (prompts are never trained)",
    "system_prompt": "prompt=chat prompt.system=TEXT",
    "input_key": _MESSAGES,
    "prompt_key": _MESSAGES,
    "messages_key": _MESSAGES,
    "dataset_text_field": _MESSAGES,
    "prompt_data": _DATA,
    # runs
    "output_dir": "directory",
    "run_name": "tracker.run_name (with tracker=wandb)",
    "wandb_run_name": "tracker.run_name (with tracker=wandb)",
    "experiment_name": "tracker.run_name (with tracker=wandb)",
    "save_path": "directory",
    "ckpt_path": "directory",
    "default_local_dir": "directory",
    "resume_from_checkpoint": "resume (auto, must, never, or a path)",
    "resume_mode": "resume (auto, must, never, or a path)",
    "overwrite_output_dir": "overwrite (true or false)",
    "save_steps": _SAVE,
    "save_freq": _SAVE,
    "save_total_limit": "checkpoint.keep",
    "eval_steps": "phases.rl.every.evaluation",
    "test_freq": "phases.rl.every.evaluation",
    "logging_steps": "nothing to set: every step is logged",
    "report_to": _TRACKER,
    "use_wandb": _TRACKER,
    "logger": _TRACKER,
    "project_name": "tracker=wandb tracker.project",
    "wandb_project": "tracker=wandb tracker.project",
    "entity": "nothing to set: W&B reads the variable WANDB_ENTITY",
    "wandb_entity": "nothing to set: W&B reads the variable WANDB_ENTITY",
    # processes and devices
    **dict.fromkeys(
        (
            *("n_gpus_per_node", "nnodes", "n_gpus", "num_gpus", "ngpus", "gpus", "nproc_per_node"),
            *(
                "num_processes",
                "num_machines",
                "tensor_model_parallel_size",
                "tensor_parallel_size",
            ),
            *("vllm_tensor_parallel_size", "actor_num_gpus_per_node", "actor_num_nodes"),
            *("deepspeed", "zero_stage", "fsdp", "fsdp_config", "ddp_find_unused_parameters"),
        ),
        _ALONE,
    ),
    "trust_remote_code": "there is no such thing: code of a model's folder is never run",
}

# Where nothing stands behind it.
_WHOLE = dict.fromkeys(
    ("algorithm", "algo", "trainer"),
    "recipe=grpo, whose parts are groups of options (rlcomp --help)",
)

# Options of groups, as the literature or other configs name them.
_OPTIONS = {
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
        ("recipe", name): _PREFERENCES
        for name in ("dpo", "kto", "orpo", "simpo", "ipo", "online_dpo")
    },
    **{("recipe", name): _PREFERENCES for name in ("rm", "reward", "reward_model", "prm")},
    ("kl", "k1"): "kl.estimator=k1",
    ("kl", "k2"): "kl=in_loss_k2",
    ("kl", "k3"): "kl.estimator=k3",
    ("loss", "bnpo"): "loss/reduction=token_mean",
    ("loss", "vanilla"): "loss=ppo",
    ("loss/reduction", "seq-mean-token-mean"): "loss/reduction=sequence_mean",
    ("loss/reduction", "seq-mean-token-sum"): "loss/reduction=sequence_sum",
    ("loss/reduction", "seq-mean-token-sum-norm"): "loss/reduction=fixed_length",
    ("loss/reduction", "token-mean"): "loss/reduction=token_mean",
    ("tracker", "tensorboardx"): "tracker=tensorboard",
    ("tracker", "w&b"): "tracker=wandb",
    ("task", "jsonl"): _DATA,
    ("task", "parquet"): _DATA,
    ("task", "dataset"): _DATA,
    ("engine", "vllm"): _HERE["use_vllm"],
    ("engine", "hf"): "engine=transformers",
    ("prompt", "messages"): _CHAT,
    ("prompt", "conversation"): _CHAT,
    ("prompt", "conversational"): _CHAT,
    ("prompt", "plain"): "prompt=text",
    ("reference", "ema"): "reference=refreshed",
    ("model", "lora"): _LORA,
    ("model", "hf"): _PRETRAINED,
}


def option_here(group: str, option: str) -> str | None:
    """What another library's option of a group is called here; a path of a model is one too.

    Examples:
        >>> option_here("advantage", "rloo"), option_here("advantage", "gae")
        ('advantage=leave_one_out', None)
        >>> option_here("model/Qwen", "Qwen3")
        'base=Qwen/Qwen3 (a folder, a run, or a name on the Hugging Face hub)'
    """
    if group.split("/")[0] == "model" and ("/" in group or "." in option):
        path = f"{group}/{option}".removeprefix("model/")
        return _PRETRAINED.replace("DIR", path)
    if group == "reward" and "." in option:
        file = option.endswith(".py")
        own = f"{option[:-3]}.FUNCTION" if file else as_dotted(option) or option
        return f"reward=function reward.function={own}"
    if group == "environment" and re.search(r"-v\d+$", option):
        return f"environment.name={option} (of gymnasium)"
    return _OPTIONS.get((group, option.lower()))


def word_here(key: str) -> str | None:
    """What an option of another library is called here.

    Args:
        key: as it was given: ``learning_rate``, ``--learning-rate``, ``algorithm.kl_ctrl.kl_coef``.

    Examples:
        >>> word_here("num_generations"), word_here("actor_rollout_ref.actor.clip_ratio_low")
        ('group_size', 'loss.trust_region.clip_low')
        >>> word_here("--top-p"), word_here("advantage")
        ('decoding.top_p', None)
    """
    known = known_by(key)
    return _WHOLE.get(known) or _HERE.get(known)


def known_by(key: str) -> str:
    """The last words by which an option of another library is known; empty: none is.

    Examples:
        >>> known_by("actor.clip-ratio"), known_by("data.train_batch_size"), known_by("loss")
        ('clip_ratio', 'train_batch_size', '')
    """
    words = key.lstrip("+~-").replace("-", "_").lower().split(".")
    ends = [".".join(words[start:]) for start in range(len(words))]
    return ends[0] if ends[0] in _WHOLE else next((end for end in ends if end in _HERE), "")


def near_word(name: str, group: str) -> str | None:
    """A word of another library like this one that is set in a group here, and what it is here.

    Args:
        name: of a setting that nobody has.
        group: below which it was looked for.

    Examples:
        >>> near_word("clip_grad", "learner")
        'grad_clip, which is learner.max_grad_norm'
        >>> near_word("lora_dropuot", "adapter"), near_word("colour", "adapter")
        ('lora_dropout, which is nothing: adapter=lora has no dropout; leave it out', None)
    """
    words = {
        word: here
        for word, here in _HERE.items()
        if here.startswith(f"{group}.") or (here.startswith("nothing") and f"{group}=" in here)
    }
    asked = sorted(name.lower().split("_"))
    same = [word for word in words if sorted(word.split("_")) == asked]
    close = same or difflib.get_close_matches(name.lower(), words, n=1, cutoff=0.75)
    return f"{close[0]}, which is {words[close[0]]}" if close else None
