"""Fares by hand: distance, class and season."""

import datetime

import pytest

from components.worlds.bfcl.fares import exchange, fare


@pytest.mark.parametrize(
    ("way", "month", "travel_class", "dollars"),
    [
        # The one fare that the episodes tell.
        (("SFO", "CIA"), 10, "business", 2800.0),
        (("CIA", "SFO"), 10, "economy", 1400.0),
        (("SFO", "LAX"), 6, "economy", 220.0),
        (("SFO", "LAX"), 7, "first", 220 * 5 * 1.25),
        (("SFO", "LAX"), 8, "economy", 275.0),
        (("PEK", "LHR"), 12, "business", 1400 * 2 * 1.25),
        (("SFO", "LAX"), 9, "economy", 220.0),
    ],
)
def test_fares(way, month, travel_class, dollars):
    assert fare(*way, datetime.date(2026, month, 10), travel_class) == pytest.approx(dollars)


def test_rates_are_of_a_dollar():
    assert exchange(10.0, "USD", "RMB") == pytest.approx(70.0)
    assert exchange(70.0, "RMB", "EUR") == pytest.approx(8.0)
