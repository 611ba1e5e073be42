import pytest

from rlcomp.errors import DataError
from rlcomp.io.json_lines import read_metrics


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
