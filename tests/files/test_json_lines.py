import pytest

from rlcomp.errors import DataError
from rlcomp.files.json_lines import is_count, read_lines, read_metrics


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"total": "x"}', "'total' is 'x'"),
        ('{"phase": "rl"}', "'total' is None"),
        ('{"total": 2, "phase": 3}', "'phase' is 3"),
        ('{"total": 2, "loss": "low"}', "'loss' is 'low'"),
    ],
)
def test_a_row_that_is_no_step_names_its_line(tmp_path, line, said):
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"total": 1, "phase": "rl", "loss": 0.5}\n' + line + '\n{"total": 3}\n')

    with pytest.raises(DataError, match=r"metrics\.jsonl, line 2: ") as told:
        read_metrics(file)
    assert said in str(told.value)


def test_only_the_last_line_may_be_cut_off(tmp_path):
    file = tmp_path / "lines.jsonl"
    file.write_text('{"a": 1}\n{"a": 2}\n{"a"')
    assert read_lines(file) == [{"a": 1}, {"a": 2}]

    file.write_text('{"a": 1}\n{"a"\n{"a": 3}\n')
    with pytest.raises(DataError, match=r"lines\.jsonl, line 2: "):
        read_lines(file)


def test_what_counts_is_a_whole_number_that_a_float_holds_exactly():
    assert [is_count(one) for one in (1, 2**53 - 1)] == [True, True]
    assert [is_count(one) for one in (0, 2**53, True, 1.0, "1")] == [False] * 5
