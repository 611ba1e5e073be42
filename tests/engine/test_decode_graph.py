"""The decode loop of a GPU samples the tokens of the other loop."""

import ast
import inspect
import textwrap
from functools import partial

import pytest
import torch

from rlcomp import causal_lm, character_tokenizer
from rlcomp.engine import decode_graph, decode_packed, draw
from rlcomp.engine.architectures import layers
from rlcomp.engine.cache import Cache
from rlcomp.engine.decode_graph import GraphDecodeLoop, StaticCache, StepGraph
from rlcomp.engine.decode_packed import DecodeLoop, decode
from rlcomp.engine.decoding import Decoding, filter_logits, pack_mask, sampling_mask
from rlcomp.engine.draw import draw_tokens, sample
from rlcomp.engine.fused import Fused, FusedBlock, FusedNorm, Matrix
from rlcomp.engine.layer_functions import rms_norm
from rlcomp.engine.linear import linear, wide_product
from rlcomp.engine.stopping import StopRule
from rlcomp.engine.transformer import Transformer
from rlcomp.engine.uniforms import Uniforms

EOS = 1
PROMPTS = [[4, 5, 6], [2], [7, 8, 9, 10, 11, 4, 5], [4, 5, 6]]
LIMIT = 40
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_gpu)]


def transformer(architecture="qwen2", device="cpu"):
    torch.manual_seed(0)
    model = causal_lm(
        tokenizer=character_tokenizer(characters="abcdefghijkl"),
        architecture=architecture,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4 if architecture == "gpt2" else 2,
        intermediate_size=48,
        context_length=64,
        overrides={"initializer_range": 0.3},
    )
    return Transformer(model.double().eval().to(device), layers, "torch")


def sampled(model, loop, *, decoding=None, suppressed=None, texts=(), limit=LIMIT):
    """Return the responses and the final state of the generator."""
    rows, generator = 3 * len(PROMPTS), torch.Generator().manual_seed(3)
    table = [bytes([65 + token]) for token in range(14)]
    actual = decode(
        model,
        PROMPTS,
        group_size=3,
        stop=StopRule([EOS], [limit] * rows, texts, table),
        draw=partial(draw_tokens, decoding=decoding or Decoding(), suppressed=suppressed),
        uniforms=Uniforms(rows, generator),
        loop=loop,
    )
    return actual, generator


def assert_same(ours, theirs):
    (ours, generator), (theirs, other) = ours, theirs
    assert torch.equal(ours.lengths.cpu(), theirs.lengths.cpu())
    assert torch.equal(ours.truncated.cpu(), theirs.truncated.cpu())
    assert ours.tokens.shape == theirs.tokens.shape
    within = torch.arange(ours.tokens.shape[1]) < ours.lengths.cpu()[:, None]
    assert torch.equal(ours.tokens.cpu()[within], theirs.tokens.cpu()[within])
    left, right = (each.log_probs.cpu()[within] for each in (ours, theirs))
    # The library computes rotations in float32, and a GPU rounds cosines differently.
    torch.testing.assert_close(left, right, atol=1e-6, rtol=0)
    if ours.sampling_mask is not None:
        assert torch.equal(ours.sampling_mask.cpu()[within], theirs.sampling_mask.cpu()[within])
    # The next rollout draws the same numbers, too.
    assert torch.equal(generator.get_state(), other.get_state())


@pytest.fixture(params=[0, 4000, 2**21], ids=["shared", "shared_then_copied", "copied"])
def _prompts_held(request, monkeypatch):
    monkeypatch.setattr("rlcomp.engine.cache._COPY_BYTES", request.param)


@pytest.mark.usefixtures("_prompts_held")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("look", [1, 3, 16])
@pytest.mark.parametrize("architecture", ["qwen2", "gpt2"])
def test_graph_loop_samples_the_tokens_of_the_decode_loop(monkeypatch, device, look, architecture):
    monkeypatch.setattr(decode_graph, "STEPS_PER_READ", look)
    monkeypatch.setattr(decode_graph, "_NEW_COLUMNS", 5)

    theirs = sampled(transformer(architecture), DecodeLoop)

    lengths = theirs[0].lengths
    assert lengths.min() < 10 < lengths.max()  # rows are dropped, and memory grows
    assert_same(sampled(transformer(architecture, device), GraphDecodeLoop), theirs)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "changed",
    [
        {"decoding": Decoding(temperature=0.7, top_k=5, top_p=0.9, min_p=0.01, replay=True)},
        {"decoding": Decoding(temperature=0.0)},
        {"suppressed": [5, 6]},
        {"texts": (b"FG", b"H")},
        {"limit": 1},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_filters_stop_texts_and_limits_agree_with_the_decode_loop(device, changed):
    def some(loop, where):
        given = dict(changed)
        if "suppressed" in given:
            barred = torch.zeros(14, dtype=torch.bool)
            barred[given["suppressed"]] = True
            given["suppressed"] = barred.to(where)
        return sampled(transformer(device=where), loop, **given)

    assert_same(some(GraphDecodeLoop, device), some(DecodeLoop, "cpu"))


@pytest.mark.parametrize("device", DEVICES)
def test_decoding_in_several_passes_uses_the_same_random_numbers(monkeypatch, device):
    # Three answers of 40 tokens and a prompt of 7; 2 layers of 2 * 2 heads of 8 numbers of 8 bytes.
    monkeypatch.setattr(decode_packed, "cache_budget", lambda _: (6 * 40 + 7) * 512)

    assert_same(
        sampled(transformer(device=device), GraphDecodeLoop), sampled(transformer(), DecodeLoop)
    )


@needs_gpu
def test_a_step_does_not_synchronise_with_the_device(monkeypatch):
    model = transformer(device="cuda")
    sampled(model, GraphDecodeLoop)  # loads libraries
    run = decode_graph.StepGraph.run

    def watched(self, numbers):
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            return run(self, numbers)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    monkeypatch.setattr(decode_graph.StepGraph, "run", watched)
    sampled(model, GraphDecodeLoop)


# Calls that synchronise with the device, or copy to it.
METHODS = {"item", "tolist", "cpu", "numpy", "nonzero", "tensor"}
BUILT_IN = {"bool", "int", "float"}


@pytest.mark.parametrize(
    "parts",
    [
        [StepGraph._step, StepGraph._store],
        [StaticCache.open_column, StaticCache._write, Cache.attend, Cache._read],
        [Fused.embed, Fused.logits, FusedBlock.project, FusedBlock.finish, FusedNorm.__call__],
        [Matrix.__call__, Matrix.wide, Matrix._product, linear, wide_product, rms_norm],
        [draw_tokens, draw._draw_chunk, filter_logits, sampling_mask, sample, pack_mask],
    ],
    ids=["step", "cache", "layers", "products", "draw"],
)
def test_the_source_of_a_step_has_no_synchronising_call(parts):
    for part in parts:
        tree = ast.parse(textwrap.dedent(inspect.getsource(part)))
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        methods = {call.attr for call in calls if isinstance(call, ast.Attribute)}
        names = {call.id for call in calls if isinstance(call, ast.Name)}

        assert not methods & METHODS, part
        assert not names & BUILT_IN, part
