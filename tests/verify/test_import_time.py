"""The modules that a reward worker imports must start in milliseconds."""

import subprocess
import sys


def test_the_package_is_importable_without_torch_and_without_the_extra():
    code = (
        "import importlib, pkgutil, sys, rlcomp.verify;"
        "names = [m.name for m in pkgutil.iter_modules(rlcomp.verify.__path__)];"
        "[importlib.import_module(f'rlcomp.verify.{name}') for name in names];"
        "assert len(names) > 1;"
        "bad = {'torch', 'numpy', 'sympy', 'math_verify', 'langdetect'} & set(sys.modules);"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
