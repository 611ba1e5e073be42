"""Branching rollouts: trees by hand; expected gradients of a tree, by enumeration."""

from itertools import product

import pytest
import torch

from components.advantage.monte_carlo import REINFORCE
from components.advantage.reweighted import BranchShareAdvantage
from components.branching import EntropyBranching
from components.collector.branching import BranchingCollector
from components.collector.episodes import EpisodeCollector
from components.loss.policy import PolicyLoss
from components.loss.ratio import TokenRatio
from components.loss.reduction import SequenceSum
from components.loss.trust_region.clip import NoTrustRegion
from components.loss.weight.rows import BranchShareWeight
from components.reward.episode import EpisodeReturn
from rlcomp.batch import decode_texts
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.engine import Engine
from rlcomp.engine.session import TurnSample
from rlcomp.episodes.player import Player
from rlcomp.errors import ConfigError
from rlcomp.interfaces.environment import Turn
from rlcomp.metrics import recording
from rlcomp.testing import make_batch, tiny_policy
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="abc=|")
SIZE = len(TOKENIZER)


def ids(text):
    return [TOKENIZER.get_vocab()[c] for c in text]


class Told:
    """A policy whose rows say what they are told to, a character a turn; so do its forks.

    It is sure of what follows ``b``, and knows nothing elsewhere.
    """

    tokenizer, decoding, context_length = TOKENIZER, Decoding(), None
    device, version = torch.device("cpu"), 0

    def __init__(self, rows, forks=()):
        self.rows, self.forks = [[*row] for row in rows], [[*row] for row in forks]

    def session(self, prompts, *, decoding, generator):
        self.contexts = [list(prompt) for prompt in prompts]
        return self

    def extend(self, row, tokens):
        self.contexts[row] += tokens

    def fork(self, row):
        self.contexts.append([*self.contexts[row]])
        self.rows.append(self.forks.pop(0))
        return len(self.rows) - 1

    def logits(self, rows):
        found = torch.zeros(len(rows), SIZE)
        for place, row in enumerate(rows):
            if ids("b")[0] in self.contexts[row]:
                found[place, 0] = torch.inf
        return found.nan_to_num(posinf=1e4)

    def generate(self, rows, *, limits, texts):
        said = [ids(self.rows[row].pop(0)) for row in rows]
        for row, tokens in zip(rows, said, strict=True):
            self.contexts[row] += tokens
        return [TurnSample(tokens, [-0.5], False) for tokens in said]

    def close(self, rows):
        pass


class Pays:
    """Two turns, of ``a`` or ``b``; pays for both. ``c`` ends it at once."""

    stops = ("a", "b", "c")
    paid = {"aa": 1.0, "ab": 0.0, "ba": 0.2, "bb": 0.6}

    def reset(self, example, seed):
        self.seed, self.said = seed, ""
        return Turn()

    def step(self, action):
        self.said += action
        done = len(self.said) == 2 or action == "c"
        return Turn(observation="|", reward=self.paid.get(self.said, 0.0), done=done)

    def facts(self):
        return {}

    def close(self):
        pass


def collector(policy, *, environment=Pays, **changed):
    player = Player(policy=policy, environment=environment, max_turns=3, max_new_tokens=1)
    return BranchingCollector(player=player, **changed)


def asked(count=1):
    return make_batch(prompt=["="] * count)


ALWAYS = EntropyBranching(probability=1.0, entropy_weight=0.0)
NEVER = EntropyBranching(probability=0.0, entropy_weight=0.0)
# Where the policy became surer (dH = -1, behind b): always; where not: never. And the other way.
SURE = EntropyBranching(probability=0.0, entropy_weight=-1.0)
UNSURE = EntropyBranching(probability=1.0, entropy_weight=1.0)


