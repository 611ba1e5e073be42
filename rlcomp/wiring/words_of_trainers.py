"""What the other settings of trainers are here: those of their machinery, mostly nothing to set."""

from __future__ import annotations

from rlcomp.wiring.words_of_runs import ALONE

_NONE = "nothing to set: nothing like it is here; leave it out"
_ENGINE = "nothing to set: the engine decides (engine=auto); leave it out"
_SAMPLER = "nothing to set: answers are sampled in the run's own process; leave it out"
_LOADER = "nothing to set: examples are read in the run's own process; leave it out"
_LOGGED = "nothing to set: every step is logged, some answers as well; leave it out"
_EVALUATED = "nothing to set: phases.rl.every.evaluation=25 says how often (null: never)"
_SAVED = "nothing to set: phases.rl.every.checkpoint=50 says how often (null: never)"
_BEST = "nothing to set: the last checkpoints are kept; early_stop=plateau ends a run that is done"
_EXPORT = "nothing to set in a run: rlcomp-export RUN FOLDER writes the model (--push-to-hub NAME)"
_PLAIN_LORA = "nothing to set: adapter=lora is plain LoRA on linear layers; leave it out"
_EXACT = "nothing to set: a seed decides all that is drawn; leave it out"
_MEMORY = "learner.micro_batch_tokens"
_TIS = "loss/weight=tis (with old_log_probs=recomputed)"
_ADAPTIVE = "entropy_bonus=adaptive"

