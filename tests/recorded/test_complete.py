"""Every number a component records is pinned by hand: on the ragged batch, or beside the component.

A number is pinned if its test fails when another mask, sign, share, unit or mean is recorded.
"""

import ast
import runpy
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = "tests/components/"
MATRIX_GAME = "tests/worlds/matrix_game/"
GAME = TESTS + "collector/test_mask_game_collector.py::"
CUT_OFF = GAME + "test_words_are_those_of_the_masks_in_use_and_what_is_cut_off_is_recorded"
PROPOSALS = GAME + "test_what_became_of_the_proposals_is_recorded"
EPISODES = TESTS + "collector/test_episode_collector.py::test_numbers_of_episodes_are_recorded"
TURNS = TESTS + "advantage/test_turns.py::"
GROUP = TESTS + "collector/test_group_collector.py::test_tokens_and_lengths_are_recorded"
ENDED = TESTS + "collector/test_gymnasium.py::"
ENDED += "test_of_the_steps_that_end_an_episode_the_mean_is_recorded"
ACCURACY = TESTS + "evaluator/test_accuracy.py::"
COVERAGE = TESTS + "evaluator/test_coverage.py::test_three_prompts_by_hand"
AUDITS = TESTS + "evaluator/test_hacking_monitor.py::test_two_audits_by_hand"
NEXT_TOKEN = TESTS + "evaluator/test_next_token.py::"
DIRECT = NEXT_TOKEN + "test_direct_is_the_share_with_wilson_s_interval"
OBJECTIVES = TESTS + "evaluator/test_objectives.py::"
GRID = OBJECTIVES + "test_a_conditioned_policy_is_evaluated_on_a_grid_of_preferences"
LEARNER = TESTS + "learner/test_gradient.py::"
SKIPPED = TESTS + "learner/test_non_finite.py::"
SKIPPED += "test_only_the_minibatch_that_is_not_finite_is_skipped"
MISMATCH = TESTS + "mismatch/test_monitor.py::"
MISMATCH += "test_the_mismatch_is_recorded_over_the_tokens_that_both_know"
SERVER = TESTS + "sampler_engine/test_server.py::"
DEGENERATE = TESTS + "reward_check/test_limit.py::"
DEGENERATE += "test_groups_that_teach_nothing_are_counted"
SEVERAL = TESTS + "objectives/test_several.py::"
SEVERAL += "test_metrics_are_those_of_the_rows_that_have_the_objective"
GAIN = TESTS + "reward/test_information_gain.py::"
GAIN += "test_a_row_that_the_context_cannot_hold_is_not_valid"
CURRICULUM = TESTS + "reward/test_mask_game_reward.py::test_the_curriculum_is_recorded"
PREFIX = TESTS + "reward/test_prefix_match.py::"
PREFIX += "test_it_records_how_many_answered_and_how_far_they_saw"
POOLED = TESTS + "reward/test_function_in_pool.py::"
OVERRUN = POOLED + "test_an_overrun_is_invalid_and_counted"
CODE = "tests/interfaces/test_code_reward.py::"
CODE += "test_each_distinct_program_runs_once_a_batch_and_the_tier_is_recorded"
PLATEAU = TESTS + "early_stop/test_plateau.py::"
PLATEAU += "test_it_ends_after_so_many_evaluations_without_a_better_one"
BAND = TESTS + "sampler/test_curriculum.py::"
BAND += "test_prompts_of_the_band_come_first_and_all_others_are_new"
POOLS = TESTS + "sampler/test_difficulty_pools.py::"
KINDS = TESTS + "feedback/test_answer_kinds.py::"
KINDS += "test_an_answer_is_of_the_first_kind_that_matches_all_of_it"
ADAPTED = TESTS + "shaping/test_length_penalty.py::"
ADAPTED += "test_the_weight_follows_the_moving_average_and_is_used_before_it_moves"
WEIGHED = (
    "tests/pareto/test_aggregator.py::test_weights_conflicts_and_returns_are_recorded_by_quantity"
)
REFILL = "tests/run/test_stages.py::test_refill_records_what_became_of_the_rows_it_made"
RULER = TESTS + "reward/test_ruler.py::"
GAP = "test_how_far_the_sampler_was_off_is_recorded"
DISTANCE = "test_distance_is_recorded_over_response_tokens"

SEARCHED = ("solved", "calls", "tokens", "proof_length")

