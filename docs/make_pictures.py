"""Takes the README's pictures: ``python docs/make_pictures.py SWEEP``.

Of a run, which takes a minute or two, and of the report on ``SWEEP``, the directory of a finished
sweep; that one needs a Chromium on the path.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from rich.console import Console, Group

import rlcomp.run.launch as launching
from rlcomp.cli.report import report
from rlcomp.trackers.display import Display
from rlcomp.report.summary import summarise
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of

IMAGES = Path(__file__).parent / "images"
STEPS, TAKEN = 60, 41
WORDS = [f"phases.rl.steps={STEPS}"]
PAPER = Console(record=True, width=98, force_terminal=True, color_system="truecolor")


class Seen(Display):
    """The live display, which is drawn a second time at one of its steps."""

    def log(self, total, phase, step, metrics, samples):
        super().log(total, phase, step, metrics, samples)
        if (phase, step) == ("rl", TAKEN):
            PAPER.print(Group(self.bars, self.line))


def run_picture(file: Path) -> None:
    """Return the terminal output of a run, in the middle and at its end."""
    PAPER.print(f"$ rlcomp {' '.join(WORDS)}", highlight=False, style="bold")
    launching.Display = lambda seed: Seen(seed=seed, console=Console(force_terminal=True))
    with tempfile.TemporaryDirectory() as directory:
        config = compose_config([*WORDS, f"directory={directory}"])
        launching.launch(config, plan_of(config))
        told = summarise(directory).replace(directory, "runs/mine")
    PAPER.print(told, highlight=False, markup=False)
    drawn = PAPER.export_svg(title="rlcomp")
    # Without the font that rich would fetch from the network.
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)
    file.write_text(drawn.replace("Fira Code", "ui-monospace"), encoding="utf-8")


def report_picture(sweep: Path, file: Path) -> None:
    """The top of the report's page."""
    browser = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
    )
    with tempfile.TemporaryDirectory() as directory:
        report([str(sweep)], Path(directory), None, [])
        size = ["--window-size=1280,1400", f"--screenshot={file.resolve()}"]
        quiet = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        quiet.append(f"--user-data-dir={directory}/profile")
        page = Path(directory, "report.html").resolve().as_uri()
        subprocess.run([browser, *quiet, *size, page], check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweep", type=Path, metavar="SWEEP")
    given = parser.parse_args()
    run_picture(IMAGES / "display.svg")
    report_picture(given.sweep, IMAGES / "report.png")
