import subprocess
import sys

import pytest
from omegaconf import OmegaConf

from rlcomp.cli.describe import difference, main
from rlcomp.config.compose import compose_config


@pytest.fixture
def describe(monkeypatch, capsys):
    """``describe("recipe=grpo")``: what is printed, the message, and the exit code."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["rlcomp-describe", *words])
        code = 0
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code
        printed = capsys.readouterr()
        return printed.out, printed.err, code

    return run


def cells(text, first):
    """The columns of the row that begins with a word."""
    (line,) = [line for line in text.splitlines() if line.strip().split("  ")[0] == first]
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_every_phase_shows_its_steps_and_what_runs_beside_it(describe):
    text, _, code = describe("recipe=grpo", "phases.rl.every.evaluation=10")

    assert "phase warm_start: 75 steps; evaluation every 75, checkpoint every 75" in text
    assert "phase rl: 150 steps; evaluation every 10, checkpoint every 50" in text
    assert code == 0


def test_every_stage_shows_part_and_keys_with_shapes(describe):
    text, _, _ = describe("recipe=grpo")

    assert cells(text, "old_log_probs") == [
        "old_log_probs",
        "RolloutLogProbs",
        "rollout_log_probs[B,T]",
        "old_log_probs[B,T]",
    ]
    slots = "conditioning, feedback, shaping, objectives, mismatch, value, filter, value_learner"
    assert f"empty slots: {slots}" in text


def test_parts_stand_two_columns_behind_what_runs_them(describe):
    text, _, _ = describe("recipe=grpo")

    lines = text.splitlines()
    depths = [
        next(len(line) - len(line.lstrip()) for line in lines if line.split()[:1] == [path])
        for path in ("learner", "loss", "loss.ratio")
    ]
    assert depths == [2, 4, 6]


def test_a_stage_that_starts_a_new_batch_says_so(describe):
    text, _, _ = describe("recipe=grpo")

    assert cells(text, "prompts")[-1] == "a new batch: answer[B,W], answer_ends[B,W],"


def test_a_collector_shows_what_it_may_write_and_that_prompts_are_kept(describe):
    text, _, _ = describe(
        "recipe=grpo", "collector@rollout=greedy_baseline", "advantage=greedy_baseline"
    )
    shown = " ".join(" ".join(line.split()) for line in text.splitlines())

    assert "greedy[B]" in shown
    assert "(sampling_mask[B,T,V/8])" in "".join(text.split())
    assert "andtheprompt'skeys" in "".join(text.split())


def test_the_parts_of_a_learner_stand_below_it(describe):
    text, _, _ = describe("recipe=grpo")
    own = ["loss", "loss.reduction", "loss.ratio", "loss.trust_region"]
    # The KL shares the reduction of the policy loss: one node, shown where it is used.
    parts = ["learner", "policy", *own, "learner.losses.kl", "loss.reduction"]
    firsts = [
        line.split()[0] for line in text[text.index("phase rl") :].splitlines() if line.split()
    ]

    shown = [first for first in firsts if first in parts]
    assert shown == parts


def test_a_foreign_part_is_known_once_it_is_built(describe):
    text, _, code = describe("recipe=control_ppo")

    assert "known once it is built" in cells(text, "collector")
    assert code == 0


def test_a_rename_is_shown(describe):
    text, _, _ = describe("+advantage._keys_={advantage: shaped}")

    assert cells(text, "advantage")[-1] == "shaped"


def test_a_stage_on_workers_says_so(describe):
    text, _, _ = describe("recipe=grpo", "cluster=local", "cluster.workers=2")

    assert cells(text, "rollout @local x2")[1] == "GroupCollector"
    assert cells(text, "reward")[1] == "ExactMatch"


def test_against_shows_the_rows_that_differ_and_no_other(describe):
    text, _, code = describe("recipe=grpo", "--against", "recipe=grpo", "loss=policy", "seed=3")

    assert cells(text, "loss.reduction") == ["loss.reduction", "SequenceMean", "TokenMean"]
    assert cells(text, "seed") == ["seed", "0", "3"]
    rows = [line for line in text.splitlines() if line.strip()]
    assert len(rows) == 5  # a title, a head, a rule, two rows
    assert code == 0


def test_what_only_one_has_stands_against_a_dash(describe):
    text, _, _ = describe("recipe=grpo", "--against", "kl=none")

    assert cells(text, "learner.losses.kl") == ["learner.losses.kl", "KLLoss", "-"]


def test_two_equal_recipes_have_no_difference(describe):
    assert describe("recipe=grpo", "--against", "recipe=grpo")[0] == (
        "no difference between recipe=grpo and recipe=grpo\n"
    )


def test_square_brackets_in_a_value_are_shown():
    one, other = (OmegaConf.create({"pattern": text}) for text in ("[a]", "[/b]"))
    from io import StringIO

    from rich.console import Console

    out = StringIO()
    Console(file=out, markup=False, width=80).print(difference(one, other, ("x", "y")))

    assert "[/b]" in out.getvalue()


def test_a_value_that_looks_like_markup_is_printed_as_it_is(describe):
    text, _, _ = describe("recipe=grpo", "--against", "reward=regex", "reward.pattern='[bold]'")

    assert cells(text, "reward.pattern") == ["reward.pattern", "-", "[bold]"]


def test_a_recipe_with_a_mistake_is_drawn_and_the_mistake_told(describe):
    text, error, code = describe("kl=in_loss", "reference=none")

    assert "phase rl" in text
    assert "choose reference=frozen (the usual one) or reference=frozen_full or " in error
    assert code == 2


def test_an_option_that_is_not_there_ends_with_2(describe):
    _, error, code = describe("recipe=gropo")

    assert "recipe=gropo: there is no such option; did you mean 'grpo'?" in error
    assert code == 2


def test_the_users_own_config_directory_is_searched(tmp_path, describe):
    (tmp_path / "recipe").mkdir()
    (tmp_path / "recipe" / "mine.yaml").write_text(
        "# @package _global_\ndefaults: [grpo, _self_]\nphases: {rl: {steps: 7}}\n"
    )

    text, _, code = describe("recipe=mine", "-cd", str(tmp_path))

    assert "phase rl: 7 steps" in text
    assert code == 0


def test_the_equations_of_a_loss_hold_the_numbers_of_the_config(describe):
    text, _, code = describe("loss=dapo", "loss.trust_region.clip_high=0.3", "--equation")

    assert cells(text, "loss") == [
        "loss",
        "loss = -sum_t w_t sg[prod c_t] l_t, prod over the weights",
    ]
    clip = "l_t = min(r_t A_t, clip(r_t, 1 - 0.2, 1 + 0.3) A_t)"
    assert cells(text, "loss.trust_region") == ["loss.trust_region", clip]
    assert cells(text, "learner.losses.kl")[1].endswith("beta = FixedKL(kl_coef=0.04)")
    assert code == 0


@pytest.mark.parametrize(
    ("kl", "told"),
    [
        ("in_reward", "R <- R - beta sum_t d_t, "),
        ("in_token_reward", "r_t <- r_t - beta d_t, "),
        ("in_reward_full", "R <- R - beta sum_t KL(pi_old(. | s_t) || pi_ref(. | s_t)), "),
    ],
)
def test_a_kl_paid_in_the_reward_is_told_with_its_coefficient(describe, kl, told):
    text, _, code = describe(f"kl={kl}", "kl_controller.kl_coef=0.07", "--equation")

    _, equation = cells(text, "kl")
    assert equation.startswith(told)
    assert equation.endswith("beta = FixedKL(kl_coef=0.07)")
    assert code == 0


def test_a_learner_of_several_objectives_says_that_it_weighs_gradients(describe):
    text, _, _ = describe("recipe=upgrad", "--equation")

    _, equation = cells(text, "learner")
    assert equation.startswith("g = sum_k w_k grad L_k + grad L_other, ")
    assert equation.endswith("w = TorchJDAggregator(weighting=UPGradWeighting, row_norm=unit)")
    assert "learner " not in describe("recipe=linear_mo", "--equation")[0]


def test_each_of_several_phases_has_a_head_and_a_single_one_none(describe):
    text, _, _ = describe("loss=dapo", "--equation")
    alone, _, _ = describe("loss=dapo", "~phases.warm_start", "--equation")

    first = [line.split("  ")[0] for line in text.splitlines() if not line.startswith("  ")]
    assert first == ["phase warm_start:", "sft_loss", "phase rl:", "loss", "learner.losses.kl"]
    # A part that two losses share stands below both.
    assert len([line for line in text.splitlines() if "loss.reduction " in line]) == 3
    assert "phase" not in alone
    assert "sft_loss" not in alone


def test_an_unbounded_side_and_a_weight_are_told(describe):
    text, _, _ = describe("loss=cispo", "loss/weight=[tis,overlong]", "--equation")

    cispo = "l_t = sg[clip(r_t, 1 - inf, 1 + 4.0)] A_t log pi(a_t)"
    assert cells(text, "loss.trust_region")[1] == cispo
    tis = "c_t = clip(rho_t, 0.0, 2.0), rho_t = pi_old / pi_rollout (token)"
    assert cells(text, "loss.weight.tis")[1] == tis
    assert cells(text, "loss.weight.overlong")[1].startswith("c_t = 0 if the response is truncated")


@pytest.mark.parametrize(
    ("option", "reference"), [("kl", "frozen"), ("kl_full", "frozen_full"), ("kl_ratio", "frozen")]
)
def test_a_loss_that_goes_beside_another_is_added_by_a_name_of_its_own(describe, option, reference):
    text, message, code = describe(
        f"+loss@learner.losses.x={option}",
        "kl=none",
        f"reference={reference}",
        "+kl_controller=fixed",
        "--equation",
    )

    assert (message, code) == ("", 0)
    assert "learner.losses.x " in text


def test_a_loss_of_others_states_no_equation(describe):
    text, _, _ = describe("recipe=control_ppo", "--equation")

    assert text == "loss  ClipPPOLoss: states no equation\n"


def test_a_users_own_option_adds_a_stage_by_its_name(tmp_path, describe, monkeypatch):
    part = "from rlcomp.component import Component\n\n\nclass Mine(Component):\n"
    part += "    reads = ('reward',)\n    writes = ('reward',)\n"
    part += "    def forward(self, batch):\n        return batch\n"
    (tmp_path / "own_stage.py").write_text(part)
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit" / "on.yaml").write_text(
        "# @package _global_\naudit: {_target_: own_stage.Mine}\n"
        "phases: {rl: {insert: {audit: {after: shaping}}}}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    text, error, code = describe("+audit=on", "-cd", str(tmp_path))

    assert (error, code) == ("", 0)
    assert cells(text, "audit") == ["audit", "Mine", "reward[B]", "reward[B]"]
    first = [line.split()[0] for line in text.partition("phase rl")[2].splitlines() if line.split()]
    assert first.index("reward") < first.index("audit") < first.index("old_log_probs")


def test_a_description_imports_no_torch():
    code = """
import sys
sys.argv = ["rlcomp-describe", "loss=dapo", "--equation"]
from rlcomp.cli.describe import main
main()
sys.argv = ["rlcomp-describe", "recipe=grpo", "--against", "recipe=control_ppo"]
from rlcomp.cli.describe import main
main()
sys.argv = ["rlcomp-describe", "kl=in_loss"]
main()
assert not {"torch", "tensordict", "transformers", "components.loss.policy"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


def test_composing_outside_the_app_leaves_no_trace():
    compose_config([])
    from hydra.core.global_hydra import GlobalHydra

    assert not GlobalHydra.instance().is_initialized()
