"""Model files that were cut, damaged or made up: an error that says so, or the same model."""

import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from epicrec.data import Ratings
from epicrec.errors import InputError
from epicrec.files import check_folder, check_output, write_whole
from epicrec.models import load, make_model

HISTORY = pa.table({"user_id": [9], "item_id": ["x"], "rating": [4.0]})


@pytest.fixture(scope="module", params=["bias", "item-knn", "dpi-avg", "svd"])
def saved(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Any]:
    users, items = np.repeat(np.arange(6), 4), np.tile(list("xyzw"), 6)
    ratings = Ratings.from_columns(users, items, 1 + np.arange(24) % 5)
    model = make_model(request.param).fit(ratings, items=np.unique(items), scale="1:5:1")
    path = tmp_path_factory.mktemp("saved") / "model.npz"
    model.save(path)
    return path.read_bytes(), model


def same_or_refused(path: Path, model: Any) -> bool:
    """Whether the file was refused; if it was not, it must hold the model as it was."""
    try:
        again = load(path)
    except InputError as error:
        return str(path) in str(error)
    assert again.get_params() == model.get_params()
    if model.method != "dpi-avg":  # whose noise on a history in the call is fresh
        assert again.recommend(HISTORY).equals(model.recommend(HISTORY))
    return False


def test_whole_files(saved: tuple[bytes, Any], tmp_path: Path) -> None:
    (tmp_path / "whole.npz").write_bytes(saved[0])
    assert not same_or_refused(tmp_path / "whole.npz", saved[1])


def test_cut_files(saved: tuple[bytes, Any], tmp_path: Path) -> None:
    whole, model = saved
    for size in np.linspace(0, len(whole) - 1, 40).astype(int):
        (tmp_path / "cut.npz").write_bytes(whole[:size])
        assert same_or_refused(tmp_path / "cut.npz", model), size


def test_files_with_flipped_bits(saved: tuple[bytes, Any], tmp_path: Path) -> None:
    whole, model = saved
    rng = np.random.default_rng(12)
    refused = 0
    for at in rng.integers(len(whole), size=60):
        wrong = bytearray(whole)
        wrong[at] ^= 1 << int(rng.integers(8))
        (tmp_path / "flipped.npz").write_bytes(wrong)
        refused += same_or_refused(tmp_path / "flipped.npz", model)
    assert refused > 20


