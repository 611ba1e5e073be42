# make demo | test | test-all | coverage | check | docs | faults | soak. Each makes the virtual environment it needs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Two threads on a busy machine can be slower than one.
export OMP_NUM_THREADS ?= 1
# Compiled files are kept, whatever the machine says: half of collecting the tests is compiling them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all coverage test-pages test-pythons docs faults soak lint format check clean

demo: $(VENV)/.run
	$(BIN)/rlcomp

# Three processes on two cores: some wait for a clock, or for what they have started.
test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not slow and not pages"

# The quick ones, and then the slow ones, whole runs.
test-all: test
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "slow and not pages"

# Branches that the quick ones take. Tracing costs half as much again, so that this is for a release.
coverage: $(VENV)/.dev
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not slow and not pages" --cov --cov-report=term:skip-covered --cov-fail-under=95

# Every command that a page names, and every benchmark, in its smallest form.
test-pages: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m pages

# The quick suite on every other Python that is found, in environments that are thrown away.
test-pythons: $(VENV)/.dev
	.ci/pythons

# The documentation site, into build/site: opens from the folder, and needs no network.
docs: $(VENV)/.dev
	$(BIN)/python docs/make_site.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Every recipe killed, stopped and without storage, and gone on with; and thousands of steps with
# faults. They write their tables into docs/faults.md.
faults: $(VENV)/.dev
	$(BIN)/python tests/faults/run_all.py
	$(BIN)/python tests/faults/workers.py
	$(BIN)/python tests/faults/storage.py

soak: $(VENV)/.dev
	$(BIN)/python tests/faults/soak.py

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: lint test-all test-pages

clean:
	rm -rf $(VENV) dist build runs .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# torch first, by itself: the version this project takes, not whatever a dependency would pull.
$(VENV)/.run: pyproject.toml $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet "torch>=2.11,<2.14"
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.run
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@