def test_a_tree_by_hand():
    # Prompt 0: rows 0 and 1 begin, both branch (row 2's and row 3's places are taken). Prompt 1:
    # rows 4 and 5 begin, row 4 ends at once, row 5 branches; row 6 is left and begins by itself.
    rows = ["aa", "ab", "", "", "c", "bb", "ab", ""]
    policy = Told(rows, ["b", "a", "a"])

    made = collector(policy, group_size=4, initial_rollouts=2, branching=ALWAYS)
    with recording() as ledger:
        found = made(asked(2))

    assert policy.forks == []
    assert decode_texts(found["transcript"]) == [
        "a|a",
        "a|b",
        "a|b",
        "a|a",
        "c",
        "b|b",
        "a|b",
        "b|a",
    ]
    assert found["group_id"].tolist() == [0] * 4 + [1] * 4
    assert found["trajectory_id"].tolist() == [*range(8)]
    assert found["branch_parent"].tolist() == [-1, -1, 0, 1, -1, -1, -1, 5]
    # Prompt, one token, one observed: three tokens are shared.
    assert found["branch_depth"].tolist() == [0, 0, 3, 3, 0, 0, 0, 3]
    assert found["branch_share"].tolist() == [0.5] * 4 + [1.0, 0.5, 1.0, 0.5]
    # Sure behind b, else not; 0 where no turn begins.
    second = found["turn_entropy"][:, 3]
    assert second.tolist() == pytest.approx([1, 1, 1, 1, 0, 0, 1, 0])
    assert found["turn_entropy"][:, [0, 2]].tolist() == [[0.0, 0.0]] * 8
    assert found["turn_entropy"][:, 1].tolist() == pytest.approx([1.0] * 8)
    told = ledger.means()
    # Observed are row 0, 1, 5 (sure: -1), and 6, which has nothing left to branch into.
    assert told["branching/delta_entropy"] == pytest.approx(-1 / 4)
    assert told["branching/branches"] == 3 / 8
    assert told["branching/trained_tokens"] == 15.0
    assert told["rollout/tokens"] == 12.0
    assert told["rollout/length"] == 15 / 8


def test_a_branch_that_branches_shares_what_its_parent_has():
    class Three(Pays):
        paid = dict.fromkeys(["".join(each) for each in product("ab", repeat=3)], 1.0)

        def step(self, action):
            self.said += action
            return Turn(observation="|", done=len(self.said) == 3)

    policy = Told(["aaa", "", "", ""], ["aa", "a", "a"])
    made = collector(policy, environment=Three, group_size=4, initial_rollouts=1, branching=ALWAYS)

    found = made(asked())

    # Row 0 is 1/2 behind its first observation and 1/4 behind its second; its branch is 1/4, too.
    assert found["branch_parent"].tolist() == [-1, 0, 0, 1]
    assert found["branch_share"].tolist() == [0.25] * 4
    assert found["branch_depth"].tolist() == [0, 3, 5, 5]


def test_without_what_is_left_groups_differ_in_size():
    policy = Told(["aa", "ba", "", ""], ["bb"])
    made = collector(policy, group_size=4, initial_rollouts=2, branching=SURE, fill=False)

    found = made(asked())

    assert decode_texts(found["transcript"]) == ["a|a", "b|a", "b|b"]
    assert found["branch_share"].tolist() == [1.0, 0.5, 0.5]


def test_a_replay_that_says_something_else_costs_its_row():
    class Counts(Pays):
        made = 0

        def reset(self, example, seed):
            Counts.made += 1
            self.number = Counts.made
            return super().reset(example, seed)

        def step(self, action):
            turn = super().step(action)
            return Turn(observation="|" * self.number, done=turn.done)

    made = collector(
        Told(["aa", ""], ["b"]),
        environment=Counts,
        group_size=2,
        initial_rollouts=1,
        branching=ALWAYS,
    )

    found = made(asked())

    whole, refused = decode_texts(found["episode_error"])
    assert whole == ""
    assert refused.startswith("the environment, replayed from its seed, gave another turn")
    assert EpisodeReturn()(found)["reward_valid"].tolist() == [True, False]


