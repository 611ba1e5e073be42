"""Length rewards of others and of the papers, by our functions."""

import torch

from rlcomp.functional.length import grpo_lead, kimi_length, l1_exact, l1_max, soft_overlong

EXACT = 1e-9


def dapo(case):
    a = case.args
    got = soft_overlong(case.tensors["in/length"], a["L_max"], a["L_cache"], 1.0)
    yield got, case.tensors["out/penalty"], EXACT


def overlong(case):
    held, a = case.tensors, case.args
    limit = a.get("max_new_tokens", a.get("max_response_length"))
    buffer = a.get("overlong_buffer_len", a.get("overlong_tokens"))
    factor = a["overlong_penalty_factor"]
    penalty = soft_overlong(held["in/length"].double(), limit, int(buffer), factor)
    yield held["in/rewards"] + penalty, held["out/rewards"], EXACT


def kimi(case):
    held = case.tensors
    valid = torch.ones_like(held["in/correct"], dtype=torch.bool)
    got = kimi_length(held["in/length"], held["in/correct"].bool(), held["in/index"], valid)
    yield got, held["out/reward"], EXACT


def lead(case):
    inputs = (case.tensors[f"in/{name}"] for name in ("length", "correct", "index"))
    yield grpo_lead(*inputs, alpha=case.args["alpha"]), case.tensors["out/reward"], EXACT


def l1(case):
    inputs = (case.tensors[f"in/{name}"] for name in ("length", "correct", "target"))
    reward = l1_max if "delta" in case.args else l1_exact
    yield reward(*inputs, **case.args), case.tensors["out/reward"], EXACT


COMPARE = {
    "spec__dapo_soft_overlong": dapo,
    "openrlhf__overlong_penalty": overlong,
    "areal__overlong_penalty": overlong,
    "spec__length_kimi": kimi,
    "spec__length_grpo_lead": lead,
    "spec__length_l1_exact": l1,
    "spec__length_l1_max": l1,
}


def test_length_rewards_are_reproduced(case, reproduce):
    reproduce(case, COMPARE[case.file])
