import pytest
import torch
from tensordict.nn import TensorDictModule
from torchrl.envs.utils import check_env_specs

from components.worlds.point_maze.experts import UMazeGuide
from components.worlds.point_maze.u_maze import UMaze
from rlcomp.errors import ConfigError
from rlcomp.seed import seeded

FIXED = {
    "start_low": [-0.75, -0.5],
    "start_high": [-0.75, -0.5],
    "goal_low": [-0.75, 0.5],
    "goal_high": [-0.75, 0.5],
}


def maze(num_envs=1, **other):
    given = {"max_steps": 50, "stride": 0.15, "radius": 0.15, "wall": 0.5, "ends": True}
    with seeded(0, "environment"):
        return UMaze(num_envs=num_envs, **{**given, **FIXED, **other})


def step(environment, point, action, goal=(0.0, 0.9)):
    state = torch.tensor([[*point, *goal]])
    after, reward, ended = environment.advance(state, torch.tensor([list(action)]))
    return [round(value, 4) for value in after[0].tolist()], float(reward), bool(ended)


@pytest.mark.parametrize(
    ("point", "action", "after"),
    [
        ((0.0, -0.5), (1.0, -0.5), [0.15, -0.575]),  # .15 (1, -.5)
        ((0.0, -0.5), (2.0, -9.0), [0.15, -0.65]),  # actions end at 1
        ((0.95, -0.95), (1.0, -1.0), [1.0, -1.0]),  # and the square too
        ((0.0, -0.1), (1.0, 1.0), [0.15, -0.1]),  # along the wall from below
        ((0.0, 0.1), (-1.0, -1.0), [-0.15, 0.1]),  # and from above
        ((0.6, -0.1), (0.0, 1.0), [0.6, 0.05]),  # past its end
        # Height 0 after 2/3 of the way: at x = .41 + .1 = .51 it passes, at .49 it does not.
        ((0.41, -0.1), (1.0, 1.0), [0.56, 0.05]),
        ((0.39, -0.1), (1.0, 1.0), [0.54, -0.1]),
        ((0.45, 0.0), (-1.0, 1.0), [0.3, 0.15]),  # height 0 is above
        ((0.45, 0.0), (-1.0, -1.0), [0.3, 0.0]),
    ],
)
def test_a_move_by_hand(point, action, after):
    assert step(maze(), point, action)[0] == [*after, 0.0, 0.9]


def test_the_very_end_of_the_wall_lets_through():
    # In binary fractions: from (.25, -.125) by (.25, .25) it is at height 0 at x = .375.
    environment = maze(wall=0.375, stride=0.25)

    assert step(environment, (0.25, -0.125), (1.0, 1.0))[0][:2] == [0.5, 0.125]


@pytest.mark.parametrize(("away", "reward"), [(0.25, 0.0), (0.2501, -1.0)])
def test_within_the_radius_the_reward_is_0_and_the_episode_ends(away, reward):
    found = step(maze(radius=0.25), (0.0, 0.5), (0.0, 0.0), goal=(0.0, 0.5 + away))

    assert found[1:] == (reward, reward == 0.0)


def test_where_it_does_not_end_at_goals_an_episode_goes_on():
    assert step(maze(ends=False), (0.0, 0.5), (0.0, 0.0), goal=(0.0, 0.5))[1:] == (0.0, False)


def test_starts_and_goals_are_drawn_from_their_boxes():
    boxes = {"start_low": [-1.0, -0.5], "start_high": [-0.5, 0.0], "goal_high": [0.25, 1.0]}

    state = maze(2000, **boxes).begin()

    # 2,000 uniform draws come within 1 % of both ends but once in 10^8 times.
    assert state.amin(0).tolist() == pytest.approx([-1.0, -0.5, -0.75, 0.5], abs=0.01)
    assert state.amax(0).tolist() == pytest.approx([-0.5, 0.0, 0.25, 1.0], abs=0.01)
    assert (state.amin(0) >= torch.tensor([-1.0, -0.5, -0.75, 0.5])).all()


def test_the_guide_needs_seventeen_steps_and_a_straight_line_never_arrives():
    environment = maze()

    walked = environment.rollout(50, UMazeGuide(environment=environment))
    up = TensorDictModule(lambda seen: torch.tensor([[0.0, 1.0]]), ["observation"], ["action"])
    straight = environment.rollout(50, up)

    # Nine to the end of the wall, 1.35 / .15, and nine back, of which the radius saves the last.
    assert walked["next", "reward"].flatten().tolist() == [-1.0] * 16 + [0.0]
    assert walked["next", "terminated"].flatten().tolist() == [False] * 16 + [True]
    assert straight["next", "reward"].flatten().tolist() == [-1.0] * 50
    assert straight["next", "truncated"].flatten().tolist() == [False] * 49 + [True]


def test_the_way_leads_around_the_wall():
    below, above = torch.tensor([[-0.75, -0.5], [0.9, -0.5]]), torch.tensor([[-0.25, 1.0]] * 2)

    # By the corner (.5, 0): sqrt(1.25^2 + .5^2) + sqrt(.75^2 + 1) = 1.3463 + 1.25; straight from
    # (.9, -.5): it is at height 0 at x = .9 - 1.15 / 3 = .5167; sqrt(1.15^2 + 1.5^2) = 1.8901.
    assert maze().path_length(below, above).tolist() == pytest.approx([2.5963, 1.8901], abs=1e-4)
    assert maze().path_length(above, below).tolist() == pytest.approx([2.5963, 1.8901], abs=1e-4)


def test_torchrl_takes_it_for_an_environment():
    check_env_specs(maze(3))


@pytest.mark.parametrize("wall", [-1.0, 1.0])
def test_a_wall_that_leaves_no_way_is_refused(wall):
    with pytest.raises(ConfigError, match=rf"wall is {wall:g}: must be greater than -1"):
        maze(wall=wall)


@pytest.mark.parametrize(
    "box",
    [
        {"goal_low": [-0.7, 0.5]},
        {"goal_high": [-0.75, 0.4]},
        {"goal_low": [-1.1, 0.5]},
        {"goal_high": [0.0, 1.1]},
        {"goal_low": [0.0, 0.0, 0.0]},
        {"goal_low": [0.0, 0.0, 0.0], "goal_high": [0.0, 0.0, 0.0]},
    ],
)
def test_a_box_that_is_none_is_refused(box):
    with pytest.raises(ConfigError, match=r"goal_low is .*a box in the square"):
        maze(**box)


def test_a_box_may_be_the_whole_square():
    assert maze(goal_low=[-1.0, -1.0], goal_high=[1.0, 1.0]).begin().shape == (1, 4)
