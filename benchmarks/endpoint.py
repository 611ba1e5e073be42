"""Measure the overhead of the endpoint: ``python benchmarks/endpoint.py [AGENTS] [CALLS]``.

AGENTS agents in two processes call at once. Each makes CALLS calls in one growing chat; every
fourth agent forgets its first message before its last call (``endpoint_agent.py``). The value is
the CPU time of a call in the trainer's process (HTTP, JSON, rendering, tokens, waiting, recording;
all threads), without the policy's sessions, in the best of three rollouts. No call may be lost.
"""

import argparse
import time
from pathlib import Path

from measure import emit, gate, row
from tensordict import TensorDict

from rlcomp.batch import encode_texts
from rlcomp.endpoint.agents import ProcessAgents
from rlcomp.endpoint.player import TracePlayer
from rlcomp.interfaces.turns import last_rows
from rlcomp.testing import tiny_policy
from rlcomp.workers.pool import closing

GROUP, ROUNDS = 4, 3
GOAL = 2.0  # milliseconds of CPU a call


class Clocked:
    """A policy that sums the CPU seconds of its sessions' threads in ``seconds``."""

    def __init__(self, policy):
        self.policy, self.seconds = policy, 0.0

    def __getattr__(self, name):
        return getattr(self.policy, name)

    def session(self, prompts, **settings):
        """Open a session."""
        start = time.thread_time()
        session = self.policy.session(prompts, **settings)
        generate = session.generate

        def timed(*args, **settings):
            start = time.thread_time()
            answers = generate(*args, **settings)
            self.seconds += time.thread_time() - start
            return answers

        session.generate = timed
        self.seconds += time.thread_time() - start
        return session


def rollout(player, agents, calls):
    """Return the CPU seconds without generation, and the number of lost calls."""
    player.policy.seconds, start = 0.0, time.process_time()
    batch = TensorDict({"prompt": encode_texts(["a"] * (agents // GROUP))}, [agents // GROUP])
    batch["columns"] = TensorDict({"calls": encode_texts([str(calls)] * len(batch))}, batch.shape)
    rows = player.play(batch, group_size=GROUP, decoding=None, generator=None, seed=1)
    seconds = time.process_time() - start - player.policy.seconds
    answered = rows["facts"]["calls"][last_rows(rows)].sum()
    return seconds, agents * calls - int(answered)


def main(agents, calls):
    """Measure the rollouts of some agents with some calls each."""
    pool = ProcessAgents(num_workers=2)
    policy = Clocked(tiny_policy("ab", context_length=512))
    with closing([pool]):
        player = TracePlayer(
            policy=policy,
            agent=f"{Path(__file__).with_name('endpoint_agent.py')}:agent",
            agents=pool,
            max_new_tokens=8,
            wait=5.0,
        )
        rollout(player, agents, 1)  # starts the workers
        rollouts = [rollout(player, agents, calls) for _ in range(ROUNDS)]
    seconds = min(seconds for seconds, _ in rollouts)
    lost = gate("lost calls", sum(lost for _, lost in rollouts), 0)
    value = seconds / (agents * calls) * 1e3
    name = f"endpoint, {agents * calls} calls of {agents} agents"
    emit([row(name, value, unit="ms", goal=GOAL, most=True, parity=[lost], seconds=seconds)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("agents", nargs="?", type=int, default=64)
    parser.add_argument("calls", nargs="?", type=int, default=4)
    given = parser.parse_args()
    main(given.agents, given.calls)
