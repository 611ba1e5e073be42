"""Simulated messages between colleagues, after BFCL's function documents of MessageAPI."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

from components.worlds.bfcl.service import Result, Service, ServiceError

_USER_ID = re.compile(r"USR(\d{1,9})")
# Invented users for episodes without a config. Such episodes log in as USR001 and add USR005 as
# their first contact.
_USERS = {"Ann": "USR001", "Ben": "USR002", "Cleo": "USR003", "Dan": "USR004"}


class MessageService(Service):
    """Service of users and of the messages to them, the oldest first.

    Args:
        config: initial values, any of ``user_map`` (name to ID), ``inbox``
            (``[{receiver: [message, ...]}]``), ``message_count``, ``current_user``.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        entries = copy.deepcopy(dict(config))
        self.state = {
            "user_map": entries.get("user_map", dict(_USERS)),
            "inbox": _parse_inbox(entries.get("inbox", [])),
            "message_count": entries.get("message_count", 0),
            "current_user": entries.get("current_user"),
        }

    def _check_login(self) -> None:
        if self.state["current_user"] is None:
            raise ServiceError("nobody is logged in: call message_login")

    def _check_user(self, user_id: str) -> None:
        if user_id not in self.state["user_map"].values():
            raise ServiceError(f"there is no user {user_id!r}")

    def message_login(self, user_id: str) -> Result:
        """Log in."""
        self._check_user(user_id)
        self.state["current_user"] = user_id
        return {"login_status": True, "message": f"{user_id} is logged in"}

    def message_get_login_status(self) -> Result:
        """Return whether a user is logged in."""
        return {"login_status": self.state["current_user"] is not None}

    def list_users(self) -> Result:
        """Return the names of all users."""
        return {"user_list": [*self.state["user_map"]]}

    def get_user_id(self, user: str) -> Result:
        """Return the ID of a user's name."""
        if user not in self.state["user_map"]:
            raise ServiceError(f"there is no user {user!r}")
        return {"user_id": self.state["user_map"][user]}

    def add_contact(self, user_name: str) -> Result:
        """Add a user with the next ID."""
        self._check_login()
        users = self.state["user_map"]
        if user_name in users:
            raise ServiceError(f"{user_name} is there already")
        matches = [match for user in users.values() if (match := _USER_ID.fullmatch(user))]
        number = 1 + max((int(match[1]) for match in matches), default=0)
        users[user_name] = f"USR{number:03}"
        return {"added_status": True, "user_id": users[user_name], "message": "added"}

    def send_message(self, receiver_id: str, message: str) -> Result:
        """Send a message to a user."""
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
        positions = [n for n, (receiver, _) in enumerate(inbox) if receiver == receiver_id]
        if not positions:
            raise ServiceError(f"no message was sent to {receiver_id!r}")
        del inbox[positions[-1]]
        self.state["message_count"] -= 1
        return {"deleted_status": True, "receiver_id": receiver_id, "message": "deleted"}

    def view_messages_sent(self) -> Result:
        """Return all messages by receiver."""
        self._check_login()
        messages: dict[str, list[str]] = {}
        for receiver, text in self.state["inbox"]:
            messages.setdefault(receiver, []).append(text)
        return {"messages": messages}

    def search_messages(self, keyword: str) -> Result:
        """Return the messages that contain a text, ignoring case."""
        self._check_login()
        results = [
            {"receiver_id": receiver, "message": text}
            for receiver, text in self.state["inbox"]
            if keyword.lower() in text.lower()
        ]
        return {"results": results}

    def get_message_stats(self) -> Result:
        """Return the numbers of messages and receivers."""
        self._check_login()
        receivers = {receiver for receiver, _ in self.state["inbox"]}
        stats = {"received_count": len(self.state["inbox"]), "total_contacts": len(receivers)}
        return {"stats": stats}


def _parse_inbox(inbox: list[Mapping[str, Any]]) -> list[list[str]]:
    """Return the messages of ``[{receiver: [text, ...]}]`` as ``[receiver, text]``, in order."""
    return [
        [receiver, text]
        for entry in inbox
        for receiver, texts in entry.items()
        for text in ([texts] if isinstance(texts, str) else texts)
    ]
