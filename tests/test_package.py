"""The package as a whole: light to import, tidy to look at, its documentation true."""

import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import epicrec
from epicrec import registry
from epicrec.models import Recommender, model_class

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_import_is_light() -> None:
    """Nothing but Python's own modules is loaded before something is asked for."""
    code = "import sys; old = {*sys.modules}; import epicrec; print(*{*sys.modules} - old)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in run.stdout.split()}
    assert loaded - sys.stdlib_module_names == {"epicrec"}


@pytest.mark.parametrize(
    "package", ["epicrec", "epicrec.data", "epicrec.evaluate", "epicrec.privacy"]
)
def test_public_names_are_sorted_and_there(package) -> None:
    module = importlib.import_module(package)
    names = module.__all__
    assert sorted(names) == sorted(set(names))
    for name in names:
        assert getattr(module, name) is not None


def modules() -> list[str]:
    names = [m.name for m in pkgutil.walk_packages(epicrec.__path__, "epicrec.")]
    return [name for name in names if not name.endswith("migrations.env")]  # only alembic runs it


@pytest.mark.parametrize("name", modules())
def test_docstring_examples(name) -> None:
    module = importlib.import_module(name)
    assert module.__doc__ or name.endswith("_version"), f"{name} does not say what it is for"
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_examples_in_the_documentation_run(page, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.S | re.M):
        exec(compile(block, str(page), "exec"), space)


def test_docstrings_name_every_parameter() -> None:
    """Of what is public at the top, and of every model."""

    def unnamed(name: str, of: Any, said: str) -> list[str]:
        asked = inspect.signature(of).parameters.values()
        known = ("self", "cls")
        names = [p.name for p in asked if p.name not in known and "VAR" not in p.kind.name]
        return [f"{name}: {one}" for one in names if not re.search(rf"\b{one}\b", said)]

    found = []
    for name in epicrec.__all__:
        public = getattr(epicrec, name)
        if inspect.isfunction(public):
            found += unnamed(name, public, public.__doc__ or "")
        elif inspect.isclass(public) and not issubclass(public, Exception):
            found += unnamed(name, public, public.__doc__ or "")
            for method, kept in vars(public).items():
                of = getattr(kept, "__func__", kept)
                if inspect.isfunction(of) and not method.startswith("_"):
                    found += unnamed(f"{name}.{method}", of, of.__doc__ or "")
    for name in registry.names(registry.MODELS):
        cls = model_class(name)
        ours = [base.__doc__ or "" for base in cls.__mro__ if issubclass(base, Recommender)]
        found += unnamed(name, cls, " ".join(ours))
    hooks = {"Recommender.engine: statistic", "Recommender.once: draw"}  # held, not called
    assert {*found} == hooks
