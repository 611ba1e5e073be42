"""Reads the file of an offline W&B run: what would be uploaded, record by record.

The file is a log of LevelDB's: 7 bytes of header, then blocks of 32 KiB. A chunk has a checksum
(4 bytes), a length (2), a type (1: whole, 2: first, 3: middle, 4: last) and data; fewer than 7
bytes at the end of a block are padding.
"""

import json

BLOCK = 32 * 1024


def records(file):
    """The records of a run, as W&B's own messages."""
    from wandb.proto import wandb_internal_pb2

    found, data, at, begun = [], file.read_bytes(), 7, b""
    assert data[:4] == b":W&B"
    while at + 7 <= len(data):
        if BLOCK - at % BLOCK < 7:
            at += BLOCK - at % BLOCK
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        begun += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(begun)
            found.append(record)
            begun = b""
    return found


class Recorded:
    """An offline run, decoded."""

    def __init__(self, directory):
        (file,) = directory.glob("wandb/offline-run-*/*.wandb")
        self.records = records(file)
        kinds = [record.WhichOneof("record_type") for record in self.records]
        self.by_kind = {
            kind: [getattr(r, kind) for r in self.records if r.WhichOneof("record_type") == kind]
            for kind in dict.fromkeys(kinds)
        }
        self.run = self.by_kind["run"][0]
        self.config = {i.key: json.loads(i.value_json) for i in self.run.config.update}
        self.rows = [self._row(one) for one in self.by_kind.get("history", [])]
        self.exit_code = self.by_kind["exit"][0].exit_code
        self.summary = {}
        for update in self.by_kind.get("summary", []):
            for item in update.update:
                self.summary["/".join(item.nested_key) or item.key] = json.loads(item.value_json)

    @staticmethod
    def _row(one):
        return {"/".join(i.nested_key) or i.key: json.loads(i.value_json) for i in one.item}
