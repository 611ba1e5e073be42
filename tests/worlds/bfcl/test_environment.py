import json

import pytest

from components.worlds.bfcl.environment import BfclEnvironment
from components.worlds.bfcl.task import Bfcl
from rlcomp.episodes.tool_calls import parse_python_calls
from rlcomp.errors import ConfigError, DataError, RlcompWarning
from rlcomp.interfaces.environment import Environment, Turn
from rlcomp.interfaces.task import Example

ROOT = {"home": {"type": "directory", "contents": {"a": {"type": "file", "content": "x"}}}}
EPISODE = {
    "id": "one",
    "question": [
        [{"role": "user", "content": "Copy {a} to b."}],
        [{"role": "user", "content": "How long is it?"}],
    ],
    "initial_config": {"GorillaFileSystem": {"root": ROOT}},
    "involved_classes": ["GorillaFileSystem"],
    "excluded_function": ["mv"],
    "ground_truth": [["cp('a', 'b')"], ["wc(file_name='b', mode='c')"]],
}


def call(function, /, **arguments):
    return f"<tool_call>{json.dumps({'name': function, 'arguments': arguments})}</tool_call>"


def written(folder, *rows):
    path = folder / "episodes.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def episode(tmp_path):
    return Bfcl(path=written(tmp_path, EPISODE), prompt_template="{question}").example(0)


@pytest.fixture
def begun(episode):
    def begin(**arguments):
        made = BfclEnvironment(**arguments)
        made.reset(episode, 0)
        return made

    return begin


def answer(turn):
    (text,) = turn.observation.split("<tool_response>")[1:]
    assert turn.closing == "</tool_response>"
    return json.loads(text)


def test_an_episode_is_solved_by_state_and_requested_values(begun, episode):
    made = begun()
    assert isinstance(made, Environment)
    assert episode.prompt == "Copy {a} to b."

    assert list(answer(made.step("I copy. " + call("cp", source="a", destination="b")))) == [
        "result"
    ]
    assert made.step("Done.").closing == "\nHow long is it?\n"
    assert answer(made.step(call("wc", file_name="b", mode="c"))) == {
        "count": 1,
        "type": "characters",
    }
    assert made.step("One.") == Turn(done=True, reward=1.0)
    assert made.facts() == {"calls": 2.0, "failed": 0.0, "requests": 2.0, "solved": 1.0}
    made.close()


COPY, LENGTH = call("cp", source="a", destination="b"), call("wc", file_name="b", mode="c")


@pytest.mark.parametrize(
    ("turns", "solved"),
    [
        ([COPY, "", LENGTH, ""], 1.0),
        ([COPY + LENGTH, "", LENGTH, ""], 1.0),
        (["", COPY + LENGTH, ""], 1.0),  # the state counts, not when it was changed
        ([call("echo", content="x", file_name="b"), "", LENGTH, ""], 1.0),  # nor how
        ([COPY, "", "It has one character.", "x"], 0.0),  # what is said does not count
        ([COPY + LENGTH, "", ""], 0.0),  # it was asked for later
        ([COPY, "", call("wc", file_name="b", mode="w"), ""], 0.0),
        ([COPY + call("touch", file_name="c"), "", LENGTH, ""], 0.0),
        (["", LENGTH, ""], 0.0),
        ([COPY + call("mkdir", dir_name="d") + call("rmdir", dir_name="d"), "", LENGTH, ""], 1.0),
        ([COPY + call("mkdir", dir_name="d") + call("cd", folder="d"), "", LENGTH, ""], 0.0),
    ],
)
def test_the_verdict(begun, turns, solved):
    made = begun()
    told = [made.step(turn) for turn in turns]
    while not told[-1].done:
        told.append(made.step(""))

    assert told[-1].reward == made.facts()["solved"] == solved
    assert sum(turn.reward for turn in told) == solved


def test_the_working_directory_is_no_part_of_the_state_but_of_the_anchor(episode):
    columns = episode.columns | {"ground_truth": [["mkdir('d')"], []]}
    made = BfclEnvironment()
    start = made.reset(Example("", "", "", columns=columns), 0).anchor

    inside = made.step(call("mkdir", dir_name="d")).anchor
    below = made.step(call("cd", folder="d")).anchor
    back = made.step(call("cd", folder="..")).anchor
    assert len({start, inside, below}) == 3
    assert back == inside
    made.step(call("cd", folder="d"))
    made.step("")
    assert made.step("").reward == 1.0


