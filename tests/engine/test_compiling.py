"""Compiled functions: only within the context, and with the results of eager mode."""

import threading
from types import SimpleNamespace

import pytest
import torch
import torch._dynamo.config
import torch._functorch.config

from rlcomp import Decoding, causal_lm, character_tokenizer
from rlcomp.engine.compiling import compiled, compiles, compiling
from rlcomp.engine.engine import Engine
from rlcomp.engine.layer_functions import fused_rms_norm
from rlcomp.errors import ConfigError
from rlcomp.model.language_model import LanguageModel
from rlcomp.text.rows import rows_from_ids

TOKENIZER = character_tokenizer(characters="abcdefgh")
PLAIN = {"linear": "torch", "update": "torch"}


@pytest.fixture
def compiler(monkeypatch):
    """Replace torch.compile: return functions unchanged, and record them."""
    calls = SimpleNamespace(names=[], told=[], called=[])

    def compile(function, **told):
        calls.names.append(function.__name__)
        calls.told.append(told)

        def call(*given, **named):
            calls.called.append(function.__name__)
            return function(*given, **named)

        return call

    monkeypatch.setattr("rlcomp.engine.compiling._compiled_functions", {})
    monkeypatch.setattr(torch, "compile", compile)
    return calls


def twice():
    def double(x):
        return 2 * x

    return compiled(double)


def test_a_function_is_compiled_once_and_only_within_compiling(compiler):
    double = twice()

    outside = double(3)
    assert not compiles()
    assert compiler.names == []
    with compiling(True):
        assert compiles()
        assert [outside, double(4), double(x=5)] == [6, 8, 10]

    assert not compiles()
    assert compiler.names == ["double"]
    assert compiler.told == [{"dynamic": True}]
    assert compiler.called == ["double", "double"]
    assert double.__name__ == "double"


def test_nested_contexts_and_errors_restore_the_flag():
    with compiling(True):
        with compiling(False):
            assert not compiles()
        with pytest.raises(KeyError), compiling(False):
            raise KeyError
        assert compiles()


def test_the_flag_belongs_to_the_thread():
    actual = []
    with compiling(True):
        thread = threading.Thread(target=lambda: actual.append(compiles()))
        thread.start()
        thread.join()

    assert actual == [False]


@pytest.mark.parametrize(("before", "after"), [(8, 64), (100, 100)])
def test_the_recompile_limit_is_raised(compiler, before, after):
    with torch._dynamo.config.patch(recompile_limit=before), compiling(True):
        twice()(1)
        assert torch._dynamo.config.recompile_limit == after
    assert compiler.names == ["double"]


class Failed(Exception):
    """An error of torch's compiler."""

    __module__ = "torch._inductor.exc"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Failed("InvalidCxxCompiler: none\n\nand more"), ConfigError),
        (ValueError("of the function"), ValueError),
    ],
)
def test_a_missing_compiler_is_a_config_error(monkeypatch, error, told):
    def fails(function, **_):
        def call(*_):
            raise error

        return call

    monkeypatch.setattr("rlcomp.engine.compiling._compiled_functions", {})
    monkeypatch.setattr(torch, "compile", fails)
    with pytest.raises(told) as actual, compiling(True):
        twice()(1)

    if told is ConfigError:
        words = "failed (Failed: InvalidCxxCompiler: none and more): install Triton for a GPU"
        assert words in str(actual.value)
        assert str(actual.value).endswith("or set engine.compile=false")


def test_donated_buffers_are_disabled(compiler):
    with torch._functorch.config.patch(donated_buffer=True), compiling(True):
        twice()(1)
        assert torch._functorch.config.donated_buffer is False


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_compiled_function_is_differentiated_more_than_once(monkeypatch):
    monkeypatch.setattr("rlcomp.engine.compiling._compiled_functions", {})
    x = torch.randn(5, 8, requires_grad=True)
    with compiling(True):
        y = fused_rms_norm(x, torch.ones(8), 1e-6, torch.float32)

    first, other = (torch.autograd.grad(y.sum(), x, retain_graph=keep)[0] for keep in (True, False))

    assert torch.equal(first, other)


def policy(model, **words):
    return LanguageModel(
        model=model,
        tokenizer=TOKENIZER,
        decoding=Decoding(),
        engine=Engine(**PLAIN, **words),
    )


def make_model(architecture="qwen3"):
    torch.manual_seed(0)
    return causal_lm(
        tokenizer=TOKENIZER,
        architecture=architecture,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4 if architecture == "gpt2" else 2,
        intermediate_size=48,
        context_length=32,
        overrides={"initializer_range": 0.3},
    )


def rows():
    draw = torch.Generator().manual_seed(1)
    tails = [torch.randint(2, 10, (n,), generator=draw).tolist() for n in (3, 9, 1, 6)]
    return rows_from_ids(TOKENIZER, [[2, 3], [2, 3], [4, 5, 6], [7]], tails)


def passed(owner):
    """Log-probs, entropy, and the gradient of a sum of the log-probs, with different weights."""
    batch = rows()
    log_probs = owner.log_probs(batch)
    weights = torch.linspace(-1, 2, log_probs.numel()).view(log_probs.shape)
    owner.zero_grad()
    (log_probs * weights).sum().backward()
    gradient = torch.cat([p.grad.flatten() for p in owner.model.parameters()])
    with torch.no_grad():
        entropy = owner(batch.copy())["entropy"]
    return log_probs.detach(), entropy, gradient.clone()


def assert_alike(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=1e-4)


@pytest.fixture
def _tiles(monkeypatch):
    """Tiles of 2 tokens, as for a large vocabulary."""
    monkeypatch.setattr("rlcomp.engine.output_head._TILE", 20)
    monkeypatch.setattr("rlcomp.engine.output_head._LEAST_TOKENS", 2)


FUNCTIONS = {"_log_probs", "_log_probs_gradient", "_entropy"}
BETWEEN = {"fused_rms_norm", "_rotate_fused", "silu_gate"}


@pytest.mark.usefixtures("_tiles")
@pytest.mark.parametrize(
    ("architecture", "keep", "expected"),
    [
        ("qwen3", False, FUNCTIONS | BETWEEN),
        ("qwen3", True, FUNCTIONS | BETWEEN),
        ("gpt2", False, FUNCTIONS),  # LayerNorm, added positions, no gate
    ],
)
def test_compiled_pass_agrees_with_eager(compiler, architecture, keep, expected):
    model = make_model(architecture)
    plain = passed(policy(model))
    assert compiler.called == []

    actual = passed(policy(model, compile=True, checkpointing=keep))

    assert_alike(actual, plain)
    assert set(compiler.called) == expected
    assert not compiles()


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # torch warns itself while it traces
@pytest.mark.usefixtures("_tiles")
def test_compiled_pass_agrees_with_eager_under_torch_compile(monkeypatch):
    monkeypatch.setattr("rlcomp.engine.compiling._compiled_functions", {})
    model = make_model()

    assert_alike(passed(policy(model, compile=True)), passed(policy(model)))
