"""Episodes of outside agents, for the collector and the evaluator of agents."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from tensordict import TensorDict

from rlcomp.arguments import Checked, NonEmptyText, PositiveFloat, PositiveInt
from rlcomp.batch import decode_columns, decode_texts, encode_texts, keep_prompt
from rlcomp.endpoint.agents import Agents, Function, InProcessAgents
from rlcomp.endpoint.request_queue import BatchedGeneration, RequestQueue
from rlcomp.endpoint.routes import Routes
from rlcomp.endpoint.server import HttpLimits, serving
from rlcomp.endpoint.trace import Trace
from rlcomp.engine.decoding import Decoding
from rlcomp.episodes.episode import Episode, episode_rows
from rlcomp.episodes.rollout import EpisodeLimits
from rlcomp.errors import ConfigError
from rlcomp.interfaces.policy import SupportsAgentCalls, check_turns
from rlcomp.interfaces.prompt import PromptFormat
from rlcomp.seed import named_seed
from rlcomp.text.prompt import resolve_prompt_format
from rlcomp.text.special_tokens import MarkedTextCodec
from rlcomp.text.tokenizer import decode_rows


class TracePlayer(metaclass=Checked):
    """Player of episodes in which an outside agent calls the policy by OpenAI's API, on loopback.

    An agent is a function ``agent(base_url, example) -> float | None``. It calls
    ``{base_url}/chat/completions`` or ``{base_url}/completions`` any number of times; all calls are
    recorded as ids and log-probs (:class:`rlcomp.endpoint.trace.Trace`). The reward of the
    episode, its fact ``reward``, is the return value, else the sum of the posted rewards (``POST
    {base_url}/reward`` adds one to the last call), else NaN.

    All agents of a rollout run at once, and their calls are answered in batches.

    Args:
        policy: samples the answers.
        agent: dotted path, ``file.py:function``, or the function itself.
        agents: the pool that runs agents; by default threads of the process.
        max_calls: maximum number of calls of an episode.
        max_new_tokens: maximum number of tokens of an answer.
        wait: seconds that a batch waits for silent agents.
        prompt: encodes conversations; plain text by default.

    Raises:
        ConfigError: the agent cannot be called, or the policy takes no turns, or does not stop at
            the end of a response in the prompt's format.
    """

    def __init__(
        self,
        *,
        policy: SupportsAgentCalls,
        agent: Callable[..., Any] | NonEmptyText,
        agents: Agents | None = None,
        max_calls: PositiveInt = 32,
        max_new_tokens: PositiveInt,
        wait: PositiveFloat = 1.0,
        prompt: PromptFormat | None = None,
    ) -> None:
        if not callable(getattr(policy, "session", None)):
            raise ConfigError(
                f"policy is a {type(policy).__name__} without a method session: use a policy such "
                "as rlcomp.model.language_model.LanguageModel"
            )
        check_turns(policy)
        self.prompt = resolve_prompt_format(prompt, policy.tokenizer)
        self.prompt.check_policy(policy)
        self.policy = policy
        self.agent = agent
        self.agents: Agents = agents or InProcessAgents()
        self.agents.check(agent)
        # The limit of an observation is not used: agents write whole conversations.
        self.limits = EpisodeLimits(max_calls, max_new_tokens, 1, policy.context_length)
        self.wait = wait
        self.texts = MarkedTextCodec(policy.tokenizer)

    def play(
        self,
        batch: TensorDict,
        *,
        group_size: int,
        decoding: Decoding | None,
        generator: torch.Generator,
        seed: int,
    ) -> TensorDict:
        """Roll out ``group_size`` episodes of each prompt.

        Args:
            batch: the agent gets ``prompt`` ``[P, W]``, or ``policy_prompt`` if it exists,
                ``answer`` and ``columns``.
            group_size: episodes of each prompt.
            decoding: the distribution to draw from; None for the policy's own.
            generator: not used: all draws depend on the seed.
            seed: seed of the policy's draws and of the agents, which get one seed each.

        Returns:
            The rows of :func:`rlcomp.episodes.episode.episode_rows`, with the prompt's entries: at
            least one row for each episode, rows of an episode adjacent.
        """
        del generator
        examples = [each for each in _examples(batch) for _ in range(group_size)]
        seeds = [named_seed(seed, f"episode {number}") for number in range(len(examples))]
        inputs = [{**each, "seed": number} for each, number in zip(examples, seeds, strict=True)]
        traces = self._traces(inputs, decoding, seeds)
        return self._rows(traces, batch, group_size)

    def _traces(
        self, examples: Sequence[dict[str, object]], decoding: Decoding | None, seeds: list[int]
    ) -> list[Trace]:
        """Run the agents, and answer their calls."""
        queue = RequestQueue(
            len(examples), partial(Trace, self.texts), wait=self.wait, max_calls=self.limits.turns
        )
        default = self.policy.decoding
        routes = Routes(
            queue,
            self.prompt,
            self.texts.table,
            decodings=(default,) if decoding is None else (default, decoding),
            max_new_tokens=self.limits.turn_tokens,
            context=self.limits.context,
        )
        limits = HttpLimits(connections=max(128, 4 * len(examples)))
        with serving(routes, limits) as server:
            calls = [
                {"base_url": server.address + routes.path(number), "example": example}
                for number, example in enumerate(examples)
            ]
            agent_run = _AgentRun(self.agents, self.agent, calls, queue)
            try:
                BatchedGeneration(self.policy, decoding, seeds).run(queue)
                agent_run.join()
            except BaseException:
                queue.stop("the rollout failed")
                self.agents.close()
                raise
            if server.error is not None:
                raise server.error
        return queue.traces

    def _rows(self, traces: Sequence[Trace], batch: TensorDict, group_size: int) -> TensorDict:
        counts = [max(1, len(each.rows)) for each in traces]
        episode_of_row = [number for number, count in enumerate(counts) for _ in range(count)]
        rows = episode_rows(
            [row for each in traces for row in self._episodes(each)],
            self.policy.tokenizer,
            group_size=1,
            version=self.policy.version,
            device=self.policy.device,
        )
        episode = torch.tensor(episode_of_row, device=self.policy.device)
        rows["trajectory_id"], rows["group_id"] = episode, episode // group_size
        # The response of every row of an episode is the episode's last answer.
        last = decode_rows(self.policy.tokenizer, [trace.last_tokens for trace in traces])
        response = encode_texts([last[number] for number in episode_of_row])
        rows["response"] = response.to(self.policy.device)
        return keep_prompt(rows, batch, episode // group_size)

    def _episodes(self, trace: Trace) -> list[Episode]:
        """Return the rows of a trace, with the facts of the episode in each.

        An episode without a recorded call has one row without turns.
        """
        if not trace.calls and not trace.failed:
            trace.failed = "the agent made no call"
        episodes = trace.rows or [Episode(self.texts.encode_first(""))]
        facts = {
            "calls": float(trace.calls),
            "rows": float(len(trace.rows)),
            "reward": trace.reward,
        }
        for episode in episodes:
            episode.broken, episode.facts = trace.failed, dict(facts)
        return episodes


def _examples(batch: TensorDict) -> list[dict[str, object]]:
    """Return the inputs of an agent for each prompt: prompt, answer, and the columns by name."""
    key = "policy_prompt" if "policy_prompt" in batch.keys() else "prompt"
    prompts = decode_texts(batch[key])
    answers = decode_texts(batch["answer"]) if "answer" in batch.keys() else [""] * len(prompts)
    rows = zip(decode_columns(batch), prompts, answers, strict=True)
    return [{**columns, "prompt": prompt, "answer": answer} for columns, prompt, answer in rows]


class _AgentRun:
    """Run of a rollout's agents in a thread, while the caller's thread answers their calls."""

    def __init__(
        self,
        agents: Agents,
        function: Function,
        calls: Sequence[Mapping[str, object]],
        queue: RequestQueue,
    ) -> None:
        self.agents, self.function, self.calls, self.queue = agents, function, calls, queue
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            for number, reason in enumerate(self.agents.run(self.function, self.calls)):
                # Ignored for agents that have reported their end.
                self.queue.end(number, failed=reason or "the agent ended without a result")
        except BaseException as error:
            self.error = error
            self.queue.stop("the agents cannot be run")

    def join(self) -> None:
        """Wait until the agents have ended; raise their error."""
        self.thread.join()
        if self.error is not None:
            raise self.error
