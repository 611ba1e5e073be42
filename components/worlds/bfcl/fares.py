"""Fares and exchange rates of the simulated travel agency: made up where the data is silent."""

from __future__ import annotations

import datetime

# Cities are those of BFCL's documents; of their airports its episodes name SFO, LAX, JFK, BOS, CIA,
# RMS, CRH and PHV.
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
# The episodes tell one fare: 2800 dollars from SFO to CIA in business class, in October.
_SHORT, _LONG = 220.0, 1400.0
_CLASSES = {"economy": 1.0, "business": 2.0, "first": 5.0}
_SEASON, _SEASONAL = (7, 8, 12), 1.25
# Of a dollar; the episodes tell those of RMB and EUR.
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
    """What a flight between two airports costs, in dollars.

    Args:
        travel_from: one of :data:`AIRPORTS`, by its code.
        travel_to: another one.
        date: in July, August and December it costs more.
        travel_class: economy, business or first.
    """
    # From afar to afar is far, too: few of these cities lie near one another.
    far = bool({travel_from, travel_to} & {*_FAR.values()})
    season = _SEASONAL if date.month in _SEASON else 1.0
    return (_LONG if far else _SHORT) * _CLASSES[travel_class] * season


def exchanged(value: float, base: str, target: str) -> float:
    """A sum in another currency, to a cent.

    Examples:
        >>> exchanged(20_000.0, "RMB", "USD")
        2857.14
    """
    return round(value / _RATES[base] * _RATES[target], 2)
