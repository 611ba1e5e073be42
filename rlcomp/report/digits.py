"""Numbers with as many digits as their interval supports."""

from __future__ import annotations

import math

from rlcomp.report.statistics import Estimate


def number(value: float | None) -> str:
    """Format a number without an interval.

    Examples:
        >>> number(0.03), number(-12345.6), number(None)
        ('0.03', '−12,346', '')
    """
    if value is None:
        return ""
    return _minus(f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}")


def rounded(value: float, half: float, *, sign: bool = False) -> str:
    """Round a number to the digits that an interval of ``value ± half`` supports.

    The last digit is worth between a twentieth and a half of the half width. An interval of no
    width gives no limit on the digits.

    Args:
        value: the number.
        half: half the width of the interval, at least 0.
        sign: also write a plus.

    Examples:
        >>> rounded(0.00213, 0.006), rounded(0.00213, 0.0163, sign=True), rounded(51234.0, 300.0)
        ('0.002', '+0.002', '51,200')
    """
    plus = "+" if sign else ""
    if not half > 1e-12 * abs(value):  # the rounding of equal numbers in float64 is no width
        return ("+" if sign and value > 0 else "") + number(value)
    places = -math.floor(math.log10(half / 2))
    if places > 6:
        digits = max(0, math.floor(math.log10(abs(value))) + places) if value else 0
        return _minus(f"{value:{plus}.{digits}e}")
    near = round(value, places) + 0.0  # no minus before a zero
    return _minus(f"{near:{plus},.{max(places, 0)}f}")


def half_width(value: Estimate) -> float:
    """Return half the width of the interval of an estimate; 0 without one."""
    return 0.0 if value.low is None or value.high is None else (value.high - value.low) / 2


def estimate_in_words(value: Estimate | None, *, sign: bool = False) -> str:
    """Write mean and interval, ``mean ± half width``.

    Examples:
        >>> estimate_in_words(Estimate(0.512, 0.25, 0.774, 3))
        '0.5 ± 0.3'
    """
    if value is None:
        return ""
    half = half_width(value)
    mean = rounded(value.mean, half, sign=sign)
    return f"{mean} ± {rounded(half, half)}" if value.low is not None else mean


def _minus(text: str) -> str:
    return text.replace("-", "−")
