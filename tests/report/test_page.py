"""What a page shows of a sweep that is too large for it."""

import pytest

from rlcomp.cli.report import report
from rlcomp.errors import UserError
from rlcomp.report import page
from rlcomp.report.groups import Group
from rlcomp.report.page import Report, shown_groups


def sweep(number, control=None):
    groups = [Group(name, (), {"a": "1", "b": "2", "c": "3"}) for name in "vwxyz"[:number]]
    against = None if control is None else groups[control]
    return Report("t", [], groups, against, [], [])


def names(report):
    return "".join(group.name for group in shown_groups(report))


def test_the_control_arm_takes_the_last_place_of_the_first(monkeypatch):
    monkeypatch.setattr(page, "MAX_GROUPS", 3)

    assert names(sweep(5)) == "vwx"
    assert names(sweep(5, control=1)) == "vwx"
    assert names(sweep(5, control=4)) == "vwz"


def test_cells_of_what_differs_are_shared_by_the_groups(monkeypatch):
    monkeypatch.setattr(page, "MAX_CELLS", 4)

    assert page._comparisons(sweep(2))["differing_paths"] == ["a", "b"]
    assert page._comparisons(sweep(1))["differing_paths"] == ["a", "b", "c"]
    assert page._comparisons(sweep(0))["differing_paths"] == []


def test_a_file_is_no_place_for_a_report(tmp_path):
    with pytest.raises(UserError, match=r"--out .*x\.html: it names the folder"):
        report([str(tmp_path)], tmp_path / "x.html", None, [], "")
