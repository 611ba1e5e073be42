"""Messages on a pipe: a length, then as many bytes."""

from __future__ import annotations

import os
import struct

from rlcomp.sandbox.plain_data import MAX_BYTES, NotPlain

_LENGTH = struct.Struct("=I")
_MOST = 4 * MAX_BYTES  # room for two values and their syntax


def send(file: int, text: str) -> None:
    """Write a message."""
    data = text.encode()
    if len(data) > _MOST:
        raise NotPlain(f"a message of {len(data)} bytes")
    view = memoryview(_LENGTH.pack(len(data)) + data)
    while view:
        view = view[os.write(file, view) :]


def receive(file: int) -> bytes | None:
    """Read the next message; None if the other side has ended or the message is too long."""
    header = _read(file, _LENGTH.size)
    if header is None:
        return None
    (length,) = _LENGTH.unpack(header)
    return _read(file, length) if length <= _MOST else None


def _read(file: int, length: int) -> bytes | None:
    parts = []
    while length:
        part = os.read(file, min(length, 1 << 16))
        if not part:
            return None
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
