"""Simulated tickets, after BFCL's function documents of TicketAPI."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from components.worlds.bfcl.service import Refused, Result, Service

_FIELDS = {"title", "description", "status", "priority"}


class Tickets(Service):
    """Service of a queue of tickets; creating tickets and listing one's own needs a login.

    Args:
        config: any of ``ticket_queue``, ``ticket_counter`` and ``current_user``.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        entries = copy.deepcopy(dict(config))
        queue = entries.get("ticket_queue", [])
        after = max((ticket.get("id", 0) for ticket in queue), default=0) + 1
        self.state = {
            "ticket_queue": queue,
            "ticket_counter": entries.get("ticket_counter", after),
            "current_user": entries.get("current_user"),
        }

    def _user(self) -> str:
        if self.state["current_user"] is None:
            raise Refused("nobody is logged in: call ticket_login")
        return self.state["current_user"]  # type: ignore[no-any-return]

    def _ticket(self, ticket_id: int) -> dict[str, Any]:
        for ticket in self.state["ticket_queue"]:
            if ticket.get("id") == ticket_id:
                return ticket  # type: ignore[no-any-return]
        raise Refused(f"there is no ticket {ticket_id}")

    def ticket_login(self, username: str, password: str) -> Result:
        """Log in with any name and password, as the data has none."""
        if not (username and password):
            return {"success": False}
        self.state["current_user"] = username
        return {"success": True}

    def logout(self) -> Result:
        """Log out."""
        there = self.state["current_user"] is not None
        self.state["current_user"] = None
        return {"success": there}

    def ticket_get_login_status(self) -> Result:
        """Return whether a user is logged in."""
        return {"login_status": self.state["current_user"] is not None}

    def create_ticket(self, title: str, description: str = "", priority: int = 1) -> Result:
        """Put a ticket into the queue."""
        if not 1 <= priority <= 5:
            raise Refused(f"priority is {priority}: must be from 1 to 5")
        number, user = self.state["ticket_counter"], self._user()
        ticket = {"id": number, "title": title, "description": description}
        ticket |= {"status": "Open", "priority": priority, "created_by": user}
        self.state["ticket_queue"].append(ticket)
        self.state["ticket_counter"] += 1
        return {name: ticket[name] for name in ("id", *sorted(_FIELDS))}

    def get_ticket(self, ticket_id: int) -> Result:
        """Return a ticket."""
        return dict(self._ticket(ticket_id))

    def get_user_tickets(self, status: str | None = None) -> Result:
        """Return the user's tickets, of one status if it is given."""
        own = [t for t in self.state["ticket_queue"] if t.get("created_by") == self._user()]
        return {"tickets": [dict(t) for t in own if status in (None, t.get("status"))]}

    def edit_ticket(self, ticket_id: int, updates: dict[str, Any]) -> Result:
        """Change fields of a ticket."""
        if not updates or not updates.keys() <= _FIELDS:
            raise Refused(f"updates must be some of {', '.join(sorted(_FIELDS))}")
        self._ticket(ticket_id).update(copy.deepcopy(updates))
        return {"status": f"ticket {ticket_id} is changed"}

    def close_ticket(self, ticket_id: int) -> Result:
        """Close a ticket."""
        return self._ended(ticket_id, {"status": "Closed"})

    def resolve_ticket(self, ticket_id: int, resolution: str) -> Result:
        """Resolve a ticket."""
        return self._ended(ticket_id, {"status": "Resolved", "resolution": resolution})

    def _ended(self, ticket_id: int, end: dict[str, str]) -> Result:
        ticket, status = self._ticket(ticket_id), end["status"]
        if ticket.get("status") == status:
            raise Refused(f"ticket {ticket_id} is {status.lower()} already")
        ticket.update(end)
        return {"status": f"ticket {ticket_id} is {status.lower()}"}
