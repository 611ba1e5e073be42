import pytest
from tensordict import TensorDict

from components.reward.benchmark import ReasoningGymReward
from components.task.procedural import ReasoningGymTask
from rlcomp.batch import encode_texts
from rlcomp.data.examples import prompt_batch
from rlcomp.errors import ConfigError, DataError


def task(**changes):
    return ReasoningGymTask(**{"name": "leg_counting", "size": 6, **changes})


def answered(examples, responses):
    batch = prompt_batch(examples)
    batch["response"] = encode_texts(responses)
    return batch


def test_answers_to_puzzles_of_the_task_are_judged_by_their_checker():
    examples = [task().example(index) for index in (4, 1)]
    wrong = str(int(examples[1].answer) + 1)

    result = ReasoningGymReward()(answered(examples, [examples[0].answer, wrong]))

    assert result["reward"].tolist() == [1.0, 0.0]
    assert result["reward_valid"].tolist() == [True, True]


def test_the_place_of_the_answer_can_be_chosen():
    example = task().example(0)

    result = ReasoningGymReward(where="boxed")(
        answered([example], [rf"\boxed{{{example.answer}}}"])
    )

    assert result["reward"].tolist() == [1.0]


def test_the_partial_credit_of_the_checker_can_be_kept():
    # It gives .05 to a list that is not one of moves.
    example = task(name="knight_swap").example(0)

    plain, partial = (
        ReasoningGymReward(partial=kept)(answered([example], ["[]"]))["reward"].item()
        for kept in (False, True)
    )

    assert plain == 0.0
    assert partial == pytest.approx(0.05)


def test_a_row_without_its_puzzle_stops_the_run():
    batch = TensorDict(
        {key: encode_texts(["1"]) for key in ("prompt", "response", "answer")}, batch_size=[1]
    )

    with pytest.raises(DataError, match="needs the column 'reasoning_gym'"):
        ReasoningGymReward()(batch)
    assert ReasoningGymReward().needed_columns == {"reasoning_gym"}


def test_a_puzzle_is_determined_by_seed_and_index():
    assert task(seed=1).example(3) == task(seed=1).example(3)
    assert task(seed=1).example(3) != task(seed=2).example(3)
    assert len(task()) == 6


def test_the_template_words_the_question():
    example = task(prompt_template="Q: {question}A:").example(0)

    assert example.prompt.startswith("Q: Your task is")
    assert example.prompt.endswith("A:")
    assert example.columns["reasoning_gym"]["index"] == 0


@pytest.mark.parametrize("template", ["no question", "{question} {answer}"])
def test_a_wording_needs_the_question(template):
    with pytest.raises(ConfigError, match=r"must have \{question\} alone"):
        task(prompt_template=template)
