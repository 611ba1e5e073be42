"""What a tokenizer.json may make of a text, counted by hand, and what is refused of it."""

import json

import pytest

from rlcomp.text import tokenizer_trial as module
from rlcomp.text.tokenizer import byte_tokenizer
from rlcomp.text.tokenizer_trial import growth, try_tokenizer


def rule(content, string=None, regex=None):
    return {
        "type": "Replace",
        "pattern": {"String": string} if regex is None else {"Regex": regex},
        "content": content,
    }


@pytest.mark.parametrize(
    ("rules", "made"),
    [
        ([], 1),
        ([rule("b", "a")], 1),
        ([rule("", "a")], 1),
        ([rule("abc", "a")], 3),
        ([rule("abcd", "ab")], 2),
        ([rule("a", "ab")], 1),  # never less than what stands
        ([rule("bb", "a"), rule("ccc", "b")], 6),
        ([rule("ccc", "b"), rule("bb", "a")], 3),  # the first is over when a b is written
        ([rule("bb", "a"), rule("ccc", "d")], 3),
        ([rule("bb", "a"), rule("ccc", "B")], 6),  # case may change in between
        ([rule("BB", "a"), rule("ccc", "b")], 6),
        ([rule("bb", "a"), rule("cc", regex=".")], 6),  # 2 by 1 + 2: it may match between any two
        ([rule("cc", regex="x"), rule("bb", "a")], 3),
        ([rule("bb", ""), rule("", "q")], 3),
        ([rule("bb", "a"), rule("cc", "b"), rule("dd", "b")], 4),
        ([{"content": "xy"}], 3),
        ([{"pattern": "a", "content": "xy"}], 3),
    ],
)
def test_growth_of_rules(rules, made):
    assert growth(rules) == made


def test_more_than_a_thousand_rules_are_not_counted():
    assert growth([rule("b", "a")] * 1000) == 1
    assert growth([rule("b", "a")] * 1001) == float("inf")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tokenizer.json"

    def write(**parts):
        whole = json.loads(byte_tokenizer().backend_tokenizer.to_str()) | parts
        path.write_text(json.dumps(whole))
        return str(path)

    return write


def test_a_valid_tokenizer_has_no_fault(file):
    assert try_tokenizer(file()) is None


@pytest.mark.parametrize("part", ["normalizer", "decoder"])
def test_multiplying_rules_are_a_fault_at_any_depth(file, part):
    def nested(length):
        return {"type": "Sequence", f"{part}s": [rule("é" * length, "é"), rule("é" * 64, "é")]}

    assert try_tokenizer(file(**{part: nested(64)})) is None  # 4096
    told = try_tokenizer(file(**{part: nested(65)}))
    assert f"rules of its {part} can make 4e+03 characters of one, more than 4,096" in told
    told = try_tokenizer(file(**{part: {"type": "Sequence", "x": {"y": [nested(65)]}}}))
    assert part in told


def test_invalid_json_is_a_fault_and_an_invalid_tokenizer_is_left_to_its_reader(file, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text("{")
    assert "tokenizer.json cannot be read" in try_tokenizer(str(path))
    path.write_text('{"model": 3}')
    assert try_tokenizer(str(path)) is None


class Endless:
    """A tokenizer of so many tokens a text, or that raises."""

    def __init__(self, count=1, error=None):
        self.count, self.error, self.seen, self.ids = count, error, [], [0] * count

    @classmethod
    def from_file(cls, file):
        return cls.made

    def no_padding(self):
        self.seen.append("padding")

    def no_truncation(self):
        self.seen.append("truncation")

    def encode(self, text):
        self.seen.append(text)
        if self.error is not None:
            raise self.error
        self.ids = [0] * (self.count if text == "" else 1)
        return self

    def decode(self, ids):
        return ""


@pytest.fixture
def made(monkeypatch):
    def use(tokenizer):
        Endless.made = tokenizer
        monkeypatch.setattr(module, "Tokenizer", Endless)
        return tokenizer

    return use


def test_a_text_may_have_a_thousand_tokens_more_than_its_characters(file, made):
    path = file()
    made(Endless(1000))
    assert try_tokenizer(path) is None
    made(Endless(1001))
    assert "makes 1,001 tokens of 0 characters" in try_tokenizer(path)


def test_a_pattern_that_never_ends_is_a_fault(file, made):
    path = file()
    made(Endless(error=RuntimeError("retry-limit-in-match over")))
    assert "a regular expression in it does not end on ''" in try_tokenizer(path)
    tried = made(Endless(error=ValueError("no token")))
    assert try_tokenizer(path) is None
    assert tried.seen[:3] == ["padding", "truncation", ""]
    assert "a" * 32 + "!" in tried.seen
    assert len(tried.seen) == 2 + len(module._PROBES) == 2 + 102


def test_the_template_renderer_is_imported_in_the_background(tmp_path, monkeypatch):
    imported = []
    monkeypatch.setattr(module.importlib, "import_module", imported.append)

    class Thread:
        def __init__(self, target, args, daemon):
            assert daemon
            self.start = lambda: target(*args)

    monkeypatch.setattr(module.threading, "Thread", Thread)
    settings = tmp_path / "tokenizer_config.json"

    module._import_renderer(tmp_path)
    settings.write_text("{}")
    module._import_renderer(tmp_path)
    assert imported == []
    settings.write_text('{"chat_template": "x"}')
    module._import_renderer(tmp_path)
    assert imported == ["rlcomp.text.template_rendering"]
    settings.unlink()
    (tmp_path / "chat_template.jinja").write_text("x")
    module._import_renderer(tmp_path)
    assert len(imported) == 2


@pytest.mark.parametrize("pattern", ["", 5, None])
def test_a_rule_without_a_text_to_replace_may_apply_everywhere(pattern):
    rules = [
        {"pattern": {"String": "a"}, "content": "aa"},
        {"pattern": {"String": pattern}, "content": "bb"},
    ]

    # Twice by the first, and 1 + 2 at each of those places.
    assert growth(rules) == 6.0
