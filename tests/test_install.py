"""What is installed: a base that stands alone, extras that are named, distributions all there."""

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import epicrec.papers
from distributions import ROOT, build, tracked
from epicrec.data import load_dataset
from epicrec.errors import InputError
from epicrec.evaluate import evaluate

BASE_ONLY = """
import importlib, pkgutil, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
absent = set(sys.argv[1:])
sys.meta_path.insert(0, Absent())
import epicrec
for found in pkgutil.walk_packages(epicrec.__path__, "epicrec."):
    if found.name.split(".")[1] not in ("client", "server", "system", "testing"):
        importlib.import_module(found.name)
        print(found.name)
from epicrec.cli import main
sys.argv = ["epicrec", "evaluate", "bias", "--data", "films", "--json"]
main()
"""

ONLY_IN_EXTRAS = [
    "altair", "vl_convert", "implicit", "threadpoolctl", "fastapi", "starlette", "uvicorn",
    "jinja2", "httpx", "rapidfuzz", "platformdirs", "sqlalchemy", "alembic", "psycopg", "pandas",
    "polars", "cvxpy", "opendp", "pytest",
]  # fmt: skip


def test_the_library_needs_no_extra() -> None:
    run = subprocess.run(
        [sys.executable, "-c", BASE_ONLY, *ONLY_IN_EXTRAS], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert "epicrec.papers.d2p.figures" in run.stdout
    assert '"metrics"' in run.stdout


def test_what_only_figures_need_is_no_part_of_the_base() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    base, papers, server = (
        {entry.split(">")[0].split("[")[0] for entry in entries}
        for entries in (project["dependencies"], extras["papers"], extras["server"])
    )
    assert not base & (papers | server | {"pyspark"})
    assert {"altair", "vl-convert-python", "implicit", "threadpoolctl"} <= papers
    assert {"implicit", "threadpoolctl"} <= server
    assert "epicrec[client,server,papers,spark]" in extras["dev"]


@pytest.mark.parametrize("paper", epicrec.papers.PAPERS)
@pytest.mark.parametrize("absent", ["altair", "implicit"])
def test_a_paper_says_before_the_work_what_to_install(paper, absent, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(InputError, match=rf"needs {absent};.*pip install 'epicrec\[papers\]'"):
        epicrec.papers.reproduce(paper, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_protocol_says_before_the_work_what_to_install(monkeypatch) -> None:
    films = load_dataset("films")
    monkeypatch.setitem(sys.modules, "implicit", None)
    monkeypatch.setattr("epicrec.papers.epicrec.protocol.release_all", None)  # not called
    with pytest.raises(InputError, match=r"needs implicit;.*pip install 'epicrec\[papers\]'"):
        evaluate("s-epicrec", films, protocol="mae-loss")


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> dict[str, set[str]]:
    """The names in the wheel and the source distribution, both made from what git holds."""
    wheel, sdist = build(".", tmp_path_factory.mktemp("distributions"), "sdist", "wheel")
    assert (wheel.suffix, sdist.suffix) == (".whl", ".gz")
    with zipfile.ZipFile(wheel) as archive:
        names = {"wheel": set(archive.namelist())}
    with tarfile.open(sdist) as archive:
        inside = [member.name for member in archive.getmembers() if member.isfile()]
    return names | {"sdist": {name.split("/", 1)[1] for name in inside}}


def test_the_wheel_holds_the_package_and_nothing_else(built) -> None:
    package = {name.removeprefix("src/") for name in tracked("src/epicrec")}
    assert {name for name in built["wheel"] if ".dist-info/" not in name} == package
    kinds = {"py.typed", "films.csv", "series.tsv", "client.js"}
    kinds |= {"base.html", "operator.html", "env.py"}
    assert kinds <= {Path(name).name for name in package}


def test_the_source_distribution_can_be_built_and_tested(built) -> None:
    wanted = tracked("src", "tests", "docs", "benchmarks", "examples")
    wanted |= {"Makefile", "LICENSE", "constraints.txt", "CITATION.cff", *tracked("*.md")}
    assert wanted <= built["sdist"]
    made = {name for name in built["sdist"] - tracked(".") if ".egg-info/" not in name}
    assert made <= {"PKG-INFO", "setup.cfg"}
