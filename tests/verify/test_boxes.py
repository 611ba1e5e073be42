import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from components.reward.boxes import BoxOverlap, Detections, GuiAction, KeyFrames
from rlcomp.batch import encode_columns, encode_texts
from rlcomp.errors import ConfigError, DataError
from rlcomp.verify.boxes import (
    average_precision,
    dice,
    giou,
    gui_action,
    iou,
    is_box,
    keyframe_f1,
    mean_average_precision,
)

# Areas 8 and 6, they share 1 x 2 = 2: the union is 12; the box around both is 5 x 3 = 15.
ONE, OTHER = [0, 0, 4, 2], [3, 0, 5, 3]


def test_the_overlap_of_two_boxes():
    assert iou(ONE, OTHER) == pytest.approx(2 / 12)
    assert giou(ONE, OTHER) == pytest.approx(2 / 12 - 3 / 15)
    assert dice(ONE, OTHER) == pytest.approx(4 / 14)


def test_boxes_that_do_not_touch():
    assert iou([0, 0, 1, 1], [1, 0, 2, 1]) == 0.0
    assert iou([0, 0, 1, 1], [3, 3, 4, 4]) == 0.0
    assert dice([0, 0, 1, 1], [3, 3, 4, 4]) == 0.0
    assert giou([0, 0, 1, 1], [3, 3, 4, 4]) == pytest.approx(-14 / 16)  # 16 around, 2 of them boxes


side = st.tuples(st.integers(-20, 20), st.integers(1, 20)).map(lambda s: (s[0], s[0] + s[1]))
box = st.tuples(side, side).map(lambda s: [s[0][0], s[1][0], s[0][1], s[1][1]])


@given(box, box)
def test_the_laws_of_overlap(one, other):
    both = iou(one, other)

    assert iou(other, one) == both
    assert giou(other, one) == pytest.approx(giou(one, other))
    assert 0.0 <= both <= dice(one, other) <= 1.0
    assert dice(one, other) == pytest.approx(2 * both / (1 + both))
    assert -1.0 < giou(one, other) <= both
    assert (both == 1.0) == (one == other)


@pytest.mark.parametrize(
    "value",
    [
        None,
        5,
        "0,0,1,1",
        [0, 0, 1],
        [0, 0, 1, 1, 1],
        [0, 0, 0, 1],
        [2, 0, 1, 1],
        [0, 1, 1, 0],
        [0, 0, True, 1],
        [0, 0, float("nan"), 1],
        [0, 0, 10000000.0, 1],
        [0, 0, "1", 1],
    ],
)
def test_malformed_boxes(value):
    assert not is_box(value)
    assert is_box([0, 0, 1, 0.5])
    assert is_box([-9e6, 0, 9e6, 1])


def test_average_precision_by_hand():
    truth = [[0, 0, 1, 1], [5, 0, 6, 1]]
    first, second, miss = truth[0], [5, 0, 6, 1.25], [9, 0, 10, 1]  # second: IoU .8
    # By score: first is right, miss is wrong, second is right: precision 1, 1/2, 2/3.
    boxes, scores = [miss, second, first], [0.8, 0.7, 0.9]

    assert average_precision(boxes, scores, truth, 0.5) == pytest.approx((1 + 2 / 3) / 2)
    assert average_precision(boxes, scores, truth, 0.8) == pytest.approx((1 + 2 / 3) / 2)
    assert average_precision(boxes, scores, truth, 0.81) == pytest.approx(1 / 2)


def test_a_true_box_is_found_once():
    # The second is a double: precision 1, 1/2; one of two true boxes was found.
    truth = [[0, 0, 1, 1], [5, 0, 6, 1]]

    assert average_precision([truth[0], truth[0]], [0.9, 0.8], truth, 0.5) == 0.5


def test_average_precision_without_boxes():
    assert average_precision([], [], [[0, 0, 1, 1]], 0.5) == 0.0
    assert average_precision([], [], [], 0.5) == 1.0
    assert average_precision([[0, 0, 1, 1]], [1.0], [], 0.5) == 0.0


def test_the_mean_over_classes_and_thresholds():
    cat, dog = [0, 0, 1, 1], [5, 0, 6, 1]
    near = [5, 0, 6, 1.25]  # IoU .8 with the dog: right at .5 and .75, wrong at .9

    value = mean_average_precision(
        [cat, near], [0.9, 0.9], ["cat", "dog"], [cat, dog], ["cat", "dog"], (0.5, 0.75, 0.9)
    )

    assert value == pytest.approx((3 + 2) / 6)
    swapped = [[cat, dog], [1.0, 1.0], ["dog", "cat"], [cat, dog], ["cat", "dog"]]
    assert mean_average_precision(*swapped) == 0.0
    more = [[cat, dog], [1.0, 1.0], ["cat", "dog"], [cat], ["cat"]]
    assert mean_average_precision(*more) == 0.5
    assert mean_average_precision([], [], [], [], []) == 1.0


