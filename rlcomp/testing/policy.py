"""The contract of policies, as property checks."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from tensordict import TensorDict
from torch import Tensor

from rlcomp.checkpoint.state import collect, restore
from rlcomp.errors import ContractError
from rlcomp.interfaces.policy import Policy
from rlcomp.testing.subject import difference

_GROUP_SIZE, _MAX_NEW_TOKENS = 2, 3
# For float32: sampling computes token by token, scoring all tokens at once.
_ATOL = 1e-4


def check_policy(policy: Policy) -> None:
    """Check that a policy keeps the contract of :class:`rlcomp.interfaces.policy.Policy`.

    - it has every member of the interface
    - ``generate`` returns ``group_size`` rows for each prompt in order, prompt first, with one to
      ``max_new_tokens`` response tokens, and the version; the same rows for the same seed; it draws
      no suppressed token
    - ``log_probs`` of its own rollout equal the recorded ones; they are 0 outside the response, for
      any padding, and not above 0 inside
    - called as a stage it writes the same ``log_probs`` with gradient, and ``entropy``, not below 0
    - other ``weights`` replace its own in a call, and do not change them
    - ``updated`` increases the version by 1, and the version is part of a checkpoint

    Args:
        policy: the policy under test; its state is restored, except for its generators.

    Raises:
        ContractError: names the policy, the law and the fault.
    """
    if not isinstance(policy, Policy):
        lacking = [name for name in _members() if not hasattr(policy, name)]
        _refuse(policy, "it has every member of Policy", f"it lacks {', '.join(lacking)}")
    prompts = _prompts(policy)
    rows = _generate(policy, prompts)
    _check_rollout(policy, prompts, rows)
    _check_suppressed_tokens(policy, prompts, rows)
    _check_scores(policy, rows)
    _check_stage(policy, rows)
    _check_weights(policy, rows)
    _check_version(policy)


def _members() -> list[str]:
    """Return the names of the interface's attributes and methods."""
    classes = [kind for kind in reversed(Policy.__mro__) if kind.__module__ == Policy.__module__]
    annotated = [name for kind in classes for name in kind.__annotations__]
    defined = [name for kind in classes for name in vars(kind) if not name.startswith("_")]
    return [*dict.fromkeys([*annotated, *defined]), "__call__"]


def _refuse(policy: object, law: str, fault: str) -> None:
    raise ContractError(f"{type(policy).__name__} breaks '{law}': {fault}")


def _hold_equal(policy: object, law: str, what: str, got: Tensor, want: Tensor) -> None:
    close = got.shape == want.shape and torch.allclose(got, want, atol=_ATOL, rtol=0)
    if not close:
        _refuse(policy, law, f"{what} {difference(got, want) or 'is not finite'}")


def _prompts(policy: Policy) -> list[list[int]]:
    """Return two prompts of ordinary tokens, of different lengths."""
    special = set(policy.tokenizer.all_special_ids)
    ids = [token for token in range(len(policy.tokenizer)) if token not in special]
    return [[ids[0]], [ids[1], ids[0], ids[1]]]


def _generate(policy: Policy, prompts: list[list[int]], **more: object) -> TensorDict:
    draw = torch.Generator().manual_seed(0)
    settings = {"group_size": _GROUP_SIZE, "max_new_tokens": _MAX_NEW_TOKENS, "generator": draw}
    with torch.no_grad():
        return policy.generate(prompts, **{**settings, **more})  # type: ignore[arg-type]


def _check_rollout(policy: Policy, prompts: list[list[int]], rows: TensorDict) -> None:
    law = "generate answers every prompt in order"
    wanted = [prompt for prompt in prompts for _ in range(_GROUP_SIZE)]
    if rows.batch_size != torch.Size([len(wanted)]):
        _refuse(policy, law, f"it returned {list(rows.batch_size)} rows, not {len(wanted)}")
    for row, prompt in enumerate(wanted):
        mask = rows["response_mask"][row]
        length = int(mask.sum())
        if rows["tokens"][row, : len(prompt)].tolist() != prompt or bool(mask[: len(prompt)].any()):
            _refuse(policy, law, f"row {row} does not start with its prompt {prompt}")
        if not 1 <= length <= _MAX_NEW_TOKENS:
            fault = f"row {row} has {length} response tokens, max_new_tokens is {_MAX_NEW_TOKENS}"
            _refuse(policy, law, fault)
    if len(rows["group_id"].unique()) != len(prompts):
        _refuse(policy, law, f"group_id is {rows['group_id'].tolist()}: one id for each prompt")
    versions = rows["policy_version"][rows["response_mask"]]
    if not bool((versions == policy.version).all()):
        fault = f"they are {versions.unique().tolist()}, version is {policy.version}"
        _refuse(policy, "policy_version is the version that sampled", fault)
    if not torch.equal(_generate(policy, prompts)["tokens"], rows["tokens"]):
        _refuse(policy, "the same seed gives the same rows", "it does not: draw from generator")


