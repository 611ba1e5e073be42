"""Simulated travel agency, after BFCL's function documents of TravelAPI."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Literal

from components.worlds.bfcl.fares import AIRPORTS, fare
from components.worlds.bfcl.service import Result, ServiceError
from components.worlds.bfcl.travel_account import TravelAccount, parse_date


class TravelService(TravelAccount):
    """Service of flights and insurance, paid by credit card.

    Args:
        config: initial values, any of ``booking_record`` and the entries of
            :class:`TravelAccount`.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__({"booking_record": {}, "insurance_record": {}, **config})

    def list_all_airports(self) -> Result:
        """Return the codes of all airports."""
        return {"airports": [*AIRPORTS.values()]}

    def get_nearest_airport_by_city(self, location: str) -> Result:
        """Return the code of a city's airport."""
        if location not in AIRPORTS:
            raise ServiceError(f"no airport is known near {location!r}")
        return {"nearest_airport": AIRPORTS[location]}

    def get_flight_cost(
        self,
        travel_from: str,
        travel_to: str,
        travel_date: str,
        travel_class: Literal["economy", "business", "first"],
    ) -> Result:
        """Return the cost of a flight, in dollars, as a list of one fare."""
        for code in (travel_from, travel_to):
            if code not in AIRPORTS.values():
                raise ServiceError(f"there is no airport {code!r}")
        if travel_from == travel_to:
            raise ServiceError("travel_from and travel_to are the same airport")
        date = parse_date("travel_date", travel_date)
        return {"travel_cost_list": [fare(travel_from, travel_to, date, travel_class)]}

    def book_flight(
        self,
        access_token: str,
        card_id: str,
        travel_date: str,
        travel_from: str,
        travel_to: str,
        travel_class: Literal["economy", "business", "first"],
    ) -> Result:
        """Book a flight and pay for it."""
        self._check_token(access_token)
        flight = self.get_flight_cost(travel_from, travel_to, travel_date, travel_class)
        (cost,) = flight["travel_cost_list"]
        self._pay(card_id, cost)
        booking, transaction = self._issue_number("booking"), self._issue_number("transaction")
        self.state["booking_record"][booking] = {
            "card_id": card_id,
            "travel_date": travel_date,
            "travel_from": travel_from,
            "travel_to": travel_to,
            "travel_class": travel_class,
            "travel_cost": cost,
            "transaction_id": transaction,
        }
        return {
            "booking_id": booking,
            "transaction_id": transaction,
            "booking_status": True,
            "booking_history": {},
        }

    def cancel_booking(self, access_token: str, booking_id: str) -> Result:
        """Cancel a booking and refund its cost to the card that paid."""
        self._check_token(access_token)
        booking = self._entry("booking_record", "booking", booking_id)
        if (card := booking.get("card_id")) is not None:
            self._card(card)["balance"] += booking["travel_cost"]
        del self.state["booking_record"][booking_id]
        return {"cancel_status": True}

    def get_booking_history(self, access_token: str) -> Result:
        """Return all bookings."""
        self._check_token(access_token)
        return {"booking_history": copy.deepcopy(self.state["booking_record"])}

    def purchase_insurance(
        self,
        access_token: str,
        insurance_type: str,
        insurance_cost: float,
        booking_id: str,
        card_id: str,
    ) -> Result:
        """Insure a booking and pay for the insurance."""
        self._check_token(access_token)
        self._entry("booking_record", "booking", booking_id)
        if insurance_cost <= 0:
            raise ServiceError(f"insurance_cost is {insurance_cost}: must be above 0")
        self._pay(card_id, insurance_cost)
        number = self._issue_number("insurance")
        self.state["insurance_record"][number] = {
            "booking_id": booking_id,
            "insurance_type": insurance_type,
            "insurance_cost": insurance_cost,
        }
        return {"insurance_id": number, "insurance_status": True}

    def retrieve_invoice(
        self, access_token: str, booking_id: str | None = None, insurance_id: str | None = None
    ) -> Result:
        """Return the payments for a booking, for an insurance, or for both."""
        self._check_token(access_token)
        if booking_id is None and insurance_id is None:
            raise ServiceError("booking_id or insurance_id is needed")
        invoice: Result = {}
        if insurance_id is not None:
            insurance = self._entry("insurance_record", "insurance", insurance_id)
            invoice |= {"insurance_id": insurance_id, **insurance}
        if booking_id is not None:
            booking = self._entry("booking_record", "booking", booking_id)
            invoice |= {**copy.deepcopy(booking), "booking_id": booking_id}
        return {"invoice": invoice}

    def contact_customer_support(self, booking_id: str, message: str) -> Result:
        """Return a fixed reply to a message about a booking."""
        self._entry("booking_record", "booking", booking_id)
        if not message:
            raise ServiceError("the message is empty")
        return {"customer_support_message": f"We look into the booking {booking_id}."}
