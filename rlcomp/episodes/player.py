"""Player of the episodes of a batch, shared by the collector and the evaluator of agents."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import Checked, PositiveInt, Unbuilt
from rlcomp.batch import decode_columns, decode_texts, keep_prompt
from rlcomp.columns import CONVERSATION
from rlcomp.data.examples import batch_examples
from rlcomp.engine.decoding import Decoding
from rlcomp.episodes.branching import BranchingBudget, BranchingRollout
from rlcomp.episodes.episode import Episode, episode_rows
from rlcomp.episodes.host import Hosts, Start
from rlcomp.episodes.in_process import InProcessHosts
from rlcomp.episodes.rollout import EpisodeLimits, Rollout
from rlcomp.interfaces.environment import Environment
from rlcomp.interfaces.policy import SupportsTurns, check_turns
from rlcomp.interfaces.prompt import Dialogue, PromptFormat
from rlcomp.seed import named_seed
from rlcomp.text.prompt import resolve_prompt_format
from rlcomp.text.token_bytes import token_bytes

RolloutT = TypeVar("RolloutT", bound=Rollout)


class Continuations(NamedTuple):
    """Episodes that continue other episodes from the state before one of their turns.

    Attributes:
        rows: whole episodes, with the shared turns; the episodes from one state are a group.
        row: row of the continued episode, int64, shape ``[C]``.
        turn: first turn that the two episodes do not share, int64, shape ``[C]``.
    """

    rows: TensorDict
    row: Tensor
    turn: Tensor


class Plays(Protocol):
    """Interface of players of a policy's episodes.

    Attributes:
        policy: takes the turns.
        prompt: encodes prompts as tokens.
        limits: limits of an episode.
    """

    policy: SupportsTurns
    prompt: PromptFormat
    limits: EpisodeLimits

    def play(
        self,
        batch: TensorDict,
        *,
        group_size: int,
        decoding: Decoding | None,
        generator: torch.Generator,
        seed: int,
    ) -> TensorDict:
        """Roll out ``group_size`` episodes of each prompt, of one or more rows each."""
        ...


class Player(metaclass=Checked):
    """Player of episodes: a policy and environments of one kind take turns.

    A turn ends with a stop token or one of the environment's stop texts. The environment ends the
    episode or answers with an observation, which is appended in the format of the prompts (plain
    text, or a message of a chat).

    Args:
        policy: takes the turns.
        environment: a class of environments (:class:`rlcomp.interfaces.environment.Environment`),
            with an object for each episode, or its description.
        hosts: makes the owner of the environments; None: they are in this process.
        max_turns: maximum number of turns of the policy in an episode.
        max_new_tokens: maximum number of tokens of a turn.
        observation_tokens: maximum number of tokens of an observation without its closing text; a
            longer one is cut.
        prompt: prompt format; None: plain text.

    Raises:
        ConfigError: the environment cannot be made, the policy takes no turns or has other stop
            tokens than the prompt format, or that format has no observations.
    """

    def __init__(
        self,
        *,
        policy: SupportsTurns,
        environment: Callable[..., Environment] | Unbuilt,
        hosts: Hosts | None = None,
        max_turns: PositiveInt = 8,
        max_new_tokens: PositiveInt,
        observation_tokens: PositiveInt = 256,
        prompt: PromptFormat | None = None,
    ) -> None:
        check_turns(policy)
        self.prompt = resolve_prompt_format(prompt, policy.tokenizer)
        self.prompt.check_policy(policy)
        self.prompt.dialogues([""], [{}])  # refuses a template that rewrites earlier turns
        self.policy = policy
        self.host = (hosts or InProcessHosts()).host(environment)
        self.limits = EpisodeLimits(
            max_turns, max_new_tokens, observation_tokens, policy.context_length
        )
        self.table = token_bytes(policy.tokenizer)

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
            batch: ``prompt`` ``[P, W]``; the policy reads ``policy_prompt`` if there is one;
                ``answer`` and ``columns`` go to the environment.
            group_size: episodes of each prompt.
            decoding: decoding settings; None: the policy's own.
            generator: draws the policy's tokens.
            seed: determines the seeds of the environments.

        Returns:
            The rows of :func:`rlcomp.episodes.episode.episode_rows`, with the keys of the prompt.
        """
        prompt_of_row = prompts_of_rows(batch, group_size)
        rollout = self._rollout(Rollout, batch, prompt_of_row, decoding, generator)
        return self._rows(
            rollout.run(starts(batch, prompt_of_row, seed)), batch, prompt_of_row, group_size
        )

    def play_and_continue(
        self,
        batch: TensorDict,
        *,
        group_size: int,
        continuations: int,
        generator: torch.Generator,
        seed: int,
    ) -> tuple[TensorDict, Continuations | None]:
        """Roll out episodes, and further episodes from the state before each of their turns.

        Args:
            batch: see :meth:`play`, also for the other arguments.
            group_size: episodes of each prompt.
            continuations: number of further episodes from each state.
            generator: draws the policy's tokens, the same as in :meth:`play`.
            seed: determines the seeds of the environments.

        Returns:
            The rows of :meth:`play`, and the continuations; None if no episode took a turn.
        """
        prompt_of_row = prompts_of_rows(batch, group_size)
        rollout = self._rollout(Rollout, batch, prompt_of_row, None, generator)
        episodes = rollout.run(starts(batch, prompt_of_row, seed), continuations)
        rows = self._rows(episodes[: len(prompt_of_row)], batch, prompt_of_row, group_size)
        row, turn = (
            torch.tensor([getattr(branch, name) for branch in rollout.branches])
            for name in ("row", "turn")
        )
        if not len(row):
            return rows, None
        continued = self._rows(
            episodes[len(prompt_of_row) :],
            batch,
            [prompt_of_row[n] for n in row.tolist()],
            continuations,
        )
        return rows, Continuations(continued, row.to(continued.device), turn.to(continued.device))

    def play_trees(
        self, batch: TensorDict, *, budget: BranchingBudget, generator: torch.Generator, seed: int
    ) -> tuple[TensorDict, Tensor]:
        """Roll out trees: episodes that fork after an observation.

        Args:
            batch: see :meth:`play`.
            budget: number of episodes of each prompt, and their starts.
            generator: draws the policy's tokens.
            seed: determines the seeds of the environments and the decisions to branch.

        Returns:
            The rows of :meth:`play`, with ``branch_depth``, ``branch_parent``, ``branch_share`` and
            ``turn_entropy``; and the changes of entropy at observations, shape ``[N]``.
        """
        prompt_of_row = prompts_of_rows(batch, budget.rows)
        rollout = self._rollout(BranchingRollout, batch, prompt_of_row, None, generator)
        draws = torch.Generator().manual_seed(named_seed(seed, "branches"))
        rollout.grow(starts(batch, prompt_of_row, seed), budget, draws)
        order = rollout.order()
        prompt_of_row = [rollout.origins[n].prompt for n in order]
        rows = self._rows([rollout.episodes[n] for n in order], batch, prompt_of_row, budget.rows)
        columns = rollout.columns(order, rows["tokens"].shape[1])
        rows.update({key: column.to(rows["tokens"].device) for key, column in columns.items()})
        return rows, rollout.delta_entropy()

    def _rollout(
        self,
        kind: type[RolloutT],
        batch: TensorDict,
        prompt_of_row: list[int],
        decoding: Decoding | None,
        generator: torch.Generator,
    ) -> RolloutT:
        dialogues = self._dialogues(batch)
        return kind(
            partial(self.policy.session, decoding=decoding, generator=generator),
            [dialogues[n] for n in prompt_of_row],
            self.host,
            self.policy.tokenizer,
            self.table,
            self.limits,
        )

    def _dialogues(self, batch: TensorDict) -> list[Dialogue]:
        """Return the dialogue format of each prompt's episodes."""
        columns = decode_columns(batch)
        key = "policy_prompt" if "policy_prompt" in batch.keys() else "prompt"
        messages = [{name: row[name] for name in (CONVERSATION,) if name in row} for row in columns]
        return self.prompt.dialogues(decode_texts(batch[key]), messages)

    def _rows(
        self, episodes: list[Episode], batch: TensorDict, prompt_of_row: list[int], group_size: int
    ) -> TensorDict:
        rows = episode_rows(
            episodes,
            self.policy.tokenizer,
            group_size=group_size,
            version=self.policy.version,
            device=self.policy.device,
        )
        return keep_prompt(rows, batch, torch.tensor(prompt_of_row, device=self.policy.device))


def prompts_of_rows(batch: TensorDict, group_size: int) -> list[int]:
    """Return the index of each episode's prompt."""
    return [prompt for prompt in range(len(batch)) for _ in range(group_size)]


def starts(batch: TensorDict, prompt_of_row: list[int], seed: int) -> list[Start]:
    """Return the start of each episode."""
    examples = batch_examples(batch)
    return [
        Start(examples[n], named_seed(seed, f"episode {row}"))
        for row, n in enumerate(prompt_of_row)
    ]
