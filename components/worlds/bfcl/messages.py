"""Simulated messages between colleagues, after BFCL's function documents of MessageAPI."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

from components.worlds.bfcl.service import Refused, Result, Service

# Users of episodes without a config, invented: these log in as USR001, and the first contact that
# they add is USR005.
_COUNTED = re.compile(r"USR(\d{1,9})")
_USERS = {"Ann": "USR001", "Ben": "USR002", "Cleo": "USR003", "Dan": "USR004"}


class Messages(Service):
    """Service of users and messages to them, in order of time.

    Args:
        config: any of ``user_map`` (name to ID), ``inbox`` (``[{receiver: [message, ...]}]``),
            ``message_count``, ``current_user``.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        entries = copy.deepcopy(dict(config))
        self.state = {
            "user_map": entries.get("user_map", dict(_USERS)),
            "inbox": [[to, text] for to, text in _entries(entries.get("inbox", []))],
            "message_count": entries.get("message_count", 0),
            "current_user": entries.get("current_user"),
        }

    def _check_login(self) -> None:
        if self.state["current_user"] is None:
            raise Refused("nobody is logged in: call message_login")

    def _check_user(self, user_id: str) -> None:
        if user_id not in self.state["user_map"].values():
            raise Refused(f"there is no user {user_id!r}")

    def message_login(self, user_id: str) -> Result:
        """Log in."""
        self._check_user(user_id)
        self.state["current_user"] = user_id
        return {"login_status": True, "message": f"{user_id} is logged in"}

    def message_get_login_status(self) -> Result:
        """Return whether a user is logged in."""
        return {"login_status": self.state["current_user"] is not None}

    def list_users(self) -> Result:
        """Return all names."""
        return {"user_list": [*self.state["user_map"]]}

    def get_user_id(self, user: str) -> Result:
        """Return the ID of a name."""
        if user not in self.state["user_map"]:
            raise Refused(f"there is no user {user!r}")
        return {"user_id": self.state["user_map"][user]}

    def add_contact(self, user_name: str) -> Result:
        """Add a user with the next ID."""
        self._check_login()
        users = self.state["user_map"]
        if user_name in users:
            raise Refused(f"{user_name} is there already")
        numbers = [int(match[1]) for each in users.values() if (match := _COUNTED.fullmatch(each))]
        last = max(numbers, default=0)
        users[user_name] = f"USR{last + 1:03}"
        return {"added_status": True, "user_id": users[user_name], "message": "added"}

    def send_message(self, receiver_id: str, message: str) -> Result:
        """Send a message."""
        self._check_login()
        self._check_user(receiver_id)
        self.state["inbox"].append([receiver_id, message])
        self.state["message_count"] += 1
        number = self.state["message_count"]
        return {"sent_status": True, "message_id": number, "message": f"sent to {receiver_id}"}

    def delete_message(self, receiver_id: str) -> Result:
        """Delete the latest message to a receiver."""
        self._check_login()
        inbox = self.state["inbox"]
        sent = [place for place, (to, _) in enumerate(inbox) if to == receiver_id]
        if not sent:
            raise Refused(f"no message was sent to {receiver_id!r}")
        del inbox[sent[-1]]
        self.state["message_count"] -= 1
        return {"deleted_status": True, "receiver_id": receiver_id, "message": "deleted"}

    def view_messages_sent(self) -> Result:
        """Return all messages by receiver."""
        self._check_login()
        sent: dict[str, list[str]] = {}
        for to, text in self.state["inbox"]:
            sent.setdefault(to, []).append(text)
        return {"messages": sent}

    def search_messages(self, keyword: str) -> Result:
        """Return the messages that contain a text, ignoring case."""
        self._check_login()
        messages = [m for m in self.state["inbox"] if keyword.lower() in m[1].lower()]
        return {"results": [{"receiver_id": to, "message": text} for to, text in messages]}

    def get_message_stats(self) -> Result:
        """Count messages and receivers."""
        self._check_login()
        receivers = {to for to, _ in self.state["inbox"]}
        stats = {"received_count": len(self.state["inbox"]), "total_contacts": len(receivers)}
        return {"stats": stats}


def _entries(inbox: list[Mapping[str, Any]]) -> list[tuple[str, str]]:
    return [
        (receiver, text)
        for entry in inbox
        for receiver, texts in entry.items()
        for text in ([texts] if isinstance(texts, str) else texts)
    ]
