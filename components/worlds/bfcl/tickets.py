"""Simulated tickets, after BFCL's function documents of TicketAPI."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from components.worlds.bfcl.service import Result, Service, ServiceError

_EDITABLE_FIELDS = {"title", "description", "status", "priority"}


class TicketService(Service):
    """Service of a queue of tickets; a user must log in to create or list tickets.

    Args:
        config: initial values, any of ``ticket_queue``, ``ticket_counter`` and ``current_user``.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        entries = copy.deepcopy(dict(config))
        queue = entries.get("ticket_queue", [])
        next_id = max((ticket.get("id", 0) for ticket in queue), default=0) + 1
        self.state = {
            "ticket_queue": queue,
            "ticket_counter": entries.get("ticket_counter", next_id),
            "current_user": entries.get("current_user"),
        }

    def _require_user(self) -> str:
        """Return the name of the user, who must be logged in."""
        if self.state["current_user"] is None:
            raise ServiceError("nobody is logged in: call ticket_login")
        return self.state["current_user"]  # type: ignore[no-any-return]

    def _ticket(self, ticket_id: int) -> dict[str, Any]:
        for ticket in self.state["ticket_queue"]:
            if ticket.get("id") == ticket_id:
                return ticket  # type: ignore[no-any-return]
        raise ServiceError(f"there is no ticket {ticket_id}")

    def ticket_login(self, username: str, password: str) -> Result:
        """Log in with any name and password, as the data has none."""
        if not (username and password):
            return {"success": False}
        self.state["current_user"] = username
        return {"success": True}

    def logout(self) -> Result:
        """Log out."""
        was_logged_in = self.state["current_user"] is not None
        self.state["current_user"] = None
        return {"success": was_logged_in}

    def ticket_get_login_status(self) -> Result:
        """Return whether a user is logged in."""
        return {"login_status": self.state["current_user"] is not None}

    def create_ticket(self, title: str, description: str = "", priority: int = 1) -> Result:
        """Append a ticket to the queue."""
        if not 1 <= priority <= 5:
            raise ServiceError(f"priority is {priority}: must be from 1 to 5")
        ticket = {
            "id": self.state["ticket_counter"],
            "title": title,
            "description": description,
            "status": "Open",
            "priority": priority,
            "created_by": self._require_user(),
        }
        self.state["ticket_queue"].append(ticket)
        self.state["ticket_counter"] += 1
        return {name: ticket[name] for name in ("id", *sorted(_EDITABLE_FIELDS))}

    def get_ticket(self, ticket_id: int) -> Result:
        """Return a ticket."""
        return dict(self._ticket(ticket_id))

    def get_user_tickets(self, status: str | None = None) -> Result:
        """Return the user's tickets, or only those with this status.

        An empty queue gives no tickets, also without a login.
        """
        tickets = [
            dict(ticket)
            for ticket in self.state["ticket_queue"]
            if ticket.get("created_by") == self._require_user()
            and status in (None, ticket.get("status"))
        ]
        return {"tickets": tickets}

    def edit_ticket(self, ticket_id: int, updates: dict[str, Any]) -> Result:
        """Change fields of a ticket."""
        if not updates or not updates.keys() <= _EDITABLE_FIELDS:
            raise ServiceError(f"updates must be some of {', '.join(sorted(_EDITABLE_FIELDS))}")
        self._ticket(ticket_id).update(copy.deepcopy(updates))
        return {"status": f"ticket {ticket_id} is changed"}

    def close_ticket(self, ticket_id: int) -> Result:
        """Close a ticket."""
        return self._end_ticket(ticket_id, {"status": "Closed"})

    def resolve_ticket(self, ticket_id: int, resolution: str) -> Result:
        """Resolve a ticket."""
        return self._end_ticket(ticket_id, {"status": "Resolved", "resolution": resolution})

    def _end_ticket(self, ticket_id: int, updates: dict[str, str]) -> Result:
        ticket, status = self._ticket(ticket_id), updates["status"]
        if ticket.get("status") == status:
            raise ServiceError(f"ticket {ticket_id} is {status.lower()} already")
        ticket.update(updates)
        return {"status": f"ticket {ticket_id} is {status.lower()}"}
