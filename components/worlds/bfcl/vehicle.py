"""Simulated car, after BFCL's function documents of VehicleControlAPI."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Literal

from components.worlds.bfcl.service import Result, Service, ServiceError

_TANK_GALLONS = 50.0
_LITRES_PER_GALLON = 3.785411784
# The episodes have these ZIP codes, and the distances (km) of the first three pairs. The other
# distances are invented, and so are the mileage, the forces (N) and the tyre shop.
_ZIP_CODES = {
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
_MILES_PER_GALLON = 20.0
_PARKING_FORCE, _PEDAL_FORCE = 400.0, 1000.0
_TYRE_SHOP = "456 Oakwood Avenue, Rivermist, 83214"
_OUTSIDE_CELSIUS = 22.0
_DOORS = ("driver", "passenger", "rear_left", "rear_right")
_TYRES = ("frontLeft", "frontRight", "rearLeft", "rearRight")
# Entries of the state for each option of displayCarStatus.
_STATUS_ENTRIES = {
    "fuel": ("fuelLevel",),
    "battery": ("batteryVoltage",),
    "doors": ("doorStatus",),
    "climate": ("acTemperature", "fanSpeed", "acMode", "humidityLevel"),
    "headlights": ("headLightStatus",),
    "parkingBrake": ("parkingBrakeStatus", "parkingBrakeForce", "slopeAngle"),
    "brakePedal": ("brakePedalStatus", "brakePedalForce"),
    "engine": ("engineState",),
}


class VehicleService(Service):
    """Service of a standing car.

    Its engine starts if the doors are locked, the tank has fuel and the brake pedal is down.

    Args:
        config: initial values of entries of the state, by BFCL's names.
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

    def _copy_entries(self, *names: str) -> Result:
        return {name: copy.deepcopy(self.state[name]) for name in names}

    def startEngine(self, ignitionMode: Literal["START", "STOP"]) -> Result:
        """Start or stop the engine."""
        if ignitionMode == "START":
            if "unlocked" in self.state["doorStatus"].values():
                raise ServiceError("doors are unlocked: call lockDoors")
            if self.state["fuelLevel"] <= 0:
                raise ServiceError("the tank is empty: call fillFuelTank")
            if self.state["brakePedalForce"] < _PEDAL_FORCE:
                raise ServiceError("the brake pedal is not down: call pressBrakePedal")
        self.state["engineState"] = "running" if ignitionMode == "START" else "stopped"
        return self._copy_entries("engineState", "fuelLevel", "batteryVoltage")

    def fillFuelTank(self, fuelAmount: float) -> Result:
        """Add fuel, in gallons."""
        level = self.state["fuelLevel"] + fuelAmount
        if fuelAmount <= 0 or level > _TANK_GALLONS:
            raise ServiceError(
                f"fuelAmount is {fuelAmount}: the tank would hold {level} of {_TANK_GALLONS}"
            )
        self.state["fuelLevel"] = level
        return self._copy_entries("fuelLevel")

    def lockDoors(self, unlock: bool, door: list[str]) -> Result:
        """Lock or unlock doors."""
        if not set(door) <= set(_DOORS):
            raise ServiceError(f"door must be some of {', '.join(_DOORS)}")
        status = "unlocked" if unlock else "locked"
        self.state["doorStatus"].update(dict.fromkeys(door, status))
        unlocked = [*self.state["doorStatus"].values()].count("unlocked")
        return {"lockStatus": status, "remainingUnlockedDoors": unlocked}

    def pressBrakePedal(self, pedalPosition: float) -> Result:
        """Press the brake pedal; 0 releases it and 1 presses it fully."""
        if not 0 <= pedalPosition <= 1:
            raise ServiceError(f"pedalPosition is {pedalPosition}: must be from 0 to 1")
        self.state["brakePedalStatus"] = "pressed" if pedalPosition > 0 else "released"
        self.state["brakePedalForce"] = _PEDAL_FORCE * pedalPosition
        return self._copy_entries("brakePedalStatus", "brakePedalForce")

    def releaseBrakePedal(self) -> Result:
        """Release the brake pedal."""
        return self.pressBrakePedal(0.0)

    def activateParkingBrake(self, mode: Literal["engage", "release"]) -> Result:
        """Engage or release the parking brake."""
        self.state["parkingBrakeStatus"] = f"{mode}d"
        self.state["parkingBrakeForce"] = _PARKING_FORCE if mode == "engage" else 0.0
        return {
            "parkingBrakeStatus": self.state["parkingBrakeStatus"],
            "_parkingBrakeForce": self.state["parkingBrakeForce"],
            "_slopeAngle": self.state["slopeAngle"],
        }

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
        """Set the temperature, the fan's speed (percent) and the mode of the climate control."""
        if not 0 <= fanSpeed <= 100:
            raise ServiceError(f"fanSpeed is {fanSpeed}: must be from 0 to 100")
        degrees = temperature if unit == "celsius" else (temperature - 32) * 5 / 9
        self.state |= {"acTemperature": degrees, "fanSpeed": fanSpeed, "acMode": mode}
        return {
            "currentTemperature": degrees,
            "climateMode": mode,
            "humidityLevel": self.state["humidityLevel"],
        }

    def setCruiseControl(
        self, speed: float, activate: bool, distanceToNextVehicle: float
    ) -> Result:
        """Set the cruise speed, in miles per hour."""
        if activate and self.state["engineState"] != "running":
            raise ServiceError("the engine is stopped: call startEngine")
        if not 0 <= speed <= 120 or speed % 5:
            raise ServiceError(f"speed is {speed}: must be a multiple of 5 from 0 to 120")
        self.state["cruiseStatus"] = "active" if activate else "inactive"
        self.state["distanceToNextVehicle"] = distanceToNextVehicle
        self.state["currentSpeed"] = speed if activate else 0.0
        return self._copy_entries("cruiseStatus", "currentSpeed", "distanceToNextVehicle")

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
        return {"status": self._copy_entries(*_STATUS_ENTRIES[option])}

    def check_tire_pressure(self) -> Result:
        """Return the pressure of each tyre, in PSI."""
        return {"tirePressure": self._copy_entries(*(f"{tyre}TirePressure" for tyre in _TYRES))}

    def find_nearest_tire_shop(self) -> Result:
        """Return the address of the nearest tyre shop."""
        return {"shopLocation": _TYRE_SHOP}

    def display_log(self, messages: list[str]) -> Result:
        """Return the messages, as if the car showed them."""
        return {"log": messages}

    def get_current_speed(self) -> Result:
        """Return the current speed, in miles per hour."""
        return self._copy_entries("currentSpeed")

    def get_outside_temperature_from_google(self) -> Result:
        """Return the constant outside temperature, in degrees Celsius."""
        return {"outsideTemperature": _OUTSIDE_CELSIUS}

    def get_outside_temperature_from_weather_com(self) -> Result:
        """Return the constant outside temperature, in degrees Celsius."""
        return {"outsideTemperature": _OUTSIDE_CELSIUS}

    def get_zipcode_based_on_city(self, city: str) -> Result:
        """Return the ZIP code of a city."""
        if city not in _ZIP_CODES:
            raise ServiceError(f"no code of {city!r} is known")
        return {"zipcode": _ZIP_CODES[city]}

    def estimate_distance(self, cityA: str, cityB: str) -> Result:
        """Return the distance between two ZIP codes, in km."""
        pair = frozenset({cityA, cityB})
        if pair not in _DISTANCES:
            raise ServiceError(f"no distance of {cityA!r} and {cityB!r} is known")
        return {"distance": _DISTANCES[pair]}

    def estimate_drive_feasibility_by_mileage(self, distance: float) -> Result:
        """Return whether the fuel lasts for a distance in miles."""
        return {"canDrive": distance <= self.state["fuelLevel"] * _MILES_PER_GALLON}

    def gallon_to_liter(self, gallon: float) -> Result:
        """Return a volume in litres."""
        return {"liter": gallon * _LITRES_PER_GALLON}

    def liter_to_gallon(self, liter: float) -> Result:
        """Return a volume in gallons."""
        return {"gallon": liter / _LITRES_PER_GALLON}
