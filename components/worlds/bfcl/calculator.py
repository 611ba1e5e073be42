"""Simulated calculator, after BFCL's function documents of MathAPI."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from decimal import Context, Decimal
from typing import Any

from components.worlds.bfcl.service import Refused, Result, Service

_DIGITS = 50
# Units in metres, kilograms, litres or seconds; and powers of ten by prefix.
_UNITS = {
    "inch": ("m", 0.0254),
    "foot": ("m", 0.3048),
    "yard": ("m", 0.9144),
    "mile": ("m", 1609.344),
    "m": ("m", 1.0),
    "cm": ("m", 0.01),
    "km": ("m", 1000.0),
    "lb": ("kg", 0.45359237),
    "oz": ("kg", 0.028349523125),
    "g": ("kg", 0.001),
    "kg": ("kg", 1.0),
}
_PREFIXES = {"n": -9, "u": -6, "m": -3, "c": -2, "d": -1, "": 0, "da": 1, "h": 2, "k": 3, "M": 6}
_BASES = ("m", "g", "s", "A", "K", "mol", "L")


class MathService(Service):
    """Service of arithmetic, without a state.

    Args:
        config: ignored.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        del config
        self.state = {}

    def add(self, a: float, b: float) -> Result:
        """Return the sum of two numbers."""
        return {"result": a + b}

    def subtract(self, a: float, b: float) -> Result:
        """Return the first number minus the second."""
        return {"result": a - b}

    def multiply(self, a: float, b: float) -> Result:
        """Return the product."""
        return {"result": a * b}

    def divide(self, a: float, b: float) -> Result:
        """Return the quotient."""
        return {"result": a / b}

    def power(self, base: float, exponent: float) -> Result:
        """Return the base to the power of the exponent."""
        result = float(base) ** float(exponent)
        if isinstance(result, complex):
            raise Refused("the power is no real number")
        return {"result": result}

    def absolute_value(self, number: float) -> Result:
        """Return a number without its sign."""
        return {"result": abs(number)}

    def percentage(self, part: float, whole: float) -> Result:
        """Return 100 part / whole."""
        return {"result": 100 * part / whole}

    def round_number(self, number: float, decimal_places: int = 0) -> Result:
        """Return a number rounded to decimal places."""
        return {"result": round(float(number), decimal_places)}

    def logarithm(self, value: float, base: float, precision: int) -> Result:
        """Return the logarithm to a number of digits."""
        context = _context(precision)
        if value <= 0 or base <= 0:
            raise Refused("value and base must be above 0")
        logs = [context.ln(Decimal(number)) for number in (value, base)]
        return {"result": float(context.divide(*logs))}

    def square_root(self, number: float, precision: int) -> Result:
        """Return the square root to a number of digits."""
        if number < 0:
            raise Refused("number must not be below 0")
        return {"result": float(_context(precision).sqrt(Decimal(number)))}

    def sum_values(self, numbers: list[float]) -> Result:
        """Return the sum."""
        return {"result": sum(numbers)}

    def mean(self, numbers: list[float]) -> Result:
        """Return the mean."""
        return {"result": sum(numbers) / len(numbers)}

    def standard_deviation(self, numbers: list[float]) -> Result:
        """Return the population standard deviation."""
        return {"result": statistics.pstdev(map(float, numbers))}

    def max_value(self, numbers: list[float]) -> Result:
        """Return the largest."""
        return {"result": max(numbers)}

    def min_value(self, numbers: list[float]) -> Result:
        """Return the smallest."""
        return {"result": min(numbers)}

    def imperial_si_conversion(self, value: float, unit_in: str, unit_out: str) -> Result:
        """Convert between units of length or of mass."""
        kinds = [_UNITS.get(unit) for unit in (unit_in, unit_out)]
        first, second = kinds
        if first is None or second is None or first[0] != second[0]:
            raise Refused(f"{unit_in} to {unit_out} is not known")
        return {"result": value * first[1] / second[1]}

    def si_unit_conversion(self, value: float, unit_in: str, unit_out: str) -> Result:
        """Convert between prefixes of one SI unit."""
        for base in _BASES:
            first, second = (_power_of(unit, base) for unit in (unit_in, unit_out))
            if first is not None and second is not None:
                return {"result": value * 10.0 ** (first - second)}
        raise Refused(f"{unit_in} to {unit_out} is not known")


def _context(precision: int) -> Context:
    if not 1 <= precision <= _DIGITS:
        raise Refused(f"precision is {precision}: must be from 1 to {_DIGITS}")
    return Context(prec=precision)


def _power_of(unit: str, base: str) -> int | None:
    return _PREFIXES.get(unit.removesuffix(base)) if unit.endswith(base) else None
