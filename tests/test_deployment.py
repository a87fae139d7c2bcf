"""What an operator copies: settings, unit files, compose, dashboard, the Dockerfile's steps."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from epicrec.server import Settings
from epicrec.server.operations.metrics import Metrics

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"


def test_the_settings_file_shows_every_setting_with_its_default(tmp_path: Path) -> None:
    lines = (DEPLOY / "server.toml").read_text("utf-8").splitlines()
    shown = [line.removeprefix("# ") for line in lines if re.match(r"# \w+ = ", line)]
    file = tmp_path / "server.toml"
    file.write_text("\n".join(shown), "utf-8")
    assert Settings.load(file, environment={}) == Settings()
    assert [line.split(" = ")[0] for line in shown] == list(asdict(Settings()))
    assert Settings.load(DEPLOY / "server.toml", environment={}) == Settings()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_the_unit_files_are_right(tmp_path: Path) -> None:
    for name in ("epicrec.service", "epicrec.socket"):
        text = (DEPLOY / name).read_text("utf-8")
        text = text.replace("/opt/epicrec/bin/epicrec", sys.executable)
        (tmp_path / name).write_text(text.replace("User=epicrec", "User=root"), "utf-8")
    files = [str(tmp_path / name) for name in ("epicrec.service", "epicrec.socket")]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *files],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    ours = [line for line in done.stderr.splitlines() if "epicrec" in line]
    assert (done.returncode, ours) == (0, []), done.stderr


def test_compose_names_settings_and_files_that_exist() -> None:
    text = (DEPLOY / "compose.yaml").read_text("utf-8")
    named = {name.lower() for name in re.findall(r"EPICREC_SERVER_(\w+):", text)}
    assert named <= set(asdict(Settings()))
    assert (DEPLOY / "prometheus.yml").exists()
    docker = (DEPLOY / "Dockerfile").read_text("utf-8")
    assert {n.lower() for n in re.findall(r"EPICREC_SERVER_(\w+)=", docker)} <= set(
        asdict(Settings())
    )
    assert "USER 10001" in docker


def test_the_dashboard_asks_for_metrics_there_are() -> None:
    board = json.loads((DEPLOY / "grafana-dashboard.json").read_text("utf-8"))
    asked = set(re.findall(r"epicrec_\w+", json.dumps(board["panels"])))
    source = (ROOT / "src/epicrec/server/service.py").read_text("utf-8")
    gauges = {f"epicrec_{name}" for name in re.findall(r'\("(\w+)", "', source)}
    counted = {"epicrec_users", "epicrec_items", "epicrec_feedback"}
    made = Metrics(list)
    made.answered("GET", "/", 200, 0.1)
    made.jobs.labels("train", "done").inc()
    written = set(re.findall(r"^(epicrec_\w+)", made.text().decode(), re.MULTILINE))
    assert asked <= gauges | counted | written
    assert len(asked) > 10


def test_the_steps_of_the_dockerfile_work_in_a_clean_folder() -> None:
    done = subprocess.run(
        [sys.executable, str(DEPLOY / "try_steps.py"), "--without-dependencies"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "would start" in done.stdout
