"""Draw ``images/step.svg``, a step of GRPO, from its config: ``python docs/make_step.py``."""

from __future__ import annotations

from pathlib import Path

from rlcomp.config.compose import compose_config
from rlcomp.config.declarations import read_declaration
from rlcomp.config.flow_source import flow_of
from rlcomp.config.plan import read
from rlcomp.config.reader import Node

PICTURE = Path(__file__).parent / "images" / "step.svg"
LEFT, TOP, ROW, COLUMN = 250, 130, 34, 34  # pixels: margins, height of a row, width of a column
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1f2933}.part{fill:#62707f;font-size:11px}"
    ".life{stroke:#9aa8b5;stroke-width:2}.write{fill:#2266aa}"
    ".read{fill:#fff;stroke:#2266aa;stroke-width:2}.row{fill:#f2f5f8}"
)


def stages() -> list[tuple[str, str, frozenset[str], frozenset[str]]]:
    """Return name, part, keys read and keys written of each active stage."""
    plan, _ = read(compose_config(["recipe=grpo", "seed=0"]))
    rows = []
    for node in plan.phases["rl"].stages:
        if isinstance(node, Node) and (part := read_declaration(node.target)).name != "Nothing":
            flow = flow_of(node)
            optional = frozenset(part.optional) & {key for row in rows for key in row[3]}
            rows.append((node.path, part.name, flow.reads | optional, flow.writes))
    return rows


def step_picture() -> str:
    """Return the picture: stages from top to bottom, keys that are read from left to right."""
    rows = stages()
    written_keys = [key for *_, writes in rows for key in sorted(writes)]
    read_keys = {key for _, _, reads, _ in rows for key in reads}
    keys = [key for key in dict.fromkeys(written_keys) if key in read_keys]
    width, height = LEFT + COLUMN * len(keys) + 70, TOP + ROW * len(rows) + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>A step of GRPO: its stages, and where each key is written and read</title>",
        f"<style>{STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        *_legend(),
    ]
    for number, (name, part, _, _) in enumerate(rows):
        y = TOP + ROW * number
        if number % 2 == 0:
            lines.append(f'<rect class="row" y="{y}" width="{width}" height="{ROW}"/>')
        lines.append(f'<text x="14" y="{y + 22}">{name}</text>')
        lines.append(f'<text class="part" x="130" y="{y + 22}">{part}</text>')
    for column, key in enumerate(keys):
        lines += _key(key, LEFT + COLUMN * column + COLUMN // 2, rows)
    return "\n".join([*lines, "</svg>", ""])


def _legend() -> list[str]:
    return [
        '<circle class="write" cx="20" cy="30" r="6"/><text x="34" y="34">written</text>',
        '<circle class="read" cx="20" cy="54" r="5"/><text x="34" y="58">read</text>',
    ]


def _key(
    key: str, x: int, rows: list[tuple[str, str, frozenset[str], frozenset[str]]]
) -> list[str]:
    """Draw a key's name, and its line from the stage that writes it to the last that reads it."""
    stage_numbers = [n for n, (_, _, reads, writes) in enumerate(rows) if key in reads | writes]
    height_of = {n: TOP + ROW * n + ROW // 2 for n in stage_numbers}
    first, last = height_of[stage_numbers[0]], height_of[stage_numbers[-1]]
    marks = [
        f'<circle class="{"write" if key in rows[n][3] else "read"}" cx="{x}" cy="{y}" '
        f'r="{6 if key in rows[n][3] else 5}"/>'
        for n, y in height_of.items()
    ]
    return [
        f'<text transform="translate({x + 4} {TOP - 8}) rotate(-50)">{key}</text>',
        f'<line class="life" x1="{x}" x2="{x}" y1="{first}" y2="{last}"/>',
        *marks,
    ]


if __name__ == "__main__":
    PICTURE.write_text(step_picture(), encoding="utf-8")
