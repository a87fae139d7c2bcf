"""Public names of a package, loaded when first used and written once."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__, __dir__ = attach(__name__, __file__)` for a package that imports nothing yet.

    The public names are those that its `if TYPE_CHECKING:` block imports, so that a type checker
    and the program read the same list; its `__all__` is held against it by a test.
    """
    homes: dict[str, str] = {}
    for node in ast.parse(Path(file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for imported in node.body:
                if isinstance(imported, ast.ImportFrom) and imported.module:
                    homes |= dict.fromkeys((a.name for a in imported.names), imported.module)

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return load, lambda: sorted(homes)
