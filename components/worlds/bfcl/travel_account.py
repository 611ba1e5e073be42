"""Account of the simulated travel agency: login, credit cards, a budget."""

from __future__ import annotations

import copy
import datetime
import re
from collections.abc import Mapping
from typing import Any, Literal

from components.worlds.bfcl.fares import exchange
from components.worlds.bfcl.service import Result, Service, ServiceError

Currency = Literal["USD", "RMB", "EUR", "JPY", "GBP", "CAD", "AUD", "INR", "RUB", "BRL", "MXN"]
# Access token and first number of each kind in the episodes; later numbers are consecutive.
_TOKEN = "251675"
_FIRST_NUMBERS = {
    "card": 391310425148,
    "booking": 3426812,
    "transaction": 45451592,
    "insurance": 498276044,
}
_TOKEN_SECONDS = 3600
_NEW_CARD_BALANCE = 10_000.0
_FISCAL_YEAR = "2026"


class TravelAccount(Service):
    """Service of an account with credit cards and a budget limit, which has no effect.

    Most functions need the access token that :meth:`authenticate_travel` returns.

    Args:
        config: any of ``credit_card_list``, ``access_token``, ``token_type``,
            ``token_expires_in``, ``token_scope``, ``user_first_name``, ``user_last_name``,
            ``budget_limit``.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.state = {
            "credit_card_list": {},
            "access_token": None,
            "token_type": "Bearer",
            "token_expires_in": _TOKEN_SECONDS,
            "token_scope": None,
            "user_first_name": None,
            "user_last_name": None,
            "budget_limit": None,
            **copy.deepcopy(dict(config)),
        }
        self._next_numbers = dict(_FIRST_NUMBERS)

    def snapshot(self) -> object:
        """Return a copy of the state and the next number of each kind."""
        return [super().snapshot(), dict(self._next_numbers)]

    def _check_token(self, access_token: str) -> None:
        """Refuse a wrong access token."""
        if access_token != self.state["access_token"]:
            raise ServiceError("the access token is not valid: call authenticate_travel")

    def _card(self, card_id: str) -> dict[str, Any]:
        return self._entry("credit_card_list", "card", card_id)

    def _entry(self, record: str, kind: str, key: str) -> dict[str, Any]:
        """Return the entry of a record in the state; ``kind`` names it in the message."""
        if key not in self.state[record]:
            raise ServiceError(f"there is no {kind} {key!r}")
        return self.state[record][key]  # type: ignore[no-any-return]

    def _issue_number(self, kind: str) -> str:
        """Return a new number for an entry of this kind."""
        number = self._next_numbers[kind]
        self._next_numbers[kind] += 1
        return str(number)

    def _pay(self, card_id: str, cost: float) -> None:
        """Subtract a cost from the balance of a card."""
        card = self._card(card_id)
        if card["balance"] < cost:
            raise ServiceError(f"the card {card_id} has {card['balance']}, less than {cost}")
        card["balance"] -= cost

    def authenticate_travel(
        self,
        client_id: str,
        client_secret: str,
        refresh_token: str,
        grant_type: Literal["read_write", "read", "write"],
        user_first_name: str,
        user_last_name: str,
    ) -> Result:
        """Log in with any credentials, as the data has none."""
        if not (client_id and client_secret and refresh_token):
            raise ServiceError("client_id, client_secret and refresh_token are needed")
        issued = {"token_type": "Bearer", "access_token": _TOKEN}
        self.state |= {**issued, "token_expires_in": _TOKEN_SECONDS, "token_scope": grant_type}
        self.state |= {"user_first_name": user_first_name, "user_last_name": user_last_name}
        return {**issued, "expires_in": _TOKEN_SECONDS, "scope": grant_type}

    def travel_get_login_status(self) -> Result:
        """Return whether the user has an access token."""
        return {"status": self.state["access_token"] is not None}

    def verify_traveler_information(
        self, first_name: str, last_name: str, date_of_birth: str, passport_number: str
    ) -> Result:
        """Return whether the traveller is the user and has a passport."""
        user = (self.state["user_first_name"], self.state["user_last_name"])
        parse_date("date_of_birth", date_of_birth)
        failure = None
        if (first_name, last_name) != user:
            failure = "the name is not the user's"
        elif not passport_number.isalnum():
            failure = "the passport's number has letters and digits alone"
        return {"verification_status": failure is None, "verification_failure": failure}

    def register_credit_card(
        self,
        access_token: str,
        card_number: str,
        expiration_date: str,
        cardholder_name: str,
        card_verification_number: int,
    ) -> Result:
        """Add a credit card and return its ID."""
        self._check_token(access_token)
        if not re.fullmatch(r"(0[1-9]|1[0-2])/\d{4}", expiration_date, re.ASCII):
            raise ServiceError(f"expiration_date is {expiration_date!r:.60}: must be as 08/2026")
        if not card_number:
            raise ServiceError("card_number is empty")
        card_id = self._issue_number("card")
        self.state["credit_card_list"][card_id] = {
            "card_number": card_number,
            "expiration_date": expiration_date,
            "cardholder_name": cardholder_name,
            "card_verification_number": card_verification_number,
            "balance": _NEW_CARD_BALANCE,
        }
        return {"card_id": card_id}

    def get_all_credit_cards(self) -> Result:
        """Return all credit cards."""
        return {"credit_card_list": copy.deepcopy(self.state["credit_card_list"])}

    def get_credit_card_balance(self, access_token: str, card_id: str) -> Result:
        """Return the balance of a card."""
        self._check_token(access_token)
        return {"card_balance": self._card(card_id)["balance"]}

    def set_budget_limit(self, access_token: str, budget_limit: float) -> Result:
        """Store a budget limit, in dollars."""
        self._check_token(access_token)
        if budget_limit <= 0:
            raise ServiceError(f"budget_limit is {budget_limit}: must be above 0")
        self.state["budget_limit"] = float(budget_limit)
        return {"budget_limit": float(budget_limit)}

    def get_budget_fiscal_year(
        self, lastModifiedAfter: str | None = None, includeRemoved: str | None = None
    ) -> Result:
        """Return the only fiscal year."""
        del lastModifiedAfter, includeRemoved
        return {"budget_fiscal_year": _FISCAL_YEAR}

    def compute_exchange_rate(
        self, base_currency: Currency, target_currency: Currency, value: float
    ) -> Result:
        """Return a sum in the target currency, rounded to cents."""
        return {"exchanged_value": exchange(value, base_currency, target_currency)}


def parse_date(name: str, value: str) -> datetime.date:
    """Return the date of a text such as 2026-02-28.

    Args:
        name: name of the argument, for the message.
        value: the text.

    Raises:
        ServiceError: the text is no date.
    """
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", value, re.ASCII):
        raise ServiceError(f"{name} is {value!r:.60}: must be as 2026-02-28")
    try:
        return datetime.date.fromisoformat(value)
    except ValueError as error:
        raise ServiceError(f"{name} is {value!r}: {error}") from error
