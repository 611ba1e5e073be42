"""Routing replay: recorded experts score the tokens, and the routers have their gradient."""

import copy

import pytest
import torch
from tensordict import TensorDict

from components.collector.delay import DelayedCollector
from components.collector.group import GroupCollector
from components.learner.checks import check_routes
from components.old_log_probs import RecomputedLogProbs
from components.reference.teacher import TeacherReference
from rlcomp.batch import cat
from rlcomp.checkpoint.reader import open_checkpoint
from rlcomp.checkpoint.writer import Checkpoint
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.draw import SampledResponses
from rlcomp.engine.engine import Engine
from rlcomp.engine.routing import (
    UNKNOWN,
    record_routes,
    replay_routes,
    routers_of,
    routes_of_rows,
    routing_shape,
)
from rlcomp.errors import ConfigError, RlcompError, ShapeError
from rlcomp.interfaces.policy import check_turns
from rlcomp.metrics import recording
from rlcomp.model.language_model import LanguageModel
from rlcomp.testing import make_batch, tiny_policy

EXPERTS = {
    "qwen3_moe": {
        "num_experts": 16,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": 24,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
    },
    "mixtral": {"num_local_experts": 8, "num_experts_per_tok": 2},
    "olmoe": {"num_experts": 16, "num_experts_per_tok": 4},
}
FAMILIES = pytest.mark.parametrize("family", EXPERTS)
ROLLOUT, PROXIMAL = (Decoding(keep_routing=mode) for mode in ("rollout", "proximal"))
PROMPTS = [[3, 4, 5], [6], [7, 8], [2, 9, 4, 5]]


def make(family, decoding=ROLLOUT, *, strength=8.0, **changes):
    """Return a model of four layers; ``scale`` does not act on the experts' weights."""
    sizes = {"num_hidden_layers": 4, "hidden_size": 32, "context_length": 64, "scale": 4.0}
    given = {**sizes, "architecture": family, "overrides": EXPERTS[family], **changes}
    policy = tiny_policy(decoding=decoding, **given)
    with torch.no_grad():
        for weight in policy.model.parameters():
            if weight.ndim == 3:
                weight.mul_(strength)
    return policy


def rollout(policy, group_size=16, max_new_tokens=24):
    generator = torch.Generator().manual_seed(0)
    return policy.generate(
        PROMPTS, group_size=group_size, max_new_tokens=max_new_tokens, generator=generator
    )


def cast(policy, dtype):
    model = copy.deepcopy(policy.model).to(dtype)
    model.set_experts_implementation("eager")  # the others do not support float64
    return LanguageModel(model=model, tokenizer=policy.tokenizer, decoding=policy.decoding)


def read_tokens(rows):
    """Return the mask of the tokens that a model computes: all but the last of a row."""
    mask = rows["attention_mask"].clone()
    mask.scatter_(1, mask.sum(1, keepdim=True) - 1, False)
    return mask


@FAMILIES
def test_replay_of_the_models_own_routes_has_no_effect(family):
    policy, free = make(family), make(family, Decoding())
    rows = rollout(policy, group_size=2)
    free_rows = rollout(free, group_size=2)
    log_probs, routes = policy.score_and_route(rows)

    assert torch.equal(rows["tokens"], free_rows["tokens"])
    assert torch.equal(rows["rollout_log_probs"], free_rows["rollout_log_probs"])
    assert "routed_experts" not in free_rows.keys()
    assert torch.equal(policy.score(rows.exclude("routed_experts")), log_probs)
    own = rows.clone().set("routed_experts", routes)
    assert torch.equal(policy.score(own), log_probs)
    assert torch.equal(policy.log_probs(own).detach(), log_probs)


@FAMILIES
def test_routes_of_a_rollout_do_not_depend_on_padding(family):
    """Sampling pads prompts of 1 to 4 tokens on the left, scoring on the right."""
    policy = make(family, num_hidden_layers=2)
    rows = rollout(policy, group_size=2, max_new_tokens=6)

    for row in rows:
        length = int(row["attention_mask"].sum())
        with torch.no_grad(), record_routes(routers_of(policy.model)) as passes:
            policy.model(input_ids=row["tokens"][None, : length - 1])
        assert torch.equal(
            row["routed_experts"][: length - 1].sort(-1).values, passes[0].sort(-1).values
        )
        assert bool((row["routed_experts"][length - 1 :] == 255).all())
    layers, experts = routing_shape(routers_of(policy.model))
    assert rows["routed_experts"].shape == (*rows["tokens"].shape, layers, experts)
    assert (layers, experts) == (2, EXPERTS[family]["num_experts_per_tok"])


