"""Checks of settings and of arguments."""

import pytest

from rlcomp.config.checks.values import check_arguments
from rlcomp.config.finding import messages
from rlcomp.config.plan import Plan
from rlcomp.config.reader import BROKEN, Node


def faults(target, keys=None, partial=False, **arguments):
    node = Node("slot", target, arguments, keys or {}, partial)
    return messages(check_arguments(Plan({}, {"slot": node}, {})))


MATCH = "components.reward.answer.ExactMatch"


def test_known_arguments_are_taken():
    assert faults(MATCH, strip=True) == []
    assert faults(MATCH) == []


def test_unknown_ones_are_told_unless_a_constructor_takes_any():
    assert faults(MATCH, strap=True) == [
        "slot.strap: slot (ExactMatch) takes no such argument; did you mean 'strip'? (known: "
        "column, strip, where)"
    ]
    assert faults("torch.nn.modules.linear.Identity", anything=True) == []


def test_an_old_name_is_told_under_its_new_one():
    (told,) = faults("components.learner.gradient.Learner", partial=True, epoch=3)

    assert told.startswith("slot.epoch: slot (Learner) takes no such argument; did you mean 'epoch")


def test_types_ranges_and_missing_arguments_are_told():
    assert faults(MATCH, strip="yes") == [
        "slot.strip is 'yes': must be true or false; set slot.strip=..."
    ]
    kl = "components.kl_controller.FixedKL"
    replay = "components.replay.memory_mapped.MemoryMappedReplay"
    assert faults(replay) == [
        "slot: slot (MemoryMappedReplay) needs 'directory'; set +slot.directory=..."
    ]
    assert faults(replay, partial=True) == []
    assert faults(kl, kl_coef=BROKEN) == []  # told where it is read
    assert faults(kl, kl_coef=Node("other", MATCH)) == [
        f"slot.kl_coef is a {MATCH}: must be a number; set slot.kl_coef=..."
    ]


@pytest.mark.parametrize(
    ("target", "name", "value"),
    [
        ("advantage.group.GDPO", "weights", lambda part: {"a": 1.0, "b": part}),
        ("advantage.group.GDPO", "weights", lambda part: {"a": {"b": [2.0, part]}, "c": 1.0}),
        ("worlds.running_sum.task.RunningSum", "probabilities", lambda part: [0.5, part]),
    ],
)
def test_what_is_told_elsewhere_of_a_part_of_a_value_is_not_told_again(target, name, value):
    target = f"components.{target}"

    (told,) = faults(target, partial=True, **{name: value("nonsense")})
    assert told.startswith(f"slot.{name} is {value('nonsense')}: ")
    assert faults(target, partial=True, **{name: value(BROKEN)}) == []


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (float("inf"), "must be finite"),
        (float("-inf"), "must be finite"),
        (float("nan"), "must be finite"),
        (10**400, "must be finite"),
        (100.5, "must be at most 100"),
        (101, "must be at most 100"),
        (100, None),
        (100.0, None),
        (1e-9, None),
        (True, None),
    ],
)
def test_a_learning_rate_is_finite_and_no_higher_than_any_that_learns(value, fault):
    told = faults("torch.optim.SGD", partial=True, lr=value)

    assert [line.split(": ")[1].split(";")[0] for line in told] == ([fault] if fault else [])


def test_other_numbers_may_be_higher():
    assert faults("torch.optim.SGD", partial=True, momentum=101.0) == []
    assert len(faults("torch.optim.SGD", partial=True, momentum=float("nan"))) == 1


def test_new_names_of_keys_are_held_to_those_declared():
    assert faults(MATCH, {"reward": "mine"}) == []
    (told,) = faults(MATCH, {"rewrd": "mine"})
    assert told.startswith("slot._keys_.rewrd: slot (ExactMatch) has no such key; did you mean 're")


def test_of_a_target_that_is_not_there_nothing_else_is_told():
    (told,) = faults("components.reward.answer.Nope", wrong=3)

    assert told.startswith("slot._target_ is components.reward.answer.Nope: ")


def test_a_share_that_is_a_count_is_told_what_it_is_a_share_of():
    assert faults("rlcomp.model.optimizer.Schedule", name="linear", warmup=100) == [
        "slot.warmup is 100: must be less than 1; it is a share of the phase's steps, 0.1 for the "
        "first tenth: set slot.warmup=0.1"
    ]


def test_settings_left_over_for_a_class_of_ones_own_can_be_deleted(tmp_path, monkeypatch):
    (tmp_path / "left_over.py").write_text("class Mine:\n    def __init__(self): pass\n")
    monkeypatch.syspath_prepend(tmp_path)

    (told,) = faults("left_over.Mine", epsilon=1e-6)

    assert told.endswith("; where its yaml sets it, delete it, '~slot.epsilon'")
