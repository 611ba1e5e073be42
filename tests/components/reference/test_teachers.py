import pytest
import torch

from components.reference.teacher import DomainTeachers, TeacherReference
from rlcomp.batch import encode_columns
from rlcomp.errors import ConfigError, DataError
from rlcomp.metrics import recording
from rlcomp.testing import tiny_policy
from rlcomp.text.answers import encode_answers


@pytest.fixture(scope="module")
def policies():
    return [tiny_policy("abc", seed=seed, scale=2.0) for seed in range(3)]


def rows_of(policy, *domains):
    rows = encode_answers(policy, ["a", "ab", "c", "b"], ["bc", "a", "cab", "b"])
    return rows.set("columns", encode_columns([{"verify_with": name} for name in domains]))


def by_domain(policies, full=False):
    student, first, second = policies
    teachers = {"sums": first, "words": second}
    references = {
        name: TeacherReference(policy=student, teacher=teacher, full=full)
        for name, teacher in teachers.items()
    }
    return DomainTeachers(references=references, full=full)


def test_every_row_is_scored_by_its_domain_s_teacher(policies):
    rows = rows_of(policies[0], "sums", "words", "words", "sums")

    found = by_domain(policies, full=True)(rows.copy())

    for row, teacher in enumerate([1, 2, 2, 1]):
        alone = rows[row : row + 1].exclude("columns")
        with torch.no_grad():
            torch.testing.assert_close(
                found["ref_log_probs"][row : row + 1], policies[teacher].log_probs(alone)
            )
            torch.testing.assert_close(
                found["ref_log_distribution"][row : row + 1],
                policies[teacher].log_distribution(alone),
            )


def test_the_tokens_of_all_domains_are_recorded_together(policies):
    # bc, a, cab and b, each with its end: 3 + 2 + 4 + 2.
    with recording() as ledger:
        by_domain(policies)(rows_of(policies[0], "sums", "words", "words", "sums"))

    assert ledger.means() == {"teacher/tokens": 11}


@pytest.mark.parametrize(
    ("name", "told"), [("wurds", "did you mean 'words'"), (None, "row 2 has None")]
)
def test_a_row_of_no_domain_is_refused_by_its_number(policies, name, told):
    rows = rows_of(policies[0], "sums", "words", name, "sums")

    with pytest.raises(DataError, match=r"row 2 has .*'verify_with'") as error:
        by_domain(policies)(rows)

    assert told in str(error.value)


def test_without_a_loss_that_asks_no_distribution_is_written(policies):
    found = by_domain(policies)(rows_of(policies[0], "sums", "words", "words", "sums"))

    assert {"ref_log_probs", "ref_log_distribution"} & {*found.keys()} == {"ref_log_probs"}


def test_a_teacher_without_a_distribution_is_refused_by_its_name(policies):
    student, first, second = policies
    references = {
        "sums": TeacherReference(policy=student, teacher=first, full=True),
        "words": TeacherReference(policy=student, teacher=second),
    }

    with pytest.raises(
        ConfigError, match=r"references\.words is a TeacherReference, .*teacher_full for it"
    ):
        DomainTeachers(references=references, full=True)
