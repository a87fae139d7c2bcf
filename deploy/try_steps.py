"""Do what the Dockerfile does, without Docker: its COPY and RUN lines in a clean folder.

python deploy/try_steps.py [--without-dependencies]

`/…` of the image becomes a folder; the base image and its users are taken as given. Without
dependencies, pip installs the package alone and those of this Python are used, which takes seconds.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, lines that go on joined."""
    text = (HERE / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


def build(image: Path, *, dependencies: bool) -> list[str]:
    """Carry the steps out below `image`; the command that a container would run."""
    where, command = image, []
    for name, rest in instructions():
        if name == "WORKDIR":
            where = image / rest.lstrip("/")
            where.mkdir(parents=True, exist_ok=True)
        elif name == "COPY" and not rest.startswith("--from"):
            *sources, target = rest.split()
            _copy(sources, target, where, image)
        elif name == "RUN" and not rest.startswith("useradd"):
            _run(rest, where, image, dependencies=dependencies)
        elif name in ("ENTRYPOINT", "CMD"):
            command += json.loads(rest)
    return [_inside(part, image) for part in command]


def _copy(sources: list[str], target: str, where: Path, image: Path) -> None:
    into = (image / target.lstrip("/")) if target.startswith("/") else where / target
    for source in sources:
        found = ROOT / source
        goal = into / found.name if target.endswith("/") else into
        goal.parent.mkdir(parents=True, exist_ok=True)
        if found.is_dir():
            shutil.copytree(found, goal, ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
        else:
            shutil.copy2(found, goal)


def _run(step: str, where: Path, image: Path, *, dependencies: bool) -> None:
    command = [_inside(part, image) for part in shlex.split(step)]
    if command[0] == "python":
        command[0] = sys.executable
    if not dependencies and "install" in command:
        packages = next((image / "opt" / "epicrec").glob("lib/python*/site-packages"))
        for old in packages.glob("*setuptools*"):  # ours, found by way of the next line, is newer
            shutil.rmtree(old)
        (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
        command += ["--no-deps", "--no-build-isolation", "--ignore-installed", "--quiet"]
    subprocess.run(command, cwd=where, check=True, env=_environment())


def _environment() -> dict[str, str]:
    """Nothing of the sources beside us: what was copied has to do."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _inside(part: str, image: Path) -> str:
    return str(image / part.lstrip("/")) if part.startswith(("/opt", "/etc", "/var")) else part


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "image"
        command = build(image, dependencies="--without-dependencies" not in sys.argv)
        data = str(Path(folder) / "data")
        subprocess.run(
            [*command, "--check", "--data", data, "--catalogue", "films"], check=True,
            cwd=folder, env=_environment(),
        )  # fmt: skip
    print("every step was done, and what it made would start")


if __name__ == "__main__":
    main()
