"""Proof graphs by hand, and searches against exhaustive ones on random AND/OR graphs."""

import random

import pytest

from components.search import BestFirstSearch, MonteCarloTreeSearch, RepeatedSampling, RMaxTS
from components.worlds.tactics.environment import TacticsEnvironment
from rlcomp.interfaces.task import Example
from rlcomp.prover.graph import ProofGraph, Proposal


class AndOr:
    """Goals by number; an action opens other goals, and a state is solved when none is open.

    A state is the open goals, each once; an action closes the first and opens its own.
    """

    def __init__(self, actions):
        self.actions = actions

    def start(self, example):
        return (0,)

    def apply(self, state, action):
        if action not in self.actions[state[0]]:
            return "no such action"
        opened = self.actions[state[0]][action]
        return (*opened, *[goal for goal in state[1:] if goal not in opened])

    def solved(self, state):
        return not state

    def text(self, state):
        return ",".join(map(str, state))


def provable(actions):
    """Which goals can be closed, by the least fixed point: exhaustive search."""
    closed = set()
    while new := {
        goal
        for goal in actions
        if goal not in closed
        and any(closed.issuperset(opened) for opened in actions[goal].values())
    }:
        closed |= new
    return closed


def random_graph(draw):
    goals = range(7)
    return {
        goal: {
            f"a{n}": tuple(sorted(draw.sample(goals, draw.choice([0, 1, 1, 2, 2, 3]))))
            for n in range(draw.choice([0, 1, 2, 3]))
        }
        for goal in goals
    }


def searched(graph, strategy, propose, expansions):
    for _ in range(expansions):
        if graph.root.solved:
            break
        node = strategy.select(graph)
        strategy.update(graph, node, graph.expand(node, propose(node), 10**6))
    return graph


