"""Text files and examples as documents."""

import gzip
import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from components.sampler.demonstrations import Demonstrations
from components.task.text import DocumentTask, TextTask
from components.worlds.addition.task import Addition
from components.worlds.sorting.task import Sorting
from rlcomp.batch import decode_texts
from rlcomp.data import corpus
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.task import Example
from rlcomp.text.tokenizer import byte_tokenizer


def texts(task):
    return [task.document(index).text for index in range(len(task))]


def written(folder, data, name="a.txt"):
    (folder / name).write_bytes(data)
    return str(folder / name)


def test_a_document_continues_its_first_word_and_is_split_by_its_text(tmp_path):
    example = TextTask(path=written(tmp_path, b"To be"), shortest=1).example(0)

    assert (example.prompt, example.answer, example.demonstration) == ("To", "To be", " be")
    assert (example.source, example.answer_ends) == ("To be", None)


def test_the_separator_belongs_to_no_document(tmp_path):
    task = TextTask(path=written(tmp_path, b"a\nb\n\nc\n\n\n\nd\n"), separator="\n\n", shortest=1)

    assert texts(task) == ["a\nb", "c", "d\n"]
    assert [task.document(index).start for index in range(3)] == [0, 5, 10]


def test_a_long_document_is_cut_after_line_ends(tmp_path):
    # Of the first 8 bytes "aa bb\ncc" the line end at 5 lies in the second half.
    task = TextTask(path=written(tmp_path, b"aa bb\ncc dd"), longest=8, shortest=1)

    assert texts(task) == ["aa bb\n", "cc dd"]


@pytest.mark.parametrize(
    ("data", "pieces"),
    [
        (b"a bbb cccc", ["a bbb", " cccc"]),
        (b"aa bb cc dd", ["aa bb cc", " dd"]),  # the space right after the limit
        (b"a bbbbbbbbb", ["a bbbbbb", "bbb"]),  # too early a space
    ],
)
def test_without_a_line_end_it_is_cut_before_a_space(tmp_path, data, pieces):
    assert texts(TextTask(path=written(tmp_path, data), longest=8, shortest=1)) == pieces


def test_without_either_it_is_cut_between_characters(tmp_path):
    # 2 bytes a character: 5 bytes hold two.
    task = TextTask(path=written(tmp_path, "ééééé".encode()), longest=5, shortest=1)

    assert texts(task) == ["éé", "éé", "é"]


def test_short_pieces_are_left_out(tmp_path):
    task = TextTask(path=written(tmp_path, b"aaaa|bb|c|"), separator="|", shortest=2)

    assert texts(task) == ["aaaa", "bb"]


@given(
    st.text("aé\U0001f600 \n|", min_size=1, max_size=60),
    st.integers(4, 12),
    st.sampled_from([None, "|", "é|"]),
)
def test_documents_are_at_their_offsets_and_nothing_is_lost(tmp_path_factory, text, most, between):
    data = text.encode()
    path = written(tmp_path_factory.getbasetemp(), data)
    assume(between is None or text.replace(between, ""))
    task = TextTask(path=path, separator=between, longest=most, shortest=1)

    for index in range(len(task)):
        document, file, start = task.document(index)
        size = len(document.encode())
        assert file == path
        assert data[start : start + size].decode() == document
        assert 1 <= size <= most
    kept = text if between is None else text.replace(between, "")
    assert "".join(texts(task)) == kept


def test_a_byte_order_mark_is_no_text(tmp_path):
    task = TextTask(path=written(tmp_path, b"\xef\xbb\xbfabc"), shortest=1)

    assert task.document(0)[::2] == ("abc", 3)


def test_offsets_into_a_packed_file_are_those_of_its_content(tmp_path):
    path = written(tmp_path, gzip.compress("é|b".encode()), "a.txt.gz")

    task = TextTask(path=path, separator="|", shortest=1)

    assert task.document(1) == ("b", path, 3)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_row_of_json_lines_is_a_text_of_its_own(tmp_path, pack):
    rows = "".join(json.dumps({"body": text}) + "\n" for text in ("a|é", "", "c"))
    path = written(tmp_path, pack(rows.encode()), "a.jsonl" + ".gz" * (pack is not bytes))

    task = TextTask(path=path, field="body", separator="|", shortest=1)

    assert [task.document(index) for index in range(3)] == [
        ("a", f"{path}:1", 0),
        ("é", f"{path}:1", 2),
        ("c", f"{path}:3", 0),
    ]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.jsonl"])
