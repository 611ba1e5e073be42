"""A search with its budgets, its collector and its evaluator, by hand."""

import pytest
import torch
from tensordict import TensorDict

from components.collector.search import SearchCollector
from components.evaluator.agent import ProvenShare
from components.reward.episode import ProofMembership
from components.search import BestFirstSearch, MonteCarloTreeSearch
from components.worlds.lookup.environment import LookupTool
from components.worlds.tactics.environment import TacticsEnvironment
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.component import Component
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.task import Example
from rlcomp.metrics import recording
from rlcomp.prover.searcher import Searcher
from rlcomp.testing import check_component, make_batch

# The first goal is proven in the second round, of the second no tactic is right.
GOALS = ["⊢p→p\n", "⊢q→q∨p\n"]
SAYS = {
    "⊢p→p\n": ["intro", "left"],
    "h0:p\n⊢p\n": ["exact h0", "exact h1"],
    "⊢q→q∨p\n": ["split", "left"],
}


@pytest.fixture
def prover(scripted):
    def made(says=SAYS, **arguments):
        defaults = {"strategy": BestFirstSearch(samples=2), "max_tokens": 11, "max_new_tokens": 4}
        return Searcher(
            policy=scripted(says), environment=TacticsEnvironment, **{**defaults, **arguments}
        )

    return made


def prompts(*texts):
    return make_batch(prompt=encode_texts(texts))


# Tokens: a word, a name and EOS. (2 + 2) + (3 + 3) for the first goal; 2 + 2 a round for the
# second, which ends above 11; its tactics are tried in the first round only.
METRICS = {"solved": 0.5, "calls": (4 + 2) / 2, "tokens": (10 + 12) / 2}


def test_a_search_by_hand(prover):
    collector = SearchCollector(prover=prover())
    with recording() as ledger:
        rows = collector(prompts(*GOALS))
    told = ledger.means()
    assert {name: told[f"search/{name}"] for name in METRICS} == METRICS
    # p→p; h0:p ⊢ p; no goals. And the other goal.
    assert told["search/states"] == (3 + 1) / 2
    assert told["search/proof_length"] == 2
    assert told["rollout/tokens"] == 22
    assert decode_texts(rows["response"]) == [
        "intro", "left", "exact h0", "exact h1", "split", "left",
    ]  # fmt: skip
    assert decode_texts(rows["prompt"])[::2] == ["⊢p→p\n", "h0:p\n⊢p\n", "⊢q→q∨p\n"]
    assert rows["group_id"].tolist() == [0, 0, 1, 1, 2, 2]
    assert rows["on_proof"].tolist() == [True, False, True, False, False, False]
    judged = ProofMembership()(rows)
    assert judged["reward"].tolist() == [1, 0, 1, 0, 0, 0]
    assert judged["correct"].tolist() == rows["on_proof"].tolist()


def test_the_share_of_held_out_goals_by_hand(prover):
    class Goals:
        held_out = 1.0

        def __len__(self):
            return 2

        def example(self, index):
            return Example(GOALS[index], "", "")

    evaluator = ProvenShare(prover=prover(), task=Goals(), num_shown=2)
    with recording() as ledger:
        evaluator(TensorDict({}, batch_size=[0]))
    told = ledger.means()
    assert {name: told[f"evaluation/{name}"] for name in METRICS} == METRICS
    assert told["evaluation/proof_length"] == 2
    # Wilson's interval of one in two.
    assert told["evaluation/solved_low"] == pytest.approx(0.0945, abs=1e-4)
    assert told["evaluation/solved_high"] == pytest.approx(0.9055, abs=1e-4)
    shown = {sample["prompt"]: sample["response"] for sample in ledger.samples}
    assert shown == {GOALS[0]: "intro\nexact h0", GOALS[1]: ""}


@pytest.mark.parametrize(("calls", "solved"), [(2, 0.0), (3, 1.0)])
def test_calls_of_the_environment_are_a_budget(prover, calls, solved):
    found = prover(max_calls=calls).search([Example(GOALS[0], "", "")], torch.Generator())
    assert found.graphs[0].calls == calls
    assert found.graphs[0].root.solved == solved


def test_a_tactic_that_is_too_long_is_not_tried(prover):
    short = prover({"⊢p→p\n": ["intro", "exact h0"], "h0:p\n⊢p\n": ["left"] * 2}, max_new_tokens=2)
    (graph,) = short.search([Example(GOALS[0], "", "")], torch.Generator()).graphs
    assert {trial.proposal.tactic for trial in graph.trials} == {"intro", "left"}
    none = SearchCollector(prover=prover({"⊢p→p\n": ["exact h0"] * 2}, max_new_tokens=2))
    with pytest.raises(DataError, match="max_new_tokens"):
        none(prompts(GOALS[0]))


class Half(Component):
    """A critic that says 1/4 of goals with a hypothesis, else 3."""

    reads = ("tokens", "response_mask")
    writes = ("value",)

    def __init__(self, tokenizer):
        super().__init__()
        self.tokenizer = tokenizer

    def forward(self, batch):
        with_name = [
            0.25 if "h0:" in self.tokenizer.decode(row) else 3.0 for row in batch["tokens"]
        ]
        batch["value"] = torch.tensor(with_name)[:, None].expand(batch["tokens"].shape)
        return batch


def test_a_critic_values_states(prover, tactics_tokenizer):
    made = prover(strategy=MonteCarloTreeSearch(samples=2), value=Half(tactics_tokenizer))
    (graph,) = made.search([Example(GOALS[0], "", "")], torch.Generator()).graphs
    assert [node.value for node in graph.nodes.values()] == [1.0, 0.25, 0.0]
    # Two simulations: one from the root, and one that goes down to h0:p ⊢ p and solves it.
    assert graph.root.visits == 2
    assert [node.visits for node in graph.nodes.values()][1] == 1


def test_what_cannot_be_searched_is_refused(scripted):
    with pytest.raises(ConfigError, match="environment=tactics"):
        Searcher(
            policy=scripted(SAYS),
            environment=LookupTool,
            strategy=BestFirstSearch(),
            max_new_tokens=4,
        )
    with pytest.raises(ConfigError, match="wording"):
        Searcher(
            policy=scripted(SAYS),
            environment=TacticsEnvironment,
            strategy=BestFirstSearch(),
            max_new_tokens=4,
            wording="state",
        )


def test_the_reward_keeps_the_contract():
    check_component(ProofMembership())
