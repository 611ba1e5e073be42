"""Make the README's pictures: ``python docs/make_pictures.py SWEEP``.

The first picture is of the display of a run, which takes a minute or two. The second picture is of
the report on ``SWEEP``, the directory of a finished sweep, and needs a Chromium on the path.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from rich.console import Console, Group

import rlcomp.run.launch as launch_module
from rlcomp.cli.report import report
from rlcomp.trackers.display import Display
from rlcomp.report.summary import summarise
from rlcomp.config.compose import compose_config
from rlcomp.config.resolve import plan_of

IMAGES = Path(__file__).parent / "images"
STEPS, PICTURED_STEP = 60, 41
WORDS = [f"phases.rl.steps={STEPS}"]
RECORDING = Console(record=True, width=98, force_terminal=True, color_system="truecolor")


class RecordedDisplay(Display):
    """The live display, which is also drawn on the recording console at one step."""

    def log(self, total, phase, step, metrics, samples):
        super().log(total, phase, step, metrics, samples)
        if (phase, step) == ("rl", PICTURED_STEP):
            RECORDING.print(Group(self.bars, self.line))


def run_picture(file: Path) -> None:
    """Draw the terminal output of a run, at one step and at its end, as an SVG."""
    RECORDING.print(f"$ rlcomp {' '.join(WORDS)}", highlight=False, style="bold")
    console = Console(force_terminal=True)
    launch_module.Display = lambda seed: RecordedDisplay(seed=seed, console=console)
    with tempfile.TemporaryDirectory() as directory:
        config = compose_config([*WORDS, f"directory={directory}"])
        launch_module.launch(config, plan_of(config))
        summary = summarise(directory).replace(directory, "runs/mine")
    RECORDING.print(summary, highlight=False, markup=False)
    svg = RECORDING.export_svg(title="rlcomp")
    # Remove the font that a browser would fetch from the network.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    file.write_text(svg.replace("Fira Code", "ui-monospace"), encoding="utf-8")


def report_picture(sweep: Path, file: Path) -> None:
    """Take a screenshot of the top of the report's page."""
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
    arguments = parser.parse_args()
    run_picture(IMAGES / "display.svg")
    report_picture(arguments.sweep, IMAGES / "report.png")
