import dataclasses
import logging

import pytest
import torch
from hydra.utils import instantiate

from rlcomp.cli.describe import main
from rlcomp.config.compose import compose_config
from rlcomp.engine import engine as engines
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.engine import Engine
from rlcomp.engine.native import bf16x6, library
from rlcomp.engine.native.build import build
from rlcomp.errors import ConfigError
from rlcomp.model.adapters import lora
from rlcomp.model.critics import ActorCritic, Critic
from rlcomp.model.language_model import LanguageModel
from rlcomp.testing import tiny_model
from rlcomp.text.answers import encode_answers
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="abc")
AUTO, PACKED = Engine(), Engine(forward="packed")
OWN = Engine(forward="transformers")
KNOWN = ["gpt2", "llama", "qwen2", "qwen3"]
# Architecture, settings, and the reason against the packed pass.
UNKNOWN = [
    ("gpt_neox", {}, "its class is GPTNeoXForCausalLM"),
    ("mistral", {}, "its class is MistralForCausalLM"),
    ("gemma", {}, "its class is GemmaForCausalLM"),
    (
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0},
        "it has sliding-window attention",
    ),
    (
        "llama",
        {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}},
        "its rotary embedding is of type dynamic",
    ),
]


def make_model(architecture="qwen2", **overrides):
    sizes = {"num_hidden_layers": 2, "context_length": 32}
    return tiny_model(TOKENIZER, architecture=architecture, overrides=overrides, **sizes)


def policy(model, engine=AUTO, kind=LanguageModel):
    return kind(model=model, tokenizer=TOKENIZER, decoding=Decoding(), engine=engine)


def tampered():
    """A model of a supported class with other logits."""
    model = make_model()
    model.lm_head.register_forward_hook(lambda _, __, logits: logits * 1.001)
    return model


@pytest.mark.parametrize("architecture", KNOWN)
def test_supported_architectures_are_packed(architecture, caplog, monkeypatch):
    monkeypatch.setattr(engines, "warn_of_absence", lambda why: None)  # if no library is compiled
    caplog.set_level(logging.INFO)

    assert policy(make_model(architecture)).packs

    line, decoding = caplog.messages
    assert f"{architecture}: packed forward pass, linear layers by" in line
    assert decoding.startswith(f"{architecture}: decoding ")
    assert {record.levelno for record in caplog.records} == {logging.INFO}


def told(caplog, engine=AUTO, **model):
    """Return whether the native library is used, and the log."""
    caplog.set_level(logging.INFO)
    made = make_model()
    made = made.to(model["dtype"]) if model else made
    used = policy(made, engine).causal_forward.transformer.native
    lines = [line for line in caplog.messages if "attention, norms and softmax by " in line]
    return used, lines[-1].rpartition("attention, norms and softmax by ")[2]


def test_auto_uses_the_native_library_if_supported(caplog):
    build()

    assert told(caplog) == (True, "the native library")
    assert told(caplog, Engine(update="native")) == (True, "the native library")


def several_threads(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)


def no_library(monkeypatch):
    monkeypatch.setattr(engines, "why_missing", lambda: "it is gone")


NOT_NATIVE = {
    "asked": (Engine(update="torch"), {}, None, "engine.update=torch"),
    "half": (
        Engine(compute="bfloat16"),
        {},
        None,
        "the model computes in bfloat16, the library in float32",
    ),
    "double": (AUTO, {"dtype": torch.float64}, None, "the model computes in float64, the"),
    "threads": (AUTO, {}, several_threads, "torch has 2 threads, the library one"),
    "absent": (AUTO, {}, no_library, "it is gone"),
}


@pytest.mark.parametrize("case", NOT_NATIVE)
def test_the_log_gives_the_reason_against_the_native_library(caplog, monkeypatch, case):
    build()
    engine, model, change, why = NOT_NATIVE[case]
    if change:
        change(monkeypatch)

    used, note = told(caplog, engine, **model)

    assert not used
    assert note.startswith(f"torch ({why}")
    if case != "asked":
        asked = dataclasses.replace(engine, update="native")
        with pytest.raises(ConfigError, match=f"engine.update is native, but {why}.*update=auto"):
            told(caplog, asked, **model)


