import pytest

from components.environment.answer_verification import SolverVerifier
from components.reward.answer import ExactMatch
from rlcomp.arguments import Unbuilt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.environment import Environment, Turn
from rlcomp.interfaces.task import Example


def begun(**settings):
    game = SolverVerifier(verifier=ExactMatch(), **settings)
    assert isinstance(game, Environment)
    assert game.reset(Example("2+2=", "4", ""), seed=0) == Turn(seat=0)
    return game


# Answer, verdict; what solver (by truth, by verdict) and verifier are paid; facts.
CASES = [
    ("4", "y", 1.0, 1.0, 1.0, {"right": 1, "accepted": 1, "judged": 1, "verdict_right": 1}),
    ("4", "n", 1.0, 0.0, 0.0, {"right": 1, "accepted": 0, "judged": 1, "verdict_right": 0}),
    (
        "5",
        "y",
        0.0,
        1.0,
        0.0,
        {"right": 0, "accepted": 1, "judged": 1, "verdict_right": 0, "accepted_wrong": 1},
    ),
    (
        "5",
        "n",
        0.0,
        0.0,
        1.0,
        {"right": 0, "accepted": 0, "judged": 1, "verdict_right": 1, "accepted_wrong": 0},
    ),
    # Reasoning before the verdict is free.
    ("4", "n2+2=4y", 1.0, 1.0, 1.0, {"right": 1, "accepted": 1, "judged": 1, "verdict_right": 1}),
    # No verdict: nothing is accepted, and nobody judged rightly.
    (
        "5",
        "n.",
        0.0,
        0.0,
        0.0,
        {"right": 0, "accepted": 0, "judged": 0, "verdict_right": 0, "accepted_wrong": 0},
    ),
    ("4", "", 1.0, 0.0, 0.0, {"right": 1, "accepted": 0, "judged": 0, "verdict_right": 0}),
]


@pytest.mark.parametrize(("answer", "verdict", "truth", "by_verdict", "verifier", "facts"), CASES)
def test_both_are_paid_and_the_match_is_told(answer, verdict, truth, by_verdict, verifier, facts):
    for paid_by, solver in (("truth", truth), ("verdict", by_verdict)):
        game = begun(paid_by=paid_by)

        assert game.step(answer) == Turn(observation=answer, closing="?", seat=1)
        assert game.facts() == {}
        assert game.step(verdict) == Turn(done=True, payoffs=(solver, verifier))
        assert game.facts() == facts
        game.close()


def test_options_the_question_and_the_end_of_a_turn_are_settings():
    game = begun(accept="yes", reject="no", asks=" right? ", stop=";")

    assert game.stops == (";",)
    assert game.step("4;") == Turn(observation="4", closing=" right? ", seat=1)
    assert game.step("yes;").payoffs == (1.0, 1.0)


def test_without_a_text_that_ends_turns_an_answer_stands_as_it_is():
    game = begun()

    assert game.stops == ()
    assert game.step("4;").observation == "4;"
    assert not game.right


def test_one_option_within_the_other_is_refused():
    with pytest.raises(ConfigError, match="environment: accept is 'y' and reject is 'ny'"):
        SolverVerifier(verifier=ExactMatch(), reject="ny")


def test_a_reward_of_whole_batches_is_refused():
    shuffled = Unbuilt("components.reward.composite.ShuffledReward", {"reward": ExactMatch()})

    with pytest.raises(
        ConfigError, match=r"environment\.verifier is a ShuffledReward: must be a reward"
    ):
        SolverVerifier(verifier=shuffled)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"stop": "y"}, "environment.stop is 'y', but environment.accept='y' contains it"),
        ({"stop": "n"}, "environment.stop is 'n', but environment.reject='n' contains it"),
        ({"accept": "yes "}, "environment.accept is 'yes ': must not end with space"),
    ],
)
def test_options_that_would_be_cut_short_are_refused(settings, why):
    with pytest.raises(ConfigError, match=why):
        SolverVerifier(verifier=ExactMatch(), **settings)


def test_space_behind_a_verdict_is_not_looked_at():
    game = begun()
    game.step("4")

    assert game.step(" y\n ").payoffs == (1.0, 1.0)
