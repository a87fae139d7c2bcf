"""Models as files: one `.npz` with the learned arrays, and everything else as JSON; no pickle."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from epicrec import registry
from epicrec.data import Catalogue, Ratings, Scale
from epicrec.errors import InputError
from epicrec.files import write_whole

if TYPE_CHECKING:
    from epicrec.models.base import Recommender

FORMAT = 1

Arrays = dict[str, npt.NDArray[Any]]

_HISTORY = ("user_ids", "indptr", "items", "values")
_FIELDS = {
    "format": int, "method": str, "as_published": bool, "parameters": dict, "guarantee": dict,
    "state": dict, "arrays": list,
}  # fmt: skip


def write_model(model: Recommender, path: str | Path) -> None:
    """Write a fitted model; the histories it was fitted on only where nothing is promised."""
    if registry.name_of(registry.MODELS, type(model)) is None:
        name, place = type(model).__name__, registry.place_of(type(model))
        raise InputError(
            f"a {name} cannot be saved, because load would not find it: register it in its "
            f'package\'s pyproject.toml, [project.entry-points."{registry.MODELS}"] with the line '
            f'{name.lower()} = "{place}", and install the package'
        )
    plain, arrays = learned_state(model)
    meta = {
        "format": FORMAT,
        "method": model.method,
        "as_published": model.as_published,
        "parameters": settings_of(model),
        "guarantee": model.guarantee.to_dict(),
        "state": plain,
        "arrays": sorted(arrays),
    }
    arrays["meta"] = np.frombuffer(json.dumps(meta, default=_jsonable).encode(), np.uint8)
    write_whole(path, lambda file: np.savez(file, allow_pickle=False, **arrays))


def settings_of(model: Recommender) -> dict[str, Any]:
    """The constructor's arguments but for a catalogue: what was learned of it is state."""
    given = model.get_params().items()
    return {name: None if isinstance(value, Catalogue) else value for name, value in given}


def learned_state(model: Recommender) -> tuple[dict[str, Any], Arrays]:
    """All that leaves this process with a model, by `save` or by pickle: what was learned; of the
    histories it was learned from only those of a model that promises nothing."""
    state = {name: value for name, value in vars(model).items() if name.endswith("_")}
    histories = state.pop("histories_", None)
    arrays = {name: value for name, value in state.items() if isinstance(value, np.ndarray)}
    plain = {name: value for name, value in state.items() if name not in arrays}
    plain["scale_"] = asdict(model.scale_) if model.scale_ else None
    if histories is not None and model.guarantee.status == "none":
        arrays |= {f"histories_.{name}": getattr(histories, name) for name in _HISTORY}
    return plain, arrays


def read_model(path: str | Path) -> tuple[dict[str, Any], Arrays]:
    """What `write_model` wrote: the JSON, complete, and the arrays."""
    if not Path(path).exists():
        raise InputError(f"there is no file {path}; 'epicrec fit' writes one, or model.save(path)")
    try:
        with open(path, "rb") as source, np.load(source, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        meta = json.loads(arrays.pop("meta").tobytes())
    except Exception as error:  # a damaged archive fails in many ways, all of them the file's
        raise damaged(path, error) from error
    if not isinstance(meta, dict):
        raise damaged(path, "it does not say what it holds")
    if isinstance(meta.get("format"), int) and meta["format"] != FORMAT:
        raise InputError(
            f"{path} was written by another version of epicrec; update this one to read it, or fit "
            "and save the model again"
        )
    for name, kind in _FIELDS.items():
        if not isinstance(meta.get(name), kind):
            raise damaged(path, f"its {name} is missing or no {kind.__name__}")
    if any(name not in arrays for name in meta["arrays"]):
        raise damaged(path, "some of its arrays are missing")
    return meta, arrays


def restore(model: Recommender, meta: dict[str, Any], arrays: Arrays) -> None:
    """Give a model the learned state of a file."""
    history = {
        name.removeprefix("histories_."): arrays.pop(name)
        for name in [*arrays]
        if name.startswith("histories_.")
    }
    vars(model).update(arrays | meta["state"])
    if not isinstance(getattr(model, "item_ids_", None), np.ndarray) or model.item_ids_.ndim != 1:
        raise InputError("its item_ids_ are no list of items")
    scale = meta["state"]["scale_"]
    model.scale_ = Scale(**scale) if scale else None
    model.histories_ = _histories(model, history) if history else None


def check_scores(model: Recommender) -> None:
    """Have a restored model score an empty history: what is missing or does not fit shows here."""
    nobody = Ratings(
        np.zeros(1, np.int64), model.item_ids_, np.zeros(2, np.int64), np.zeros(0, np.int32),
        np.zeros(0, np.float32), model.scale_,
    )  # fmt: skip
    if model._scores(nobody).shape != (1, len(model.item_ids_)):
        raise InputError("its parts do not fit together")


def _histories(model: Recommender, columns: Arrays) -> Ratings:
    """Histories whose positions all point at something, since compiled code does not look."""
    indptr, items = columns["indptr"], columns["items"]
    sound = (
        all(column.ndim == 1 for column in columns.values())
        and all(columns[name].dtype.kind == "i" for name in ("indptr", "items"))
        and len(indptr) == len(columns["user_ids"]) + 1
        and indptr[0] == 0
        and indptr[-1] == len(items) == len(columns["values"])
        and (np.diff(indptr) >= 0).all()
        and (len(items) == 0 or (items.min() >= 0 and items.max() < len(model.item_ids_)))
    )
    if not sound:
        raise InputError("its histories do not fit together")
    return Ratings(
        columns["user_ids"], model.item_ids_, indptr, items, columns["values"], model.scale_
    )


def damaged(path: str | Path, why: object) -> InputError:
    return InputError(
        f"{path} is not a saved epicrec model, or it is damaged ({why}); copy it again, or fit and "
        "save the model anew"
    )


def _jsonable(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"cannot save a {type(value).__name__}")
