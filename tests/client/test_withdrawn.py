"""A published model that is withdrawn, by the steps of SECURITY.md."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from client.conftest import serving
from epicrec.client.device import Device
from epicrec.data import Catalogue, Ratings
from epicrec.privacy import Guarantee, Ledger
from loopback import PATIENCE

PAGE = (Path(__file__).parents[2] / "SECURITY.md").read_text("utf-8")


def test_clients_stop_using_a_model_that_is_withdrawn(
    tmp_path: Path, films: Catalogue, viewers: Ratings
) -> None:
    with serving(tmp_path / "server") as server:
        server.publish(viewers)
        device = Device(tmp_path / "device", films, server=server.url)
        try:
            device.example()
            device.refresh()
            assert device.for_you().with_model
            published = server.folder / "published"
            published.rename(server.folder / "withdrawn-1")
            for route in ("/api/model", "/api/model/info"):
                assert httpx.get(server.url + route, timeout=PATIENCE).status_code == 404
            assert device.refresh() == ""
            found = device.for_you()
            assert not found.with_model
            assert found.rows
            server.publish(viewers)
            device.refresh()
            assert device.for_you().with_model
        finally:
            device.close()


def test_the_ledger_keeps_what_was_spent_and_what_was_disclosed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "DATA").mkdir()
    promise = Guarantee(epsilon=1.0, unit="user", relation="add or remove one")
    ledger = Ledger("DATA/ledger.jsonl", limit_epsilon=4.0, limit_delta=1e-6)
    ledger.spend(promise, about="item model, version 3")
    (code,) = re.findall(r"^    ```py\n(.*?)^    ```", PAGE, re.S | re.M)
    exec(re.sub(r"^    ", "", code, flags=re.M), {})
    assert [entry.disclosure for entry in ledger.entries()] == [False, True]
    assert ledger.total()["user"].epsilon == 1.0