def _check_suppressed_tokens(policy: Policy, prompts: list[list[int]], rows: TensorDict) -> None:
    suppressed = int(rows["tokens"][rows["response_mask"]][0])
    again = _generate(policy, prompts, suppressed_tokens=[suppressed])
    if bool((again["tokens"][again["response_mask"]] == suppressed).any()):
        _refuse(policy, "a suppressed token is not drawn", f"token {suppressed} is")


def _check_scores(policy: Policy, rows: TensorDict) -> None:
    mask = rows["response_mask"]
    with torch.no_grad():
        scores = policy.log_probs(rows)
        wide = policy.log_probs(_wider(policy, rows))
    law = "log_probs are what sampling recorded"
    _hold_equal(policy, law, "log_probs", scores[mask], rows["rollout_log_probs"][mask])
    law = "log_probs are 0 outside the response"
    _hold_equal(policy, law, "log_probs", scores[~mask], torch.zeros_like(scores[~mask]))
    _hold_equal(policy, "padding changes nothing", "log_probs", wide[:, : mask.shape[1]], scores)
    if bool((scores > 0).any()):
        _refuse(policy, "no log-prob is above 0", f"one is {scores.max().item()}")


def _wider(policy: Policy, rows: TensorDict) -> TensorDict:
    """Return the rows with two more columns of padding."""
    known = rows.select("tokens", "attention_mask", "response_mask", "sampling_mask", strict=False)
    pad = policy.tokenizer.pad_token_id or 0
    # F.pad takes pairs from the last dimension on; tokens are dimension 1.
    wide = {k: F.pad(v, (*(0, 0) * (v.ndim - 2), 0, 2)) for k, v in known.items()}
    tokens = F.pad(known["tokens"], (0, 2), value=pad)
    return TensorDict({**wide, "tokens": tokens}, batch_size=rows.batch_size)


def _check_stage(policy: Policy, rows: TensorDict) -> None:
    with torch.no_grad():
        want = policy.log_probs(rows)
    with torch.enable_grad():
        outputs = policy(rows.copy())
    for key in ("log_probs", "entropy"):
        if key not in outputs.keys():
            _refuse(policy, "as a stage it writes log_probs and entropy", f"'{key}' is not there")
    if not outputs["log_probs"].requires_grad:
        _refuse(policy, "its log_probs have a gradient", "they have none: no torch.no_grad in it")
    _hold_equal(
        policy, "as a stage it scores as log_probs does", "log_probs", outputs["log_probs"], want
    )
    entropy = outputs["entropy"][rows["response_mask"]]
    if not bool((entropy >= -_ATOL).all()):
        _refuse(policy, "no entropy is below 0", f"one is {entropy.min().item()}")


def _check_weights(policy: Policy, rows: TensorDict) -> None:
    law = "other weights are used in place of its own"
    current = policy.weights()
    draw = torch.Generator().manual_seed(0)
    other = {
        name: value.detach() + torch.randn(value.shape, generator=draw).to(value)
        for name, value in current.items()
    }
    with torch.no_grad():
        before = policy.log_probs(rows)
        same = policy.log_probs(rows, {name: value.detach() for name, value in current.items()})
        moved = policy.log_probs(rows, other)
        after = policy.log_probs(rows)
    _hold_equal(policy, law, "with its own weights, log_probs", same, before)
    if bool((moved - before).abs().max() < _ATOL):
        _refuse(policy, law, "with weights of noise its log_probs are the same")
    _hold_equal(policy, "other weights leave its own alone", "afterwards log_probs", after, before)


def _check_version(policy: Policy) -> None:
    tensors, state = collect({"policy": policy})
    start = policy.version
    policy.updated()
    if policy.version != start + 1:
        fault = f"version was {start}, and is {policy.version} after it"
        _refuse(policy, "updated counts one more", fault)
    restore(Path("check_policy"), {"policy": policy}, tensors, state, keep_generators=True)
    if policy.version != start:
        fault = f"restored, version is {policy.version}, not {start}: make it a buffer"
        _refuse(policy, "the version is part of a checkpoint", fault)
