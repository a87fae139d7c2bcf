"""Wheels and source distributions, made of what git holds and outside of the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HERE_ONLY = ("PYTHONPATH", "PYTHONHOME")


def clean_environment() -> dict[str, str]:
    """The environment without what would lead an interpreter back to this checkout."""
    return {name: value for name, value in os.environ.items() if name not in HERE_ONLY}


def tracked(*folders: str) -> set[str]:
    """The files that git knows under these folders."""
    listed = subprocess.run(
        ["git", "ls-files", "--", *folders], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode or not listed.stdout:
        pytest.skip("needs a git checkout to compare with")
    return {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}


def build(folder: str, into: Path, *kinds: str) -> list[Path]:
    """The "wheel" or "sdist" of the project in a folder of the checkout."""
    source, dist = into / "source", into / "dist"
    for name in tracked(folder):
        copy = source / Path(name).relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((ROOT / name).read_bytes())
    code = (
        "import sys, setuptools.build_meta as backend\n"
        "_, dist, *kinds = sys.argv\n"  # a build changes the arguments
        "for kind in kinds: getattr(backend, f'build_{kind}')(dist)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(dist), *kinds],
        cwd=source, capture_output=True, text=True, env=clean_environment(),
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return sorted(dist.iterdir())
