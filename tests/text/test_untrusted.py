"""Folders of strangers: read under limits of time, memory and size, by their regular files only."""

import json
import os
import shutil
import socket
import time
from functools import partial

import pytest
from tokenizers import Regex, normalizers, pre_tokenizers

from rlcomp.errors import ConfigError, DataError
from rlcomp.model.build import load_causal_lm
from rlcomp.testing import tiny_model
from rlcomp.text import chat_template, tokenizer
from rlcomp.text.chat_template import ChatTemplate
from rlcomp.text.tokenizer import byte_tokenizer, encode_all, load_tokenizer
from rlcomp.text.tokenizer_trial import growth, try_tokenizer
from rlcomp.text.untrusted_input import call_within, check_regular, untrusted_call

TOKENIZER = byte_tokenizer()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    tiny_model(TOKENIZER).save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "model")


def fifo(file):
    os.mkfifo(file)


def a_socket(file):
    address = os.path.relpath(file)
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(address if len(address) < 100 else str(file))


def link_to(target, file):
    file.symlink_to(target)


def link_to_fifo(file):
    os.mkfifo(file.with_name("elsewhere"))
    file.symlink_to(file.with_name("elsewhere"))


NAMES = ("model.safetensors", "config.json", "chat_template.jinja", "merges.txt", "tokenizer.json")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "make", [fifo, link_to_fifo, partial(link_to, "/dev/zero")], ids=["fifo", "link", "device"]
)
def test_a_file_that_is_not_regular_raises_with_its_name(folder, name, make):
    (folder / name).unlink(missing_ok=True)
    make(folder / name)

    with pytest.raises(DataError) as error:
        load_causal_lm(path=str(folder), tokenizer=TOKENIZER, context_length=8)

    assert name in str(error.value) or "elsewhere" in str(error.value)
    assert "regular files" in str(error.value)


def test_sockets_and_additional_templates_are_checked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "additional_chat_templates").mkdir()
    fifo(tmp_path / "additional_chat_templates" / "tool_use.jinja")
    with pytest.raises(DataError, match=r"tool_use\.jinja is a FIFO"):
        check_regular(tmp_path)

    shutil.rmtree(tmp_path / "additional_chat_templates")
    a_socket(tmp_path / "x")
    with pytest.raises(DataError, match="x is a socket"):
        check_regular(tmp_path)


def test_a_link_to_a_regular_file_is_read(folder, tmp_path):
    for file in [*folder.iterdir()]:
        file.rename(tmp_path / file.name)
        file.symlink_to(tmp_path / file.name)

    assert load_tokenizer(path=str(folder)).get_vocab() == TOKENIZER.get_vocab()
    assert load_causal_lm(path=str(folder), tokenizer=TOKENIZER, context_length=8)


@pytest.mark.parametrize(
    ("name", "size"),
    [("config.json", 1 << 24), ("tokenizer.json", 1 << 27), ("chat_template.jinja", 1 << 18)],
)
def test_a_file_beyond_its_size_raises_without_being_read(folder, name, size):
    with (folder / name).open("ab") as file:
        file.truncate(size + 1)

    with pytest.raises(DataError, match=rf"{name} cannot be read: it is larger than {size:,} byte"):
        load_tokenizer(path=str(folder))


def test_weights_larger_than_the_memory_raise_before_reading(folder, monkeypatch):
    numbers = sum(one.numel() for one in tiny_model(TOKENIZER).parameters())
    load = partial(load_causal_lm, path=str(folder), tokenizer=TOKENIZER, context_length=8)

    monkeypatch.setattr("rlcomp.model.pretrained.machine_memory", lambda: (4 * numbers, 0))
    assert load()
    monkeypatch.setattr("rlcomp.model.pretrained.machine_memory", lambda: (4 * numbers - 1, 0))
    with pytest.raises(DataError, match="take 0 GiB in float32, and this machine has 0"):
        load()
    assert load(dtype="bfloat16")


def test_a_large_header_of_weights_raises(folder):
    with (folder / "model.safetensors").open("r+b") as file:
        file.write((1 << 26).to_bytes(8, "little"))
        file.truncate(1 << 27)

    with pytest.raises(DataError, match="its header is larger than 33,554,432 bytes"):
        load_causal_lm(path=str(folder), tokenizer=TOKENIZER, context_length=8)


