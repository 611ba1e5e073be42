"""What importing costs, and what is public."""

import subprocess
import sys

import pytest

import rlcomp

LIGHT = [
    "rlcomp",
    "rlcomp.arguments",
    "rlcomp.cli.run",
    "rlcomp.cli.describe",
    "rlcomp.errors",
    "rlcomp.keys",
    "rlcomp.config.checks.values",
    "rlcomp.config.declarations",
    "rlcomp.config.flow",
    "rlcomp.config.flow_source",
    "rlcomp.config.options",
    "rlcomp.config.resolve",
    "rlcomp.config.reader",
    "rlcomp.cli.sample",
]


def test_what_is_needed_before_a_run_imports_nothing_heavy():
    code = f"""
import importlib, sys
for name in {LIGHT}:
    importlib.import_module(name)
    heavy = {{"torch", "tensordict", "transformers", "numpy", "components"}} & set(sys.modules)
    assert not heavy, (name, heavy)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_run_imports_no_tracker_extra_or_plot_before_it_needs_it():
    code = """
import sys
import rlcomp.run.launch, rlcomp.model.optimizer, components.learner.gradient
heavy = {"wandb", "tensorboard", "matplotlib", "gymnasium", "peft", "datasets", "torchrl"}
heavy |= {"transformers"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", rlcomp.__all__)
def test_every_public_name_is_there(name):
    assert getattr(rlcomp, name).__name__ == name


def test_the_public_names_are_those_with_a_home():
    assert sorted(rlcomp.__all__) == sorted(rlcomp._MODULES)


def test_a_name_that_is_not_public_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'rlcomp' has no attribute 'Trainer'"):
        _ = rlcomp.Trainer


def test_pure_mathematics_needs_tensors_and_nothing_that_runs_a_model():
    code = """
import importlib, pkgutil, sys
import rlcomp.functional
for module in pkgutil.iter_modules(rlcomp.functional.__path__):
    importlib.import_module(f"rlcomp.functional.{module.name}")
own = {name.split(".")[1] for name in sys.modules if name.startswith("rlcomp.")}
print(sorted(own))
heavy = {"transformers", "tokenizers", "hydra", "omegaconf", "torchrl", "tensordict"}
print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    own, heavy = done.stdout.splitlines()
    assert heavy == "[]"
    assert own == "['errors', 'functional']"