# Two decisions: b (against a) with logit .3, then with logit -.2; what they pay: Pays.paid.
THETA = torch.tensor([0.3, -0.2], dtype=torch.float64)
P, Q = THETA.sigmoid().tolist()
CHANCE = [{"a": 1 - P, "b": P}, {"a": 1 - Q, "b": Q}]
# By hand: P (1 - P) (V_b - V_a), and Q (1 - Q) E[R(., b) - R(., a)].
V_A, V_B = (1 - Q) * 1.0 + Q * 0.0, (1 - Q) * 0.2 + Q * 0.6
EXACT = [P * (1 - P) * (V_B - V_A), Q * (1 - Q) * (P * 0.4 - (1 - P) * 1.0)]


@pytest.fixture
def in_double():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def trees(rule, roots):
    """The rows of so many trees, with their probability, for all that may be drawn."""
    for firsts in product("ab", repeat=roots):
        likely = {"a": float(rule(torch.zeros(1))), "b": float(rule(-torch.ones(1)))}
        for decided in product((0.0, 1.0), repeat=roots):
            weight = 1.0
            for first, branches in zip(firsts, decided, strict=True):
                weight *= CHANCE[0][first] * abs(1 - branches - likely[first])
            if weight == 0.0:
                continue
            for seconds in product("ab", repeat=roots + int(sum(decided))):
                probability = weight
                for second in seconds:
                    probability *= CHANCE[1][second]
                yield probability, grown(firsts, decided, seconds)


def grown(firsts, decided, seconds):
    roots = len(firsts)
    rows = [first + second for first, second in zip(firsts, seconds, strict=False)]
    policy = Told([*rows, *[""] * roots], seconds[roots:])
    sizes = {"group_size": 2 * roots, "initial_rollouts": roots, "fill": False}
    rows = collector(policy, branching=lambda _: torch.tensor(decided), **sizes)(asked())
    texts = [text.replace("|", "") for text in decode_texts(rows["transcript"])]
    rows["reward"] = torch.tensor([Pays.paid[text] for text in texts])
    return rows.update({"reward_valid": torch.ones(len(rows)).bool()})


def gradient(rows, advantage, weight):
    """Ascent direction of the policy loss of some rows (REINFORCE, mean over rows)."""
    theta = THETA.clone().requires_grad_()
    logit = theta[rows["turn_id"].clamp(min=0)]
    is_b = (rows["tokens"] == ids("b")[0]).double()
    log_probs = is_b * logit - torch.nn.functional.softplus(logit)
    rows = advantage(rows).update({"log_probs": log_probs, "old_log_probs": log_probs.detach()})
    parts = {"ratio": TokenRatio(), "trust_region": NoTrustRegion(), "reduction": SequenceSum()}
    loss = PolicyLoss(**parts, weight=weight)(rows)["loss"]
    return -torch.autograd.grad(loss, theta)[0]


def expected(rule, *, roots, advantage=None, weight=None, endless=False):
    """Expected gradient; with ``endless`` of a mean over the rows of very many such batches."""
    advantage = advantage or REINFORCE(baseline="none")
    total, weights = torch.zeros(2), 0.0
    for probability, rows in trees(rule, roots):
        by = probability * (len(rows) if endless else 1)
        total += by * gradient(rows, advantage, weight)
        weights += by
    return (total / weights).tolist()


SKEWED = EntropyBranching(probability=0.9, entropy_weight=0.8)  # .9 behind a, .1 behind b
SAME = EntropyBranching(probability=0.5, entropy_weight=0.0)


@pytest.mark.parametrize("rule", [SAME, SKEWED, SURE, UNSURE], ids=["same", "skewed", "b", "a"])
@pytest.mark.parametrize("baseline", ["none", "others"])
def test_with_shares_the_expected_gradient_is_exact(rule, baseline, in_double):
    advantage = None if baseline == "none" else BranchShareAdvantage(baseline="others", norm="none")

    found = expected(rule, roots=2, advantage=advantage, weight={"share": BranchShareWeight()})

    assert found == pytest.approx(EXACT, abs=1e-10)


