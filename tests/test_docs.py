"""What the pages say, compared with what there is: commands, methods, numbers, links, decisions."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from importlib.metadata import distribution
from pathlib import Path

import pytest
import typer
from packaging.requirements import Requirement

import epicrec
from distributions import ROOT
from epicrec.cli import app, main
from epicrec.data import load_dataset
from epicrec.demo.program_audits import all_rows

PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for path in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
}
DECISIONS = sorted(name for name in PAGES if re.match(r"docs/decisions/\d", name))
COMMANDS = typer.main.get_command(app)


def in_shell() -> list[str]:
    """The lines of all pages' shell blocks that call epicrec."""
    return [
        line.partition("  #")[0].strip()
        for page in PAGES.values()
        for block in re.findall(r"^```sh\n(.*?)^```", page, re.S | re.M)
        for line in block.splitlines()
        if line.startswith("epicrec ")
    ]


@pytest.mark.parametrize("line", in_shell())
def test_commands_are_taken_as_they_are_written(line: str) -> None:
    context = typer.Context(COMMANDS)
    command, arguments = COMMANDS, shlex.split(line)[1:]
    while hasattr(command, "resolve_command"):
        name, command, arguments = command.resolve_command(context, arguments)
    command.make_context(name, [*arguments], parent=context)


def test_every_command_is_on_a_page() -> None:
    said = "\n".join(PAGES.values())
    shown = [name for name, command in COMMANDS.commands.items() if not command.hidden]
    assert [name for name in shown if not re.search(rf"epicrec {name}\b", said)] == []


def test_methods_are_listed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """The table of docs/methods.md; where it is not the same, put this in its place."""
    with pytest.raises(SystemExit):
        main(["methods", "--json"])
    columns = ("method", "kind", "unit", "task", "status", "with --epsilon", "what")
    rows = [row for row in json.loads(capsys.readouterr().out)["methods"] if not row["package"]]
    lines = [[f"`{row['method']}`", *(row[name] for name in columns[1:])] for row in rows]
    table = [f"| {' | '.join(cells)} |" for cells in (columns, ["---"] * len(columns), *lines)]
    assert "\n".join(table) in PAGES["docs/methods.md"]


def test_every_method_is_in_the_table_of_promises() -> None:
    """Each of docs/methods.md, which is compared above, in a first column of docs/privacy.md."""
    _, _, table = PAGES["docs/privacy.md"].partition("## What each method promises")
    first = " ".join(re.findall(r"^\| (.*?) \|", table.partition("\n## ")[0], re.M))
    listed = {*re.findall(r"^\| (`[\w-]+`) \|", PAGES["docs/methods.md"], re.M)}
    assert len(listed) > 20
    assert {name for name in listed if name not in first} == set()


def test_every_method_that_promises_something_is_in_the_table_of_papers() -> None:
    promising = {
        *re.findall(r"^\| (`[\w-]+`) \|.*\| (?:proved|claimed) \|", PAGES["docs/methods.md"], re.M)
    }
    table, _, _ = PAGES["docs/papers.md"].partition("## EpicRec")
    assert len(promising) > 15
    assert {name for name in promising if name not in table} == set()


def test_tests_that_pages_name_are_there() -> None:
    """`tests/a.py`, `tests/a.py::test_b`, and `::test_c` for another one of the same file."""
    named = []
    for page in PAGES.values():
        file = ""
        for path, test in re.findall(r"`(tests/[\w/]+\.py)?(?:::(\w+))?`", page):
            file = path or file
            if file:
                named.append((file, test))
    assert len(named) > 50
    assert [
        (file, test)
        for file, test in named
        if not (ROOT / file).is_file()
        or (test and not re.search(rf"\bdef {test}\(", (ROOT / file).read_text("utf-8")))
    ] == []


def test_make_has_what_the_pages_ask_of_it() -> None:
    targets = {*re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)}
    asked = {*re.findall(r"`make ([a-z-]+)", "\n".join(PAGES.values()))}
    assert len(asked) > 8
    assert asked <= targets


def test_links_lead_somewhere() -> None:
    """To a file, and where an anchor is named, to a heading of it. (What the reference names is
    made from docstrings; `mkdocs build --strict` looks there.)"""
    links = [
        (name, file, anchor)
        for name, page in PAGES.items()
        for file, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)", _prose(page))
    ]
    assert len(links) > 100
    lost = []
    for name, file, anchor in links:
        target = (ROOT / name).parent.joinpath(file).resolve() if file else ROOT / name
        if not target.exists():
            lost.append((name, file))
        elif anchor and anchor not in anchors(target.relative_to(ROOT).as_posix()):
            lost.append((name, f"{file}#{anchor}"))
    assert lost == []


def _prose(page: str) -> str:
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", page, flags=re.S | re.M)


@cache
def anchors(name: str) -> set[str]:
    """The ids that a page's headings get."""
    markdown = pytest.importorskip("markdown", reason="mkdocs is not installed")
    made = markdown.Markdown(extensions=["toc", "pymdownx.superfences"])
    return {*re.findall(r'<h\d id="([^"]+)"', made.convert(PAGES[name]))}


def test_every_page_is_in_the_navigation() -> None:
    listed = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2]
    pages = {name.removeprefix("docs/") for name in PAGES if name.startswith("docs/")}
    pages -= {name.removeprefix("docs/") for name in DECISIONS}
    assert {*re.findall(r"[\w/-]+\.md", listed)} == pages