@pytest.mark.parametrize(
    ("bottom", "right"),
    [(1, 10), (1.25, 7), (2, 1), (2.1, 0)],  # IoU 1, .8, .5 and .48, of .5, .55, ... .95
)
def test_the_thresholds_are_those_of_coco(bottom, right):
    value = mean_average_precision([[0, 0, 1, bottom]], [1.0], ["a"], [[0, 0, 1, 1]], ["a"])

    assert value == pytest.approx(right / 10)


@pytest.mark.parametrize(
    ("frames", "truth", "score"),
    [
        ([1, 5], [5, 1], 1.0),
        ([1.5, 9], [1, 5], 0.5),
        ([1.6], [1], 0.0),
        ([1, 5], [5], 2 / 3),
        ([5], [1, 5], 2 / 3),
        ([1, 1.2, 1.4], [1.2], 0.5),  # one of three is matched: 2 * 1 / 4
        ([0.6, 1.4], [1, 1.9], 1.0),
        ([], [1], 0.0),
        ([1], [], 0.0),
        ([], [], 1.0),
    ],
)
def test_key_frames(frames, truth, score):
    assert keyframe_f1(frames, truth, tolerance=0.5) == score


def test_the_reward_of_a_box():
    row = {"prompt": "", "answer": "", "true_box": OTHER}
    row["response"] = "<answer>[0, 0, 4, 2]</answer>"

    assert BoxOverlap().score_row(row) == pytest.approx(2 / 12)
    assert BoxOverlap(metric="giou").score_row(row) == pytest.approx(2 / 12 - 3 / 15)
    assert BoxOverlap(metric="dice").score_row(row) == pytest.approx(4 / 14)
    assert BoxOverlap().score_row(row | {"response": "[3, 0, 5, 3]"}) == 0.0
    assert BoxOverlap(metric="giou").score_row(row | {"response": "no"}) == -1.0
    assert BoxOverlap(where="whole").score_row(row | {"response": "[3, 0, 5, 3]"}) == 1.0
    assert BoxOverlap().is_correct(0.5)
    assert not BoxOverlap(correct_from=0.6).is_correct(0.5)
    with pytest.raises(DataError, match=r"'true_box' is \[1\]: must be \[x1, y1, x2, y2\]"):
        BoxOverlap().score_row(row | {"true_box": [1]})


TRUTH = {"action": "click", "box": [0, 0, 10, 20], "element": "ok"}


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({"action": "click", "point": [10, 0], "element": "ok"}, (1, 1, 1, 1)),
        ({"action": "click", "point": [10.1, 5], "element": "ok"}, (1, 1, 0, 1)),
        ({"action": "click", "point": [5, 21], "element": "ok"}, (1, 1, 0, 1)),
        ({"action": "click", "point": [5, -1], "element": "no"}, (1, 1, 0, 0)),
        ({"action": "type", "point": [5, 5], "element": "ok"}, (1, 0, 0, 0)),
        ({"action": "click"}, (1, 1, 0, 0)),
        ({"action": "click", "point": [5], "element": "ok"}, (1, 1, 0, 1)),
        ({"action": "click", "point": [True, 5]}, (1, 1, 0, 0)),
        ({"action": "click", "point": ["5", 5]}, (1, 1, 0, 0)),
        ({"action": 5}, (0, 0, 0, 0)),
        ({}, (0, 0, 0, 0)),
        (None, (0, 0, 0, 0)),
        ([1], (0, 0, 0, 0)),
    ],
)
def test_the_parts_of_a_click(given, parts):
    scores = gui_action(given, TRUTH)

    assert tuple(scores[name] for name in ("format", "action", "point", "element")) == parts
    assert scores["all"] == float(all(parts))
    assert "text" not in scores


def test_the_typed_text():
    truth = {"action": "type", "text": "Hello, you"}

    assert gui_action({"action": "type", "text": "hello you"}, truth)["text"] == 1.0
    assert gui_action({"action": "type", "text": "hello"}, truth)["all"] == 0.0
    assert gui_action({"action": "type", "text": 5}, truth)["text"] == 0.0


@pytest.mark.parametrize("truth", [{}, {"action": 5}, {"action": "click", "box": [1, 2]}])
def test_a_malformed_true_action_is_refused(truth):
    with pytest.raises(DataError, match="true action"):
        gui_action({"action": "click"}, truth)


def test_the_reward_of_an_action():
    row = {"prompt": "", "answer": "", "true_action": {"action": "click", "box": [0, 0, 9, 9]}}
    row["response"] = '<answer>{"action": "click", "point": [10, 5]}</answer>'

    right = {"format": 1.0, "action": 1.0, "point": 0.0, "all": 0.0}
    assert GuiAction().score_row(row) == {**right, "text": None, "element": None}
    assert GuiAction(where="whole").score_row(row)["format"] == 0.0
    with pytest.raises(DataError, match="reward=gui_action needs the column 'true_action'"):
        GuiAction().score_row({"response": ""})