def rewritten(whole: bytes, path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """The file with its arrays and JSON changed, and every checksum right."""
    with np.load(io.BytesIO(whole)) as file:
        content = {name: file[name] for name in file.files}
    content["meta"] = json.loads(content["meta"].tobytes())
    change(content)
    meta = json.dumps(content.pop("meta", None)).encode()
    np.savez(path, meta=np.frombuffer(meta, np.uint8), **content)


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "no meta": lambda c: c.update(meta=None),
    "meta is a list": lambda c: c.update(meta=[]),
    "no format": lambda c: c["meta"].pop("format"),
    "format is text": lambda c: c["meta"].update(format="1"),
    "no method": lambda c: c["meta"].pop("method"),
    "no parameters": lambda c: c["meta"].pop("parameters"),
    "unknown parameter": lambda c: c["meta"]["parameters"].update(depth=3),
    "no state": lambda c: c["meta"].pop("state"),
    "no scale": lambda c: c["meta"]["state"].pop("scale_"),
    "an odd scale": lambda c: c["meta"]["state"].update(scale_={"low": 5, "high": 1, "step": 1}),
    "no items": lambda c: c.pop("item_ids_"),
    "items in a table": lambda c: c.update(item_ids_=c["item_ids_"][None]),
    "a later format": lambda c: c["meta"].update(format=99),
    "another method": lambda c: c["meta"].update(method="os:system"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_made_up_files(saved: tuple[bytes, Any], tmp_path: Path, change: str) -> None:
    rewritten(saved[0], tmp_path / "odd.npz", CHANGES[change])
    with pytest.raises(InputError, match=r"odd\.npz"):
        load(tmp_path / "odd.npz")


def test_every_learned_part_is_needed(saved: tuple[bytes, Any], tmp_path: Path) -> None:
    whole, _ = saved
    with np.load(io.BytesIO(whole)) as file:
        names = [n for n in file.files if n.endswith("_") and n != "guarantee_"]
    for name in names:
        rewritten(whole, tmp_path / "odd.npz", lambda c, name=name: c.pop(name))
        with pytest.raises(InputError, match=r"odd\.npz"):
            load(tmp_path / "odd.npz")


@pytest.mark.parametrize(
    ("name", "values"),
    [("items", [-1]), ("items", [10**6]), ("indptr", [-3]), ("indptr", [10**9])],
)
def test_histories_point_at_something(tmp_path: Path, name: str, values: list[int]) -> None:
    model = make_model("user-knn").fit(Ratings.from_columns([1, 1, 2], [1, 2, 1], [5, 1, 3]))
    model.save(tmp_path / "model.npz")

    def change(content: dict[str, Any]) -> None:
        wrong = content[f"histories_.{name}"].copy()
        wrong[-1] = values[0]
        content[f"histories_.{name}"] = wrong

    rewritten((tmp_path / "model.npz").read_bytes(), tmp_path / "odd.npz", change)
    with pytest.raises(InputError, match="fit together"):
        load(tmp_path / "odd.npz")


@pytest.mark.parametrize("shape", ["(-4,)", "(99999999999999,)", "(4, -1)", "()"])
def test_shapes_that_cannot_be(saved: tuple[bytes, Any], tmp_path: Path, shape: str) -> None:
    whole, _ = saved
    with (
        zipfile.ZipFile(io.BytesIO(whole)) as old,
        zipfile.ZipFile(tmp_path / "odd.npz", "w") as new,
    ):
        for name in old.namelist():
            data = old.read(name)
            if name == "item_ids_.npy":
                start = data.index(b"'shape': ") + len(b"'shape': ")
                end = data.index(b")", start) + 1
                room = data.index(b"\n", end)
                head = data[:start] + shape.encode() + data[end:room]
                data = head[:room].ljust(room) + data[room:]
            new.writestr(name, data)
    with pytest.raises(InputError, match=r"odd\.npz"):
        load(tmp_path / "odd.npz")


# ---- where files may go -----------------------------------------------------------------------


def test_only_plain_files_are_replaced(tmp_path: Path) -> None:
    model = make_model("popularity").fit(Ratings.from_columns([1, 2], [1, 1]))
    os.mkfifo(tmp_path / "pipe")
    for bad, message in (
        (tmp_path / "pipe", "not a plain file"),
        (Path("/dev/full"), "not a plain file"),
        (tmp_path, "is a folder"),
        (tmp_path / "no" / "model.npz", "there is no folder"),
        (tmp_path / "pipe" / "model.npz", "there is no folder"),
    ):
        with pytest.raises(InputError, match=message):
            model.save(bad)
    assert (tmp_path / "pipe").is_fifo()
    assert Path("/dev/full").is_char_device()


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_whole(tmp_path / "link", lambda file: file.write(b"one"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"one"


def test_rights_are_kept(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", lambda file: file.write(b"1"))
    (tmp_path / "b").write_bytes(b"1")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode
    (tmp_path / "a").chmod(0o640)
    write_whole(tmp_path / "a", lambda file: file.write(b"2"))
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_a_full_disk_is_said_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for check in (check_output, check_folder):
        with pytest.raises(InputError, match=r"No space left on device; make room"):
            check(tmp_path / "new")


def test_folders(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert check_folder(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    assert not (tmp_path / "a").exists(), "a check makes nothing"
    for bad in (tmp_path / "file", tmp_path / "file" / "b"):
        with pytest.raises(InputError, match=r"because .*file is a file"):
            check_folder(bad)