def test_the_native_library_and_the_pass_of_transformers_exclude_each_other():
    with pytest.raises(ConfigError, match=r"engine.update is native, which .* engine.update=torch"):
        Engine(forward="transformers", update="native")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("architecture", "settings", "why"), UNKNOWN)
def test_unsupported_architectures_fall_back_with_a_reason_in_the_log(
    architecture, settings, why, caplog
):
    model = make_model(architecture, **settings)
    caplog.set_level(logging.INFO)

    assert not policy(model).packs

    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        f"{architecture}: the forward pass of transformers, slower than ours: {why}"
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("architecture", "settings", "why"), UNKNOWN)
def test_packed_is_refused_for_unsupported_architectures(architecture, settings, why):
    model = make_model(architecture, **settings)

    with pytest.raises(ConfigError, match=rf"\({architecture}\): {why}; use engine=auto"):
        policy(model, PACKED)


def test_a_subclass_of_a_supported_model_falls_back():
    model = make_model()
    model.__class__ = type("Changed", (type(model),), {})

    assert AUTO.transformer(model) is None


def test_a_model_with_other_logits_falls_back(caplog):
    assert not policy(tampered()).packs

    assert "it gives other numbers than the model's own" in caplog.text
    with pytest.raises(ConfigError, match=r"it gives other numbers.*use engine=auto"):
        policy(tampered(), PACKED)


def test_one_different_logit_causes_a_fallback():
    model = make_model()
    first = torch.arange(model.config.vocab_size) == 0
    model.lm_head.register_forward_hook(lambda _, __, logits: logits + 0.1 * first)

    assert not policy(model).packs


def test_a_critic_with_other_states_falls_back():
    model = make_model()
    model.get_decoder().layers[0].register_forward_hook(lambda _, __, states: states * 1.5)

    assert not Critic(model=model).packs


def test_a_model_with_nan_weights_falls_back(caplog):
    model = make_model()
    with torch.no_grad():
        model.lm_head.weight.fill_(torch.nan)

    assert not policy(model).packs
    assert "it gives other numbers" in caplog.text


@pytest.mark.parametrize("kind", [LanguageModel, ActorCritic])
def test_forward_option_of_policies(kind):
    assert policy(make_model(), AUTO, kind).packs
    assert policy(make_model(), PACKED, kind).packs
    assert not policy(make_model(), OWN, kind).packs


def test_forward_option_of_critics():
    assert Critic(model=make_model(), engine=PACKED).packs
    assert not Critic(model=make_model(), engine=OWN).packs


def test_a_critic_of_a_model_with_dropout_is_packed():
    model = make_model("gpt2", resid_pdrop=0.5).train()

    assert Critic(model=model, engine=AUTO).packs
    assert model.training


def test_the_engine_adds_no_parameters():
    model = make_model()

    assert policy(model, PACKED).state_dict().keys() == policy(model, OWN).state_dict().keys()
    packed, own = Critic(model=model, engine=PACKED), Critic(model=model, engine=OWN)
    assert packed.state_dict().keys() == own.state_dict().keys()
    assert len(list(packed.parameters())) == len(list(own.parameters()))


def test_choosing_draws_no_random_numbers():
    model = make_model()
    before = torch.get_rng_state()

    AUTO.transformer(model)

    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("linear", ["torch", "onednn", "tf32", "bfloat16"])
def test_the_linear_option_sets_the_kernel(linear):
    transformer = Engine(linear=linear).transformer(make_model())

    assert transformer.kernel == linear
    assert transformer.head().kernel == linear


def kernel_of(engine=AUTO, **model):
    made = make_model()
    return policy(
        made.to(model["dtype"]) if model else made, engine
    ).causal_forward.transformer.kernel


@pytest.fixture
def unit(monkeypatch):
    """A machine with AMX, on which oneDNN is faster than torch."""
    monkeypatch.setattr(bf16x6, "why_missing_bf16x6", lambda: None)
    monkeypatch.setattr(engines, "faster_kernel", lambda: "onednn")


def test_auto_prefers_bf16x6_to_the_timed_kernels(unit):
    assert kernel_of() == "bf16x6"
    assert kernel_of(Engine(linear="bf16x6")) == "bf16x6"
    assert kernel_of(Engine(update="torch")) == "bf16x6"
    assert kernel_of(Engine(linear="torch")) == "torch"


