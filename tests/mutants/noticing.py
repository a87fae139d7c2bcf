"""Which tests should notice a fault in a module, found by the names of files and by imports.

First the test files beside the module (`tests/data/test_splits.py` for `data/splits.py`) and beside
its packages, then those with a word of its name, then those that import it. Of these the ones in
the folder of its package come first, and then the nearest: it may be imported directly, through a
module that uses it, through one that uses that. So a module may move without a table here; `FIRST`
names what cannot be read off the files.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

FIRST = {
    "server/api": ["tests/server/test_contract.py"],
    "server/store": ["tests/server/test_contract.py", "tests/server/test_operation.py"],
    "client/web": ["tests/client/test_app.py"],
}
"""Test files to run before those that are found, by module or package."""
NOT_DRAWN = {
    "testing": "these are tests",
    "client/web/posters.py": "shapes and colours, which are looked at",
}
"""Modules and packages in which no fault is drawn, and why."""
_FAR = 99


@dataclass(frozen=True)
class Checkout:
    """The modules and the tests of a checkout."""

    root: Path

    @property
    def sources(self) -> Path:
        return self.root / "src" / "epicrec"

    @property
    def tests(self) -> Path:
        return self.root / "tests"

    def modules(self) -> list[Path]:
        """Where faults are drawn."""
        return [path for path in sorted(self.sources.rglob("*.py")) if not self._is_left_out(path)]

    def tests_of(self, module: Path) -> list[Path]:
        """The test files that should notice a fault in this module, the nearest first."""
        own = module.relative_to(self.sources)
        parts = own.parent.parts if own.name == "__init__.py" else own.with_suffix("").parts
        beside = [
            self.tests.joinpath(*parts[:depth], f"test_{parts[depth]}.py")
            for depth in reversed(range(len(parts)))
        ]
        distances = self._distances(module)
        folder = next(f for f in self._folders(parts) if f.is_dir() and any(f.rglob("test_*.py")))
        inside = {*folder.rglob("test_*.py")}
        words = {*parts[-1].split("_")} if parts else set()

        def near(test: Path) -> tuple[int, bool, int, int, Path]:
            alike = words & {*test.stem.split("_")[1:]} if test in inside else ()
            distance = distances.get(test, _FAR)
            return -len(alike), test not in inside, distance, len(self._imports[test]), test

        first = [test for test in beside if test.is_file()]
        first += [
            self.root / name for part in FIRST if own.is_relative_to(part) for name in FIRST[part]
        ]
        found = [test for test in self._all_tests if test in distances]
        if not first and not found:
            found = [test for test in self._all_tests if test in inside]
        return list(dict.fromkeys([*first, *sorted(found, key=near)]))

    def _is_left_out(self, path: Path) -> bool:
        own = path.relative_to(self.sources)
        return any(own.is_relative_to(name) for name in NOT_DRAWN)

    def _folders(self, parts: tuple[str, ...]) -> Iterator[Path]:
        """The folder of tests of a module's package, or of the nearest package that has one."""
        for depth in reversed(range(len(parts) + 1)):
            yield self.tests.joinpath(*parts[:depth])

    @cached_property
    def _all_tests(self) -> list[Path]:
        return sorted({*self.tests.rglob("test_*.py")} - {self.tests / "test_mutants.py"})

    @cached_property
    def _files(self) -> dict[str, Path]:
        """Every file that can be imported, by its name there."""
        found = {}
        for folder in (self.sources.parent, self.tests):
            for path in folder.rglob("*.py"):
                name = ".".join(path.relative_to(folder).with_suffix("").parts)
                found[name.removesuffix(".__init__")] = path
        return found

    @cached_property
    def _imports(self) -> dict[Path, set[Path]]:
        """What each file imports; a test also has the fixtures beside it."""
        found = {path: set(self._imported(path)) for path in self._files.values()}
        for test in self._all_tests:
            fixtures = test.parent / "conftest.py"
            if test.parent != self.tests and fixtures.exists():
                found[test].add(fixtures)
        return found

    @cached_property
    def _users(self) -> dict[Path, set[Path]]:
        """By which files each is imported."""
        found: dict[Path, set[Path]] = {path: set() for path in self._files.values()}
        for path, imported in self._imports.items():
            for other in imported:
                found[other].add(path)
        return found

    @cached_property
    def _trees(self) -> dict[Path, ast.Module]:
        return {path: ast.parse(path.read_bytes()) for path in self._files.values()}

    def _imported(self, path: Path) -> Iterator[Path]:
        for node in ast.walk(self._trees[path]):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
                names += [self._home(node.module, alias.name) for alias in node.names]
            else:
                continue
            yield from (self._files[name] for name in names if name in self._files)

    def _home(self, module: str, name: str) -> str:
        """The module that a name is from: itself one, or one from which a package has the name."""
        package = self._files.get(module)
        if f"{module}.{name}" in self._files or package is None or package.stem != "__init__":
            return f"{module}.{name}"
        for node in self._trees[package].body:
            if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
                return node.module or ""
        return ""

    def _distances(self, module: Path) -> dict[Path, int]:
        """Over how many imports each file uses the module."""
        found, edge = {module: 0}, {module}
        while edge:
            edge = {user for path in edge for user in self._users[path]} - found.keys()
            found |= dict.fromkeys(edge, 1 + max(found.values()))
        return found