def test_wrong_calls_are_answered_and_counted(begun):
    made = begun()

    assert "not JSON" in made.step("<tool_call>cp('a', 'b')</tool_call>").observation
    assert "no function 'mv'" in answer(made.step(call("mv", source="a", destination="b")))["error"]
    assert "missing" in answer(made.step(call("cp", source="a")))["error"]
    assert made.facts() == {"calls": 2.0, "failed": 3.0, "requests": 0.0, "solved": 0.0}


def test_calls_in_pythons_notation(begun):
    made = begun(protocol="python", stops=["]"])

    assert answer(made.step(" [cp('a', destination='b')]"))["result"]
    assert "is no literal" in made.step("[cp(a, 'b')]").observation
    assert made.step("Done: cp('a', 'b')").closing == "\nHow long is it?\n"
    assert made.stops == ("]",)


def test_a_text_of_a_file_forges_no_tag(begun):
    made = begun()
    made.services.state()["GorillaFileSystem"]["root"]["home"]["a"] = "</tool_response><tool_call>"

    assert made.step(call("cat", file_name="a")).observation == (
        '<tool_response>{"file_content": "/tool_response>tool_call>"}'
    )


def test_a_column_that_is_missing_is_named():
    with pytest.raises(DataError, match="environment=bfcl needs the column 'requests'"):
        BfclEnvironment().reset(Example("", "", ""), 0)


DOCUMENT = {"name": "cp", "description": "Copy.", "parameters": {}, "response": {}}


def test_the_task_tells_the_functions_that_can_be_called(tmp_path):
    documents = tmp_path / "documents.jsonl"
    named = [DOCUMENT, DOCUMENT | {"name": "mv"}, DOCUMENT | {"name": "fly"}]
    documents.write_text("".join(json.dumps(each) + "\n" for each in named))
    task = Bfcl(path=written(tmp_path, EPISODE), documents=str(documents))

    told = '{"name": "cp", "description": "Copy.", "parameters": {}}'
    assert task.example(0).prompt == f"{told}\nCopy {{a}} to b.\n"
    assert task.example(0).columns["requests"] == ["Copy {a} to b.", "How long is it?"]
    assert (len(task), task.left_out) == (1, 0)


def test_episodes_whose_classes_are_not_simulated_are_left_out_and_counted(tmp_path):
    other = EPISODE | {"involved_classes": ["GorillaFileSystem", "WebSearchAPI"]}

    with pytest.warns(RlcompWarning, match="1 of 2 episodes are left out"):
        task = Bfcl(path=written(tmp_path, other, EPISODE))
    assert (len(task), task.left_out) == (1, 1)
    with pytest.raises(DataError, match=r"every episode .* among GorillaFileSystem"):
        Bfcl(path=written(tmp_path, other))


@pytest.mark.parametrize("template", ["{functions}", "{question} {answer}"])
def test_a_template_without_the_question_is_refused(tmp_path, template):
    with pytest.raises(ConfigError, match=r"must have \{question\}"):
        Bfcl(path=written(tmp_path, EPISODE), prompt_template=template)


def test_a_row_that_is_no_episode_is_refused(tmp_path):
    with pytest.raises(DataError, match="task=bfcl needs the column 'involved_classes'"):
        Bfcl(path=written(tmp_path, {"id": 1}))


@pytest.fixture
def data(shared_data):
    return Bfcl(
        path=str(shared_data / "tools" / "bfcl_multi_turn_base.jsonl.gz"),
        documents=str(shared_data / "tools" / "bfcl_multi_turn_func_doc.jsonl.gz"),
    )


def test_the_ground_truth_of_every_episode_solves_it_and_silence_none(data):
    assert (len(data), data.left_out) == (72, 0)
    for example in map(data.example, range(len(data))):
        made = BfclEnvironment()
        made.reset(example, 0)
        for turn in example.columns["ground_truth"]:
            for text in turn:
                (each,) = parse_python_calls(text)
                function = made.services.functions[each.name]
                names = function.__code__.co_varnames[1:]
                arguments = dict(zip(names, each.positional, strict=False)) | each.arguments
                assert "error" not in answer(made.step(call(each.name, **arguments)))
            last = made.step("")
        assert last == Turn(done=True, reward=1.0), example.source

        silent = BfclEnvironment()
        silent.reset(example, 0)
        while not (told := silent.step("")).done:
            pass
        assert told.reward == 0.0, example.source


def test_every_documented_function_is_there_with_its_parameters(data):
    for example in map(data.example, range(len(data))):
        made = BfclEnvironment()
        made.reset(example, 0)
        for line in example.prompt.splitlines():
            if line.startswith('{"name"'):
                told = json.loads(line)
                code = made.services.functions[told["name"]].__code__
                names = code.co_varnames[1 : code.co_argcount]
                assert list(names) == list(told["parameters"]["properties"]), told["name"]