@pytest.mark.parametrize(
    ("why", "engine", "model"),
    [
        ("the model computes in bfloat16, the library in float32", {"compute": "bfloat16"}, {}),
        ("the model computes in float64", {}, {"dtype": torch.float64}),
        ("torch has 2 threads, the library one", {}, {}),
        ("no unit", {}, {}),
    ],
)
def test_unsupported_bf16x6_falls_back_or_is_refused(unit, monkeypatch, why, engine, model):
    if "threads" in why:
        several_threads(monkeypatch)
    if why == "no unit":
        monkeypatch.setattr(bf16x6, "why_missing_bf16x6", lambda: why)

    assert kernel_of(Engine(**engine), **model) == "onednn"
    with pytest.raises(ConfigError, match=f"engine.linear is bf16x6, but {why}.*use auto or torch"):
        kernel_of(Engine(linear="bf16x6", **engine), **model)


def test_the_head_is_native_if_the_layers_are():
    build()

    assert policy(make_model()).causal_forward.transformer.head().native
    assert not policy(make_model(), Engine(update="torch")).causal_forward.transformer.head().native
    assert not policy(make_model().double()).causal_forward.transformer.head().native


@pytest.mark.parametrize("argument", ["forward", "linear", "compute"])
def test_unknown_values_are_refused(argument):
    with pytest.raises(ConfigError, match=f"{argument}.*fast"):
        Engine(**{argument: "fast"})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("auto", Engine()),
        ("portable", Engine(linear="torch", update="torch")),
        ("bfloat16", Engine(linear="bfloat16")),
        ("tf32", Engine(linear="tf32")),
        ("half", Engine(linear="torch", compute="bfloat16")),
        ("compiled", Engine(linear="torch", compute="bfloat16", compile=True)),
        ("transformers", Engine(forward="transformers", linear="torch", update="torch")),
    ],
)
def test_every_option_builds(name, expected):
    config = compose_config(["recipe=grpo", f"engine={name}"])

    assert instantiate(config.engine) == expected


@pytest.mark.parametrize("value", ["none", "critic", "head"])
def test_policy_and_critic_take_the_engine_of_the_run(value):
    advantage = "group_mean_std" if value == "none" else "gae"
    config = compose_config(
        ["recipe=grpo", "engine=transformers", f"value={value}", f"advantage={advantage}"]
    )

    assert config.policy.engine.forward == "transformers"
    assert value != "critic" or config.critic.engine.forward == "transformers"


def test_a_run_with_another_engine_is_described(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["rlcomp-describe", "recipe=grpo", "engine=transformers"])

    main()

    assert "phase rl: 150 steps" in capsys.readouterr().out


