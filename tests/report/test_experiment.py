"""Results of an experiment: from runs, and again from the rows that were kept of them."""

import pytest

from rlcomp.report.experiment import show


def collect(runs):
    return [{"arm": path.name, "value": len(path.read_text())} for path in sorted(runs.iterdir())]


def table(rows):
    return " ".join(f"{row['arm']}={row['value']}" for row in rows)


def draw(rows, path):
    path.write_text(f"drawn {table(rows)}")


@pytest.fixture
def shown(monkeypatch):
    def call(*words):
        monkeypatch.setattr("sys.argv", ["tables.py", *map(str, words)])
        show("What it is.\nMore.", collect, table, draw)

    return call


def test_rows_are_kept_and_shown_again_without_the_runs(tmp_path, shown, capsys):
    runs, kept, figure = tmp_path / "runs", tmp_path / "kept.jsonl", tmp_path / "figure"
    runs.mkdir()
    (runs / "a").write_text("123")
    (runs / "b").write_text("1")

    shown(runs, "--results", kept)
    (runs / "a").unlink()
    assert not figure.exists()
    shown(kept, "--figure", figure)

    assert capsys.readouterr().out == "a=3 b=1\na=3 b=1\n"
    assert kept.read_text() == '{"arm": "a", "value": 3}\n{"arm": "b", "value": 1}\n'
    assert figure.read_text() == "drawn a=3 b=1"


def test_help_shows_the_first_line(shown, capsys):
    with pytest.raises(SystemExit):
        shown("--help")

    out = capsys.readouterr().out
    assert "What it is." in out
    assert "More." not in out
