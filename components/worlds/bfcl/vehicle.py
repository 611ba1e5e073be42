"""Simulated car, after BFCL's function documents of VehicleControlAPI."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Literal

from components.worlds.bfcl.service import Refused, Result, Service

_TANK = 50.0
_LITRES = 3.785411784
# The episodes have these codes, and the distances in km of the first three pairs; the others are
# invented. So are the range of a gallon, the braking forces and the place of the tyre shop.
_CODES = {
    "San Francisco": "94016",
    "Rivermist": "83214",
    "Stonebrook": "74532",
    "Crescent Hollow": "69238",
    "Autumnville": "51479",
    "Silverpine": "62947",
    "Oakendale": "47329",
}
_DISTANCES = {
    frozenset({"94016", "83214"}): 980.0,
    frozenset({"83214", "74532"}): 750.0,
    frozenset({"69238", "51479"}): 630.0,
    frozenset({"94016", "74532"}): 880.0,
    frozenset({"62947", "47329"}): 760.0,
}
_MILES_A_GALLON = 20.0
_PARKING_FORCE, _PEDAL_FORCE = 400.0, 1000.0
_SHOP = "456 Oakwood Avenue, Rivermist, 83214"
_OUTSIDE = 22.0
_DOORS = ("driver", "passenger", "rear_left", "rear_right")
_TYRES = ("frontLeft", "frontRight", "rearLeft", "rearRight")
# Entries of the state that displayCarStatus shows.
_SHOWN = {
    "fuel": ("fuelLevel",),
    "battery": ("batteryVoltage",),
    "doors": ("doorStatus",),
    "climate": ("acTemperature", "fanSpeed", "acMode", "humidityLevel"),
    "headlights": ("headLightStatus",),
    "parkingBrake": ("parkingBrakeStatus", "parkingBrakeForce", "slopeAngle"),
    "brakePedal": ("brakePedalStatus", "brakePedalForce"),
    "engine": ("engineState",),
}


class Vehicle(Service):
    """Service of a standing car; its engine starts with doors locked, fuel and the pedal down.

    Args:
        config: any of its values, by BFCL's names.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.state = {
            "fuelLevel": 0.0,
            "batteryVoltage": 12.6,
            "engineState": "stopped",
            "doorStatus": dict.fromkeys(_DOORS, "unlocked"),
            "acTemperature": 25.0,
            "fanSpeed": 50,
            "acMode": "auto",
            "humidityLevel": 50.0,
            "headLightStatus": "off",
            "parkingBrakeStatus": "released",
            "parkingBrakeForce": 0.0,
            "slopeAngle": 0.0,
            "brakePedalStatus": "released",
            "brakePedalForce": 0.0,
            "distanceToNextVehicle": 50.0,
            "cruiseStatus": "inactive",
            "currentSpeed": 0.0,
            "destination": "None",
            **{f"{tyre}TirePressure": 32.0 for tyre in _TYRES},
            **copy.deepcopy(dict(config)),
        }

    def _shown(self, *names: str) -> Result:
        return {name: copy.deepcopy(self.state[name]) for name in names}

    def startEngine(self, ignitionMode: Literal["START", "STOP"]) -> Result:
        """Start or stop the engine."""
        if ignitionMode == "START":
            if "unlocked" in self.state["doorStatus"].values():
                raise Refused("doors are unlocked: call lockDoors")
            if self.state["fuelLevel"] <= 0:
                raise Refused("the tank is empty: call fillFuelTank")
            if self.state["brakePedalForce"] < _PEDAL_FORCE:
                raise Refused("the brake pedal is not down: call pressBrakePedal")
        self.state["engineState"] = "running" if ignitionMode == "START" else "stopped"
        return self._shown("engineState", "fuelLevel", "batteryVoltage")

    def fillFuelTank(self, fuelAmount: float) -> Result:
        """Add fuel, in gallons."""
        level = self.state["fuelLevel"] + fuelAmount
        if fuelAmount <= 0 or level > _TANK:
            raise Refused(f"fuelAmount is {fuelAmount}: the tank would hold {level} of {_TANK}")
        self.state["fuelLevel"] = level
        return self._shown("fuelLevel")

    def lockDoors(self, unlock: bool, door: list[str]) -> Result:
        """Lock or unlock doors."""
        if not set(door) <= set(_DOORS):
            raise Refused(f"door must be some of {', '.join(_DOORS)}")
        status = "unlocked" if unlock else "locked"
        self.state["doorStatus"].update(dict.fromkeys(door, status))
        left = [*self.state["doorStatus"].values()].count("unlocked")
        return {"lockStatus": status, "remainingUnlockedDoors": left}

    def pressBrakePedal(self, pedalPosition: float) -> Result:
        """Press the brake pedal, from 0 to 1."""
        if not 0 <= pedalPosition <= 1:
            raise Refused(f"pedalPosition is {pedalPosition}: must be from 0 to 1")
        self.state["brakePedalStatus"] = "pressed" if pedalPosition > 0 else "released"
        self.state["brakePedalForce"] = _PEDAL_FORCE * pedalPosition
        return self._shown("brakePedalStatus", "brakePedalForce")

    def releaseBrakePedal(self) -> Result:
        """Release the brake pedal."""
        return self.pressBrakePedal(0.0)

    def activateParkingBrake(self, mode: Literal["engage", "release"]) -> Result:
        """Engage or release the parking brake."""
        self.state["parkingBrakeStatus"] = f"{mode}d"
        self.state["parkingBrakeForce"] = _PARKING_FORCE if mode == "engage" else 0.0
        shown = self._shown("parkingBrakeForce", "slopeAngle")
        hidden = {f"_{name}": value for name, value in shown.items()}
        return {**self._shown("parkingBrakeStatus"), **hidden}

    def setHeadlights(self, mode: Literal["on", "off", "auto"]) -> Result:
        """Turn the headlights on or off; ``auto`` is off by day."""
        self.state["headLightStatus"] = "on" if mode == "on" else "off"
        return {"headlightStatus": self.state["headLightStatus"]}

    def adjustClimateControl(
        self,
        temperature: float,
        unit: Literal["celsius", "fahrenheit"] = "celsius",
        fanSpeed: int = 50,
        mode: Literal["auto", "cool", "heat", "defrost"] = "auto",
    ) -> Result:
        """Set temperature, fan and mode."""
        if not 0 <= fanSpeed <= 100:
            raise Refused(f"fanSpeed is {fanSpeed}: must be from 0 to 100")
        degrees = temperature if unit == "celsius" else (temperature - 32) * 5 / 9
        self.state |= {"acTemperature": degrees, "fanSpeed": fanSpeed, "acMode": mode}
        shown = self._shown("humidityLevel")
        return {"currentTemperature": degrees, "climateMode": mode, **shown}

    def setCruiseControl(
        self,
        speed: float,
        activate: bool,
        distanceToNextVehicle: float,
    ) -> Result:
        """Set the cruise speed, in miles per hour."""
        if activate and self.state["engineState"] != "running":
            raise Refused("the engine is stopped: call startEngine")
        if not 0 <= speed <= 120 or speed % 5:
            raise Refused(f"speed is {speed}: must be a multiple of 5 from 0 to 120")
        self.state["cruiseStatus"] = "active" if activate else "inactive"
        self.state["distanceToNextVehicle"] = distanceToNextVehicle
        self.state["currentSpeed"] = speed if activate else 0.0
        return self._shown("cruiseStatus", "currentSpeed", "distanceToNextVehicle")

    def set_navigation(self, destination: str) -> Result:
        """Set the destination."""
        self.state["destination"] = destination
        return {"status": f"navigating to {destination}"}

    def displayCarStatus(
        self,
        option: Literal[
            "fuel",
            "battery",
            "doors",
            "climate",
            "headlights",
            "parkingBrake",
            "brakePedal",
            "engine",
        ],
    ) -> Result:
        """Return a part of the state."""
        return {"status": self._shown(*_SHOWN[option])}

    def check_tire_pressure(self) -> Result:
        """Return the pressure of each tyre, in PSI."""
        return {"tirePressure": self._shown(*(f"{tyre}TirePressure" for tyre in _TYRES))}

    def find_nearest_tire_shop(self) -> Result:
        """Return the address of the nearest tyre shop."""
        return {"shopLocation": _SHOP}

    def display_log(self, messages: list[str]) -> Result:
        """Return the messages of the log."""
        return {"log": messages}

    def get_current_speed(self) -> Result:
        """Return the speed."""
        return self._shown("currentSpeed")

    def get_outside_temperature_from_google(self) -> Result:
        """Return the temperature, in degrees Celsius."""
        return {"outsideTemperature": _OUTSIDE}

    def get_outside_temperature_from_weather_com(self) -> Result:
        """Return the temperature, in degrees Celsius."""
        return {"outsideTemperature": _OUTSIDE}

    def get_zipcode_based_on_city(self, city: str) -> Result:
        """Return the ZIP code of a city."""
        if city not in _CODES:
            raise Refused(f"no code of {city!r} is known")
        return {"zipcode": _CODES[city]}

    def estimate_distance(self, cityA: str, cityB: str) -> Result:
        """Return the distance of two ZIP codes, in km."""
        pair = frozenset({cityA, cityB})
        if pair not in _DISTANCES:
            raise Refused(f"no distance of {cityA!r} and {cityB!r} is known")
        return {"distance": _DISTANCES[pair]}

    def estimate_drive_feasibility_by_mileage(self, distance: float) -> Result:
        """Return whether the fuel lasts for a distance in miles."""
        return {"canDrive": distance <= self.state["fuelLevel"] * _MILES_A_GALLON}

    def gallon_to_liter(self, gallon: float) -> Result:
        """Convert gallons to litres."""
        return {"liter": gallon * _LITRES}

    def liter_to_gallon(self, liter: float) -> Result:
        """Convert litres to gallons."""
        return {"gallon": liter / _LITRES}
