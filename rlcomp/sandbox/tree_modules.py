"""Importers of Python modules from a mapping of paths to texts, without files.

This module is sent into the sandbox as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from types import ModuleType

ROOTS = ("", "src/")


class TreeLoader(SourceLoader):
    """Loader of a module of a tree; ``pkgutil.get_data`` also reads other files of the tree."""

    def __init__(self, files: Mapping[str, str], path: str) -> None:
        self.files = files
        self.path = path

    def get_filename(self, fullname: str) -> str:
        """Return the path of the module."""
        return self.path

    def get_data(self, path: str | bytes) -> bytes:
        """Return the bytes of a file; raise ``OSError`` if there is none."""
        if str(path) not in self.files:
            raise FileNotFoundError(f"the repository has no file {path!r:.200}")
        return self.files[str(path)].encode()


class TreeFinder(MetaPathFinder):
    """Finder of modules below the roots of a tree.

    It belongs at the end of ``sys.meta_path``, so that the standard library comes first.

    Args:
        files: texts by path.
        roots: folders to search, each ending in a slash, or ''.
    """

    def __init__(self, files: Mapping[str, str], roots: Sequence[str] = ROOTS) -> None:
        self.files = files
        self.roots = roots

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module or a package with a file; None if there is none."""
        module_path = fullname.replace(".", "/")
        for root in self.roots:
            for ending in ("/__init__.py", ".py"):
                if (file := f"{root}{module_path}{ending}") in self.files:
                    return self._spec(fullname, file, ending == "/__init__.py")
        return None

    def _spec(self, name: str, file: str, is_package: bool) -> ModuleSpec:
        loader = TreeLoader(self.files, file)
        spec = ModuleSpec(name, loader, origin=file, is_package=is_package)
        spec.has_location = True
        return spec


class FolderFinder(TreeFinder):
    """Finder of packages without ``__init__.py``."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a folder with files; None if there is none."""
        folders = [f"{root}{fullname.replace('.', '/')}/" for root in self.roots]
        if any(each.startswith(tuple(folders)) for each in self.files):
            return ModuleSpec(fullname, None, is_package=True)
        return None