def test_pictures_are_small_enough_to_look_at() -> None:
    heavy = 200_000
    for name, page in PAGES.items():
        for file in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page):
            assert (ROOT / name).parent.joinpath(file).stat().st_size < heavy


def test_every_word_of_the_glossary_is_linked_from_elsewhere() -> None:
    elsewhere = "\n".join(page for name, page in PAGES.items() if "glossary" not in name)
    linked = {*re.findall(r"glossary\.md#([\w-]+)", elsewhere)}
    words = anchors("docs/glossary.md") - {"glossary"}
    assert len(words) > 30
    assert {word for word in words if word not in linked and not word.startswith("words-")} == set()


def test_films_are_counted_right() -> None:
    said = re.findall(r"catalogue of (\d[\d,]*) films", "\n".join(PAGES.values()))
    assert said
    assert {int(number.replace(",", "")) for number in said} == {
        len(load_dataset("films").catalogue)
    }


def test_the_base_weighs_what_the_page_says() -> None:
    """By what is installed here: other versions and systems differ a little."""
    (packages, megabytes), *_ = re.findall(r"(\d+) packages, (\d+) MB", PAGES["docs/install.md"])
    needed, size = needed_by("epicrec"), 0
    for name in needed:
        files = distribution(name).files or ()
        size += sum(Path(str(file.locate())).stat().st_size for file in files if exists(file))
    assert abs(len(needed) + 1 - int(packages)) <= 2
    assert abs(size / 1e6 / int(megabytes) - 1) < 0.15
    assert int(packages) <= 32
    assert int(megabytes) <= 700


def exists(file: object) -> bool:
    return Path(str(file.locate())).is_file()  # type: ignore[attr-defined]


def needed_by(name: str) -> set[str]:
    """What a package needs without its extras, and what that needs."""
    found: set[str] = set()
    waiting = [(name, "")]
    while waiting:
        asked, extra = waiting.pop()
        for line in distribution(asked).requires or ():
            wanted = Requirement(line)
            wanted_name = wanted.name.lower().replace("_", "-")
            if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
                if wanted_name not in found:
                    waiting.extend((wanted_name, part) for part in ("", *wanted.extras))
                found.add(wanted_name)
    return found


def test_the_version_to_cite_is_this_one() -> None:
    assert f"\nversion: {epicrec.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_decisions_are_numbered_complete_and_listed() -> None:
    numbers = [int(Path(name).name[:3]) for name in DECISIONS]
    assert numbers == [*range(1, len(numbers) + 1)]
    for name in DECISIONS:
        page = PAGES[name]
        assert page.startswith(f"# {Path(name).name[:3]}. ")
        assert re.search(r"^Status: (proposed|accepted|superseded by \d{3})$", page, re.M)
        assert re.findall(r"^## (\w+)$", page, re.M) == ["Context", "Decision", "Consequences"]
        assert f"]({Path(name).name})" in PAGES["docs/decisions/index.md"]


def test_what_is_made_from_figures_and_code_is_not_stale() -> None:
    """`python docs/build.py` makes again what this names."""
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "build.py", "--check"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_stale_table_plot_and_page_are_named(tmp_path: Path) -> None:
    docs = shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for file in ("pyproject.toml", "src"):
        (tmp_path / file).symlink_to(ROOT / file)
    for file, old, new in (
        ("server.md", "| 62,500, 2.5 million |", "| 62,500, 3 million |"),
        ("d2p.md", "| d2p-svd | ", "| d2p-svd | 9"),  # alteregos.svg is drawn from this table
        ("compare.md", "## In short", "## In long"),
        ("layers.svg", "</svg>", ""),
    ):
        text = (docs / file).read_text("utf-8")
        assert old in text
        (docs / file).write_text(text.replace(old, new), "utf-8")
    build = [sys.executable, docs / "build.py", "server", "plots", "compare", "layers"]
    done = subprocess.run([*build, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    named = {line.partition(" is stale")[0] for line in done.stdout.splitlines()}
    assert named == {"server.md", "alteregos.svg", "compare.md", "layers.svg"}
    assert subprocess.run(build, capture_output=True, check=False).returncode == 0
    assert (docs / "server.md").read_bytes() == (ROOT / "docs" / "server.md").read_bytes()
    assert subprocess.run([*build, "--check"], check=False).returncode == 0


def test_sizes_of_checkouts_are_side_by_side(tmp_path: Path) -> None:
    for file, lines in (
        ("old/src/epicrec/a/one.py", 3),
        ("old/src/epicrec/__init__.py", 2),
        ("old/tests/x/test_one.py", 5),
        ("new/src/epicrec/b/two.py", 4),
    ):
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("pass\n" * lines, "utf-8")
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "build.py", "sizes", "old", "new"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    cells = (line.strip("| ").split(" | ") for line in done.stdout.splitlines())
    rows = {name: tuple(counts) for name, *counts in cells}
    assert rows["a"] == ("3", "1", "0", "0")
    assert rows["b"] == ("0", "0", "4", "1")
    assert rows["(single modules)"] == ("2", "1", "0", "0")
    assert rows["src, all"] == ("5", "2", "4", "1")
    assert rows["tests"] == ("5", "1", "0", "0")


def test_every_row_that_is_audited_was() -> None:
    found = json.loads((ROOT / "docs" / "figures" / "audit.json").read_text("utf-8"))
    assert [row["method"] for row in found["rows"]] == [*all_rows()]
    assert found["unexpected"] == []
