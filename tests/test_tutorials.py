"""The tutorials, done as a reader does them: every block of each page, from top to bottom."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from distributions import ROOT, clean_environment
from loopback import PATIENCE, held_port, wait_for

pytestmark = pytest.mark.skipif(
    not (shutil.which("bash") and shutil.which("curl")), reason="bash and curl are needed"
)
BLOCKS = re.compile(r"^```(sh|python)\n(.*?)^```", re.S | re.M)
MINUTES = re.compile(r"^epicrec (audit|compare|reproduce) .*\n", re.M)
STAYS = re.compile(r"epicrec (client|serve)\b(?!.*--(check|backup|restore))")


class Reader:
    """Somebody with a terminal, an editor and a folder; programs that stay are left running."""

    def __init__(self, folder: Path) -> None:
        for name in ("examples", "deploy"):
            shutil.copytree(ROOT / name, folder / name)
        self.folder, self.site = folder, folder / "site"
        self.space: dict[str, Any] = {"__name__": "tutorial"}
        self.running: list[subprocess.Popen[bytes]] = []
        self.environment = clean_environment() | {
            "HOME": str(folder),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(self.site), str(ROOT / "src")]),
        }

    def python(self, block: str) -> None:
        exec(compile(block, "tutorial", "exec"), self.space)

    def sh(self, block: str) -> None:
        if re.match(r"python3 -m venv|pip install '?\.", block) and "\nepicrec" not in block:
            return self.installs(block)
        if STAYS.match(block):
            return self.starts(block)
        wanted = re.search(r"  # status (\d)\n", block)
        block = re.sub(
            r"^pip install (?=\./)",
            f"{sys.executable} -m pip install -q --no-deps --no-index --no-build-isolation "
            f"--target '{self.site}' ",
            block,
            flags=re.M,
        )
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block], cwd=self.folder, env=self.environment,
            capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert done.returncode == int(wanted[1] if wanted else 0), block + done.stdout + done.stderr
        return None

    def installs(self, block: str) -> None:
        """Not done here: it asks an index of packages. tests/test_install.py has the wheel."""
        (extra,) = re.findall(r"^pip install '?\.(?:\[(\w+)\]')?$", block, re.M)
        assert not extra or f"\n{extra} = [" in (ROOT / "pyproject.toml").read_text("utf-8")

    def starts(self, block: str) -> None:
        command = block.strip()
        port = int(re.findall(r"--port (\d+)", command)[0])
        log = self.folder / f"{port}.log"
        with log.open("wb") as said:
            program = subprocess.Popen(
                ["bash", "-c", f"exec {command}"], cwd=self.folder, env=self.environment,
                stdout=subprocess.DEVNULL, stderr=said,
            )  # fmt: skip
        self.running.append(program)

        def listens() -> bool:
            assert program.poll() is None, log.read_text()
            with socket.socket() as asking:
                return asking.connect_ex(("127.0.0.1", port)) == 0

        wait_for(listens, command)

    def close(self) -> None:
        for program in self.running:
            program.terminate()
        for program in self.running:
            program.wait(PATIENCE)


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    monkeypatch.chdir(tmp_path)
    made = Reader(tmp_path)
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["person", "operator", "researcher"])
def test_a_tutorial_can_be_done(name: str, reader: Reader) -> None:
    """All that differs from the page is the number of a port, which may be taken here."""
    page = (ROOT / "docs" / "tutorials" / f"{name}.md").read_text("utf-8")
    with ExitStack() as held:
        for port in {*re.findall(r"--port (\d+)", page)}:
            page = page.replace(port, str(held.enter_context(held_port())))
        found = BLOCKS.findall(page)
        assert len(found) > 3
        assert page.count("\n```") == 2 * len(found), "a block that nothing runs"
        for language, block in found:
            getattr(reader, language)(block)


@pytest.mark.slow
def test_the_readme_and_recipes_for_files_of_ones_own_work(reader: Reader) -> None:
    """The README from top to bottom and the first recipes of docs/howto.md, which make the file
    that it names; but for what takes minutes and what stays, which have tests of their own."""
    readme, page = ((ROOT / name).read_text("utf-8") for name in ("README.md", "docs/howto.md"))
    _, look, own, programs = [block for kind, block in BLOCKS.findall(readme) if kind == "sh"]
    assert STAYS.match(programs)
    (_, makes_files), *recipes = BLOCKS.findall(page)[:5]
    reader.sh(MINUTES.sub("", look))
    reader.python(makes_files)
    reader.sh(MINUTES.sub("", own))
    Path("levels.toml").write_text('Horror = "no release"\n')
    for language, block in recipes:
        getattr(reader, language)(MINUTES.sub("", block))
    ranked = "epicrec recommend private.npz --history mine.csv --catalogue shop --json"
    reader.sh(f'{ranked} | grep -q \'"status": "proved"\'')


def test_buttons_that_a_person_is_told_to_press_are_there() -> None:
    pages = ROOT / "src" / "epicrec" / "client"
    shown = "\n".join(
        path.read_text("utf-8") for path in (pages / "web" / "templates").glob("*.html")
    )
    for path in (pages / "sending" / "privacy_choice.py", *(ROOT / "extension").rglob("*.html")):
        shown += path.read_text("utf-8")
    for name in ("tutorials/person.md", "howto.md"):
        page = (ROOT / "docs" / name).read_text("utf-8")
        told = re.findall(r"(?:[Pp]ress|Open|choose:|and) \*\*([^*]+)\*\*", page)
        told += re.findall(r"\*([A-Z][a-z ]+)\*(?!\*)", page)
        assert len(told) > 5
        assert [words for words in told if words not in shown] == []
    popup = (ROOT / "extension" / "popup.html").read_text("utf-8")
    ((part, page),) = re.findall(r"<strong>([^<]+) → ([^<]+)</strong>", popup)
    menu = (pages / "web" / "templates" / "base.html").read_text("utf-8")
    assert re.search(rf'"{part}": \[.*"{page}"', menu)


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_an_example_runs(script: Path, tmp_path: Path) -> None:
    assert len(script.read_text("utf-8").splitlines()) < 40
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)], cwd=tmp_path, capture_output=True, text=True,
        env=clean_environment() | {"PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout
