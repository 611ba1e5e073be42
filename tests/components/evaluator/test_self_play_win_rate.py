import pytest
import torch
from tensordict import TensorDict

from components.evaluator.self_play import SelfPlayWinRate, _wins
from components.worlds.matrix_game.environment import MatrixGame
from components.worlds.matrix_game.moves import MoveDemonstrations
from rlcomp.episodes.match import MatchPlayer
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.testing import make_batch, tiny_policy
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="?abht")
PENNIES = {"moves": ["h", "t"], "payoffs": [[1, -1], [-1, 1]], "roles": ["a", "b"]}


class Rigged(MatrixGame):
    """Seat 0 wins, whatever character is played."""

    def __init__(self, **game):
        super().__init__(**game)
        self.stops = tuple("?abht")

    def _payoff(self, first, second):
        return 1.0


def evaluator(game=MatrixGame, keep=2, second=None):
    policy = tiny_policy(tokenizer=TOKENIZER, context_length=8)
    player = MatchPlayer(
        policies=[policy, second or policy],
        environment=lambda: game(**PENNIES),
        max_turns=2,
        max_new_tokens=1,
    )
    task = MoveDemonstrations(
        roles=["a", "b"], moves=["h", "t"], strategies=[[1, 0], [0, 1]], examples=40, held_out=0.5
    )
    return policy, SelfPlayWinRate(player=player, task=task, keep=keep, num_prompts=4)


def measured(part):
    with recording() as ledger:
        part(TensorDict({}, batch_size=[]))
    return ledger.means()


def test_higher_pay_is_a_win_and_equal_pay_half_a_win():
    rows = make_batch(
        turn_reward=[[1.0], [2.0], [1.0], [0.5], [1.0]],
        response_mask=torch.tensor([[True]] * 4 + [[False]]),
        seat=[0, 0, 1, 1, 0],
        match_id=[0, 1, 0, 1, 2],
    )

    # 1 against 1; 2 against .5; the last match has no pay and no winner.
    assert _wins(rows, 0).tolist() == [0.5, 1.0, 0.5]
    assert _wins(rows, 1).tolist() == [0.5, 0.0, 0.5]


def test_a_match_with_a_failed_environment_does_not_count():
    rows = make_batch(
        turn_reward=[[1.0], [0.0], [0.0], [0.0]],
        response_mask=torch.ones(4, 1, dtype=torch.bool),
        seat=[0, 0, 1, 1],
        match_id=[0, 1, 0, 1],
        episode_error=["", "out of order", "", "out of order"],
    )

    # The second match is neither won, lost, nor half a win.
    assert _wins(rows, 0).tolist() == [1.0]
    assert _wins(rows, 1).tolist() == [0.0]


def test_nothing_is_recorded_if_all_matches_failed():
    class Broken(Rigged):
        def step(self, action):
            raise RuntimeError("out of order")

    _, part = evaluator(game=Broken)
    measured(part)

    assert measured(part) == {}


def test_the_first_evaluation_has_no_opponent():
    _, part = evaluator()

    assert measured(part) == {}
    assert int(part.taken) == 1


def test_each_copy_is_played_in_both_seats():
    _, part = evaluator(game=Rigged)
    measured(part)

    # It wins every match in seat 0 and none in seat 1.
    assert measured(part) == {
        f"past_selves/{name}": 0.5 for name in ("win_rate", "win_rate_oldest", "win_rate_newest")
    }


def test_earlier_selves_play_with_the_weights_that_they_had():
    policy, part = evaluator(keep=2)
    with torch.no_grad():  # it always shows heads: nothing else has a logit of that size
        for parameter in policy.weights().values():
            parameter.zero_()
    measured(part)
    own = {name: parameter.clone() for name, parameter in policy.weights().items()}
    version = policy.version

    with torch.no_grad():
        for parameter in policy.weights().values():
            parameter.add_(1.0)
    later = {name: parameter.clone() for name, parameter in policy.weights().items()}
    measured(part)

    assert all(torch.equal(part.copies[0].weights()[name], own[name]) for name in own)
    assert all(torch.equal(policy.weights()[name], later[name]) for name in later)
    assert policy.version == version


def test_the_oldest_is_forgotten_first():
    _, part = evaluator(game=Rigged, keep=1)
    for _ in range(3):
        metrics = measured(part)

    assert int(part.taken) == 3
    assert metrics["past_selves/win_rate_oldest"] == metrics["past_selves/win_rate_newest"]


def test_seats_of_different_policies_are_refused():
    with pytest.raises(ConfigError, match="must be one policy in two seats"):
        evaluator(second=tiny_policy(tokenizer=TOKENIZER, context_length=8))
