"""Reference solutions of HumanEval and MBPP pass their tests; one mutant of each does not."""

import ast
import gzip
import json

import pytest

from rlcomp.sandbox.job import CheckJob, Limits


def rows(folder, name):
    with gzip.open(folder / "code" / f"{name}.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def listed(value):
    """A list, which the file has as one or as its text."""
    return ast.literal_eval(value) if isinstance(value, str) else value


def human_eval(row):
    """Source, tests and entry point; the prompt has helpers that some tests call."""
    prompt = row["prompt"]
    return (
        prompt + row["canonical_solution"],
        (prompt + "    pass\n" + row["test"],),
        row["entry_point"],
    )


def mbpp(row):
    tests = listed(row["test_list"])
    body = ast.parse(row["code"]).body
    # Some tests use what the solution imports.
    imported = [ast.unparse(n) for n in body if isinstance(n, (ast.Import, ast.ImportFrom))]
    imports = "\n".join([*listed(row["test_imports"]), *imported])
    defined = [n.name for n in body if isinstance(n, ast.FunctionDef)]
    entry = next(name for name in reversed(defined) if name in tests[0])
    return row["code"], (imports, *tests), entry


class Broken(ast.NodeTransformer):
    """Every return of the entry point gives something else than it did."""

    def __init__(self, entry):
        self.entry, self.inside = entry, False

    def visit_FunctionDef(self, node):
        outer, self.inside = self.inside, node.name == self.entry
        self.generic_visit(node)
        self.inside = outer
        return node

    def visit_Return(self, node):
        if self.inside:
            node.value = (
                ast.parse(f"('mutant', {ast.unparse(node.value) if node.value else None})")
                .body[0]
                .value
            )
        return node


def mutant(source, entry):
    """The source with its function's answers wrapped up."""
    return ast.unparse(Broken(entry).visit(ast.parse(source)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "read", "count"), [("humaneval", human_eval, 67), ("mbpp_sanitized", mbpp, 179)]
)
def test_reference_solutions_pass_and_mutants_fail(name, read, count, shared_data, sandbox):
    problems = [read(row) for row in rows(shared_data, name)]
    limits = Limits(wall=30, cpu=30)

    right = sandbox.map([CheckJob(*problem, limits) for problem in problems])
    wrong = sandbox.map(
        [CheckJob(mutant(source, entry), tests, entry, limits) for source, tests, entry in problems]
    )

    assert len(right) == count
    assert [(p[2], o) for p, o in zip(problems, right, strict=True) if o.status != "passed"] == []
    assert [
        (p[2], p[1], o) for p, o in zip(problems, wrong, strict=True) if o.status != "failed"
    ] == []
