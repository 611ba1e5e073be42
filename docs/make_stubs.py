"""Write the stubs for completion in editors: ``python docs/make_stubs.py``."""

from pathlib import Path

import components

ROOT = Path(__file__).resolve().parents[1]
TEXT = '"""Parts, for editors; docs/make_stubs.py writes this file."""\n'
IMPORTS = "from collections.abc import Callable\nfrom typing import Any\n"
FUNCTIONS = """
def parts_of(package: str) -> dict[str, str]: ...
def lookup(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]: ...
"""


def stubs() -> dict[Path, str]:
    """Return the text of each stub by its path in the repository."""
    texts = {}
    for file in sorted((ROOT / "components").rglob("__init__.py")):
        folder = file.parent.relative_to(ROOT)
        parts = components.parts_of(".".join(folder.parts))
        lines = [f"from {module} import {name} as {name}" for name, module in parts.items()]
        names = "\n".join(sorted(lines)) + "\n" if lines else ""
        body = f"{IMPORTS}\n{names}{FUNCTIONS}" if folder == Path("components") else names
        texts[folder / "__init__.pyi"] = f"{TEXT}\n{body}"
    return texts


if __name__ == "__main__":
    for path, text in stubs().items():
        (ROOT / path).write_text(text)
