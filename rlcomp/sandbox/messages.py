"""Messages on a pipe: each is a length and that number of bytes."""

from __future__ import annotations

import os
import struct

from rlcomp.sandbox.plain_data import MAX_BYTES, NotPlainData

_LENGTH = struct.Struct("=I")
_MAX_BYTES = 4 * MAX_BYTES  # two values and their JSON syntax


def send(file: int, text: str) -> None:
    """Write a message to a file descriptor.

    Raises:
        NotPlainData: the message is too long.
    """
    data = text.encode()
    if len(data) > _MAX_BYTES:
        raise NotPlainData(f"a message of {len(data)} bytes")
    view = memoryview(_LENGTH.pack(len(data)) + data)
    while view:
        view = view[os.write(file, view) :]


def receive(file: int) -> bytes | None:
    """Return the next message; None if the other side has ended or the message is too long."""
    header = _read(file, _LENGTH.size)
    if header is None:
        return None
    (length,) = _LENGTH.unpack(header)
    return _read(file, length) if length <= _MAX_BYTES else None


def _read(file: int, length: int) -> bytes | None:
    parts = []
    while length:
        part = os.read(file, min(length, 1 << 16))
        if not part:
            return None
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
