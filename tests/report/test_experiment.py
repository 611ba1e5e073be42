"""Results of an experiment: from runs, and again from the rows that were kept of them."""

import pytest

from rlcomp.report.experiment import show


def collect(runs):
    return [{"arm": path.name, "value": len(path.read_text())} for path in sorted(runs.iterdir())]


def table(rows):
    return " ".join(f"{row['arm']}={row['value']}" for row in rows)


def draw(rows, path):
    path.write_text(f"drawn {table(rows)}")


def test_rows_are_kept_and_shown_again_without_the_runs(tmp_path, capsys):
    runs, kept, figure = tmp_path / "runs", tmp_path / "kept.jsonl", tmp_path / "figure"
    runs.mkdir()
    (runs / "a").write_text("123")
    (runs / "b").write_text("1")

    show("What it is.\nMore.", collect, table, draw, [str(runs), "--results", str(kept)])
    (runs / "a").unlink()
    show("What it is.", collect, table, draw, [str(kept), "--figure", str(figure)])

    assert capsys.readouterr().out == "a=3 b=1\na=3 b=1\n"
    assert kept.read_text() == '{"arm": "a", "value": 3}\n{"arm": "b", "value": 1}\n'
    assert figure.read_text() == "drawn a=3 b=1"


def test_the_arguments_are_those_of_the_process(tmp_path, monkeypatch, capsys):
    kept = tmp_path / "kept.jsonl"
    kept.write_text('{"arm": "a", "value": 3}\n')
    monkeypatch.setattr("sys.argv", ["tables.py", str(kept)])

    show("What it is.", collect, table, draw)
    with pytest.raises(SystemExit):
        show("What it is.\nMore.", collect, table, draw, ["--help"])

    out = capsys.readouterr().out
    assert out.startswith("a=3\n")
    assert "What it is." in out
    assert "More." not in out
    assert [path.name for path in tmp_path.iterdir()] == ["kept.jsonl"]
