"""What settings of models, data, runs and processes are called here."""

from __future__ import annotations

LORA = "adapter=lora (adapter.rank, adapter.alpha, adapter.target_modules)"
PRETRAINED = "base=DIR (a folder, a run, or a name on the Hugging Face hub)"
_ATTENTION = "engine=auto, engine=portable or engine=transformers"
_SAVE = "phases.rl.every.checkpoint"
DATA = "task=file task.path=FILE (or task=hub task.name=NAME)"
CHAT = "prompt=chat (prompt=text takes texts as they stand)"
_ARGUMENTS = "prompt=chat prompt.arguments (a mapping: {enable_thinking: false})"
_TURNS = "prompt=chat (every turn of the assistant is trained, and nothing else)"
_MESSAGES = "task=file task.prompt_field (a column of texts, or of messages for prompt=chat)"
ALONE = (
    "nothing to set: a run is one process on one device (device=cuda:0); several seeds at once are "
    "rlcomp -m seed=0,1 hydra/launcher=joblib"
)
_TRACKER = "tracker=wandb (or tracker=tensorboard, tracker=none)"
# PEFT's r and what verl and TRL call it.
RANKS = ("lora_r", "lora_rank", "adapter.r", "lora.r", "peft.r", "peft_config.r", "lora_config.r")

# By the last words of an option, as their configs and command lines have it.
RUNS = {
    # models and data
    "model_name_or_path": PRETRAINED,
    "model_name": PRETRAINED,
    "pretrain": PRETRAINED,
    "attn_implementation": _ATTENTION,
    "torch_dtype": "engine=bfloat16 (products), or model=pretrained model.dtype=bfloat16 (weights)",
    "bf16": "engine=bfloat16",
    "precision": "engine=bfloat16",
    "mixed_precision": "engine=bfloat16",
    "fp16": "engine=bfloat16",
    "gradient_checkpointing": "engine.checkpointing (true or false)",
    "enable_gradient_checkpointing": "engine.checkpointing (true or false)",
    "use_peft": LORA,
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
    "dataset_name": DATA,
    "train_files": DATA,
    "apply_chat_template": CHAT,
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
    "prompt_data": DATA,
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
        ALONE,
    ),
    "trust_remote_code": "there is no such thing: code of a model's folder is never run",
}
