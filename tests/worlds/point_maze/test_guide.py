import pytest

from components.worlds.point_maze.experts import UMazeGuide
from components.worlds.point_maze.u_maze import UMaze
from rlcomp.testing import make_batch


def guide():
    box = {key: [0.0, 0.5] for key in ("start_low", "start_high", "goal_low", "goal_high")}
    maze = UMaze(num_envs=1, max_steps=9, stride=0.2, radius=0.1, wall=0.5, ends=True, **box)
    return UMazeGuide(environment=maze)


def seen(point, goal):
    return make_batch(observation=[point], desired_goal=[goal])


@pytest.mark.parametrize(
    ("point", "action"),
    [
        ([0.5, 0.3], [-0.5, 1.0]),  # straight, (-.1, .6) / .2, each at most 1
        ([0.5, -0.1], [0.5, 0.5]),  # hidden: to (.6, 0), a little beyond the wall
        ([-0.5, -0.1], [1.0, 0.5]),
    ],
)
def test_the_guide_moves_to_a_visible_goal_else_to_the_end_of_the_wall(point, action):
    batch = guide()(seen(point, [0.4, 0.9]))

    assert batch["action"][0].tolist() == pytest.approx(action, abs=1e-5)


def test_it_knows_how_far_it_is():
    # 3-4-5 triangles: (.3, .4) away; hidden, (.3, .4) to the corner (.5, 0) and (.3, .4) back.
    assert guide().distance_to_goal(seen([0.5, 0.3], [0.2, 0.7])).tolist() == pytest.approx([0.5])
    assert guide().distance_to_goal(seen([0.2, -0.4], [0.2, 0.4])).tolist() == pytest.approx([1.0])
