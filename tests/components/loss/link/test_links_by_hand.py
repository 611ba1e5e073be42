"""Links of a pair by hand: u_w = 0.5, u_l = -0.8, m = 1.3; and of the label turned round."""

import math

import pytest
import torch
from tensordict import TensorDict

from components.loss.link import (
    BCO,
    EXO,
    NCA,
    SPPO,
    APODown,
    APOZero,
    DiscoPOP,
    Hinge,
    Sigmoid,
    SquaredError,
)
from rlcomp.errors import ConfigError

W, L = 0.5, -0.8


def s(value):
    return 1 / (1 + math.exp(-value))


def nll(value):
    return -math.log(s(value))


def exo(q, noise):
    return q * math.log(q / (1 - noise)) + (1 - q) * math.log((1 - q) / noise)


def discopop(z, tau):
    return nll(z) * (1 - s(z / tau)) + math.exp(-z) * s(z / tau)


@pytest.mark.parametrize(
    ("link", "loss"),
    [
        (SquaredError(), lambda w, v: (w - v - 5) ** 2),
        (SquaredError(beta=0.5), lambda w, v: (w - v - 1) ** 2),
        (Hinge(), lambda w, v: max(0, 1 - 0.1 * (w - v))),
        (Hinge(beta=2.0), lambda w, v: max(0, 1 - 2 * (w - v))),
        (EXO(), lambda w, v: exo(s(0.1 * (w - v)), 1e-3)),
        (EXO(beta=2.0, epsilon=0.1), lambda w, v: exo(s(2 * (w - v)), 0.1)),
        (DiscoPOP(), lambda w, v: discopop(0.1 * (w - v), 0.05)),
        (DiscoPOP(beta=0.5, tau=0.4), lambda w, v: discopop(0.5 * (w - v), 0.4)),
        (SPPO(), lambda w, v: (w - 5) ** 2 + (v + 5) ** 2),
        (SPPO(beta=0.5), lambda w, v: (w - 1) ** 2 + (v + 1) ** 2),
        (NCA(), lambda w, v: nll(0.1 * w) + nll(-0.1 * w) / 2 + nll(-0.1 * v) / 2),
        (NCA(beta=2.0), lambda w, v: nll(2 * w) + nll(-2 * w) / 2 + nll(-2 * v) / 2),
        (BCO(), lambda w, v: nll(0.1 * w) + nll(-0.1 * v)),
        (BCO(beta=2.0), lambda w, v: nll(2 * w) + nll(-2 * v)),
        (APOZero(), lambda w, v: 1 - s(0.1 * w) + s(0.1 * v)),
        (APOZero(beta=2.0), lambda w, v: 1 - s(2 * w) + s(2 * v)),
        (APODown(), lambda w, v: s(0.1 * w) + 1 - s(0.1 * (w - v))),
        (APODown(beta=2.0), lambda w, v: s(2 * w) + 1 - s(2 * (w - v))),
    ],
)
def test_the_loss_of_a_pair_and_of_its_label_turned_round(link, loss):
    found = both(link)

    assert found["pair_loss"].item() == pytest.approx(loss(W, L), rel=1e-6)
    assert found["flipped_loss"].item() == pytest.approx(loss(L, W), rel=1e-6)


def both(link):
    scores = {"chosen_score": torch.tensor([W]), "rejected_score": torch.tensor([L])}
    return link(TensorDict({key: value.double() for key, value in scores.items()}, [1]))


@pytest.mark.parametrize(
    ("settings", "argument"), [({}, 0.13), ({"beta": 2.0, "gamma": 0.6}, 2.6 - 0.6)]
)
def test_the_turned_label_of_the_logistic_loss_has_the_argument_s_sign_changed(settings, argument):
    found = both(Sigmoid(**settings))

    assert found["pair_loss"].item() == pytest.approx(nll(argument))
    # Not -2.6 - 0.6: SimPO's target margin turns round with the label.
    assert found["flipped_loss"].item() == pytest.approx(nll(-argument))


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_exo_s_noise_is_refused_before_the_first_batch(epsilon):
    with pytest.raises(ConfigError, match="epsilon"):
        EXO(epsilon=epsilon)
