"""Simulated calculator, after BFCL's function documents of MathAPI."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from decimal import Context, Decimal
from typing import Any

from components.worlds.bfcl.service import Result, Service, ServiceError

# Most significant digits of a result; a call may ask for any precision.
_DIGITS = 50
# Dimension of each unit and its size in metres or kilograms.
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
# Power of ten of each SI prefix.
_PREFIXES = {"n": -9, "u": -6, "m": -3, "c": -2, "d": -1, "": 0, "da": 1, "h": 2, "k": 3, "M": 6}
_BASES = ("m", "g", "s", "A", "K", "mol", "L")


class MathService(Service):
    """Service of arithmetic, without a state.

    Args:
        config: initial state in the data; ignored.
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
        """Return the product of two numbers."""
        return {"result": a * b}

    def divide(self, a: float, b: float) -> Result:
        """Return the first number divided by the second."""
        return {"result": a / b}

    def power(self, base: float, exponent: float) -> Result:
        """Return the base to the power of the exponent."""
        result = float(base) ** float(exponent)
        if isinstance(result, complex):
            raise ServiceError("the power is no real number")
        return {"result": result}

    def absolute_value(self, number: float) -> Result:
        """Return a number without its sign."""
        return {"result": abs(number)}

    def percentage(self, part: float, whole: float) -> Result:
        """Return ``part`` as a percentage of ``whole``."""
        return {"result": 100 * part / whole}

    def round_number(self, number: float, decimal_places: int = 0) -> Result:
        """Return a number rounded to decimal places."""
        return {"result": round(float(number), decimal_places)}

    def logarithm(self, value: float, base: float, precision: int) -> Result:
        """Return the logarithm of a value, with ``precision`` significant digits."""
        context = _context(precision)
        if value <= 0 or base <= 0:
            raise ServiceError("value and base must be above 0")
        logs = [context.ln(Decimal(number)) for number in (value, base)]
        return {"result": float(context.divide(*logs))}

    def square_root(self, number: float, precision: int) -> Result:
        """Return the square root, with ``precision`` significant digits."""
        if number < 0:
            raise ServiceError("number must not be below 0")
        return {"result": float(_context(precision).sqrt(Decimal(number)))}

    def sum_values(self, numbers: list[float]) -> Result:
        """Return the sum of the numbers."""
        return {"result": sum(numbers)}

    def mean(self, numbers: list[float]) -> Result:
        """Return the mean of the numbers."""
        return {"result": sum(numbers) / len(numbers)}

    def standard_deviation(self, numbers: list[float]) -> Result:
        """Return the population standard deviation."""
        return {"result": statistics.pstdev(map(float, numbers))}

    def max_value(self, numbers: list[float]) -> Result:
        """Return the largest number."""
        return {"result": max(numbers)}

    def min_value(self, numbers: list[float]) -> Result:
        """Return the smallest number."""
        return {"result": min(numbers)}

    def imperial_si_conversion(self, value: float, unit_in: str, unit_out: str) -> Result:
        """Return a value in another unit of length or of mass."""
        source, target = _UNITS.get(unit_in), _UNITS.get(unit_out)
        if source is None or target is None or source[0] != target[0]:
            raise ServiceError(f"{unit_in} to {unit_out} is not known")
        return {"result": value * source[1] / target[1]}

    def si_unit_conversion(self, value: float, unit_in: str, unit_out: str) -> Result:
        """Return a value with another prefix of the same SI unit."""
        for base in _BASES:
            source, target = (_power_of_ten(unit, base) for unit in (unit_in, unit_out))
            if source is not None and target is not None:
                return {"result": value * 10.0 ** (source - target)}
        raise ServiceError(f"{unit_in} to {unit_out} is not known")


def _context(precision: int) -> Context:
    """Return a decimal context with ``precision`` significant digits."""
    if not 1 <= precision <= _DIGITS:
        raise ServiceError(f"precision is {precision}: must be from 1 to {_DIGITS}")
    return Context(prec=precision)


def _power_of_ten(unit: str, base: str) -> int | None:
    """Return the power of ten of a unit's prefix; None if the unit is not of this base."""
    return _PREFIXES.get(unit.removesuffix(base)) if unit.endswith(base) else None