# By module: which test pins which of its metrics.
BESIDE = [
    (
        "components/store.py",
        dict.fromkeys(
            ["*/kept_fraction", "*/rows"],
            TESTS + "store/test_collected.py::test_right_answers_that_were_judged_are_kept_once",
        ),
    ),
    (
        "components/collector/search.py",
        dict.fromkeys(
            [*(f"search/{name}" for name in SEARCHED), "search/states", "rollout/tokens"],
            "tests/prover/test_searcher.py::test_a_search_by_hand",
        ),
    ),
    (
        "components/evaluator/agent.py",
        dict.fromkeys(
            [*(f"*/{name}" for name in SEARCHED), "*/solved_low", "*/solved_high"],
            "tests/prover/test_searcher.py::test_the_share_of_held_out_goals_by_hand",
        ),
    ),
    (
        "rlcomp/checkpoint/buffered_rollout.py",
        {
            "rollout/staleness": (
                "tests/checkpoint/test_buffered_rollout.py::test_the_age_is_that_of_response_tokens"
            ),
        },
    ),
    (
        "rlcomp/run/remote.py",
        {
            **dict.fromkeys(
                [
                    "cluster/weights_seconds",
                    "cluster/waited",
                    "cluster/made",
                    "cluster/idle_fraction",
                ],
                "tests/run/test_remote.py::test_times_and_idleness_are_recorded",
            ),
            "cluster/restarts": "tests/run/test_remote.py::"
            "test_restarts_are_recorded_in_the_step_they_happen_in",
        },
    ),
    (
        "rlcomp/run/async_rollout.py",
        {
            **dict.fromkeys(
                ["cluster/weights_seconds", "cluster/made"],
                "tests/run/test_async_rollout.py::test_times_are_recorded",
            ),
            **dict.fromkeys(
                ["rollout/too_old", "rollout/versions"],
                "tests/run/test_async_rollout.py::test_tokens_that_are_older_than_the_most_are_told_by_hand",
            ),
        },
    ),
    (
        "components/collector/episodes.py",
        dict.fromkeys(
            [
                "rollout/length",
                "rollout/tokens",
                "rollout/truncated",
                "episode/turns",
                "episode/environment_reward",
                "episode/failed",
                "episode/observed",
                "facts/*",
            ],
            EPISODES,
        ),
    ),
    (
        "components/collector/episodes.py",
        {
            "self_play/reward_*": TESTS
            + "collector/test_self_play_collector.py::test_the_reward_of_each_seat_is_recorded",
        },
    ),
    (
        "components/worlds/matrix_game/exploitability.py",
        dict.fromkeys(
            ["*/exploitability", "*/exploitability_of_mean", "*/first_move_*"],
            MATRIX_GAME
            + "test_exploitability.py::test_shares_of_the_moves_and_their_means_are_measured",
        ),
    ),
    (
        "components/evaluator/self_play.py",
        dict.fromkeys(
            ["*/right", "*/verdict_right", "*/judged", "*/accuracy", "*/accepted_wrong", "*/auc"],
            TESTS + "evaluator/test_verdict_quality.py::test_matches_and_verdicts_by_hand",
        ),
    ),
    (
        "components/evaluator/self_play.py",
        dict.fromkeys(
            ["*/win_rate", "*/win_rate_oldest", "*/win_rate_newest"],
            TESTS + "evaluator/test_self_play_win_rate.py::test_each_copy_is_played_in_both_seats",
        ),
    ),
    (
        "components/reward/tournament.py",
        {
            "tournament/untold": TESTS
            + "reward/test_tournament.py::test_a_pair_without_a_verdict_is_left_out",
        },
    ),
    (
        "components/evaluator/agent.py",
        {
            "*/turns": TESTS
            + "evaluator/test_agent.py::test_turns_of_the_sampled_episodes_are_recorded",
        },
    ),
    (
        "components/advantage/turns.py",
        dict.fromkeys(
            ["advantage/step_group", "advantage/shared_states", "advantage/step"],
            TURNS + "test_gigpo_by_hand",
        ),
    ),
    (
        "components/advantage/turns.py",
        {
            "advantage/turn_return": TURNS + "test_turn_returns_by_hand",
        },
    ),
    ("components/advantage/turns.py", {"advantage/turn": TURNS + "test_vine_by_hand"}),
    ("components/advantage/turns.py", {"advantage/turn": TURNS + "test_mt_grpo_by_hand"}),
    (
        "components/collector/group.py",
        {
            "rollout/length": GROUP,
            "rollout/tokens": GROUP,
            "rollout/truncated": GROUP,
        },
    ),
    (
        "components/collector/branching.py",
        dict.fromkeys(
            ["branching/delta_entropy", "branching/branches", "branching/trained_tokens"],
            "tests/episodes/test_branching.py::test_a_tree_by_hand",
        ),
    ),
    (
        "components/collector/branching.py",
        dict.fromkeys(
            ["vine/tokens", "vine/value", "vine/invalid_fraction"],
            TESTS + "collector/test_vine_collector.py::test_values_by_hand",
        ),
    ),
    (
        "components/collector/steps.py",
        {
            "collector/frames": ENDED,
            "episode/length": ENDED,
            "episode/return": ENDED,
        },
    ),
    (
        "components/collector/steps.py",
        dict.fromkeys(
            ["collector/frames", "episode/length", "episode/return"],
            TESTS + "collector/test_steps.py::test_only_ended_episodes_are_recorded",
        ),
    ),
    (
        "components/exploration.py",
        {
            "exploration/epsilon": TESTS
            + "exploration/test_exploration.py::test_epsilon_falls_over_a_part_of_the_phase",
        },
    ),
    (
        "components/exploration.py",
        {
            "exploration/beta": TESTS
            + "exploration/test_exploration.py::"
            + "test_the_expert_acts_less_in_each_round_of_the_phase",
        },
    ),
    (
        "components/evaluator/episodes.py",
        {
            "evaluation/cost@*": TESTS
            + "evaluator/test_episodes.py::test_errors_without_recovery_add_up_as_enumerated",
        },
    ),
    (
        "components/collector/steps.py",
        dict.fromkeys(
            ["episode/success", "episode/length", "collector/frames"],
            TESTS + "collector/test_action_episodes.py::test_success_and_steps_are_recorded",
        ),
    ),
    (
        "components/evaluator/episodes.py",
        {
            "*/*": TESTS
            + "evaluator/test_action_tokens.py::test_sampled_and_greedy_actions_are_recorded_apart",
        },
    ),
    (
        "components/evaluator/episodes.py",
        dict.fromkeys(
            ["evaluation/return", "evaluation/return@*", "evaluation/gap@*"],
            TESTS + "evaluator/test_shifted.py::test_the_gap_of_each_shift_is_recorded_by_name",
        ),
    ),
    (
        "components/replay/prioritized.py",
        {
            "replay/error": TESTS
            + "replay/test_prioritized.py::test_the_errors_of_a_loss_become_priorities",
        },
    ),
    (
        "components/dataset.py",
        dict.fromkeys(
            ["dataset/steps", "dataset/reward"],
            TESTS + "dataset/test_file.py::test_all_steps_are_one_batch_and_are_counted",
        ),
    ),
    (
        "components/loss/transitions.py",
        {
            "loss/cql": TESTS
            + "loss/test_conservative.py::test_it_is_soft_actor_critic_and_the_weighted_gap",
        },
    ),
    (
        "components/loss/imitation.py",
        {
            "loss/*": TESTS
            + "loss/test_demonstrations.py::"
            + "test_cloning_of_a_squashed_gaussian_is_the_log_likelihood",
        },
    ),
    (
        "components/evaluator/flow.py",
        dict.fromkeys(
            [f"evaluation/{name}" for name in ("reward", "in_mode", "sde_in_mode", "sde_shift")],
            TESTS + "evaluator/test_flow.py::test_samples_of_a_flow_to_one_mode_by_hand",
        ),
    ),
    (
        "components/evaluator/episodes.py",
        {
            "evaluation/success": TESTS
            + "evaluator/test_episodes.py::test_the_share_of_copies_that_arrive_is_recorded",
        },
    ),
    (
        "rlcomp/interfaces/intervention.py",
        {
            "intervention/share": TESTS
            + "intervention/test_scripted.py::test_the_share_of_steps_taken_over_is_recorded",
        },
    ),
    (
        "components/replay/stages.py",
        {
            "replay/demonstrations": TESTS
            + "replay/test_half_half.py::test_the_number_of_demonstrations_is_recorded",
        },
    ),
    (
        "components/replay/stages.py",
        {
            "replay/size": TESTS + "replay/test_labelled.py::test_the_number_of_labels_is_recorded",
        },
    ),
    (
        "components/learner/natural_gradient.py",
        dict.fromkeys(
            ["trust_region/kl", "trust_region/surrogate_gain", "trust_region/shrinks"],
            TESTS + "learner/test_natural_gradient.py::test_a_step_stays_within_the_ball_and_gains",
        ),
    ),
    (
        "components/loss/transitions.py",
        {
            "loss/*": TESTS
            + "loss/test_torchrl_losses.py::test_soft_actor_critic_is_the_formula_of_the_paper",
        },
    ),
    (
        "components/replay/stages.py",
        {
            "replay/size": TESTS
            + "replay/test_uniform.py::test_copies_are_laid_out_flat_and_stay_in_the_batch",
        },
    ),
    (
        "components/collector/mask_game.py",
        {
            "mask_game/*": PROPOSALS,
            "mask_game/valid_fraction": PROPOSALS,
            "mask_game/words": CUT_OFF,
        },
    ),
    (
        "components/evaluator/accuracy.py",
        {
            "*/invalid_fraction": ACCURACY + "test_answers_without_a_verdict_are_left_out",
            "*/reward/*/*": ACCURACY
            + "test_means_of_a_reward_are_those_of_the_prompts_that_were_judged",
        },
    ),
    (
        "rlcomp/data/held_out_answers.py",
        {
            "*/*": ACCURACY + "test_answers_without_a_verdict_are_left_out",
            "*/*_high": ACCURACY + "test_no_right_greedy_answer_of_three_may_be_chance",
            "*/*_low": ACCURACY + "test_no_right_greedy_answer_of_three_may_be_chance",
        },
    ),
    (
        "components/evaluator/budget.py",
        dict.fromkeys(
            [
                "*/forced@*",
                "*/invalid_fraction",
                "*/length_right",
                "*/length_wrong",
                "*/thinking_tokens@*",
                "*/tokens_per_right@*",
            ],
            TESTS + "evaluator/test_budget.py::test_two_budgets_by_hand",
        ),
    ),
    (
        "components/evaluator/forgetting.py",
        dict.fromkeys(
            [
                "*/accuracy*",
                "*/invalid_fraction",
                "*/loss*",
                "*/loss_change",
            ],
            TESTS + "evaluator/test_forgetting.py::test_now_against_the_beginning_of_the_phase",
        ),
    ),
    (
        "components/evaluator/likelihood.py",
        dict.fromkeys(
            ["*/*", "*/*_low", "*/*_high"],
            TESTS + "evaluator/test_likelihood.py::test_perplexities_by_hand",
        ),
    ),
    ("components/evaluator/coverage.py", {"*/invalid_fraction": COVERAGE}),
    (
        "components/evaluator/hacking_monitor.py",
        dict.fromkeys(
            [
                f"hacking_monitor/{name}"
                for name in ("audited", "gap", "gap_z", "true", "true_window", "true_z")
            ],
            AUDITS,
        ),
    ),
    (
        "components/evaluator/episodes.py",
        {
            "evaluation/return": TESTS
            + "evaluator/test_episodes.py::test_the_mean_over_the_copies_is_recorded",
        },
    ),
    (
        "components/evaluator/likelihood.py",
        {
            "*/direct": DIRECT,
            "*/direct_high": DIRECT,
            "*/direct_low": DIRECT,
            "*/nats": NEXT_TOKEN + "test_nats_are_those_of_the_first_byte_after_the_bare_context",
        },
    ),
    (
        "components/evaluator/objectives.py",
        {
            "evaluation/hypervolume": GRID,
            "evaluation/response/*": GRID,
            "evaluation/return/*@*": GRID,
        },
    ),
    (
        "components/feedback.py",
        {
            "answer_kinds/*": KINDS,
            "answer_kinds/*_correct": KINDS,
        },
    ),
    (
        "components/filter.py",
        {
            "filter/rejected_fraction": TESTS
            + "filter/test_correct.py::test_it_keeps_what_is_right_and_was_judged",
        },
    ),
    (
        "components/filter.py",
        {
            "filter/answer_fraction": TESTS
            + "filter/test_thought_only.py::test_the_share_of_tokens_taken_out_is_recorded",
        },
    ),
    (
        "components/kl.py",
        {
            "kl/in_reward": TESTS
            + "kl/test_in_reward_full.py::test_the_reward_pays_the_kl_of_the_whole_distribution",
        },
    ),
    (
        "components/learner/loss_value.py",
        {
            "*/*": LEARNER + "test_a_foreign_loss_with_its_own_model_is_trained",
        },
    ),
    (
        "components/learner/gradient.py",
        {
            "*/grad_norm": LEARNER + "test_the_gradient_is_scaled_down_to_its_largest_norm",
            "*/lr": LEARNER + "test_the_schedule_multiplies_the_learning_rate",
            "*/tokens": LEARNER + "test_the_response_tokens_of_all_optimiser_steps_are_recorded",
        },
    ),
    (
        "components/learner/minibatch_step.py",
        {
            "*/non_finite": SKIPPED,
            "*/gradient_spikes": TESTS + "learner/test_gradient_spike.py::"
            "test_a_spike_is_counted_and_its_step_taken_or_skipped",
            "*/tokens": LEARNER + "test_the_response_tokens_of_all_optimiser_steps_are_recorded",
            "loss/*": LEARNER + "test_a_foreign_loss_with_its_own_model_is_trained",
        },
    ),
    (
        "components/learner/gradient_passes.py",
        {
            "policy/entropy": LEARNER + "test_the_entropy_of_the_response_is_recorded",
            "*/rows_without_gradient": TESTS + "learner/test_gradient_rows.py::"
            "test_without_any_advantage_the_gradient_is_zero_not_absent",
        },
    ),
    (
        "components/learner/gradient_rows.py",
        {
            "policy/entropy": TESTS + "learner/test_gradient_rows.py::"
            "test_recorded_log_probs_are_masked",
        },
    ),
    (
        "components/learner/per_objective.py",
        {
            "pareto/jacobian_mib": TESTS + "learner/test_per_objective.py::"
            "test_adapters_are_compared_on_packed_rows_and_the_base_gets_no_gradient",
        },
    ),
    (
        "components/evaluator/likelihood.py",
        dict.fromkeys(
            ["*/chosen_*", "*/rejected_*", "*/margin", "*/accuracy"],
            TESTS + "evaluator/test_likelihood.py::"
            "test_with_a_reference_the_margin_is_that_of_the_changes",
        ),
    ),
    (
        "components/evaluator/reward_model.py",
        dict.fromkeys(
            ["*/margin", "*/accuracy", "*/nll", "*/brier"],
            TESTS + "evaluator/test_reward_model.py::test_four_pairs_by_hand",
        )
        | {
            "*/ece": TESTS + "evaluator/test_reward_model.py::"
            "test_the_calibration_is_that_of_both_sides",
            "*/tied_gap": TESTS + "evaluator/test_reward_model.py::test_ties_are_measured_apart",
        },
    ),
    (
        "components/loss/comparison.py",
        dict.fromkeys(
            [f"reward_model/{name}" for name in ("accuracy", "margin", "chosen", "rejected")],
            TESTS + "loss/test_bradley_terry.py::test_accuracy_margin_and_scores_are_recorded",
        ),
    ),
    (
        "components/loss/comparison.py",
        dict.fromkeys(
            [f"reward_model/{name}" for name in ("accuracy", "margin", "tied_gap", "ties", "nu")],
            TESTS + "loss/test_davidson.py::test_its_metrics_are_over_wins_or_over_ties",
        ),
    ),
    (
        "components/loss/regression.py",
        dict.fromkeys(
            [f"reward_model/{name}" for name in ("exact", "lowest_threshold", "highest_threshold")],
            TESTS + "loss/test_ordinal_regression.py::test_its_metrics_by_hand",
        ),
    ),
    (
        "components/evaluator/reward_model.py",
        dict.fromkeys(
            ["*/rank_correlation", "*/accuracy"],
            TESTS + "evaluator/test_rated_answers.py::test_four_answers_by_hand",
        ),
    ),
    (
        "components/loss/labels.py",
        {
            "implicit_reward/accuracy": TESTS + "loss/test_implicit_outcome.py::"
            "test_its_accuracy_is_recorded",
        },
    ),
    (
        "components/shaping/process.py",
        dict.fromkeys(
            ["implicit_reward/token", "implicit_reward/auc"],
            TESTS + "shaping/test_process.py::test_the_auc_is_recorded",
        ),
    ),
    (
        "components/advantage/process.py",
        dict.fromkeys(
            ["advantage/process", "advantage/outcome"],
            TESTS + "advantage/test_prime.py::test_both_terms_are_recorded",
        ),
    ),
    (
        "components/loss/labels.py",
        {
            "process/accuracy": TESTS + "loss/test_step_and_outcome_labels.py::"
            "test_the_accuracy_of_steps_is_recorded",
        },
    ),
    (
        "components/loss/labels.py",
        {
            "outcome/accuracy": TESTS + "loss/test_step_and_outcome_labels.py::"
            "test_the_accuracy_of_outcomes_is_recorded",
        },
    ),
    (
        "components/evaluator/reward_model.py",
        dict.fromkeys(
            ["*/accuracy", "*/base", "*/first_error", "*/ece"],
            TESTS + "sampler/test_step_labels.py::test_held_out_steps_by_hand",
        ),
    ),
    (
        "components/reward/reward_model.py",
        {
            "reward/steps": TESTS + "reward/test_process_scorer_reward.py::"
            "test_steps_end_with_the_separator_and_the_last_with_the_text",
        },
    ),
    (
        "components/shaping/transform.py",
        dict.fromkeys(
            ["reward/running_mean", "reward/running_std"],
            TESTS + "shaping/test_transform.py::test_all_rewards_so_far_are_counted",
        ),
    ),
    (
        "components/shaping/process.py",
        {
            "reward/step": TESTS + "shaping/test_process.py::"
            "test_each_step_has_its_score_at_its_end",
        },
    ),
    (
        "components/shaping/process.py",
        {
            "reward/potential_step": TESTS + "shaping/test_process.py::"
            "test_shaping_adds_the_differences_of_the_potential",
        },
    ),
    (
        "components/shaping/process.py",
        {
            "reward/potential_turn": TESTS + "shaping/test_process.py::"
            "test_turns_are_shaped_by_their_first_states",
        },
    ),
    (
        "components/loss/comparison.py",
        {
            "reward_model/top": TESTS + "loss/test_plackett_luce.py::"
            "test_how_often_the_best_has_the_highest_score_is_recorded",
        },
    ),
    (
        "components/loss/regression.py",
        {
            "reward_model/absolute_error": TESTS + "loss/test_score_regression.py::"
            "test_the_absolute_error_is_recorded",
        },
    ),
    (
        "components/reward/reward_model.py",
        {
            "reward/disagreement": TESTS + "reward/test_scorer_reward.py::"
            "test_the_spread_of_the_members_is_recorded",
            "reward/raw_score": TESTS + "reward/test_scorer_reward.py::"
            "test_the_score_before_normalisation_is_recorded",
        },
    ),
    (
        "components/pairing.py",
        dict.fromkeys(
            ["pairing/pairs", "pairing/gap"],
            TESTS + "pairing/test_best_worst.py::"
            "test_how_many_groups_give_pairs_and_how_far_they_differ_is_recorded",
        ),
    ),
    (
        "components/collector/revision.py",
        dict.fromkeys(
            ["revision/told", "revision/changed"],
            TESTS + "collector/test_revised.py::test_rows_are_the_prompts_with_the_revisions",
        ),
    ),
    (
        "components/pairing.py",
        {"pairing/pairs": TESTS + "pairing/test_constructed.py::test_equal_texts_are_no_pair"},
    ),
    (
        "components/pairwise_judge/verdicts.py",
        {
            "judges/disagreement": TESTS
            + "pairwise_judge/test_verdicts.py"
            + "::test_the_mean_is_over_the_judges_that_can_tell"
        },
    ),
    (
        "components/pairwise_judge/rationale.py",
        dict.fromkeys(
            ["reasoned/verdicts", "reasoned/majority"],
            TESTS + "pairwise_judge/test_reasoned.py::test_several_rationales_vote",
        ),
    ),
    (
        "components/loss/labels.py",
        dict.fromkeys(
            ["labels/nll", "labels/known"],
            TESTS + "loss/test_multi_label.py::test_three_known_labels_by_hand",
        ),
    ),
    (
        "components/evaluator/reward_model.py",
        dict.fromkeys(
            ["*/nll", "*/*/share", "*/*/*", "*/*"],
            "tests/model/test_label_classifier.py::test_four_held_out_texts_by_hand",
        ),
    ),
    (
        "components/endpoint.py",
        dict.fromkeys(
            ["endpoint/requests", "endpoint/failed", "endpoint/tokens", "time/endpoint"],
            TESTS + "endpoint/test_chat.py::test_it_records_requests_failures_and_tokens",
        ),
    ),
    (
        "components/reward/ruler.py",
        dict.fromkeys(
            ["ruler/unscored", "ruler/replies"],
            RULER + "test_a_bad_reply_is_retried_and_then_the_group_is_invalid",
        ),
    ),
    (
        "components/pairing.py",
        dict.fromkeys(
            [
                f"pairing/{name}"
                for name in ("pairs", "order_flips", "first_shown", "unjudged", "agreement")
            ],
            TESTS + "pairing/test_judged.py::test_orders_and_agreement_are_recorded",
        ),
    ),
    (
        "components/loss/preference.py",
        dict.fromkeys(
            [
                f"preference/{name}"
                for name in ("chosen_*", "rejected_*", "margin", "accuracy", "chosen_nll")
            ],
            TESTS + "loss/test_preference.py::test_both_likelihoods_and_margins_are_recorded",
        ),
    ),
    (
        "components/loss/preference.py",
        dict.fromkeys(
            ["preference/chosen_*", "preference/rejected_*", "preference/baseline"],
            TESTS + "loss/test_kto.py::"
            "test_likelihoods_of_both_kinds_and_the_reference_point_are_recorded",
        ),
    ),
    (
        "components/advantage/reweighted.py",
        dict.fromkeys(
            ["advantage/distilled", "advantage/distilled_clipped"],
            TESTS + "advantage/test_distilled.py::"
            "test_the_difference_and_the_share_that_is_cut_are_recorded",
        ),
    ),
    (
        "components/loss/kl.py",
        dict.fromkeys(
            ["distil/agreement", "distil/divergence"],
            TESTS + "loss/test_distil.py::test_three_tokens_of_two_rows_by_hand",
        ),
    ),
    (
        "components/reference/teacher.py",
        dict.fromkeys(
            ["kl/reference", "teacher/tokens"],
            TESTS + "reference/test_teacher.py::test_scored_tokens_and_distance_are_recorded",
        ),
    ),
    (
        "components/reference/teacher.py",
        dict.fromkeys(
            ["kl/reference", "teacher/tokens"],
            TESTS + "reference/test_teacher_by_spans.py::"
            "test_bytes_and_characters_are_the_same_spans_of_ascii",
        ),
    ),
    (
        "rlcomp/interfaces/reference.py",
        {
            "kl/reference": TESTS + "reference/test_teacher_prompt.py::"
            "test_the_distance_to_a_live_reference_is_recorded_over_response_tokens",
        },
    ),
    (
        "components/loss/kl.py",
        {
            "kl/in_loss": TESTS + "loss/test_kl_full.py::test_two_tokens_by_hand",
        },
    ),
    (
        "components/mismatch.py",
        dict.fromkeys(
            (
                "mismatch/mean",
                "mismatch/max",
                "mismatch/above_1_nat",
                "mismatch/k3",
                "mismatch/ess",
            ),
            MISMATCH,
        ),
    ),
    (
        "components/sampler_engine/server.py",
        {
            "sampler_engine/requests": SERVER + "test_ids_go_out_and_ids_come_back",
            "time/sampler_engine": SERVER + "test_ids_go_out_and_ids_come_back",
            "time/weights": SERVER + "test_weights_are_handed_over_once_a_version",
        },
    ),
    ("components/objectives.py", {"reward/*": SEVERAL, "reward/weighted": SEVERAL}),
    (
        "components/old_log_probs.py",
        {
            "old_log_probs/sampler_gap": TESTS + f"old_log_probs/test_recomputed.py::{GAP}",
        },
    ),
    (
        "components/old_log_probs.py",
        {
            "old_log_probs/sampler_gap": TESTS + f"old_log_probs/test_recomputed_moments.py::{GAP}",
        },
    ),
    (
        "rlcomp/interfaces/reference.py",
        {
            "kl/reference": TESTS + f"reference/test_adapter_off.py::{DISTANCE}",
        },
    ),
    (
        "rlcomp/interfaces/reference.py",
        {
            "kl/reference": TESTS + f"reference/test_frozen.py::{DISTANCE}",
        },
    ),
    (
        "rlcomp/interfaces/reference.py",
        {
            "kl/reference": TESTS + f"reference/test_pretrained.py::{DISTANCE}",
        },
    ),
    (
        "components/reward/thought.py",
        {
            "reward/with_thought": GAIN,
            "reward/without_thought": GAIN,
        },
    ),
    (
        "components/reward/judge.py",
        {
            "reward/answered": TESTS + "reward/test_judge.py::test_the_judge_s_score_is_the_reward",
        },
    ),
    (
        "components/reward/mask_game.py",
        {
            "mask_game/accuracy": CURRICULUM,
            "mask_game/all_right": CURRICULUM,
            "mask_game/all_wrong": CURRICULUM,
            "mask_game/difficulty": CURRICULUM,
            "reward/correct": CURRICULUM,
            "reward/invalid_fraction": TESTS + "reward/test_mask_game_reward.py::"
            "test_the_share_of_generators_without_their_predictors_is_recorded",
            "reward/mean": TESTS + "reward/test_mask_game_reward.py::"
            "test_the_share_of_generators_without_their_predictors_is_recorded",
        },
    ),
    (
        "components/reward/next_token.py",
        {
            "reward/answered": PREFIX,
            "reward/matched_tokens": PREFIX,
        },
    ),
    (
        "components/reward_check.py",
        dict.fromkeys(
            ("groups/zero_variance", "groups/unjudged", "groups/all_truncated"), DEGENERATE
        ),
    ),
    (
        "components/reward/steps.py",
        {
            "reward/steps": TESTS + "reward/test_steps.py::"
            "test_steps_of_rows_that_cannot_be_judged_are_not_recorded",
        },
    ),
    (
        "components/reward/composite.py",
        dict.fromkeys(
            ("reward/*/mean", "reward/*/correct", "reward/*/invalid_fraction"),
            TESTS + "reward/test_by_column.py::test_every_domain_that_occurs_has_its_metrics",
        ),
    ),
    (
        "components/reward/majority_vote.py",
        dict.fromkeys(
            ("reward/majority_ratio", "reward/label_correct", "reward/agreement", "reward/unread"),
            TESTS + "reward/test_majority_vote.py::test_the_majority_of_each_group_is_rewarded",
        ),
    ),
    (
        "components/reward/composite.py",
        {
            "reward/*": TESTS
            + "reward/test_composite.py::test_metrics_are_those_of_the_sum_and_each_part",
        },
    ),
    ("components/sampler/curriculum.py", {"curriculum/in_band": BAND, "curriculum/tried": BAND}),
    (
        "components/sampler/difficulty_pools.py",
        {
            "retired/hopeless": POOLS + "test_what_was_solved_or_hopeless_twice_in_a_row_rests",
            "retired/released": POOLS
            + "test_it_is_passed_over_so_many_times_and_then_back_without_record",
            "retired/solved": POOLS + "test_what_was_solved_or_hopeless_twice_in_a_row_rests",
        },
    ),
    (
        "components/sampler/task_curriculum.py",
        {
            "families/*": TESTS + "sampler/test_families.py::"
            "test_each_family_goes_up_and_down_by_its_own_pass_rate",
        },
    ),
    (
        "components/sampler/task_curriculum.py",
        {
            "frontier/task": TESTS
            + "sampler/test_frontier.py::test_the_number_of_the_task_is_recorded"
        },
    ),
    (
        "components/sampler/pools.py",
        {
            "pools/*": TESTS
            + "sampler/test_pools.py::test_the_share_of_a_task_is_drawn_and_recorded",
        },
    ),
    (
        "components/early_stop.py",
        {
            "early_stop/alarm": TESTS + "early_stop/test_alarm.py::"
            "test_it_ends_when_the_metric_was_outside_often_enough_in_a_row",
        },
    ),
    (
        "components/early_stop.py",
        {
            "early_stop/kl": TESTS + "early_stop/test_kl_budget.py::"
            "test_it_ends_when_the_mean_of_the_window_is_above_the_budget",
        },
    ),
    ("components/early_stop.py", {"early_stop/waited": PLATEAU}),
    (
        "rlcomp/interfaces/code_reward.py",
        {
            **dict.fromkeys(("sandbox/jobs", "sandbox/strict"), CODE),
            "sandbox/*": "tests/interfaces/test_code_reward.py::"
            "test_a_weaker_tier_is_recorded_by_name",
        },
    ),
    (
        "rlcomp/interfaces/pooled_reward.py",
        {
            "reward/*": POOLED + "test_it_can_log_and_see_the_step",
            "reward/failed/*": POOLED
            + "test_none_is_invalid_and_a_mistake_is_counted_and_reported",
            "reward/retried": OVERRUN,
            "time/reward_call": OVERRUN,
            "time/reward_call_max": OVERRUN,
        },
    ),
    ("rlcomp/interfaces/early_stop.py", {"early_stop/best": PLATEAU}),
    (
        "components/shaping/length_penalty.py",
        {
            "length_penalty/accuracy": ADAPTED,
            "length_penalty/weight": ADAPTED,
        },
    ),
    (
        "components/value.py",
        {
            "value/mean/*": "tests/pareto/test_objective_critic.py::"
            "test_the_estimate_writes_two_copies_and_records_means_by_name",
        },
    ),
    (
        "components/value.py",
        {
            "value/mean": TESTS
            + "value/test_estimate.py::test_the_mean_over_response_tokens_is_recorded",
        },
    ),
    (
        "components/value.py",
        dict.fromkeys(
            ["value_targets/mean", "value_targets/tokens", "value_targets/invalid_fraction"],
            TESTS + "value/test_language_targets.py::test_targets_are_recorded",
        ),
    ),
    (
        "components/evaluator/value_quality.py",
        dict.fromkeys(
            ["*/brier", "*/brier_constant", "*/error", "*/invalid_fraction"],
            TESTS + "evaluator/test_value_quality.py::test_errors_are_those_by_hand",
        ),
    ),
    (
        "rlcomp/pareto/aggregator.py",
        {
            "pareto/*/conflict/*": WEIGHED,
            "pareto/*/gap": WEIGHED,
            "pareto/*/return/*": WEIGHED,
            "pareto/*/weight/*": WEIGHED,
            "pareto/*/worst_cosine": WEIGHED,
        },
    ),
    (
        "rlcomp/pareto/conditioning.py",
        {
            "preference/*": TESTS
            + "conditioning/test_text_prefix.py::test_mean_weights_are_recorded",
        },
    ),
    ("rlcomp/run/stages.py", {"refill/kept_fraction": REFILL, "refill/tries": REFILL}),
]