def actions(*pairs):
    """A batch of responses and true actions."""
    texts = [f"<answer>{json.dumps(given)}</answer>" for given, _ in pairs]
    empty = encode_texts([""] * len(pairs))
    entries = {"prompt": empty, "answer": empty, "response": encode_texts(texts)}
    entries["columns"] = encode_columns([{"true_action": truth} for _, truth in pairs])
    return TensorDict(entries, batch_size=[len(pairs)])


CLICK = {"action": "click", "box": [0, 0, 9, 9]}
HERE, BESIDE = ({"action": "click", "point": [x, 5]} for x in (3, 10))
TYPE = {"action": "type", "text": "a"}


def test_parts_without_a_weight_may_be_missing():
    batch = GuiAction()(actions((HERE, CLICK), (BESIDE, CLICK), (TYPE, TYPE)))

    assert batch["reward"].tolist() == [1.0, 0.0, 1.0]
    assert batch["reward_valid"].tolist() == [True] * 3
    assert batch["rewards", "point"].tolist()[:2] == [1.0, 0.0]
    assert batch["rewards", "point"][2].isnan()


def test_an_action_without_a_weighted_part_cannot_be_judged():
    own = GuiAction(weights={"action": 0.25, "point": 0.5})

    batch = own(actions((TYPE, TYPE), (BESIDE, CLICK), (HERE, CLICK)))

    assert batch["reward_valid"].tolist() == [False, True, True]
    assert batch["reward"].tolist() == [0.0, 0.25, 0.75]
    assert batch["correct"].tolist() == [False, False, True]


def test_a_part_that_an_action_does_not_have_is_refused():
    with pytest.raises(ConfigError, match="GuiAction: weights names 'pont'; did you mean 'point'"):
        GuiAction(weights={"pont": 1.0})


CAT, DOG = {"box": [0, 0, 1, 1], "label": "cat"}, {"box": [5, 0, 6, 1], "label": "dog"}


@pytest.mark.parametrize(
    ("given", "score"),
    [
        ([CAT, DOG], 1.0),
        ([DOG], 0.5),
        # A double in front, with a higher score or without scores: precision 1/2 for the dog.
        ([CAT, DOG | {"box": [7, 0, 8, 1]}, DOG], 0.75),
        ([CAT, DOG | {"score": 1}, DOG | {"box": [7, 0, 8, 1], "score": 2}], 0.75),
        ([CAT, DOG | {"score": 2}, DOG | {"box": [7, 0, 8, 1], "score": 1}], 1.0),
        ([], 0.0),
        ([CAT, DOG, {}], 0.0),
        ([CAT, DOG, 5], 0.0),
        ([CAT, DOG | {"label": 5}], 0.0),
        ([CAT, DOG | {"score": "high"}], 0.0),
        ([CAT, DOG | {"score": 10**400}], 0.0),
        ([CAT, DOG | {"score": math.nan}], 0.0),
        ([CAT] * 300, 0.5),
        ([CAT] * 301, 0.0),
        (None, 0.0),
    ],
)
def test_the_reward_of_detections(given, score):
    row = {"true_boxes": [CAT, DOG], "response": f"<answer>{json.dumps(given)}</answer>"}

    assert Detections().score_row(row) == pytest.approx(score)


def test_scores_and_classes_of_detections():
    row = {"true_boxes": [CAT, DOG], "response": json.dumps([CAT])}

    assert Detections().score_row(row) == 0.0
    assert Detections(where="whole").score_row(row) == 0.5
    assert Detections().is_correct(0.5)
    assert not Detections(correct_from=0.75).is_correct(0.5)
    with pytest.raises(DataError, match="the column 'true_boxes' is 5: must be a list"):
        Detections().score_row(row | {"true_boxes": 5})


def test_the_reward_of_key_frames():
    row = {"true_frames": [1, 5], "response": "<answer>[1.4, 9]</answer>"}

    assert KeyFrames().score_row(row) == 0.5
    assert KeyFrames(tolerance=0.3).score_row(row) == 0.0
    assert KeyFrames(tolerance=4).score_row(row) == 1.0
    assert KeyFrames(where="whole").score_row(row | {"response": "[1, 5]"}) == 1.0
    for text in ("5", "[true]", '["1"]', "[1, NaN]", f"[1{'0' * 400}]", "no"):
        assert KeyFrames().score_row(row | {"response": f"<answer>{text}</answer>"}) == 0.0
    with pytest.raises(DataError, match="'true_frames' is 'a': must be a list of numbers"):
        KeyFrames().score_row(row | {"true_frames": "a"})
