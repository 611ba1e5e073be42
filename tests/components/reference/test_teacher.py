import pytest
import torch

from components.reference.teacher import TeacherReference
from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.testing import check_component, tiny_policy
from rlcomp.text.answers import answer_prompts


def policy(seed, **sizes):
    decoding = Decoding(temperature=0.8)
    return tiny_policy("abc", seed=seed, scale=2.0, decoding=decoding, **sizes)


def rollout(of):
    draw = torch.Generator().manual_seed(0)
    return answer_prompts(of, ["ab", "c"], group_size=4, max_new_tokens=5, generator=draw)


@pytest.mark.parametrize("full", [False, True])
def test_it_keeps_the_contract(full):
    check_component(TeacherReference(policy=tiny_policy(), teacher=tiny_policy(seed=1), full=full))


def test_a_teacher_of_another_size_scores_what_the_student_wrote():
    student, teacher = policy(0), policy(1, hidden_size=32, num_hidden_layers=2)
    batch = rollout(student)

    found = TeacherReference(policy=student, teacher=teacher, full=True)(batch.copy())

    torch.testing.assert_close(found["ref_log_probs"], teacher.log_probs(batch).detach())
    torch.testing.assert_close(
        found["ref_log_distribution"], teacher.log_distribution(batch).detach()
    )
    assert not found["ref_log_probs"].requires_grad
    assert not found["ref_log_distribution"].requires_grad


def test_without_a_loss_that_asks_it_writes_no_distribution():
    student, teacher = policy(0), policy(1)

    found = TeacherReference(policy=student, teacher=teacher)(rollout(student))

    assert "ref_log_distribution" not in found.keys()


def test_scored_tokens_and_distance_are_recorded():
    student, teacher = policy(0), policy(1)
    batch = rollout(student)

    with recording() as ledger:
        TeacherReference(policy=student, teacher=teacher)(batch.copy())

    mask = batch["response_mask"]
    apart = (batch["rollout_log_probs"] - teacher.log_probs(batch))[mask]
    assert 8 <= int(mask.sum()) < mask.numel()
    assert ledger.means() == {
        "teacher/tokens": int(mask.sum()),
        "kl/reference": pytest.approx(sum(apart.tolist()) / len(apart), abs=1e-5),
    }


def test_it_owns_no_tensor_and_freezes_none():
    student, teacher = policy(0), policy(1)

    reference = TeacherReference(policy=student, teacher=teacher)

    assert not list(reference.parameters())
    assert all(parameter.requires_grad for parameter in teacher.model.parameters())


def test_another_tokenizer_is_refused():
    with pytest.raises(ConfigError, match="another tokenizer"):
        TeacherReference(policy=tiny_policy("abc"), teacher=tiny_policy("acb"))
