"""Fares and exchange rates of the simulated travel agency, invented where data is missing."""

from __future__ import annotations

import datetime

# Cities from BFCL's documents. Its episodes name only the airports SFO, LAX, JFK, BOS, CIA, RMS,
# CRH and PHV.
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
_SHORT, _LONG = 220.0, 1400.0
_CLASSES = {"economy": 1.0, "business": 2.0, "first": 5.0}
_SEASON, _SEASONAL = (7, 8, 12), 1.25
# Rates for one dollar; the episodes have the rates of RMB and EUR.
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
        travel_to: code of another one.
        date: date of the flight; July, August and December are more expensive.
        travel_class: economy, business or first.
    """
    # Two airports in _FAR count as far from each other too: few of these cities are close.
    far = bool({travel_from, travel_to} & {*_FAR.values()})
    season = _SEASONAL if date.month in _SEASON else 1.0
    return (_LONG if far else _SHORT) * _CLASSES[travel_class] * season


def exchanged(value: float, base: str, target: str) -> float:
    """Return a sum in another currency, rounded to cents.

    Examples:
        >>> exchanged(20_000.0, "RMB", "USD")
        2857.14
    """
    return round(value / _RATES[base] * _RATES[target], 2)