@FAMILIES
def test_routes_of_a_half_precision_sampler_are_replayed(family):
    policy = make(family)
    rows = rollout(cast(policy, torch.bfloat16))
    mask = rows["response_mask"]

    def gap(batch):
        return (policy.score(batch) - rows["rollout_log_probs"])[mask].abs()

    free, kept = gap(rows.exclude("routed_experts")), gap(rows)

    assert float(kept.mean()) < 0.5 * float(free.mean())
    assert float(kept.max()) < float(free.max())


@FAMILIES
def test_replayed_experts_have_the_current_probabilities(family):
    """Replace the routes by the last experts."""
    policy = make(family, num_hidden_layers=2)
    router, count = routers_of(policy.model)[0], policy.model.config.num_experts_per_tok
    number = int(router.weight.shape[0])
    wanted = torch.arange(number - count, number).repeat(3, 2, 1).to(torch.uint8)
    wanted[1] = 255
    x = torch.randn(3, 32, generator=torch.Generator().manual_seed(1))

    free_logits, free_scores, free_indices = router(x)
    with replay_routes(routers_of(policy.model), wanted):
        logits, scores, indices = router(x)

    assert torch.equal(logits, free_logits)
    assert indices[0].tolist() == indices[2].tolist() == list(range(number - count, number))
    assert torch.equal(indices[1], free_indices[1])
    assert torch.equal(scores[1], free_scores[1])
    chosen = logits.softmax(-1)[0, number - count :]
    normalised = family != "olmoe"  # norm_topk_prob is false there by default
    expected = chosen / chosen.sum() if normalised else chosen
    assert torch.allclose(scores[0], expected, atol=1e-7)
    assert scores.dtype == free_scores.dtype
    assert torch.equal(router(x)[2], free_indices)  # hooks are removed


@FAMILIES
def test_router_gradients_equal_finite_differences(family):
    """Of routes that differ from its own. Routers compute in float32 whatever the weights' type.

    A step of 1e-3 loses some 1e-4 of the difference to that rounding, and to curvature: hence 1 %.
    """
    policy = make(family, num_hidden_layers=2, strength=2.0)
    rows = rollout(policy, group_size=2, max_new_tokens=6)
    drift = torch.randint(
        0, 8, rows["routed_experts"].shape, generator=torch.Generator().manual_seed(3)
    )
    first = drift[..., :1]
    spread = torch.arange(rows["routed_experts"].shape[-1])
    rows["routed_experts"] = ((first + spread) % 8).to(torch.uint8)
    policy = cast(policy, torch.float64)
    router = routers_of(policy.model)[1].weight

    policy.log_probs(rows).sum().backward()
    gradient, direction = router.grad.clone(), router.grad / router.grad.norm()
    values = []
    with torch.no_grad():
        for step in (1e-3, -2e-3):
            router.add_(step * direction)
            values.append(float(policy.log_probs(rows).sum()))

    numeric = (values[0] - values[1]) / 2e-3
    assert float(gradient.norm()) == pytest.approx(numeric, rel=1e-2)
    assert float(gradient.norm()) > 1e-3


def test_routes_of_the_proximal_pass_are_replayed_in_any_minibatch():
    policy = make("qwen3_moe", PROXIMAL)
    rows = rollout(cast(policy, torch.bfloat16), group_size=4)
    assert "routed_experts" not in rows.keys()

    batch = RecomputedLogProbs(policy=policy)(rows)

    assert torch.allclose(batch["old_log_probs"], policy.score(rows.exclude("routed_experts")))
    for some in (torch.tensor([9, 2, 4]), torch.tensor([15])):
        part = batch[some]
        ratio = (policy.log_probs(part) - part["old_log_probs"]).exp()
        assert float((ratio - 1).abs().max().detach()) < 1e-5


