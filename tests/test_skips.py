"""On CI a test that does not run is a failure, unless its reason is listed in conftest.py."""

import sys
from pathlib import Path

import pytest

LISTED = """
import pytest

@pytest.mark.skipif(True, reason="needs a GPU")
def test_on_a_gpu(): ...
"""
LEFT_OUT = {
    "skip": "def test_it(): pytest.skip('later')",
    "mark": "@pytest.mark.skip\ndef test_it(): ...",
    "import": "pytest.importorskip('no_such_module')",
    "xfail": "@pytest.mark.xfail\ndef test_it(): assert False",
    "xpass": "@pytest.mark.xfail\ndef test_it(): ...",
}
ALONE = [
    "-c",
    "none.ini",
    "--import-mode=importlib",
    "-p",
    "no:cov",
    "-p",
    "no:xdist",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:unraisableexception",  # which collects garbage five times: two seconds
]


@pytest.fixture
def tested(request, tmp_path, monkeypatch):
    """The exit code of tests with our conftest, in a process of CI or not."""
    name = str(Path(__file__).with_name("conftest.py"))
    conftest = request.config.pluginmanager.get_plugin(name)
    (tmp_path / "none.ini").write_text("[pytest]")
    monkeypatch.chdir(tmp_path)

    def run(code, ci):
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # which takes two seconds
        monkeypatch.setenv("CI", "true") if ci else monkeypatch.delenv("CI", raising=False)
        monkeypatch.delitem(sys.modules, "test_it", raising=False)  # that of the test before
        file = tmp_path / "test_it.py"
        file.write_text(code)
        return pytest.main([*ALONE, str(file)], plugins=[conftest])

    return run


def test_a_listed_reason_passes(tested):
    assert tested(LISTED, ci=True) == pytest.ExitCode.OK


@pytest.mark.parametrize("code", LEFT_OUT.values(), ids=LEFT_OUT)
def test_any_other_fails_on_ci_only(tested, capsys, code):
    # A run of nothing has an exit code of its own.
    code = f"import pytest\ndef test_that_runs(): ...\n{code}"

    assert tested(code, ci=True) == pytest.ExitCode.TESTS_FAILED
    assert "NOT RUN test_it.py" in capsys.readouterr().out


def test_elsewhere_a_skip_is_a_skip(tested):
    assert tested(f"import pytest\n{LEFT_OUT['skip']}", ci=False) == pytest.ExitCode.OK