def test_a_corpus_beyond_the_memory_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.setattr(corpus, "_LARGEST", 2 << 20)

    def write(size):
        data = json.dumps({"text": "x" * size}).encode() if name == "a.jsonl" else b"x" * size
        return written(tmp_path, gzip.compress(data) if name == "a.txt.gz" else data, name)

    assert len(TextTask(path=write(2 << 20), shortest=1).document(0).text) > 0
    path = write((2 << 20) + 1)
    with pytest.raises(DataError, match=r"with it the corpus has more than 2 MiB, unpacked"):
        TextTask(path=path, shortest=1)
    # Two files together as well.
    write((2 << 20) - 1)
    written(tmp_path, b"xx", "b.txt")
    with pytest.raises(DataError, match=r"b\.txt: with it the corpus has more than 2 MiB"):
        TextTask(path=str(tmp_path), shortest=1)


def test_the_limit_of_a_corpus_is_a_gibibyte():
    assert corpus._LARGEST == 1_073_741_824


def test_a_folder_is_all_text_files_below_it_in_order(tmp_path):
    (tmp_path / "b").mkdir()
    written(tmp_path / "b", b"three", "c.txt")
    written(tmp_path, b'{"text": "one"}', "a.jsonl")
    written(tmp_path, b"two", "b.txt.txt")
    written(tmp_path, b"\xff", "README.md")

    # "b" before "b.txt.txt": a folder's files are in the folder's place.
    assert texts(TextTask(path=str(tmp_path), shortest=1)) == ["one", "three", "two"]


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.txt", b"ab\xffc", r"a.txt: byte 2 \(0xff\) is not UTF-8"),
        ("a.txt", b"", "a.txt' holds no document of at least 2 bytes"),
        ("a.txt", b"a", "a.txt' holds no document of at least 2 bytes"),
        ("a.txt.gz", b"abc", "a.txt.gz: cannot be read"),
        ("a.md", b"abc", "a.md' is not a file of a known kind"),
        ("a.jsonl", b'{"txt": "abc"}', "a.jsonl:1: the row has no column 'text'; did you mean"),
        ("a.jsonl", b'{"text": 7}', "a.jsonl:1: column 'text' is 7, not a text"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path, name, data, words):
    path = written(tmp_path, data, name)

    with pytest.raises(DataError, match=words):
        TextTask(path=path, shortest=2)


def test_a_missing_file_and_an_empty_folder_are_named(tmp_path):
    with pytest.raises(DataError, match=r"no file or folder '.*none\.txt'"):
        TextTask(path=str(tmp_path / "none.txt"))
    with pytest.raises(DataError, match="holds no file of a known kind"):
        TextTask(path=str(tmp_path))


@pytest.mark.parametrize(("longest", "shortest"), [(63, 64), (3, 1)])
def test_pieces_must_be_long_enough(longest, shortest):
    with pytest.raises(ConfigError, match=f"longest is {longest}: must be at least shortest"):
        TextTask(longest=longest, shortest=shortest)


def test_the_shipped_text_is_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    task = TextTask(shortest=1)

    assert texts(task)[0].startswith("SAMPSON:\nGregory, o' my word")
    assert texts(task)[-1].endswith("Whiles thou art waking.\n")
    assert 150_000 < len("".join(texts(task))) < 250_000


def test_to_imitate_demonstrations_is_to_read_documents():
    tokenizer, task = byte_tokenizer(), TextTask(longest=100, shortest=100)
    sampler = Demonstrations(task=task, tokenizer=tokenizer, batch_size=3, context_length=102)

    batch = sampler()

    # 100 bytes and EOS, without anything in front; all but the first word is imitated.
    read = [tokenizer.decode(row[:100]) for row in batch["tokens"]]
    assert read == decode_texts(batch["answer"])
    assert set(read) <= set(texts(task))
    assert batch["tokens"].shape == (3, 101)
    # A piece may begin with white space, which belongs to its first word.
    first = [len(text) - len(text.lstrip()) + len(text.split()[0]) for text in read]
    assert (~batch["response_mask"]).sum(1).tolist() == first


class Given:
    held_out = 0.25

    def __init__(self, example):
        self.given = example

    def __len__(self):
        return 3

    def example(self, index):
        return self.given


def test_prompt_and_demonstration_are_one_text():
    example = DocumentTask(task=Sorting(length=4, shuffled=1.0)).example(1234)

    assert (example.prompt, example.demonstration) == ("1", "234>1432")
    assert example.answer == "1234>1432"
    assert example.held_out_by == "1234>"


def test_without_a_demonstration_it_is_the_answer():
    example = DocumentTask(task=Given(Example("ab", "cd", None))).example(0)

    assert (example.prompt, example.demonstration) == ("a", "bcd")


def test_the_split_is_by_an_existing_source():
    task = DocumentTask(task=Given(Example("ab", "cd", "e", source="book 7")))

    assert task.example(1).held_out_by == "book 7"
    assert (len(task), task.held_out) == (3, 0.25)


def test_a_text_of_one_character_has_nothing_to_predict():
    with pytest.raises(DataError, match="example 2 has the text 'a': nothing to predict"):
        DocumentTask(task=Given(Example("a", "", ""))).example(2)
    assert DocumentTask(task=Addition(digits=1)).example(34).answer == "3+4=7"
