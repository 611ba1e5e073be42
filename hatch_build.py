"""Build hook: compiles the native library into the wheel, or in place for an editable install."""

from __future__ import annotations

import importlib.util
import re
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILD = Path("rlcomp", "engine", "native", "build.py")


class NativeLibrary(BuildHookInterface):  # type: ignore[type-arg]
    """Compiles where there is a compiler, and says in one line where there is none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the objects to a wheel, whose tag then names the platform."""
        del version
        build = _module(Path(self.root, BUILD))
        try:
            objects = build.build()
        except RuntimeError as error:
            first = str(error).splitlines()[0]
            self.app.display_warning(f"rlcomp decodes by torch, several times slower: {first}")
            return
        root = Path(self.root)
        build_data["artifacts"] += [str(path.relative_to(root)) for path in objects]
        build_data["pure_python"] = False
        # It is called through ctypes: one wheel serves every Python.
        build_data["tag"] = f"py3-none-{_platform()}"


def _platform() -> str:
    return re.sub("[-.]", "_", sysconfig.get_platform())


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("rlcomp_native_build", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
