"""Reliability diagram as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlcomp.files.atomic_write import atomic_write
from rlcomp.functional.calibration import Bin


def save_reliability(bins: Sequence[Bin], path: Path, title: str) -> None:
    """Draw the frequency of predicted events against their predicted probability.

    Args:
        bins: :func:`rlcomp.functional.calibration.reliability`; 95 % normal intervals are drawn.
        path: the picture, a PNG; its directory is created.
        title: title of the picture.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Titles are not formulas.
    with matplotlib.rc_context({"text.parse_math": False}):
        figure = Figure(figsize=(4, 3.6), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        axes.plot([0, 1], [0, 1], color="0.7", linewidth=1, label="calibrated")
        widths = [1.96 * (b.accuracy * (1 - b.accuracy) / b.number) ** 0.5 for b in bins]
        x, y = [b.confidence for b in bins], [b.accuracy for b in bins]
        axes.errorbar(x, y, yerr=widths, marker="o", markersize=4, color="#0072b2", capsize=2)
        axes.set(xlim=(0, 1), ylim=(-0.02, 1.02), title=title)
        axes.set_xlabel("probability given to the first answer")
        axes.set_ylabel("share in which it is the chosen one")
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as draft:
            figure.savefig(draft, dpi=150, format="png")
