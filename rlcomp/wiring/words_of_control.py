"""Our names for settings of stable-baselines3 and CleanRL."""

from __future__ import annotations

import re

_OFF_POLICY = "(recipe=sac, recipe=td3 or recipe=dqn)"
_NONE = "nothing to set: nothing like it is here; leave it out"
_LOGGED = "nothing to set: every step is logged, and rlcomp-report draws it; leave it out"
_CODE = "nothing to set: a network is an option of the group model (rlcomp help model)"
_CLIP = "loss.trust_region.clip_low and loss.trust_region.clip_high"
_VALUE_CLIP = "value_learner.losses.value.clip (recipe=ppo)"
_STEPS = "phases.rl.steps (steps of the loop, not of the environment)"

# Their words by our answer; the first word of an answer with a setting is the setting's path.
_ANSWERS = {
    _STEPS: "total_timesteps n_timesteps timesteps num_timesteps num_updates",
    "collector.num_steps (recipe=control_ppo, sac or td3)": (
        "n_steps num_steps train_freq train_frequency"
    ),
    "learner.num_minibatches": "num_minibatches",
    "learner.optimizer.lr (recipe=sac: a mapping, a rate for each network)": "policy_lr q_lr",
    "learner.epochs": "n_epochs update_epochs",
    _CLIP: "clip_range clip_coef",
    _VALUE_CLIP: "clip_range_vf clip_vloss",
    "nothing to set: advantages are normalised by the option of the group advantage": (
        "normalize_advantage normalize_advantages norm_adv"
    ),
    "schedule@learner.schedule=linear (or constant, cosine)": "anneal_lr",
    "early_stop=kl_budget (early_stop.budget)": "target_kl",
    "updates.times " + _OFF_POLICY: "gradient_steps",
    "replay.capacity " + _OFF_POLICY: "buffer_size replay_buffer_size",
    "phases.warm_up.steps " + _OFF_POLICY: "learning_starts",
    "environment.num_envs (recipe=control_ppo, sac or td3)": "n_envs num_envs",
    "environment.name (recipe=control_ppo, sac or td3)": "env env_id gym_id env_name",
    "exploration.fraction (recipe=dqn)": "exploration_fraction",
    "exploration.start (recipe=dqn)": "exploration_initial_eps start_e",
    "exploration.end (recipe=dqn)": "exploration_final_eps end_e",
    "exploration.scale (recipe=td3)": "exploration_noise action_noise",
    "targets.every (recipe=dqn)": "target_update_interval target_network_frequency",
    "targets.updater.tau (recipe=sac or recipe=td3)": "tau polyak",
    "loss.objective.policy_noise (recipe=td3)": "policy_noise target_policy_noise",
    "loss.objective.noise_clip (recipe=td3)": "noise_clip target_noise_clip",
    "loss.period.loss_actor (recipe=td3)": "policy_delay policy_frequency",
    "nothing to set: recipe=sac always tunes its temperature, towards "
    "loss.objective.target_entropy": "autotune",
    "replay=prioritized " + _OFF_POLICY: "prioritized_replay",
    "device (cpu, cuda or auto)": "cuda use_cuda",
    "tracker=wandb (or tracker=tensorboard, tracker=none)": "track",
    "tracker=tensorboard": "tensorboard_log",
    "tracker=wandb tracker.project": "wandb_project_name",
    "tracker.run_name (with tracker=wandb)": "exp_name",
    _LOGGED: "verbose log_interval stats_window_size progress_bar",
    _CODE: "policy_kwargs net_arch features_extractor_class policy_type",
    "nothing to set: a seed decides all that is drawn; leave it out": "torch_deterministic",
    "nothing to set in a run: rlcomp-export RUN FOLDER writes the model": (
        "save_model upload_model hf_entity"
    ),
    _NONE: (
        "use_sde sde_sample_freq rollout_buffer_class rollout_buffer_kwargs replay_buffer_class "
        "replay_buffer_kwargs optimize_memory_usage use_rms_prop rms_prop_eps capture_video "
        "monitor_wrapper n_atoms v_min v_max"
    ),
}
CONTROL = {word: answer for answer, words in _ANSWERS.items() for word in words.split()}

# Paths in recipes of control whose settings count in the same unit.
_SAME_UNIT = r"(replay|environment|exploration|collector|loss\.objective|targets\.updater)\."
PLACES = {
    word: answer.split(" ")[0] for word, answer in CONTROL.items() if re.match(_SAME_UNIT, answer)
}
