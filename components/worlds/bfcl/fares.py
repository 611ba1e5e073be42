"""Fares and exchange rates of the simulated travel agency, invented where data is missing."""

from __future__ import annotations

import datetime

# Airports of the cities in BFCL's documents, near and far ones. BFCL's episodes name only the codes
# SFO, LAX, JFK, BOS, CIA, RMS, CRH and PHV. The codes of the other invented cities are invented.
_NEAR = {
    "Rivermist": "RMS",
    "Stonebrook": "SBK",
    "Maplecrest": "MPC",
    "Silverpine": "SVP",
    "Shadowridge": "SHD",
    "Sunset Valley": "SSV",
    "Oakendale": "OKD",
    "Willowbend": "WLB",
    "Crescent Hollow": "CRH",
    "Autumnville": "ATV",
    "Pinehaven": "PHV",
    "Greenfield": "GFD",
    "San Francisco": "SFO",
    "Los Angeles": "LAX",
    "New York": "JFK",
    "Chicago": "ORD",
    "Boston": "BOS",
}
_FAR = {
    "London": "LHR",
    "Paris": "CDG",
    "Rome": "CIA",
    "Beijing": "PEK",
    "Hong Kong": "HKG",
    "Tokyo": "HND",
}
AIRPORTS = {**_NEAR, **_FAR}
# The episodes have one fare: 2800 dollars from SFO to CIA in business class, in October.
_SHORT_FARE, _LONG_FARE = 220.0, 1400.0
_CLASS_FACTORS = {"economy": 1.0, "business": 2.0, "first": 5.0}
_PEAK_MONTHS, _PEAK_FACTOR = (7, 8, 12), 1.25
# Units of each currency for one dollar. The rates of RMB and EUR are from the episodes.
_RATES = {
    "USD": 1.0,
    "RMB": 7.0,
    "EUR": 0.8,
    "JPY": 110.0,
    "GBP": 0.7,
    "CAD": 1.3,
    "AUD": 1.4,
    "INR": 70.0,
    "RUB": 60.0,
    "BRL": 3.8,
    "MXN": 20.0,
}


def fare(travel_from: str, travel_to: str, date: datetime.date, travel_class: str) -> float:
    """Return the fare of a flight between two airports, in dollars.

    Args:
        travel_from: code of one of :data:`AIRPORTS`.
        travel_to: code of another airport of :data:`AIRPORTS`.
        date: date of the flight; July, August and December are more expensive.
        travel_class: economy, business or first.
    """
    # A flight between two airports of _FAR is long, too: few of these cities are close.
    is_long = bool({travel_from, travel_to} & {*_FAR.values()})
    season = _PEAK_FACTOR if date.month in _PEAK_MONTHS else 1.0
    return (_LONG_FARE if is_long else _SHORT_FARE) * _CLASS_FACTORS[travel_class] * season


def exchange(value: float, base: str, target: str) -> float:
    """Return a sum of the currency ``base`` in the currency ``target``, rounded to cents.

    Examples:
        >>> exchange(20_000.0, "RMB", "USD")
        2857.14
    """
    return round(value / _RATES[base] * _RATES[target], 2)