# By what is said of them.
_TOLD = {
    _ENGINE: (
        "tf32 torch_compile torch_compile_backend torch_compile_mode use_torch_compile "
        "use_liger_kernel liger_kernel_config use_liger use_cache torch_empty_cache_steps "
        "padding_free pad_to_multiple_of use_remove_padding packing_samples packing_strategy "
        "use_fused_kernels use_shm packing eval_packing"
    ),
    _SAMPLER: (
        "vllm_mode vllm_model_impl vllm_enable_sleep_mode vllm_structured_outputs_regex "
        "vllm_server_base_url vllm_server_host vllm_server_port vllm_server_timeout "
        "vllm_group_port vllm_gpu_memory_utilization vllm_max_model_length vllm_num_engines "
        "vllm_enable_sleep vllm_sync_backend gpu_memory_utilization max_num_seqs "
        "max_num_batched_tokens enforce_eager free_cache_engine enable_chunked_prefill "
        "cache_implementation use_transformers_paged use_transformers_continuous_batching "
        "transformers_continuous_batching_config ds3_gather_for_generation enable_prefix_caching"
    ),
    _LOADER: (
        "dataloader_drop_last dataloader_num_workers dataloader_pin_memory "
        "dataloader_persistent_workers dataloader_prefetch_factor dataloader_in_order "
        "dataloader_multiprocessing_context dataset_num_proc train_sampling_strategy "
        "remove_unused_columns label_names length_column_name ignore_data_skip group_by_length "
        "dataset_kwargs"
    ),
    _LOGGED: (
        "logging_strategy logging_first_step logging_nan_inf_filter logging_dir log_level "
        "log_level_replica log_on_each_node log_completions log_completions_hub_repo "
        "log_multimodal log_unique_prompts disable_tqdm skip_memory_metrics "
        "include_num_input_tokens_seen include_for_metrics prediction_loss_only "
        "batch_eval_metrics trackio_space_id trackio_bucket_id trackio_static_space_id "
        "log_val_generations"
    ),
    _EVALUATED: (
        "eval_strategy evaluation_strategy do_eval do_train do_predict eval_on_start eval_delay "
        "val_before_train eval_do_concat_batches eval_use_gather_object eval_accumulation_steps"
    ),
    _SAVED: "save_strategy save_on_each_node enable_jit_checkpoint",
    _BEST: "load_best_model_at_end metric_for_best_model greater_is_better",
    _EXPORT: (
        "push_to_hub hub_token hub_private_repo hub_model_id hub_strategy hub_always_push "
        "hub_revision save_only_model save_safetensors save_hf_ckpt "
        "restore_callback_states_from_checkpoint"
    ),
    _PLAIN_LORA: (
        "exclude_modules fan_in_fan_out init_lora_weights layers_to_transform layers_pattern "
        "rank_pattern alpha_pattern lora_bias target_parameters task_type"
    ),
    "policy.stop_tokens (what else ends an answer; the rest is the tokenizer's)": (
        "eos_token pad_token"
    ),
    _EXACT: "data_seed full_determinism",
    ALONE: (
        "ddp_bucket_cap_mb ddp_broadcast_buffers ddp_static_graph ddp_backend ddp_timeout "
        "local_rank average_tokens_across_devices accelerator_config parallelism_config "
        "colocate_all_models ref_num_nodes ref_num_gpus_per_node vllm_group param_offload "
        "optimizer_offload adam_offload activation_offloading balance_batch "
        "ulysses_sequence_parallel_size"
    ),
    _NONE: (
        "neftune_noise_alpha router_aux_loss_coef cast_lm_head_to_fp32 repetition_penalty "
        "disable_dropout use_weighting optim_target_modules loss_weights normalize_reward"
    ),
    "engine.checkpointing (true or false)": "activation_checkpointing",
    "nothing to set: engine.checkpointing=true is all there is of it": (
        "gradient_checkpointing_kwargs activation_checkpointing_kwargs"
    ),
    "engine=bfloat16": "bf16_full_eval fp16_full_eval",
    _MEMORY: (
        "auto_find_batch_size use_dynamic_bsz log_prob_micro_batch_size_per_gpu "
        "log_prob_micro_batch_size micro_rollout_batch_size precompute_ref_batch_size"
    ),
    "device (cpu)": "use_cpu no_cuda",
    "learner.schedule (its warmup and final)": "lr_scheduler_kwargs",
    "learner.optimizer (+learner.optimizer.NAME=VALUE adds what its class takes)": (
        "optim_args adam_epsilon"
    ),
    "model=pretrained model.dtype=bfloat16 (weights in half the memory)": "model_init_kwargs",
    "context_length (a prompt that leaves no room for an answer is refused)": (
        "truncation truncation_mode filter_overlong_prompts"
    ),
    "task.held_out (the share of the same examples that only evaluators see)": "val_files",
    "task=file task.answer_field (a column)": "label_key answer_key",
    "task=file task.demonstration_field (a column)": "response_key",
    "sampler@prompts=epochs (each once, shuffled) or sampler@prompts=uniform": "shuffle_dataset",
    "evaluation.samples_per_prompt": "num_generations_eval",
    "evaluation.num_shown": "num_completions_to_print",
    "decoding.temperature, decoding.top_p, decoding.top_k, decoding.min_p": "generation_kwargs",
    "loss=sapo": "sapo_temperature_neg sapo_temperature_pos",
    "loss=vespo": "vespo_k_pos vespo_lambda_pos vespo_k_neg vespo_lambda_neg",
    "loss/weight=top_entropy": "top_entropy_quantile",
    "loss/weight=off_policy_mask": "off_policy_mask_threshold",
    "entropy_bonus=fixed": "entropy_coef",
    _ADAPTIVE: (
        "use_adaptive_entropy entropy_coef_min entropy_coef_max entropy_coef_delta entropy_target"
    ),
    _TIS: (
        "vllm_importance_sampling_correction vllm_importance_sampling_mode "
        "vllm_importance_sampling_clip_max vllm_importance_sampling_clip_min "
        "vllm_importance_sampling_cap"
    ),
    "loss@learner.losses.kl=kl_ratio": "use_bias_correction_kl",
    "recipe=linear_mo (its weights: objectives.aggregator.weights)": "multi_objective_aggregation",
    "player.max_turns (recipe=agent)": "max_tool_calling_iterations",
    "recipe=dpo loss=cdpo": "label_smoothing label_smoothing_factor",
    "recipe=dpo loss=f_dpo": "f_divergence_type f_alpha_divergence_coef",
    "recipe=dpo loss=ld_dpo": "ld_alpha",
    "recipe=dpo loss=discopop": "discopop_tau",
    "reference=columns (log-probs from the data); reference=frozen computes them in each step": (
        "precompute_ref_log_probs"
    ),
    "reward=function reward.function=my_module.score": "reward_manager remote_rm_url",
    "reward=learned reward.path=DIR (a reward model)": "reward_model.enable reward_pretrain",
    "nothing to set in a run: rlcomp-evaluate RUN suite=NAME measures one": "val_only",
    "recipe=vapo, which trains the critic first": "critic_warmup",
    "checkpoint.keep": "max_ckpt_num max_actor_ckpt_to_keep",
}
TRAINERS = {word: told for told, words in _TOLD.items() for word in words.split()}
