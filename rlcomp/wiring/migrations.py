"""Old names that configs and checkpoints may still use, with the names of today."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf

# Targets, or the modules they were in.
_TARGETS = {
    "components.proximal": "components.old_log_probs",
    "rlcomp.generation.sampling.Sampling": "rlcomp.engine.decoding.Decoding",
    "rlcomp.model.bpe": "rlcomp.data.train_bpe",
    "rlcomp.model.engine": "rlcomp.engine.engine",
    "rlcomp.model.preference.conditioned": "rlcomp.model.preference_embedding.conditioned",
    "rlcomp.model.preference.preference_tokenizer": (
        "rlcomp.text.preference_tokens.preference_tokenizer"
    ),
    "rlcomp.model.soup": "rlcomp.model.merge",
    "rlcomp.model.tokenizer": "rlcomp.text.tokenizer",
    "rlcomp.run.trained": "rlcomp.model.trained",
    "rlcomp.thoughts": "rlcomp.text.thoughts",
}
# Classes whose names stood for two; checkpoints of 0.2 may have the old names.
_CLASSES = {
    "components.environment.bfcl.Bfcl": "components.worlds.bfcl.environment.BfclEnvironment",
    "components.environment.maze.Maze": "components.worlds.maze.environment.MazeEnvironment",
    "components.environment.reasoning_gym.ReasoningGym": "components.environment.reasoning_gym.ReasoningGymEnvironment",
    "components.pairing.judged.Judged": "components.pairing.JudgedPairs",
    "components.pairwise_judge.learned.Learned": "components.pairwise_judge.learned.LearnedJudge",
    "components.reward.countdown.Countdown": "components.worlds.countdown.reward.CountdownReward",
    "components.reward.reasoning_gym.ReasoningGym": "components.reward.reasoning_gym.ReasoningGymReward",
    "components.sampler.labelled_texts.LabelledTexts": "components.sampler.labelled.LabelledTextsSampler",
    "components.shaping.shuffled.Shuffled": "components.shaping.noise.ShuffledShaping",
}
# Modules that moved: into the folder of their world, or out of the room io.
_MODULES = {
    "components.action.freeze": "components.action",
    "components.action.reset_optimizer": "components.action",
    "components.action.restore": "components.action",
    "components.action.snapshot": "components.action",
    "components.advantage.batch_whitened": "components.advantage.whitened",
    "components.advantage.branch_share": "components.advantage.reweighted",
    "components.advantage.difficulty_weighted": "components.advantage.reweighted",
    "components.advantage.distilled": "components.advantage.reweighted",
    "components.advantage.gdpo": "components.advantage.group",
    "components.advantage.gigpo": "components.advantage.turns",
    "components.advantage.gpg": "components.advantage.group",
    "components.advantage.greedy_baseline": "components.advantage.monte_carlo",
    "components.advantage.group_batch_std": "components.advantage.group",
    "components.advantage.group_mean": "components.advantage.group",
    "components.advantage.group_mean_std": "components.advantage.group",
    "components.advantage.group_whitened": "components.advantage.whitened",
    "components.advantage.leave_one_out": "components.advantage.group",
    "components.advantage.length_weighted": "components.advantage.group",
    "components.advantage.maxrl": "components.advantage.group",
    "components.advantage.mt_grpo": "components.advantage.turns",
    "components.advantage.noon": "components.advantage.reweighted",
    "components.advantage.optimal_token_baseline": "components.advantage.monte_carlo",
    "components.advantage.pass_at_k_training": "components.advantage.pass_at_k",
    "components.advantage.per_objective_critic": "components.advantage.per_objective",
    "components.advantage.prime": "components.advantage.process",
    "components.advantage.reinforce": "components.advantage.monte_carlo",
    "components.advantage.reward_to_go": "components.advantage.monte_carlo",
    "components.advantage.turn_gae": "components.advantage.gae",
    "components.advantage.turn_return": "components.advantage.turns",
    "components.advantage.vapo": "components.advantage.gae",
    "components.advantage.vine": "components.advantage.turns",
    "components.advantage.vtrace": "components.advantage.gae",
    "components.agent.folding": "components.worlds.lookup.folding_agent",
    "components.agent.lookup": "components.worlds.lookup.agent",
    "components.attribution.hard": "components.attribution",
    "components.branching.entropy": "components.branching",
    "components.collector.goal_steps": "components.collector.steps",
    "components.collector.greedy_baseline": "components.collector.group",
    "components.collector.gymnasium": "components.collector.steps",
    "components.collector.self_play": "components.collector.episodes",
    "components.conditioning.asked_rows": "components.conditioning",
    "components.conditioning.embedding": "components.conditioning",
    "components.conditioning.teacher_prompt": "components.conditioning",
    "components.conditioning.text_prefix": "components.conditioning",
    "components.dataset.file": "components.dataset",
    "components.distribution.ring_of_gaussians": "components.worlds.ring.distribution",
    "components.early_stop.alarm": "components.early_stop",
    "components.early_stop.kl_budget": "components.early_stop",
    "components.early_stop.plateau": "components.early_stop",
    "components.early_stop.reward_hacking": "components.early_stop",
    "components.endpoint.chat": "components.endpoint",
    "components.environment.bfcl": "components.worlds.bfcl.environment",
    "components.environment.cartpole": "components.environment.control",
    "components.environment.gymnasium": "components.environment.control",
    "components.environment.gymnasium_text": "components.environment.text_games",
    "components.environment.lean": "components.environment.proofs",
    "components.environment.lookup": "components.worlds.lookup.environment",
    "components.environment.lookup_paid": "components.worlds.lookup.paid",
    "components.environment.matrix_game": "components.worlds.matrix_game.environment",
    "components.environment.maze": "components.worlds.maze.environment",
    "components.environment.pendulum": "components.environment.control",
    "components.environment.proof_attempts": "components.environment.proofs",
    "components.environment.reach": "components.worlds.point_maze.reach",
    "components.environment.skyrl_gym": "components.environment.text_games",
    "components.environment.tactics": "components.worlds.tactics.environment",
    "components.environment.textarena": "components.environment.text_games",
    "components.environment.track": "components.worlds.track.environment",
    "components.environment.u_maze": "components.worlds.point_maze.u_maze",
    "components.evaluator.action_tokens": "components.evaluator.episodes",
    "components.evaluator.exploitability": "components.worlds.matrix_game.exploitability",
    "components.evaluator.horizon": "components.evaluator.episodes",
    "components.evaluator.labels": "components.evaluator.reward_model",
    "components.evaluator.rated_answers": "components.evaluator.reward_model",
    "components.evaluator.shifted": "components.evaluator.episodes",
    "components.evaluator.step_labels": "components.evaluator.reward_model",
    "components.evaluator.success": "components.evaluator.episodes",
    "components.expert.clumsy_reacher": "components.worlds.point_maze.clumsy_reacher",
    "components.expert.label": "components.expert",
    "components.expert.track_driver": "components.worlds.track.expert",
    "components.expert.u_maze_guide": "components.worlds.point_maze.guide",
    "components.exploration.epsilon_greedy": "components.exploration",
    "components.exploration.expert_mixture": "components.exploration",
    "components.exploration.gaussian": "components.exploration",
    "components.feedback.answer_kinds": "components.feedback",
    "components.feedback.pass_rate": "components.feedback",
    "components.filter.correct": "components.filter",
    "components.filter.overlong": "components.filter",
    "components.filter.seat": "components.filter",
    "components.filter.thought_only": "components.filter",
    "components.filter.varied_groups": "components.filter",
    "components.filter.zero_variance": "components.filter",
    "components.intervention.function": "components.intervention",
    "components.intervention.queue": "components.intervention",
    "components.intervention.scripted": "components.intervention",
    "components.judge.endpoint": "components.judge",
    "components.judge.exact": "components.judge",
    "components.judge.generative": "components.judge",
    "components.judge.overlap": "components.judge",
    "components.judge.word_prefix": "components.judge",
    "components.kl.in_reward": "components.kl",
    "components.kl.in_reward_full": "components.kl",
    "components.kl.in_token_reward": "components.kl",
    "components.kl.observe": "components.kl",
    "components.kl_baseline.mismatched": "components.kl_baseline",
    "components.kl_controller.adaptive": "components.kl_controller",
    "components.kl_controller.doubling": "components.kl_controller",
    "components.kl_controller.fixed": "components.kl_controller",
    "components.kl_controller.scheduled": "components.kl_controller",
    "components.loss.bradley_terry": "components.loss.comparison",
    "components.loss.cloning": "components.loss.imitation",
    "components.loss.cloning_likelihood": "components.loss.imitation",
    "components.loss.conservative": "components.loss.transitions",
    "components.loss.davidson": "components.loss.comparison",
    "components.loss.demonstrations": "components.loss.imitation",
    "components.loss.distil": "components.loss.kl",
    "components.loss.entropy_adaptive": "components.loss.entropy",
    "components.loss.implicit_outcome": "components.loss.labels",
    "components.loss.kl_full": "components.loss.kl",
    "components.loss.kl_ratio": "components.loss.kl",
    "components.loss.link.apo_down": "components.loss.link",
    "components.loss.link.apo_zero": "components.loss.link",
    "components.loss.link.bco": "components.loss.link",
    "components.loss.link.discopop": "components.loss.link",
    "components.loss.link.exo": "components.loss.link",
    "components.loss.link.hinge": "components.loss.link",
    "components.loss.link.nca": "components.loss.link",
    "components.loss.link.sigmoid": "components.loss.link",
    "components.loss.link.sppo": "components.loss.link",
    "components.loss.link.squared": "components.loss.link",
    "components.loss.multi_label": "components.loss.labels",
    "components.loss.objective_value": "components.loss.value",
    "components.loss.ordinal_regression": "components.loss.regression",
    "components.loss.outcome_labels": "components.loss.labels",
    "components.loss.plackett_luce": "components.loss.comparison",
    "components.loss.positive_nll": "components.loss.imitation",
    "components.loss.ratio.none": "components.loss.ratio",
    "components.loss.ratio.sequence": "components.loss.ratio",
    "components.loss.ratio.sequence_token": "components.loss.ratio",
    "components.loss.ratio.token": "components.loss.ratio",
    "components.loss.ratio.whole_sequence": "components.loss.ratio",
    "components.loss.reduction.fixed_length": "components.loss.reduction",
    "components.loss.reduction.sequence_mean": "components.loss.reduction",
    "components.loss.reduction.sequence_sum": "components.loss.reduction",
    "components.loss.reduction.token_mean": "components.loss.reduction",
    "components.loss.sac_without_target_entropy": "components.loss.transitions",
    "components.loss.score.divergence": "components.loss.score",
    "components.loss.score.length_desensitised": "components.loss.score",
    "components.loss.score.log_odds": "components.loss.score",
    "components.loss.score.log_prob": "components.loss.score",
    "components.loss.score.log_ratio": "components.loss.score",
    "components.loss.score.penalised": "components.loss.score",
    "components.loss.score.sequential_kl": "components.loss.score",
    "components.loss.score_regression": "components.loss.regression",
    "components.loss.sft": "components.loss.imitation",
    "components.loss.state_value": "components.loss.value",
    "components.loss.step_labels": "components.loss.labels",
    "components.loss.trust_region.cispo": "components.loss.trust_region.clip",
    "components.loss.trust_region.dppo": "components.loss.trust_region.divergence",
    "components.loss.trust_region.dual_clip": "components.loss.trust_region.clip",
    "components.loss.trust_region.gmpo": "components.loss.trust_region.clip",
    "components.loss.trust_region.kl_cov": "components.loss.trust_region.divergence",
    "components.loss.trust_region.kl_penalty": "components.loss.trust_region.divergence",
    "components.loss.trust_region.m2po": "components.loss.trust_region.divergence",
    "components.loss.trust_region.none": "components.loss.trust_region.clip",
    "components.loss.trust_region.sapo": "components.loss.trust_region.smooth",
    "components.loss.trust_region.vespo": "components.loss.trust_region.smooth",
    "components.loss.weight.branch_share": "components.loss.weight.rows",
    "components.loss.weight.divergence": "components.loss.weight.importance",
    "components.loss.weight.equal_roles": "components.loss.weight.rows",
    "components.loss.weight.geometric": "components.loss.weight.importance",
    "components.loss.weight.masked": "components.loss.weight.importance",
    "components.loss.weight.off_policy_mask": "components.loss.weight.importance",
    "components.loss.weight.overlong": "components.loss.weight.rows",
    "components.loss.weight.self_normalised": "components.loss.weight.importance",
    "components.loss.weight.top_entropy": "components.loss.weight.rows",
    "components.loss.weight.truncated": "components.loss.weight.importance",
    "components.mismatch.monitor": "components.mismatch",
    "components.objectives.several": "components.objectives",
    "components.old_log_probs.recomputed": "components.old_log_probs",
    "components.old_log_probs.recomputed_moments": "components.old_log_probs",
    "components.old_log_probs.rollout": "components.old_log_probs",
    "components.pairing.best_worst": "components.pairing",
    "components.pairing.constructed": "components.pairing",
    "components.pairing.judged": "components.pairing",
    "components.parallel.hybrid": "components.parallel",
    "components.parallel.replicate": "components.parallel",
    "components.parallel.shard": "components.parallel",
    "components.pareto.chebyshev": "components.pareto.scalarisation",
    "components.pareto.constrained": "components.pareto.gradients",
    "components.pareto.expected": "components.pareto.scalarisation",
    "components.pareto.linear": "components.pareto.scalarisation",
    "components.pareto.mgda": "components.pareto.gradients",
    "components.pareto.nash_mtl": "components.pareto.gradients",
    "components.pareto.pama": "components.pareto.gradients",
    "components.pareto.preferred": "components.pareto.scalarisation",
    "components.pareto.random": "components.pareto.scalarisation",
    "components.pareto.scaled": "components.pareto.scalarisation",
    "components.pareto.smooth_chebyshev": "components.pareto.scalarisation",
    "components.pareto.torchjd": "components.pareto.gradients",
    "components.position.entropy": "components.position",
    "components.position.every": "components.position",
    "components.position.pattern": "components.position",
    "components.position.sentences": "components.position",
    "components.position.words": "components.position",
    "components.potential.step_score": "components.potential",
    "components.potential.token_score": "components.potential",
    "components.randomise.log_uniform": "components.randomise",
    "components.randomise.uniform": "components.randomise",
    "components.reference.frozen_full": "components.reference.frozen",
    "components.reference.live_full": "components.reference.frozen",
    "components.reference.refreshed": "components.reference.frozen",
    "components.reference.refreshed_full": "components.reference.frozen",
    "components.reference.teacher_by_spans": "components.reference.teacher",
    "components.reference.teacher_full": "components.reference.teacher",
    "components.reference.teachers": "components.reference.teacher",
    "components.reference.teachers_full": "components.reference.teacher",
    "components.replay.extend_goals": "components.replay.extend",
    "components.replay.extend_interventions": "components.replay.extend",
    "components.replay.extend_labelled": "components.replay.extend",
    "components.replay.reprioritise": "components.replay.prioritized",
    "components.replay.sample_future": "components.replay.sample",
    "components.replay.sample_half_half": "components.replay.sample",
    "components.replay.sample_hindsight": "components.replay.sample",
    "components.replay.sample_labelled": "components.replay.sample",
    "components.replay.shuffled_rewards": "components.replay.sample",
    "components.reward.auto_refine": "components.reward.tools",
    "components.reward.box_overlap": "components.reward.boxes",
    "components.reward.brevity": "components.reward.surface",
    "components.reward.by_column": "components.reward.combined",
    "components.reward.constraints": "components.reward.answer",
    "components.reward.countdown": "components.worlds.countdown.reward",
    "components.reward.dense_match": "components.reward.next_token",
    "components.reward.detections": "components.reward.boxes",
    "components.reward.episode_return": "components.reward.episode",
    "components.reward.exact_match": "components.reward.answer",
    "components.reward.fact": "components.reward.episode",
    "components.reward.gibberish": "components.reward.surface",
    "components.reward.gui_action": "components.reward.boxes",
    "components.reward.information_gain": "components.reward.thought",
    "components.reward.judged_segment": "components.reward.judged",
    "components.reward.key_frames": "components.reward.boxes",
    "components.reward.language_consistency": "components.reward.surface",
    "components.reward.learned": "components.reward.reward_model",
    "components.reward.length": "components.reward.surface",
    "components.reward.mode_distance": "components.worlds.ring.reward",
    "components.reward.numeric": "components.reward.answer",
    "components.reward.on_proof": "components.reward.episode",
    "components.reward.prefix_match": "components.reward.next_token",
    "components.reward.process_scored": "components.reward.reward_model",
    "components.reward.regex": "components.reward.surface",
    "components.reward.repetition": "components.reward.surface",
    "components.reward.scored": "components.reward.reward_model",
    "components.reward.script_consistency": "components.reward.surface",
    "components.reward.share_in_place": "components.worlds.sorting.positional_accuracy",
    "components.reward.short_answer": "components.reward.answer",
    "components.reward.shuffled": "components.reward.combined",
    "components.reward.stack_program": "components.worlds.stack_language.reward",
    "components.reward.symbolic": "components.reward.answer",
    "components.reward.thought_likelihood": "components.reward.thought",
    "components.reward.tool_calls": "components.reward.tools",
    "components.reward.tool_star": "components.reward.tools",
    "components.reward.weighted_sum": "components.reward.combined",
    "components.reward_check.limit": "components.reward_check",
    "components.sampler.epochs": "components.sampler.prompts",
    "components.sampler.labelled_texts": "components.sampler.labelled",
    "components.sampler.points": "components.sampler.prompts",
    "components.sampler.rankings": "components.sampler.labelled",
    "components.sampler.rated": "components.sampler.labelled",
    "components.sampler.uniform": "components.sampler.prompts",
    "components.search.best_first": "components.search",
    "components.search.mcts": "components.search",
    "components.search.rmaxts": "components.search",
    "components.search.sampling": "components.search",
    "components.shaping.adaptive_length_penalty": "components.shaping.length_penalty",
    "components.shaping.cosine_length": "components.shaping.length",
    "components.shaping.grpo_lead": "components.shaping.length_penalty",
    "components.shaping.implicit_process": "components.shaping.process",
    "components.shaping.kimi_length": "components.shaping.length",
    "components.shaping.l1_exact": "components.shaping.length",
    "components.shaping.l1_max": "components.shaping.length",
    "components.shaping.potential": "components.shaping.process",
    "components.shaping.rater_noise": "components.shaping.noise",
    "components.shaping.shuffled": "components.shaping.noise",
    "components.shaping.soft_overlong": "components.shaping.length",
    "components.shaping.step_rewards": "components.shaping.process",
    "components.shaping.stop_properly": "components.shaping.length",
    "components.shaping.turn_potential": "components.shaping.process",
    "components.store.collected_pairs": "components.store.collected",
    "components.store.replay_pairs": "components.store.replay",
    "components.target.updater": "components.target",
    "components.task.addition": "components.worlds.addition.task",
    "components.task.annotated_text": "components.task.next_token",
    "components.task.bfcl": "components.worlds.bfcl.task",
    "components.task.calculation": "components.worlds.calculation.task",
    "components.task.countdown": "components.worlds.countdown.task",
    "components.task.digit_sum": "components.worlds.digit_sum.task",
    "components.task.documents": "components.task.text",
    "components.task.expression": "components.worlds.expression.task",
    "components.task.form": "components.worlds.form.task",
    "components.task.hops": "components.worlds.hops.task",
    "components.task.hub": "components.task.file",
    "components.task.letter_walk": "components.worlds.letter_walk.task",
    "components.task.lookup": "components.worlds.lookup.task",
    "components.task.mask_proposal": "components.task.masked_span",
    "components.task.maze": "components.worlds.maze.task",
    "components.task.median": "components.worlds.median.task",
    "components.task.moves": "components.worlds.matrix_game.moves",
    "components.task.planted": "components.worlds.planted_calls.task",
    "components.task.program": "components.worlds.stack_language.task",
    "components.task.repeat_digit": "components.worlds.repeat_digit.task",
    "components.task.revisions": "components.worlds.sorting.revisions",
    "components.task.running_sum": "components.worlds.running_sum.task",
    "components.task.sorting": "components.worlds.sorting.task",
    "components.task.sorting_graded": "components.worlds.sorting.graded",
    "components.task.sorting_pairs": "components.worlds.sorting.pairs",
    "components.task.step_labels": "components.task.steps",
    "components.task.step_pairs": "components.task.steps",
    "components.task.substitution": "components.worlds.sorting.substitution",
    "components.task.tactic_scripts": "components.worlds.tactics.scripts",
    "components.task.tactic_steps": "components.worlds.tactics.steps",
    "components.task.tactics": "components.worlds.tactics.task",
    "components.task.two_orders": "components.worlds.sorting.two_orders",
    "components.task.two_scripts": "components.worlds.sorting.two_scripts",
    "components.task.unsaid_order": "components.worlds.sorting.unsaid_order",
    "components.task.verdicts": "components.worlds.sorting.verdicts",
    "components.tool.fixed": "components.worlds.planted_calls.fixed_answer",
    "components.tool.stack": "components.worlds.stack_language.tool",
    "components.value.estimate": "components.value",
    "components.value.language_targets": "components.value",
    "components.value.per_objective": "components.value",
    "components.writer.endpoint": "components.writer",
    "components.writer.language_model": "components.writer",
    "rlcomp.io.checkpoint": "rlcomp.checkpoint.writer",
    "rlcomp.io.tensorboard_files": "rlcomp.trackers.tensorboard",
    "rlcomp.io.tracking": "rlcomp.trackers.tracker",
    "rlcomp.io.wandb_run": "rlcomp.trackers.wandb",
}
# Groups, nodes and arguments.
_NAMES = {"sampling": "decoding", "proximal": "old_log_probs", "never": "suppressed_tokens"}


def new_name(name: str) -> str | None:
    """Return the name that a group, node or argument of 0.1 has now.

    Examples:
        >>> new_name("sampling"), new_name("loss")
        ('decoding', None)
    """
    return _NAMES.get(name)


def new_target(target: str) -> str | None:
    """Return the name that a target of 0.1 has now.

    Examples:
        >>> new_target("components.proximal.rollout.FromRollout")
        'components.old_log_probs.rollout.FromRollout'
    """
    for old, new in _TARGETS.items():
        if target == old or target.startswith(f"{old}."):
            return new + target[len(old) :]
    return None


def update_classes(config: DictConfig) -> DictConfig:
    """Give the renamed classes of a saved config their new names, in place.

    Examples:
        >>> update_classes(OmegaConf.create({"_target_": "components.pairing.judged.Judged"}))
        {'_target_': 'components.pairing.judged.JudgedPairs'}
    """
    for path, target in _targets(OmegaConf.to_container(config, resolve=False), ()):
        if (new := _current(target)) is not None:
            node: Any = config
            for key in path:
                node = node._get_node(key)
            node["_target_"] = new
    return config


def _current(target: str) -> str | None:
    """Return the name that a class of 0.2 has now; None if it is unchanged."""
    if target in _CLASSES:
        return _CLASSES[target]
    module, _, name = target.rpartition(".")
    return f"{_MODULES[module]}.{name}" if module in _MODULES else None


def renamed_classes(config: DictConfig) -> list[str]:
    """Return one message for each class of a config that has another name now."""
    targets = _targets(OmegaConf.to_container(config, resolve=False), ())
    return [
        f"{'.'.join(map(str, path))}._target_: {target} is now {new}"
        for path, target in targets
        if (new := _current(target)) is not None
    ]


def of_version_0_1(config: DictConfig) -> str | None:
    """Return one message for all targets of 0.1 in a config; None if it has none."""
    messages = dict.fromkeys(
        f"{'.'.join(map(str, path))}._target_ {target} is now {new}"
        for path, target in _targets(OmegaConf.to_container(config, resolve=False), ())
        if (new := new_target(target)) is not None
    )
    if not messages:
        return None
    nodes = [f"the node '{old}' is now '{new}'" for old, new in _NAMES.items() if old in config]
    return "this config is of rlcomp 0.1: " + "; ".join([*messages, *nodes])


def _targets(
    value: object, path: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield each ``_target_`` of a plain config, with the path of its node."""
    if isinstance(value, Mapping):
        if isinstance(target := value.get("_target_"), str):
            yield path, target
        for key, item in value.items():
            yield from _targets(item, (*path, key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _targets(item, (*path, place))
