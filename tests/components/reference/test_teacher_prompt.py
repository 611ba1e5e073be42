from functools import partial

import pytest
import torch

from components.reference.frozen import FrozenReference, LiveReference, RefreshedReference
from components.reference.teacher_prompt import RepromptedReference
from rlcomp.batch import encode_texts
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import DataError
from rlcomp.metrics import recording
from rlcomp.testing import check_component, make_batch, tiny_policy
from rlcomp.text.answers import answer_prompts, encode_answers

PROMPTS = ["ab", "c"]


def policy():
    return tiny_policy("abc", scale=2.0, decoding=Decoding(temperature=0.8))


def change(policy):
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.mul_(1.5)


def rollout(of, teacher_prompts):
    draw = torch.Generator().manual_seed(0)
    rows = answer_prompts(of, PROMPTS, group_size=3, max_new_tokens=5, generator=draw)
    texts = [text for text in teacher_prompts for _ in range(3)]
    return rows.set("teacher_prompt", encode_texts(texts))


@pytest.mark.parametrize("kind", [partial(FrozenReference, full=True), LiveReference])
def test_it_keeps_the_contract(kind):
    own = tiny_policy()
    check_component(kind(policy=own))
    check_component(RepromptedReference(policy=own, reference=kind(policy=own)))


def test_with_the_policy_s_own_prompt_it_is_the_plain_reference():
    own = policy()
    reference = FrozenReference(policy=own, full=True)
    change(own)
    batch = rollout(own, PROMPTS)

    with recording() as plain:
        wanted = reference(batch.copy())
    with recording() as privileged:
        found = RepromptedReference(policy=own, reference=reference)(batch.copy())

    for key in ("ref_log_probs", "ref_log_distribution"):
        torch.testing.assert_close(found[key], wanted[key])
    assert privileged.means() == pytest.approx(plain.means())


def test_a_longer_prompt_s_log_probs_stand_at_their_place_in_the_response():
    own = policy()
    batch = rollout(own, ["cab", "b"])

    reference = FrozenReference(policy=own, full=True)
    found = RepromptedReference(policy=own, reference=reference)(batch.copy())

    # By hand: row 4 answers "c", which the teacher reads as "b": the same columns.
    tokens = batch["tokens"][4:5].clone()
    tokens[0, 0] = own.tokenizer.convert_tokens_to_ids("b")
    row = batch[4:5].copy().set("tokens", tokens)
    torch.testing.assert_close(found["ref_log_probs"][4:5], own.log_probs(row).detach())
    # Row 1 answers "ab", which it reads as "cab": one column to the right.
    head = own.tokenizer.convert_tokens_to_ids(["c"])
    ids = torch.cat([torch.tensor([head]), batch["tokens"][1:2]], 1)
    columns = {
        key: torch.cat([torch.full((1, 1), key == "attention_mask"), batch[key][1:2]], 1)
        for key in ("attention_mask", "response_mask")
    }
    scored = own.log_probs(make_batch(tokens=ids, **columns)).detach()
    torch.testing.assert_close(found["ref_log_probs"][1:2], scored[:, 1:])


def test_how_wide_the_table_of_prompts_is_does_not_matter():
    own = policy()
    batch = rollout(own, ["cab", "b"])
    wider = batch.copy()
    padding = torch.full((len(batch), 7), 255, dtype=torch.uint8)
    wider["teacher_prompt"] = torch.cat([batch["teacher_prompt"], padding], 1)
    reprompted = RepromptedReference(policy=own, reference=FrozenReference(policy=own, full=True))

    found, wanted = reprompted(wider), reprompted(batch)

    assert torch.equal(found["ref_log_probs"], wanted["ref_log_probs"])


def test_a_teacher_s_prompt_that_leaves_no_room_is_refused():
    own = policy()
    rows = encode_answers(own, PROMPTS, ["a", "bc"])
    rows["teacher_prompt"] = encode_texts(["ab", "c" * 14])

    with pytest.raises(DataError, match=r"'c{14}' has 14 tokens; with 3 more"):
        RepromptedReference(policy=own, reference=FrozenReference(policy=own, full=True))(rows)


def test_what_the_policy_did_not_write_stays_where_it_stands():
    own = policy()
    rows = encode_answers(own, PROMPTS, ["abc", "abc"])
    rows["teacher_prompt"] = encode_texts(PROMPTS)
    rows["response_mask"][1, 2] = False

    reference = FrozenReference(policy=own, full=True)
    found = RepromptedReference(policy=own, reference=reference)(rows.copy())

    assert found["ref_log_probs"][1, 2] == 0
    torch.testing.assert_close(found["ref_log_probs"], own.log_probs(rows).detach())


def test_a_live_reference_is_the_policy_as_it_is_now():
    own = policy()
    reference = LiveReference(policy=own)
    change(own)
    batch = rollout(own, PROMPTS)

    with recording() as ledger:
        found = reference(batch.copy())

    torch.testing.assert_close(found["ref_log_probs"], batch["rollout_log_probs"])
    torch.testing.assert_close(found["ref_log_distribution"], own.log_distribution(batch).detach())
    assert ledger.means() == {"kl/reference": pytest.approx(0, abs=1e-6)}
    assert not found["ref_log_distribution"].requires_grad


def test_the_distance_to_a_live_reference_is_recorded_over_response_tokens():
    own = policy()
    batch = rollout(own, PROMPTS)
    change(own)

    with recording() as ledger:
        LiveReference(policy=own)(batch.copy())

    mask = batch["response_mask"]
    apart = (batch["rollout_log_probs"] - own.log_probs(batch).detach())[mask]
    assert ledger.means() == {"kl/reference": pytest.approx(sum(apart.tolist()) / len(apart))}


def test_a_slowly_following_reference_moves_by_its_share_and_gives_the_distribution():
    own = policy()
    reference = RefreshedReference(policy=own, period=1, mix=0.25, full=True)
    before = {name: weight.clone() for name, weight in own.weights().items()}
    batch = rollout(own, PROMPTS)
    reference(batch.copy())
    change(own)  # each weight is 1.5 times what it was

    found = reference(batch.copy())

    mixed = {name: 1.125 * weight for name, weight in before.items()}
    with torch.no_grad():
        wanted = own.log_distribution(batch, mixed)
    torch.testing.assert_close(found["ref_log_distribution"], wanted)
