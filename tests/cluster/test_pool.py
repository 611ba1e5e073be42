import pytest

from rlcomp.cluster.pool import Admission, Pool


@pytest.mark.parametrize("staleness", [0, 1, 2, 4])
@pytest.mark.parametrize("rows", [8, 12])
def test_admission_is_the_rule_for_every_number_of_started_rows(staleness, rows):
    for version in range(4):
        for started in range(0, 8 * rows, 3):
            for group in (1, 4, 8):
                found = Admission(staleness)
                for _ in range(version + 1):
                    found.step(rows)
                found.start(started)
                expected = started + group <= (version + staleness + 1) * rows
                assert found.admits(group) == expected


def test_steps_of_different_sizes_are_allowed_what_they_consume():
    found = Admission(1)

    found.step(8)
    assert found.allowed == 16
    found.step(4)
    assert found.allowed == 20


def test_groups_go_to_the_worker_that_has_the_fewest_the_first_of_equals():
    pool = Pool(2)
    pool.waiting.extend(((0, place), f"p{place}") for place in range(5))

    assert [pool.assign() for _ in range(3)] == [(0, "p0"), (1, "p1"), (0, "p2")]
    pool.complete(0, (0, 0), "made 0")
    pool.complete(0, (0, 2), "made 2")
    assert [pool.assign() for _ in range(2)] == [(0, "p3"), (0, "p4")]


def test_those_that_were_done_first_are_taken_in_the_order_in_which_they_were_asked_for():
    pool = Pool(1)
    pool.waiting.extend(((number, place), "p") for number in (0, 1) for place in (0, 1))
    for _ in range(4):
        pool.assign()
    for name in [(1, 1), (0, 1), (0, 0)]:
        pool.complete(0, name, name)

    assert pool.take(2) == [(0, 1), (1, 1)]
    assert pool.take(2) == [(0, 0)]
    assert pool.unfinished() == [((1, 0), "p")]


def test_what_is_not_done_is_told_in_order_wherever_it_is():
    pool = Pool(2)
    pool.waiting.extend(((0, place), -place) for place in range(4))
    for _ in range(3):
        pool.assign()
    pool.complete(1, (0, 1), "made")

    assert pool.unfinished() == [((0, 0), 0), ((0, 2), -2), ((0, 3), -3)]


def test_nothing_is_completed_twice():
    pool = Pool(1)
    pool.waiting.append(((0, 0), "p"))
    pool.assign()
    pool.complete(0, (0, 0), "made")

    with pytest.raises(KeyError):
        pool.complete(0, (0, 0), "made")