def test_every_number_is_pinned_once(metrics_of):
    pinned = {
        (file, metric)
        for file, _, _, numbers in tables()
        for metric in metrics_of(file)
        if any(fnmatch(name, metric.split("/", 1)[1]) for name in numbers)
    }
    beside = {(file, metric) for file, tests in BESIDE for metric in tests}
    folders = [
        "components/**",
        "rlcomp/data",
        "rlcomp/interfaces",
        "rlcomp/pareto",
        "rlcomp/run",
        "rlcomp/checkpoint",
    ]
    files = [path for folder in folders for path in ROOT.glob(f"{folder}/*.py")]
    names = [path.relative_to(ROOT).as_posix() for path in files]
    recorded = {(name, metric) for name in names for metric in metrics_of(name)}

    assert recorded - pinned - beside == set(), "pin it by hand: in a table PINNED, or in BESIDE"
    assert beside <= recorded, "nobody records it: take it out of BESIDE"


@pytest.mark.parametrize("test", sorted({t for _, tests in BESIDE for t in tests.values()}))
def test_what_is_pinned_beside_a_component_has_its_test(test):
    file, name = test.split("::")

    tree = ast.parse((ROOT / file).read_text("utf-8"))

    assert name in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


def tables():
    """The rows of all tables PINNED of this folder."""
    for path in Path(__file__).parent.glob("test_*.py"):
        if path != Path(__file__):
            yield from runpy.run_path(str(path))["PINNED"]