STRATEGIES = {
    "best_first": BestFirstSearch(alpha=0.5),
    "shortest_first": BestFirstSearch(alpha=0.0),
    "mcts": MonteCarloTreeSearch(),
    "rmaxts": RMaxTS(),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_search_finds_what_an_exhaustive_one_finds(name):
    draw, kinds = random.Random(0), set()
    for _ in range(40):
        actions = random_graph(draw)
        world, weights = AndOr(actions), {f"a{n}": -draw.random() * 3 for n in range(3)}

        def propose(node, actions=actions, weights=weights):
            return [Proposal(a, weights[a]) for a in [*actions[node.state[0]], "a2"]]

        found = searched(ProofGraph(world, None), STRATEGIES[name], propose, 600)
        assert found.root.solved == (0 in provable(actions))
        kinds.add(found.root.solved)
        state = (0,)
        for edge in found.proof():
            assert world.text(state) == edge.parent.text
            state = world.apply(state, edge.tactic)
        if found.root.solved:
            assert world.solved(state)
    assert kinds == {True, False}


DIAMOND = {0: {"a0": (1,), "a1": (2,)}, 1: {"a0": (3,), "a1": (1,)}, 2: {"a0": (3,)}, 3: {"a0": ()}}


def test_equal_states_are_one_node_and_a_loop_is_no_edge():
    graph = ProofGraph(AndOr(DIAMOND), None)
    a0, a1 = Proposal("a0", -1.0), Proposal("a1", -2.0)
    graph.expand(graph.root, [a0, a1], 9)
    one, two = graph.nodes["1"], graph.nodes["2"]
    graph.expand(one, [a0, a1], 9)
    graph.expand(two, [a0, a1, a0], 9)
    assert sorted(graph.nodes) == ["0", "1", "2", "3"]
    # Of six trials one is a loop (1 to 1) and one no action (a1 in 2); a0 in 2 is tried once.
    assert graph.calls == 6
    assert [edge.child.text for edge in one.edges] == ["3"]
    three = graph.nodes["3"]
    # The likelier way there: -1 - 1, not -2 - 1.
    assert (three.log_prob, three.depth, len(three.parents)) == (-2.0, 2, 2)
    assert not graph.root.solved
    graph.expand(three, [a0], 9)
    assert all(node.solved for node in graph.nodes.values())
    assert len(graph.proof()) == 3


def test_what_fails_or_leads_back_is_no_new_state():
    graph = ProofGraph(AndOr(DIAMOND), None)
    (failed, fresh) = graph.expand(graph.root, [Proposal("a2", -1.0), Proposal("a0", -1.0)], 9)
    (loop,) = graph.expand(graph.nodes["1"], [Proposal("a1", -1.0)], 9)

    assert [trial.is_new for trial in (failed, fresh, loop)] == [False, True, False]
    assert (failed.edge, loop.edge) == (None, None)


@pytest.mark.parametrize(("visits", "name"), [(15, "1"), (16, "0")])
def test_a_state_is_sampled_anew_at_the_next_power_of_the_widening(visits, name):
    graph = ProofGraph(AndOr(DIAMOND), None)
    for tactic in ("a0", "a1"):
        graph.expand(graph.root, [Proposal(tactic, -1.0 - (tactic == "a1"))], 9)
    graph.root.visits = visits

    # Expanded twice, and again at 4^2 visits; till then the likelier way is taken.
    assert MonteCarloTreeSearch(widening=4).select(graph).text == name


def test_calls_end_at_the_budget_and_a_known_tactic_costs_none():
    graph = ProofGraph(AndOr(DIAMOND), None)
    proposals = [Proposal("a0", -1.0), Proposal("a1", -2.0), Proposal("a2", -3.0)]
    trials = graph.expand(graph.root, proposals, 2)
    assert (graph.calls, len(trials), [trial.is_new for trial in trials]) == (2, 2, [True, True])
    trials = graph.expand(graph.root, proposals, 0)
    assert (graph.calls, [trial.is_new for trial in trials]) == (2, [False, False])


def test_a_state_that_the_policy_cannot_read_is_a_dead_end():
    graph = ProofGraph(AndOr(DIAMOND), None, fits=lambda text: text != "1")
    graph.expand(graph.root, [Proposal("a0", -1.0), Proposal("a1", -2.0)], 9)
    assert sorted(graph.nodes) == ["0", "2"]


def test_best_first_divides_by_the_length_to_alpha():
    graph = ProofGraph(AndOr(DIAMOND), None)
    graph.expand(graph.root, [Proposal("a0", -2.0), Proposal("a1", -2.5)], 9)
    graph.expand(graph.nodes["1"], [Proposal("a0", -1.0)], 9)
    # 3: -3 over two tactics. alpha 0: -3 < -2.5; alpha 1: -1.5 > -2.5.
    assert BestFirstSearch(alpha=0.0).select(graph).text == "2"
    assert BestFirstSearch(alpha=1.0).select(graph).text == "3"


def test_puct_by_hand():
    graph = ProofGraph(AndOr(DIAMOND), None)
    strategy = MonteCarloTreeSearch(exploration=2.0)
    # Probabilities 3/4 and 1/4.
    graph.expand(graph.root, [Proposal("a0", -0.5), Proposal("a1", -0.5 - 1.0986123)], 9)
    first, second = graph.root.edges
    graph.root.visits, first.visits, first.total = 3, 2.0, 1.0
    # 1/2 + 2 * 3/4 * sqrt(4) / 3 = 1.5; 0 + 2 * 1/4 * 2 / 1 = 1.
    assert strategy.scores(graph.root, [first, second]) == pytest.approx([1.5, 1.0])
    # Below 4 visits the root is not sampled anew.
    assert strategy.select(graph).text == "1"
    strategy.update(graph, first.child, [])
    assert (first.visits, first.total, graph.root.visits) == (3.0, 1.0, 4)
    assert strategy.select(graph) is graph.root


def test_a_critic_s_value_goes_up_the_way():
    graph = ProofGraph(AndOr(DIAMOND), None)
    graph.expand(graph.root, [Proposal("a0", -1.0)], 9)
    strategy = MonteCarloTreeSearch()
    node = strategy.select(graph)
    node.value = 0.25
    strategy.update(graph, node, graph.expand(node, [Proposal("a1", -1.0)], 9))
    assert (graph.root.edges[0].visits, graph.root.edges[0].total) == (1.0, 0.25)


def test_rmaxts_by_hand():
    graph = ProofGraph(AndOr(DIAMOND), None)
    strategy = RMaxTS(gamma=0.5)
    trials = graph.expand(graph.root, [Proposal("a0", -1.0), Proposal("a1", -1.0)], 9)
    assert strategy.simulation_value(graph.root, trials) == 1.0
    known = [trial._replace(is_new=False) for trial in trials]
    assert strategy.simulation_value(graph.root, known) == 0.0
    edge = graph.root.edges[0]
    for reward in (1.0, 0.0, 1.0):
        strategy.add_simulation(edge, reward)
    # 1 + 1/2 + 1/4 visits; 1 + 0/2 + 1/4 in all.
    assert (edge.visits, edge.total) == (1.75, 1.25)
    # 1.25 / 1.75 + sqrt(2 ln 1.75 / 1.75)
    assert strategy.scores(graph.root, [edge]) == pytest.approx([0.714286 + 0.799734], abs=1e-5)
    assert strategy.scores(graph.root, graph.root.edges)[1] == float("inf")


def test_best_of_n_goes_on_to_the_end_and_begins_anew():
    graph, strategy = ProofGraph(AndOr(DIAMOND), None), RepeatedSampling(max_depth=3)
    told = []
    for tactic in ("a0", "a2", "a1", "a0", "a0"):
        node = strategy.select(graph)
        told.append(node.text)
        strategy.update(graph, node, graph.expand(node, [Proposal(tactic, -1.0)], 9))
    # Failed in 1; then to the end.
    assert told == ["0", "1", "0", "2", "3"]
    assert graph.root.solved
    assert [edge.tactic for edge in graph.proof()] == ["a1", "a0", "a0"]


def test_goals_of_the_game_are_searched():
    environment = TacticsEnvironment()
    verbs = ["intro", "split", "left", "right"]
    verbs += [f"{verb} h{n}" for verb in ("cases", "apply", "exact") for n in range(3)]

    def propose(node):
        return [Proposal(verb, -1.0) for verb in verbs]

    for goal, holds in (("p∧q→q∧p", True), ("(p→q)→(q→r)→p→r", True), ("p∨q→p", False)):
        graph = ProofGraph(environment, Example(f"⊢{goal}\n", "", ""))
        assert searched(graph, BestFirstSearch(), propose, 60).root.solved is holds
