"""Steps that a run of SAC has met, as a file: ``data.py RUN FILE.safetensors``."""

import argparse
from pathlib import Path

from tensordict import TensorDict

from rlcomp.data.transitions import write_transitions
from rlcomp.checkpoint.reader import open_checkpoint

ROWS = "state/replay:.rows."


def met(run):
    """The rows of the replay in the newest checkpoint of a run."""
    tensors = open_checkpoint(run).tensors()
    flat = {k.removeprefix(ROWS): rows for k, rows in tensors.items() if k.startswith(ROWS)}
    return TensorDict(flat, batch_size=[len(flat["action"])]).unflatten_keys(".")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("file", type=Path)
    given = parser.parse_args()
    rows = met(given.run)
    write_transitions(given.file, rows)
    reward = rows["next", "reward"]
    print(f"{len(rows)} steps; 200 of them have {200 * float(reward.mean()):.0f} on average")


if __name__ == "__main__":
    main()
