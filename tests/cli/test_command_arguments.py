"""Order of arguments, and the parser of the other programs."""

import pytest

from rlcomp.cli.command_arguments import Parser, overrides_first
from rlcomp.errors import UserError


@pytest.mark.parametrize(
    ("words", "whole"),
    [
        ("base=a --cfg job model=b", "base=a model=b --cfg job"),
        ("a=1 -cd mine ~b --info all c=2", "a=1 ~b c=2 -cd mine --info all"),
        ("a=1 --cfg=job b=2", "a=1 b=2 --cfg=job"),
        ("a=1 --info b=2", "a=1 b=2 --info"),
        ("-m a=1 -c job b=2", "a=1 b=2 -m -c job"),
        # As they stand: nothing is parted, or Hydra will not take them at all.
        ("-cd mine -m a=1 b=2", "-cd mine -m a=1 b=2"),
        ("a=1 b=2 --cfg job", "a=1 b=2 --cfg job"),
        ("a=1 --lr 2 b=3", "a=1 --lr 2 b=3"),
        ("--cfg", "--cfg"),
    ],
)
def test_overrides_stand_together(words, whole):
    assert overrides_first(words.split()) == whole.split()


@pytest.fixture
def parser():
    found = Parser(prog="it")
    found.add_argument("run")
    found.add_argument("--new-tokens", type=int)
    found.add_argument("--merge", action="store_true")
    found.add_argument("--dtype", choices=["float32", "bfloat16"])
    return found


@pytest.mark.parametrize("words", [["--new_tokens", "3"], ["--new_tokens=3"], ["--new-tokens=3"]])
def test_underscores_and_dashes_are_one(parser, words):
    given = parser.parse(["a_b", *words])

    assert (given.run, given.new_tokens, given.merge) == ("a_b", 3, False)


def test_values_keep_their_underscores(parser):
    assert parser.parse(["--merge", "--", "--new_tokens"]).run == "--new_tokens"
    assert parser.parse(["a_b=c_d"]).run == "a_b=c_d"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["a", "--merged"], r"^--merged: there is no such option; did you mean '--merge'\?"),
        (["a", "--depth=3"], r"^--depth=3: there is no such option \(known: .*--merge"),
        (["a", "-m"], r"^-m: there is no such option \(known: .*--merge"),
        (["a", "--mer"], r"^--mer: there is no such option; did you mean '--merge'"),
        (["a", "b"], r"^b: one word too many; it --help lists the arguments$"),
        (
            ["a", "--dtype", "fp16"],
            "^--dtype fp16: .* float32 or bfloat16: it a --dtype bfloat16$",
        ),
        (["a", "--dtype=fp32"], "^--dtype fp32: .*: it a --dtype=float32$"),
        ([], r"^the following arguments are required: run; it --help lists the arguments$"),
        (["a", "--new-tokens", "x"], r"^argument --new-tokens: invalid int value: 'x'; it --help"),
    ],
)
def test_refusals_are_one_line_with_a_remedy(parser, words, told):
    with pytest.raises(UserError, match=told):
        parser.parse(words)


def test_words_may_stand_on_both_sides_of_options():
    both = Parser(prog="it")
    both.add_argument("words", nargs="+")
    both.add_argument("--merge", action="store_true")

    assert both.parse(["a=1", "--merge", "b=2"]).words == ["a=1", "b=2"]


@pytest.mark.parametrize("words", [["--prompt", "a b>"], ["--prompt=a b>"]])
def test_an_option_whose_value_stands_alone_is_told_with_the_whole_line(words):
    asking = Parser(prog="it", positional_names=("--prompt",))
    asking.add_argument("run")
    asking.add_argument("prompts", nargs="+")
    asking.add_argument("-n", type=int)

    with pytest.raises(UserError) as refused:
        asking.parse(["r", *words, "-n", "2"])
    assert str(refused.value) == (
        "--prompt: its value stands without an option; write it r 'a b>' -n 2"
    )
    assert asking.parse(["r", "--", "--prompt"]).prompts == ["--prompt"]


@pytest.mark.parametrize(
    ("word", "guess"), [("--output", ""), ("--trsut", ""), ("--pomrpt", "--prompt")]
)
def test_an_option_is_guessed_by_its_name_and_never_the_one_that_trusts(word, guess):
    parser = Parser(prog="p")
    parser.add_argument("needed")
    parser.add_argument("--trust")
    parser.add_argument("--prompt")

    with pytest.raises(UserError, match=f"^{word}: there is no such option") as told:
        parser.parse([word, "x"])
    assert (f"did you mean '{guess}'?" in str(told.value)) == bool(guess)
    assert "--trust" not in str(told.value)
