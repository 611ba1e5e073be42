"""The rule: patience 2, two steps of the guide; numbers are how far it still is."""

import pytest
import torch

from components.intervention import ScriptedIntervention
from components.worlds.point_maze.reach import Reach
from rlcomp.checkpoint.state import collect, restore
from rlcomp.metrics import recording
from rlcomp.testing import make_batch


class Guide(torch.nn.Module):
    """Acts by (.5, 3); the first number observed is how far it is."""

    def forward(self, batch):
        return batch.set("action", torch.tensor([0.5, 3.0]).expand(len(batch), 2))

    def distance_to_goal(self, batch):
        return batch["observation"][:, 0]


def scripted(copies=1, patience=2, duration=2, until=1.0):
    environment = Reach(num_envs=copies, max_steps=9, stride=0.1, radius=0.1)
    return ScriptedIntervention(
        environment=environment, guide=Guide(), patience=patience, duration=duration, until=until
    )


def at(*left, episode=0):
    """A batch of copies that are so far away and go left."""
    seen = torch.tensor(left)[:, None]
    return make_batch(
        observation=seen,
        action=torch.tensor([[-1.0, 0.0]]).repeat(len(left), 1),
        trajectory=torch.full((len(left), 1), episode),
    )


def taken(part, distances, **other):
    return [bool(part(at(left, **other))["intervened"]) for left in distances]


def test_it_takes_over_after_so_many_steps_without_progress_for_so_many():
    # 9 is the start; 8 is progress; 8 and 8.5 are none: two, so it acts there and in the next step.
    # Then patience begins anew: 8, 8 are none since; it acts again.
    distances = [9.0, 8.0, 8.0, 8.5, 8.0, 8.0, 8.0, 8.0]

    expected = [False, False, False, True, True, False, True, True]
    assert taken(scripted(), distances) == expected


def test_who_makes_progress_is_left_alone():
    assert taken(scripted(patience=1), [5.0, 4.0, 3.0, 2.0]) == [False] * 4


def test_longer_patience_and_help():
    distances = [5.0] * 8

    # Waited 1, 2, 3 steps after the first; three of help.
    expected = [False, False, False, True, True, True, False, False]
    assert taken(scripted(patience=3, duration=3), distances) == expected


def test_a_new_episode_is_watched_anew():
    part = scripted()
    assert taken(part, [5.0, 5.0, 5.0]) == [False, False, True]

    # Help ends with the episode, and 6 is where the next one begins, no step back.
    assert taken(part, [6.0, 5.5, 5.5, 5.5], episode=1) == [False, False, False, True]


def test_copies_are_watched_apart():
    part = scripted(copies=2)

    for first, second in ((5.0, 5.0), (5.0, 4.0)):
        assert not part(at(first, second))["intervened"].any()

    assert part(at(5.0, 3.0))["intervened"].tolist() == [[True], [False]]


def test_the_action_is_the_guides_within_bounds_exactly_where_it_intervened():
    part = scripted(copies=2, patience=1)
    part(at(5.0, 5.0))

    batch = part(at(5.0, 4.0))

    # (.5, 3) in [-1, 1]^2
    assert batch["action"].tolist() == [[0.5, 1.0], [-1.0, 0.0]]
    assert batch["intervened"].tolist() == [[True], [False]]


def test_the_share_of_steps_taken_over_is_recorded():
    part = scripted(copies=2, patience=1)

    with recording() as ledger:
        part(at(5.0, 5.0))
        part(at(5.0, 4.0))

    assert ledger.means() == {"intervention/share": 0.25}


@pytest.mark.parametrize(("progress", "over"), [(0.49, True), (0.5, False)])
def test_after_its_share_of_the_phase_nobody_intervenes(progress, over):
    part = scripted(patience=1, until=0.5)

    with recording(progress=progress):
        assert taken(part, [5.0, 5.0]) == [False, over]


def test_help_that_has_begun_goes_on():
    part = scripted(patience=1, duration=3, until=0.5)
    with recording(progress=0.4):
        taken(part, [5.0, 5.0])

    with recording(progress=0.6):
        assert taken(part, [5.0, 5.0, 5.0]) == [True, True, False]


def test_a_resumed_intervener_goes_on_where_it_was(tmp_path):
    part, again = scripted(patience=3), scripted(patience=3)
    taken(part, [5.0, 5.0, 5.0])

    restore(tmp_path, {"it": again}, *collect({"it": part}), keep_generators=False)

    assert taken(part, [5.0, 5.0, 5.0]) == taken(again, [5.0, 5.0, 5.0]) == [True, True, False]
