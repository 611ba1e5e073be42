import inspect

import pytest
import torch

from components.kl_controller import AdaptiveKL, DoublingKL, FixedKL, ScheduledKL
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording

ALL = [
    FixedKL(kl_coef=0.1),
    AdaptiveKL(kl_coef=0.1, target=0.1, unit="token", horizon=10),
    DoublingKL(kl_coef=0.1, target=0.1, unit="token"),
    ScheduledKL(kl_coef=0.1, start=1.0, end=1.0, shape="linear", over=1.0),
]


def nats(*rows):
    kl = torch.tensor(rows)
    return kl, kl != 0


def test_a_fixed_price_stays():
    controller = FixedKL(kl_coef=0.1)

    controller.coef_then_observe(*nats([9.0, 9.0]))

    assert controller.coef() == 0.1


@pytest.mark.parametrize(("unit", "coef"), [("token", 0.1), ("sequence", 0.104)])
def test_the_unit_of_the_target_is_the_controllers(unit, coef):
    # 2 nats per token are the target; 4 a response are twice as much, which counts as 20 %, on 2 of
    # 10 responses.
    controller = AdaptiveKL(kl_coef=0.1, target=2.0, unit=unit, horizon=10)

    controller.coef_then_observe(*nats([2.0, 2.0], [2.0, 2.0]))

    assert controller.coef() == pytest.approx(coef)


def test_above_half_as_much_again_the_price_doubles():
    controller = DoublingKL(kl_coef=1.0, target=0.01, unit="token")

    charged = [controller.coef_then_observe(*nats([0.02, 0.02])) for _ in range(3)]

    assert charged == [1.0, 2.0, 4.0]


@pytest.mark.parametrize("controller", ALL, ids=lambda part: type(part).__name__)
def test_a_batch_without_responses_moves_no_price(controller):
    assert controller.coef_then_observe(
        torch.zeros(2, 3), torch.zeros(2, 3).bool()
    ) == pytest.approx(0.1)
    assert controller.coef() == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("shape", "prices"),
    # Half-way the quarter: (1 - cos(pi / 4)) / 2 = 0.1464466.
    [("linear", [1.0, 1.25, 1.5, 2.0, 2.0]), ("cosine", [1.0, 1.1464466, 1.5, 2.0, 2.0])],
)
def test_a_scheduled_price_follows_the_phase(shape, prices):
    controller = ScheduledKL(kl_coef=0.5, start=2.0, end=4.0, shape=shape, over=0.5)

    found = []
    for done in (0.0, 0.125, 0.25, 0.5, 0.9):
        with recording(progress=done):
            found.append(controller.coef())

    assert found == pytest.approx(prices, abs=1e-7)


@pytest.mark.parametrize("kind", [AdaptiveKL, DoublingKL])
def test_the_price_travels_in_a_checkpoint(kind):
    given = {"kl_coef": 0.1, "target": 0.1, "unit": "token"}
    given |= {"horizon": 10} if kind is AdaptiveKL else {}
    moved, other = kind(**given), kind(**given)
    moved.coef_then_observe(*nats([2.0]))

    other.load_state_dict(moved.state_dict())

    assert other.coef() == moved.coef() > 0.1


@pytest.mark.parametrize(
    ("kind", "given", "told"),
    [
        (FixedKL, {"kl_coef": -0.1}, "kl_coef is -0.1: must be at least 0"),
        (AdaptiveKL, {"target": 0.0}, "target is 0.0: must be greater than 0"),
        (AdaptiveKL, {"horizon": 0}, "horizon is 0: must be greater than 0"),
        (AdaptiveKL, {"kl_coef": 0.0}, "kl_coef is 0.0: must be greater than 0"),
        (AdaptiveKL, {"unit": "batch"}, "unit is 'batch': must be one of 'token', 'sequence'"),
        (ScheduledKL, {"over": 0.0}, "over is 0.0: must be greater than 0"),
        (ScheduledKL, {"over": 1.01}, "over is 1.01: must be at most 1"),
    ],
)
def test_a_controller_that_makes_no_sense_is_refused(kind, given, told):
    whole = {
        FixedKL: {"kl_coef": 0.1},
        AdaptiveKL: {"kl_coef": 0.1, "target": 0.1, "unit": "token", "horizon": 10},
        ScheduledKL: {"kl_coef": 0.1, "start": 1.0, "end": 0.0, "shape": "linear", "over": 1.0},
    }[kind]

    with pytest.raises(ConfigError, match=told):
        kind(**whole | given)


def test_only_the_responses_named_pay_and_all_are_measured():
    kl = torch.tensor([[1.0, 2.0], [0.5, 0.0]])
    mask = torch.tensor([[True, True], [True, False]])

    with recording() as ledger:
        some = FixedKL(kl_coef=0.5).penalty(kl, mask, torch.tensor([True, False]))
        every = FixedKL(kl_coef=0.5).penalty(kl, mask)

    # 0.5 * (1 + 2), and 0.5 * 0.5 where the second row pays as well.
    assert some.tolist() == [1.5, 0.0]
    assert every.tolist() == [1.5, 0.25]
    assert ledger.means()["kl/coef"] == 0.5


@pytest.mark.parametrize(
    ("part", "numbers"),
    [
        (AdaptiveKL, {"kl_coef": 0.2, "target": 6.0, "horizon": 10000}),
        (FixedKL, {"kl_coef": 0.001}),
    ],
)
def test_numbers_that_nobody_gives(part, numbers):
    given = inspect.signature(part.__init__).parameters.values()

    assert {p.name: p.default for p in given if isinstance(p.default, (int, float))} == numbers
