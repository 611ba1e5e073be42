"""What the page on the sandbox shows is what it gives."""

import ast
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sandbox.md"


def test_each_line_with_a_result_gives_it(sandbox):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    head, body = code.split("with Sandbox(workers=2) as sandbox:\n")
    namespace = {"sandbox": sandbox}
    exec(head, namespace)
    shown = 0
    for line in map(str.strip, body.splitlines()):
        source, _, result = line.partition("  # ")
        if result:
            assert eval(source, namespace) == ast.literal_eval(result)
            shown += 1
        else:
            exec(source, namespace)

    assert shown == 4