def test_a_deeply_nested_config_raises_one_message(folder):
    for depth in (500, 900, 990, 2000, 10**6):
        (folder / "config.json").write_text('{"a": ' + "[" * depth + "]" * depth + "}")
        with pytest.raises(DataError, match=r"config\.json"):
            load_causal_lm(path=str(folder), tokenizer=TOKENIZER, context_length=8)


# Tokenizers.


def saved(folder, change):
    changed = byte_tokenizer()
    change(changed.backend_tokenizer)
    changed.save_pretrained(folder)
    return str(folder)


def replace_rules(*pairs):
    def change(backend):
        backend.normalizer = normalizers.Sequence([normalizers.Replace(*pair) for pair in pairs])

    return change


def split_pattern(pattern):
    def change(backend):
        backend.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")

    return change


HOSTILE = {
    "doubling": (replace_rules(*[("a", "aa")] * 40), "Replace rules of its normalizer can make"),
    "between characters": (
        replace_rules(*[(Regex("(?=a)"), "a")] * 40),
        "Replace rules of its norm",
    ),
    "in turn": (
        replace_rules(*[("a", "b" * 99), ("b", "c" * 99)]),
        "can make 1e+04 characters of one",
    ),
    "in capitals": (
        replace_rules(*[("a", "B" * 99), ("b", "c" * 99)]),
        "can make 1e+04 characters",
    ),
    "backtracking": (split_pattern(r"(x+x+)+y"), "does not end on 'xxxx"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_tokenizer_that_multiplies_or_never_ends_raises(tmp_path, name):
    change, told = HOSTILE[name]

    with pytest.raises(DataError) as error:
        load_tokenizer(path=saved(tmp_path, change))

    assert told in str(error.value)
    assert "tokenizer.json" in str(error.value)


def test_padding_and_a_post_processor_are_bounded(tmp_path):
    path = saved(tmp_path, lambda backend: backend.enable_padding(length=4))
    whole = json.loads((tmp_path / "tokenizer.json").read_text())
    whole["padding"]["strategy"] = {"Fixed": 10**13}
    (tmp_path / "tokenizer.json").write_text(json.dumps(whole))
    assert encode_all(load_tokenizer(path=path), ["a"]) == encode_all(TOKENIZER, ["a"])

    piece = {"SpecialToken": {"id": "<eos>", "type_id": 0}}
    ids = {"<eos>": {"id": "<eos>", "ids": [1], "tokens": ["<eos>"]}}
    whole["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [piece] * 2000 + [{"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": ids,
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(whole))
    with pytest.raises(DataError, match="it makes 2,000 tokens of 0 characters"):
        load_tokenizer(path=path)


def test_a_long_special_token_raises(folder):
    file = folder / "tokenizer_config.json"
    settings = json.loads(file.read_text())

    file.write_text(json.dumps({**settings, "eos_token": "e" * ((1 << 18) + 1)}))
    with pytest.raises(DataError, match="it has a text of 262,145 characters: eeee"):
        load_tokenizer(path=str(folder))


def test_too_many_added_tokens_raise(tmp_path):
    file = tmp_path / "tokenizer.json"

    file.write_text(json.dumps({"added_tokens": [0] * 100_001}))
    assert "it has 100,001 added_tokens, more than 100,000" in (try_tokenizer(str(file)) or "")
    file.write_text(json.dumps({"added_tokens": [0] * 100_000}))
    assert try_tokenizer(str(file)) is None  # what it is, its reader says


def rule(pattern, content, kind="String"):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


@pytest.mark.parametrize(
    ("rules", "wanted"),
    [
        ([], 1.0),
        ([rule(" ", "▁")] * 20, 1.0),  # as of most tokenizers
        ([rule("abc", "d")], 1.0),
        ([rule("ab", "xyz")], 1.5),
        # None of them applies to what another one writes.
        ([rule(mark, "...") for mark in "…⋯⋮⋱"], 3.0),
        ([rule("…", "..."), rule(".", "!!")], 6.0),
        ([rule(".", "!!"), rule("…", "...")], 3.0),
        ([rule(" {2,}", " ", "Regex")] * 3, 8.0),
        ([rule("x", "", "Regex")] * 50, 1.0),
        ([rule("", "ab")], 3.0),
        ([{"type": "Replace"}], 1.0),
        ([rule("a", "b")] * 1001, float("inf")),
    ],
)
def test_the_growth_of_rules(rules, wanted):
    assert growth(rules) == wanted


def test_rules_of_a_decoder_count(tmp_path):
    path = saved(tmp_path, lambda backend: None)
    whole = json.loads((tmp_path / "tokenizer.json").read_text())
    whole["decoder"] = {"type": "Sequence", "decoders": [rule("a", "aa")] * 13}
    (tmp_path / "tokenizer.json").write_text(json.dumps(whole))

    with pytest.raises(DataError, match=r"rules of its decoder can make 8e\+03 characters of one"):
        load_tokenizer(path=path)


def test_a_tokenizer_that_never_ends_on_a_text_raises_in_time(tmp_path, monkeypatch):
    loaded = load_tokenizer(path=saved(tmp_path, split_pattern(r"((QR)+)+$|[\s\S]")))
    monkeypatch.setattr(tokenizer, "_SECONDS", 0.2)
    slow = ("QR" * 18 + "!") * 300  # each run below the limit of the regular expressions

    start = time.monotonic()
    with pytest.raises(DataError, match=r"takes more than 0\.7\d* s for 1 texts"):
        encode_all(loaded, [slow])

    assert time.monotonic() - start < 5
    assert encode_all(loaded, ["Q"]) == encode_all(TOKENIZER, ["Q"])


def test_a_panic_of_a_tokenizer_raises_with_the_text(tmp_path):
    loaded = load_tokenizer(path=saved(tmp_path, split_pattern("(QR)*" * 8 + r"z|[\s\S]")))

    with pytest.raises(DataError, match="fails on one of 1 texts, of which the first is 'QRQR"):
        encode_all(loaded, ["QR" * 60 + " "])  # which a table of bytes spells otherwise


def test_call_within_returns_the_value_or_raises():
    assert call_within(5, lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        call_within(5, lambda: 1 / 0)
    with pytest.raises(TimeoutError, match=r"more than 0\.05 s"):
        call_within(0.05, lambda: time.sleep(1))


# Chat templates.

STOP = "{{ eos_token }}"
TURNS = "{% for m in messages %}{{ m.content }}" + STOP + "{% endfor %}"
NEVER = {
    "loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "a power": "{{ 10 ** (10 ** 10) }}",
    "macros": "{% macro g(n) %}{{ g(n-1) ~ g(n-1) if n }}{% endmacro %}{{ g(40) }}",
}
LARGE = {
    "centred": "{{ 'a' | center(9 * 10 ** 10) }}",
    "a format": "{{ '%99999999999d' % 1 }}",
    "doubled": "{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}"
    "{% endfor %}",
}


def template(text):
    changed = byte_tokenizer()
    changed.chat_template = text
    return ChatTemplate(changed, None, {})


@pytest.mark.slow
@pytest.mark.parametrize("name", NEVER)
def test_a_template_that_never_ends_raises_in_time(name, monkeypatch):
    monkeypatch.setattr(chat_template, "_SECONDS", 0.5)

    start = time.monotonic()
    with pytest.raises(ConfigError, match=r"chat template.* takes more than 0\.5 s to read"):
        template(NEVER[name] + TURNS)
    assert time.monotonic() - start < 8


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_a_template_that_fills_the_memory_raises(name):
    with pytest.raises(ConfigError, match=r"takes more than (4 GiB|10 s) to read|OverflowError"):
        template(LARGE[name] + TURNS)


def test_a_template_of_many_characters_raises_in_the_worker():
    with pytest.raises(ConfigError, match=r"takes more than 4 GiB to read"):
        template("{{ 'a' * 10 ** 11 }}" + TURNS)


def test_a_recursive_template_raises():
    with pytest.raises(ConfigError, match=r"cannot render the turns user, assistant \(Recursion"):
        template("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}" + TURNS)


def test_a_large_template_of_a_tokenizer_raises():
    with pytest.raises(ConfigError, match=r"has 262,145 characters, more than 262,144"):
        template(TURNS + "x" * ((1 << 18) + 1 - len(TURNS)))
    assert template(TURNS + "x" * ((1 << 18) - len(TURNS))).stop == "<eos>"


def test_a_call_that_dies_raises_and_the_next_one_succeeds():
    call = partial(untrusted_call, seconds=5, subject="the thing", remedy="mend it")

    with pytest.raises(DataError, match=r"^the thing cannot be read .*: mend it$"):
        call("os._exit", {"status": 3})
    assert call("builtins.dict", {"a": 1}) == {"a": 1}