def test_adapters_added_later_take_effect():
    model = make_model()
    packed, own = policy(model, PACKED), policy(model, OWN)
    lora(model=model, rank=2, alpha=4.0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.fill_(0.5)
    batch = encode_answers(own, ["a"], ["bc"])

    torch.testing.assert_close(packed.log_probs(batch), own.log_probs(batch), atol=1e-5, rtol=0)


@pytest.mark.parametrize("linear", ["onednn", "bf16x6", "tf32", "bfloat16"])
def test_an_ineffective_linear_option_is_refused(linear):
    with pytest.raises(ConfigError, match=f"engine.linear is {linear}.*engine.forward=auto"):
        Engine(forward="transformers", linear=linear)


def test_an_ineffective_compute_option_is_refused():
    with pytest.raises(ConfigError, match=r"engine.compute is bfloat16.*engine.forward=auto"):
        Engine(forward="transformers", compute="bfloat16")


def test_the_log_names_a_lost_compute_option(caplog):
    caplog.set_level(logging.WARNING)

    policy(make_model("gpt_neox"), Engine(compute="bfloat16"))

    assert caplog.messages[0].endswith("engine.compute=bfloat16 is lost")


def test_an_ineffective_compile_option_is_refused_or_named(caplog):
    caplog.set_level(logging.WARNING)
    with pytest.raises(ConfigError, match=r"engine.compile is true.*engine.compile=false"):
        Engine(forward="transformers", compile=True)

    policy(make_model("gpt_neox"), Engine(compile=True))

    assert caplog.messages[0].endswith("; engine.compile is lost")
    assert "engine.compute" not in caplog.messages[0]


def decoding_line(caplog, engine, decoding=None, **settings):
    caplog.set_level(logging.INFO)
    LanguageModel(
        model=make_model("llama", **settings),
        tokenizer=TOKENIZER,
        decoding=decoding or Decoding(),
        engine=engine,
    )
    return caplog.messages[-1]


# Options, and the reason for the torch loop.
TORCH = [
    ({"decode": "torch"}, {}, "engine.decode is torch"),
    ({}, {"top_p": 0.9}, "it has no filters, and decoding.top_p is 0.9"),
    ({}, {"top_k": 2}, "it has no filters, and decoding.top_k is 2"),
    ({}, {"min_p": 0.1}, "it has no filters, and decoding.min_p is 0.1"),
    ({"linear": "bfloat16"}, {}, "engine.linear is bfloat16"),
    ({"compute": "bfloat16"}, {}, "engine.compute is bfloat16"),
]


@pytest.mark.parametrize(("asked", "filters", "why"), TORCH)
def test_the_log_gives_the_reason_for_the_torch_loop(asked, filters, why, caplog, monkeypatch):
    monkeypatch.setattr(engines, "why_missing", lambda: None)

    line = decoding_line(caplog, Engine(**asked), Decoding(**filters))

    assert line == f"llama: decoding by torch: {why}"
    if "decode" not in asked:
        with pytest.raises(ConfigError, match=f"engine.decode is native, but {why}; use engine.de"):
            decoding_line(caplog, Engine(decode="native", **asked), Decoding(**filters))


def test_the_log_names_the_native_loop_or_the_reason_against_it(caplog, monkeypatch):
    monkeypatch.setattr(engines, "why_missing", lambda: None)
    assert decoding_line(caplog, AUTO) == "llama: decoding in C++"
    monkeypatch.setattr(engines, "why_missing", lambda: "it is not compiled")
    assert decoding_line(caplog, AUTO) == "llama: decoding by torch: it is not compiled"


def test_an_unsupported_activation_is_decoded_by_torch(caplog, monkeypatch):
    monkeypatch.setattr(engines, "why_missing", lambda: None)
    line = decoding_line(caplog, AUTO, hidden_act="gelu")
    assert line == "llama: decoding by torch: its activation is GELUActivation"


def test_native_decoding_needs_the_packed_forward_pass(monkeypatch):
    monkeypatch.setattr(engines, "why_missing", lambda: None)
    with pytest.raises(ConfigError, match=r"engine.decode is native, which has no effect"):
        Engine(forward="transformers", decode="native")
    with pytest.raises(ConfigError, match=r"but the forward pass is that of transformers; use eng"):
        Engine(decode="native").why_torch_loop(None, Decoding())
    assert Engine().why_torch_loop(None, Decoding()) == "the forward pass is that of transformers"


@pytest.fixture
def no_compiled_library(monkeypatch):
    monkeypatch.setattr(engines, "why_missing", lambda: "compile it")
    library.warn_of_absence.cache_clear()
    yield
    library.warn_of_absence.cache_clear()


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_a_missing_library_is_warned_of_once(no_compiled_library, caplog):
    model = tiny_model(TOKENIZER)
    AUTO.transformer(model)
    AUTO.backbone(model, model.get_decoder())

    (line,) = warnings(caplog)
    assert line.endswith("native library and take about twice as long: compile it")


@pytest.mark.parametrize(
    "engine",
    [Engine(decode="torch", update="torch"), OWN, Engine(compute="bfloat16")],
    ids=["torch", "transformers", "bfloat16"],
)
def test_no_warning_if_the_library_would_not_be_used(no_compiled_library, caplog, engine):
    engine.transformer(tiny_model(TOKENIZER))

    assert warnings(caplog) == []


@pytest.mark.parametrize("engine", [Engine(decode="torch"), Engine(update="torch")])
def test_a_warning_if_either_use_is_auto(no_compiled_library, caplog, engine):
    engine.transformer(tiny_model(TOKENIZER))

    assert len(warnings(caplog)) == 1


def test_no_warning_if_the_library_is_present(monkeypatch, caplog):
    monkeypatch.setattr(engines, "why_missing", lambda: None)

    AUTO.transformer(tiny_model(TOKENIZER))

    assert warnings(caplog) == []