def test_stale_rollouts_keep_their_routes_through_a_checkpoint(tmp_path):
    def collector():
        policy = make("mixtral", num_hidden_layers=1)
        inner = GroupCollector(policy=policy, group_size=2, max_new_tokens=3)
        return DelayedCollector(collector=inner, staleness=1)

    prompts = make_batch(prompt=["1+2=", "3>"])
    one, other = collector(), collector()
    one(prompts.clone())
    Checkpoint(directory=str(tmp_path), keep=1).save(
        {"rollout": one}, {"phase": 0, "step": 3, "total": 3, "trackers": {}}
    )
    open_checkpoint(tmp_path / "step-00000003").restore({"rollout": other})

    left, right = one(prompts.clone()), other(prompts.clone())

    assert left["routed_experts"].dtype == torch.uint8
    for key in ("tokens", "routed_experts", "rollout_log_probs"):
        assert torch.equal(left[key], right[key])


def test_joined_batches_mark_unknown_routes():
    policy = make("mixtral", num_hidden_layers=1)
    short, long = (rollout(policy, group_size=1, max_new_tokens=count) for count in (1, 9))

    joined = cat([short, long])

    width = short["tokens"].shape[1]
    assert torch.equal(joined["routed_experts"][:4, :width], short["routed_experts"])
    assert bool((joined["routed_experts"][:4, width:] == 255).all())
    torch.testing.assert_close(
        policy.score(joined)[:4, :width], policy.score(short), atol=1e-5, rtol=0
    )


def test_large_batches_are_routed_in_parts(monkeypatch):
    policy = make("mixtral", PROXIMAL, num_hidden_layers=2)
    rows = rollout(policy, group_size=2, max_new_tokens=8)
    whole = policy.score_and_route(rows)
    monkeypatch.setattr("rlcomp.model.causal_forward._NO_GRAD_TOKENS", 30)

    log_probs, routes = policy.score_and_route(rows)

    assert torch.allclose(log_probs, whole[0], atol=1e-6)
    used = read_tokens(rows)
    assert torch.equal(routes[used].sort(-1).values, whole[1][used].sort(-1).values)
    assert bool((routes != 255)[used].all())
    assert bool((routes == 255)[~rows["attention_mask"]].all())


def test_other_weights_and_policies_choose_their_own_routes():
    policy, free = make("mixtral"), make("mixtral", Decoding())
    rows = rollout(policy, group_size=2)
    weights = {name: value.detach().clone() for name, value in policy.weights().items()}
    rows["routed_experts"] = torch.zeros_like(rows["routed_experts"])  # would change every token

    with torch.no_grad():
        expected = free.log_probs(rows)
        assert torch.allclose(policy.log_probs(rows, weights), expected, atol=1e-6)
        assert not torch.allclose(policy.log_probs(rows), expected, atol=1e-2)
        # So do teachers, and scores under another decoding distribution.
        teacher = TeacherReference(policy=policy, teacher=policy)(rows.clone())["ref_log_probs"]
        assert torch.allclose(teacher, expected, atol=1e-6)
        plain = policy.log_probs(rows, decoding=Decoding())
        assert torch.allclose(plain, expected, atol=1e-6)


def test_drift_is_the_share_of_changed_choices():
    """Two layers of a router that knows its input: token 0 goes to 7 and 6, token 1 to 0 and 1."""
    policy = make("mixtral", num_hidden_layers=2)
    routers = routers_of(policy.model)
    x = torch.zeros(2, 32)
    x[0, 0], x[1, 0] = 1.0, -1.0
    with torch.no_grad():
        for router in routers:
            router.weight.zero_()
            router.weight[:, 0] = torch.arange(8.0)
    own = [[[6, 7], [7, 6]], [[0, 1], [1, 0]]]  # in any order
    other = [[[6, 7], [7, 5]], [[255, 255], [0, 2]]]

    drifts = []
    for routes in (own, other):
        with recording() as ledger, replay_routes(routers, torch.tensor(routes, dtype=torch.uint8)):
            for router in routers:
                router(x)
        drifts.append(ledger.means()["routing/drift"])

    # Two of the three known routes differ.
    assert drifts == [0.0, pytest.approx(2 / 3)]


