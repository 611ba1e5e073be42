import pytest

from components.worlds.matrix_game.environment import MatrixGame
from components.worlds.matrix_game.moves import MoveDemonstrations
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example

# Rock, paper, scissors, where paper wins twice as much.
MOVES = ["r", "p", "s"]
PAYOFFS = [[0, -2, 1], [2, 0, -1], [-1, 1, 0]]


def played(first, second):
    game = MatrixGame(moves=MOVES, payoffs=PAYOFFS, roles=["a", "b"])
    opened = game.reset(Example("?", "", ""), seed=0)
    told = game.step(first)
    ended = game.step(second)
    return (opened.observation, opened.seat), (told.observation, told.seat), ended


def test_the_second_seat_is_not_told_the_first_move():
    opened, told, ended = played("p", "r")

    assert (opened, told) == (("a", 0), ("b", 1))
    assert ended.done
    assert ended.payoffs == (2.0, -2.0)


@pytest.mark.parametrize(
    ("first", "second", "paid"), [("r", "s", 1.0), ("xr", "s", -2.0), ("r", "", 2.0), ("", "x", 0)]
)
def test_who_does_not_move_loses_the_most(first, second, paid):
    assert played(first, second)[2].payoffs == (paid, -paid)


def test_a_copy_continues_independently():
    game = MatrixGame(moves=MOVES, payoffs=PAYOFFS, roles=["a", "b"])
    game.reset(Example("?", "", ""), seed=0)
    other = game.fork()
    game.step("r")

    assert other.step("p").seat == 1
    assert game.step("p").payoffs == (-2.0, 2.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"payoffs": [[1, -1], [-1, 1]]}, "must be 3 rows of 3 numbers"),
        ({"payoffs": [[0, -2, 1], [2, 0], [-1, 1, 0]]}, "must be 3 rows of 3 numbers"),
        ({"roles": ["a"]}, "must be two texts"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        MatrixGame(**{"moves": MOVES, "payoffs": PAYOFFS, "roles": ["a", "b"]} | change)


def test_demonstrated_moves_have_the_given_shares():
    task = MoveDemonstrations(roles=["a", "b"], moves=["h", "t"], strategies=[[0.8, 0.2], [1, 3]])

    shown = [task.example(index) for index in range(4000)]

    first = [each.demonstration for each in shown if each.prompt == "?a"]
    second = [each.demonstration for each in shown if each.prompt == "?b"]
    assert (len(first), len(second)) == (2000, 2000)
    # Four standard deviations of a share of 2,000.
    assert first.count("h") / 2000 == pytest.approx(0.8, abs=0.036)
    assert second.count("h") / 2000 == pytest.approx(0.25, abs=0.039)


@pytest.mark.parametrize("strategies", [[[1, 0]], [[1, 0], [0, 0]], [[1, 0], [1, 0, 0]]])
def test_strategies_are_shares_for_each_role(strategies):
    with pytest.raises(
        ConfigError, match=r"strategies is .*2 roles, with a probability for each of 2 moves"
    ):
        MoveDemonstrations(roles=["a", "b"], moves=["h", "t"], strategies=strategies)
