"""Every case is compared, or stands on the one list of those left out, with a reason that holds."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
POLICY = HERE / "policy"
MANIFEST = json.loads((POLICY / "manifest.json").read_text("utf-8"))
LEFT_OUT = json.loads((POLICY / "left_out.json").read_text("utf-8"))
ROWS = re.findall(r"^\| `(\w+)` \|", (POLICY / "README.md").read_text("utf-8"), re.MULTILINE)


def compared_in(file):
    """What a module of this folder compares with."""
    spec = importlib.util.spec_from_file_location(f"golden_{file.stem}", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(module.COMPARE)


COMPARED = [
    name
    for file in sorted(HERE.glob("test_*.py"))
    if "\nCOMPARE = " in file.read_text("utf-8")
    for name in compared_in(file)
]


def test_manifest_files_and_rows_of_the_readme_are_the_same():
    files = sorted(file.stem for file in POLICY.glob("*.safetensors"))

    assert sorted(MANIFEST) == files
    assert sorted(row for row in ROWS if not row.endswith("__")) == files


def test_every_file_is_compared_once():
    whole = [name for name in COMPARED if "/" not in name]

    assert sorted(whole) == sorted(MANIFEST)
    assert {name.split("/")[0] for name in COMPARED} <= set(MANIFEST)


def test_the_list_names_every_case_once():
    named = [(row["file"], case) for row in LEFT_OUT for case in row["cases"]]

    assert len(named) == len(set(named))
    for row in LEFT_OUT:
        assert set(row["cases"]) <= set(range(len(MANIFEST[row["file"].split("/")[0]]["cases"])))
        # Where the module runs, it checks that such a case is not reproduced.
        assert row["file"] in COMPARED


@pytest.mark.parametrize("kind", ["reproduced", "different"])
def test_a_case_on_the_list_fails_where_it_is_reproduced(kind, reproduce, left_out_of):
    case = left_out_of("torchrl__llm_cispo")[0]
    pairs = [(1.0, 1.0 if kind == "reproduced" else 2.0, 1e-9)]

    if kind == "different":
        reproduce(case, lambda _: pairs)
    else:
        with pytest.raises(
            AssertionError, match=r"torchrl__llm_cispo-0 is reproduced: take it off"
        ):
            reproduce(case, lambda _: pairs)