def test_routes_of_rows_by_hand():
    """Two prompts of 1 and 2 tokens, two rows each, one layer and one expert a token."""
    passes = [
        torch.tensor([90, 1, 2, 3]),  # the first column of the short prompt is padding
        torch.tensor([11, 12, 13, 14]),
        torch.tensor([21, 22, 23, 24]),
    ]
    passes = [one.to(torch.uint8)[:, None, None] for one in passes]

    actual = routes_of_rows(passes, [[5], [6, 7]], [3, 1, 2, 3])[..., 0, 0]

    assert actual.tolist() == [
        [1, 11, 21, 255, 255],
        [1, 255, 255, 255, 255],
        [2, 3, 13, 255, 255],
        [2, 3, 14, 24, 255],
    ]
    once_a_row = torch.cat([passes[0].view(2, 2, 1, 1).repeat_interleave(2, 0).flatten(0, 1)])
    again = routes_of_rows([once_a_row, *passes[1:]], [[5], [6, 7]], [3, 1, 2, 3])[..., 0, 0]
    assert torch.equal(again, actual)
    alone = routes_of_rows(passes[:1], [[5], [6, 7]], [1, 1, 1, 1])
    assert alone[..., 0, 0].tolist() == [[1, 255, 255]] * 2 + [[2, 3, 255]] * 2


def test_unsupported_routers_are_refused():
    with pytest.raises(
        ConfigError, match=r"Qwen2ForCausalLM has none of the supported routers.*keep_routing=none"
    ):
        tiny_policy(decoding=PROXIMAL)
    most = {**EXPERTS["qwen3_moe"], "num_experts": 255}
    assert len(make("qwen3_moe", num_hidden_layers=1, overrides=most).scoring.routers) == 1
    with pytest.raises(ConfigError, match="256 experts per layer, but the limit is 255"):
        make("qwen3_moe", overrides={**EXPERTS["qwen3_moe"], "num_experts": 256})
    with pytest.raises(ConfigError, match=r"engine.checkpointing.*keep_routing=none"):
        make("mixtral", engine=Engine(checkpointing=True))
    with pytest.raises(ConfigError, match="keep_routing=proximal with old_log_probs=recomputed"):
        check_turns(make("mixtral"))
    check_turns(make("mixtral", PROXIMAL))
    with pytest.raises(ConfigError, match="keep_routing is none"):
        make("mixtral", Decoding()).score_and_route(TensorDict(batch_size=[1]))


def test_routes_of_another_model_are_refused():
    policy = make("mixtral", num_hidden_layers=2)
    rows = rollout(policy, group_size=1)
    rows["routed_experts"] = rows["routed_experts"][:, :, :1]

    with pytest.raises(ShapeError, match=r"\(1, 2\) layers and experts per token.*\(2, 2\)"):
        policy.score(rows)


class Tells:
    """A sampler engine that returns the same experts for each token."""

    def __init__(self, routes):
        self.routes = torch.tensor(routes, dtype=torch.uint8)

    def update(self, version, model):
        pass

    def generate(self, request, model):
        routes = self.routes.expand(1, len(request.prompts[0]) + 1, 1, 2)
        ended = torch.tensor([1]), torch.tensor([False])
        return SampledResponses(torch.tensor([[1]]), torch.zeros(1, 1), *ended, routes=routes)


def test_unknown_experts_are_refused():
    policy = make("mixtral", num_hidden_layers=1)
    policy.sampler_engine = Tells([7, UNKNOWN])
    given = {"group_size": 1, "max_new_tokens": 1, "generator": torch.Generator()}

    assert policy.generate([[5]], **given)["routed_experts"][0, 0].tolist() == [[7, UNKNOWN]]
    policy.sampler_engine = Tells([0, 8])
    with pytest.raises(RlcompError, match="expert 8, but a layer of the policy has 8: check that"):
        policy.generate([[5]], **given)


@pytest.mark.parametrize(
    ("decoding", "message"),
    [(ROLLOUT, "not the policy's own rollouts"), (PROXIMAL, "set old_log_probs=recomputed")],
)
def test_an_update_needs_routes_unless_it_is_supervised(decoding, message):
    policy = make("mixtral", decoding, num_hidden_layers=1)
    bare, routed = TensorDict(batch_size=[1]), make_batch(routed_experts=torch.zeros(1))

    check_routes(policy, bare, {"log_probs"})
    check_routes(policy, routed, {"old_log_probs"})
    check_routes(None, bare, {"old_log_probs"})
    check_routes(make("mixtral", Decoding()), bare, {"old_log_probs"})
    with pytest.raises(ConfigError, match=message):
        check_routes(policy, bare, {"old_log_probs"})
