"""The page of recipes: made from the configs, with a row and tests for every method."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
METHODS = [
    "agent",
    "areal_decoupled",
    "arpo",
    "auto_refine",
    "bapo",
    "cispo",
    "conditioned",
    "constitutional",
    "curriculum_rlaif",
    "dapo",
    "deepseek_v32",
    "deepseek_v32_specialists",
    "dppo",
    "dr_grpo",
    "gmpo",
    "grpo",
    "gspo",
    "gspo_token",
    "instruct_gpt",
    "keep_routing",
    "length_controlled",
    "length_regularised",
    "linear_mo",
    "luspo",
    "m2po",
    "magistral",
    "maxrl",
    "maze",
    "mid_training",
    "next_segment",
    "nlrl",
    "noon_ppo",
    "opo",
    "pama",
    "pama_critic",
    "pass_at_k_training",
    "pkpo",
    "ppo",
    "pretrain_zero",
    "prover_grpo",
    "quiet_star",
    "r1",
    "r1_zero",
    "reinforce",
    "reinforce_pp",
    "reinforce_pp_baseline",
    "remax",
    "retool",
    "retool_program",
    "rlaif",
    "rloo",
    "rlp",
    "rlvr_code",
    "rpt",
    "search_r1",
    "self_correction",
    "self_play",
    "solver_verifier",
    "tool_star",
    "traces",
    "upgrad",
    "vapo",
    "vespo",
]


def row(recipe):
    """The cells of its row: recipe, paper, parts, numbers, tests."""
    line = re.search(rf"^\| \[{recipe}\]\(.*$", PAGE, re.MULTILINE)[0]
    return [cell.strip() for cell in line.strip("| ").split(" | ")]


@pytest.mark.slow
def test_the_page_of_recipes_is_that_of_the_configs():
    page = runpy.run_path(str(ROOT / "docs" / "make_recipes.py"))["recipes_page"]()

    assert page == PAGE, "python docs/make_recipes.py"


def test_the_page_has_a_row_for_every_method_and_for_nothing_else():
    assert re.findall(r"^\| \[(\w+)\]", PAGE, re.MULTILINE) == METHODS


@pytest.mark.parametrize("recipe", METHODS)
def test_a_row_names_a_source_parts_and_tests(recipe):
    _, paper, parts, _, tests = row(recipe)

    assert re.search(r"\b(19|20)\d\d\b|arXiv:\d{4}\.\d{5}", paper)
    assert "advantage=" in parts
    assert "loss/reduction=" in parts
    assert re.findall(r"\]\(\.\./(tests/\S+/test_\w+\.py)\)", tests)


def test_a_recipe_is_shown_with_the_part_that_makes_it_what_it_is():
    assert "advantage=noon;" in row("noon_ppo")[2]
    assert "test_noon.py" in row("noon_ppo")[4]
    assert "loss/trust_region=clip_higher;" in row("dapo")[2]
    assert "test_varied_groups.py" in row("dapo")[4]
    assert "`value_learner.losses.value.clip=0.2`" in row("vapo")[3]  # told by ppo
