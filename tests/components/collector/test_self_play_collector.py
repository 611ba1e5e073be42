import pytest
import torch

from components.collector.episodes import SelfPlayCollector
from components.filter import SeatFilter
from components.worlds.matrix_game.environment import MatrixGame
from rlcomp.episodes.match import MatchPlayer
from rlcomp.metrics import recording
from rlcomp.testing import check_component, make_batch, tiny_policy
from rlcomp.text.tokenizer import character_tokenizer


class Rigged(MatrixGame):
    """Seat 0 wins 2."""

    def _payoff(self, first, second):
        return 2.0


def played():
    policy = tiny_policy(tokenizer=character_tokenizer(characters="?abht"), context_length=8)
    player = MatchPlayer(
        policies=[policy, policy],
        environment=lambda: Rigged(moves=["h", "t"], payoffs=[[1, -1], [-1, 1]], roles=["a", "b"]),
        max_turns=2,
        max_new_tokens=1,
    )
    collector = SelfPlayCollector(player=player, group_size=3)
    with recording() as ledger:
        rows = collector(make_batch(prompt=["?", "?"]))
    return rows, ledger.means()


def test_every_match_gives_a_row_for_each_seat():
    rows, _ = played()

    assert rows["seat"].tolist() == [0, 0, 0, 1, 1, 1] * 2
    assert rows["group_id"].tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3


def test_the_reward_of_each_seat_is_recorded():
    _, told = played()

    assert (told["self_play/reward_0"], told["self_play/reward_1"]) == (2.0, -2.0)
    assert told["episode/environment_reward"] == 0.0


def test_a_learner_of_one_seat_gets_its_rows():
    rows, _ = played()

    kept = SeatFilter(seat=1)(rows)

    assert kept["seat"].tolist() == [1] * 6
    assert torch.equal(kept["match_id"], rows["match_id"][rows["seat"] == 1])


@pytest.mark.parametrize("seat", [0, 1])
def test_the_filter_keeps_the_contract(seat):
    check_component(SeatFilter(seat=seat))
