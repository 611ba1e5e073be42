"""Serve steps over pipes: read a line with the draw, run a step, write the result.

The draw is the seed of the step's sampling; the result has CPU seconds, tokens and peak memory.
"""

import json
import os
import resource
import sys
import time


class Turns:
    """Steps on demand. The engine prints to stderr, because stdout is for the answers."""

    def __init__(self, steps):
        self.left = steps
        self.answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self.draw, self.started = 0, 0.0

    def begin(self):
        """Wait for the next draw and start the clock."""
        self.draw = int(sys.stdin.readline())
        self.started = time.process_time()
        return self.draw

    def end(self, tokens):
        """Stop the clock and write the answer; return whether there is another turn."""
        self.answer(seconds=time.process_time() - self.started, work=tokens, peak=peak_bytes())
        self.left -= 1
        return self.left > 0

    def answer(self, **facts):
        """Write one line of JSON."""
        self.answers.write(json.dumps(facts) + "\n")
        self.answers.flush()


def peak_bytes():
    """Return the peak memory of this process in bytes, libraries included."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