@pytest.mark.parametrize(
    ("rule", "numbers"),
    [
        # The same everywhere: no bias.
        (SAME, [-0.0415, -0.0485]),
        (SKEWED, [-0.106, -0.096]),
        # Behind b only: the sign turns.
        (SURE, [0.033, 0.005]),
    ],
    ids=["same", "skewed", "b"],
)
def test_without_shares_branching_by_prefix_is_biased_up_to_the_sign(rule, numbers, in_double):
    found = expected(rule, roots=1, endless=True)

    # By hand: what starts with a or b counts 1 + its chance of a branch.
    a, b = (1 + float(rule(delta * torch.ones(1))) for delta in (0.0, -1.0))
    rows = (1 - P) * a + P * b
    first = P * (1 - P) * (b * V_B - a * V_A) / rows
    second = Q * (1 - Q) * (P * b * 0.4 - (1 - P) * a) / rows
    assert found == pytest.approx([first, second], abs=1e-10)
    assert found == pytest.approx(numbers, abs=5e-4)


class Answers(Pays):
    """Says how often it was asked, and another digit after ``a``; any letter ends a turn."""

    def step(self, action):
        self.said += action
        return Turn(observation=f"{len(self.said)}{'1' if 'a' in action else '2'}|")


def sampled(forward, kind, **changed):
    engine = Engine(forward=forward)
    policy = tiny_policy("abc0123456789=|", scale=2.0, context_length=64, engine=engine)
    player = Player(policy=policy, environment=Answers, max_turns=4, max_new_tokens=9)
    torch.manual_seed(3)
    batch = make_batch(prompt=["1=", "22="])
    return kind(player=player, group_size=6, **changed)(batch)


def test_both_engines_grow_the_same_trees():
    arguments = {"branching": EntropyBranching(), "initial_rollouts": 2}
    rows = [
        sampled(forward, BranchingCollector, **arguments) for forward in ("packed", "transformers")
    ]

    for key in rows[0].keys():
        # Another order of sums, another rounding.
        torch.testing.assert_close(rows[0][key], rows[1][key], rtol=0, atol=1e-5)
    assert (rows[0]["branch_parent"] >= 0).any()


def test_branches_begin_with_their_parents_ids_and_share_nothing_else():
    rows = sampled("packed", BranchingCollector, branching=ALWAYS, initial_rollouts=2)

    branched = (rows["branch_parent"] >= 0).nonzero()[:, 0].tolist()
    assert branched
    for row in branched:
        parent, depth = int(rows["branch_parent"][row]), int(rows["branch_depth"][row])
        for key in ("tokens", "response_mask", "rollout_log_probs", "turn_id", "turn_entropy"):
            assert torch.equal(rows[key][row, :depth], rows[key][parent, :depth])
        # Behind an observation: what comes next was sampled for the row itself.
        assert not rows["response_mask"][row, depth - 1]
        assert rows["response_mask"][row, depth]
    total = torch.zeros(2).index_add_(0, rows["group_id"], rows["branch_share"])
    alone = torch.zeros(2).index_add_(0, rows["group_id"], (rows["branch_parent"] < 0).float())
    assert torch.equal(total, alone)


@pytest.mark.parametrize("forward", ["packed", "transformers"])
def test_without_branches_the_episodes_are_those_of_the_plain_collector(forward):
    plain = sampled(forward, EpisodeCollector)
    rows = sampled(forward, BranchingCollector, branching=NEVER, initial_rollouts=2)

    for key in plain.keys():
        torch.testing.assert_close(plain[key], rows[key], rtol=0, atol=1e-5)
    assert rows["branch_share"].tolist() == [1.0] * 12


def test_more_initial_rollouts_than_episodes_are_refused():
    with pytest.raises(ConfigError, match=r"rollout.initial_rollouts is 8, .*group_size, 4: lower"):
        collector(Told([]), group_size=4, initial_rollouts=8, branching=ALWAYS)


@pytest.mark.parametrize(("episodes", "roots"), [(16, 8), (5, 2), (1, 1)])
def test_half_of_the_episodes_begin_by_themselves(episodes, roots):
    made = collector(Told([]), group_size=episodes, branching=ALWAYS)

    assert made.initial_rollouts == roots
