"""Faults that mutmut plants, drawn so that a fault stays drawn while the code it changes stands."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import libcst as cst
from faults import SOURCES, Fault
from mutmut.mutation.file_mutation import Mutation, create_mutations

SEED = 12
_SAID = ("report", "event", "HTTPException")  # and whatever ends in Error


def draw(root: Path, area: str, places: Iterable[str], count: int) -> list[Fault]:
    """So many faults of an area, those whose names hash least with the seed.

    A place is a file, or one function of it as `file:function`.
    """
    found = [found for place in places for found in _planted(root, place)]
    found.sort(key=lambda one: _hash(str(SEED), one[0]))
    return [
        Fault(
            name, area, name.partition(":")[0], module.code,
            module.deep_replace(change.original_node, change.mutated_node).code,
        )
        for name, module, change in found[:count]
    ]  # fmt: skip


def _planted(root: Path, place: str) -> Iterator[tuple[str, cst.Module, Mutation]]:
    file, _, only = place.partition(":")
    path = root / SOURCES / file
    module, mutations, _, _ = create_mutations(str(path), path.read_text("utf-8"))
    unheard = _Unheard()
    module.visit(unheard)
    seen: Counter[str] = Counter()
    for change in mutations:
        function = change.contained_by_top_level_function
        if not isinstance(function, cst.FunctionDef) or only not in ("", function.name.value):
            continue
        if _only_crashes(change) or change.original_node in unheard.nodes:
            continue
        old, new = map(module.code_for_node, (change.original_node, change.mutated_node))
        said = f"{file}:{function.name.value}: {old} -> {new}"
        seen[said] += 1
        yield f"{file}:{function.name.value}:{_hash(said, str(seen[said]))[:6]}", module, change


def _only_crashes(change: Mutation) -> bool:
    """None in place of a value, or an argument left out: any test that comes by notices."""
    old, new = change.original_node, change.mutated_node
    if isinstance(old, cst.Call) and isinstance(new, cst.Call):
        return old.func is new.func
    return isinstance(old, cst.Assign | cst.AnnAssign | cst.Lambda)


class _Unheard(cst.CSTVisitor):
    """What no test should hold: texts, errors' and progress's words, checks for mypy, and
    `strict=True`, which guards against our own mistakes alone."""

    def __init__(self) -> None:
        self.nodes: set[cst.CSTNode] = set()
        self._within = 0

    def on_visit(self, node: cst.CSTNode) -> bool:
        self._within += _is_unheard(node)
        if self._within:
            self.nodes.add(node)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        self._within -= _is_unheard(original_node)


def _is_unheard(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name):
        return node.func.value in _SAID or node.func.value.endswith("Error")
    if isinstance(node, cst.Arg) and node.keyword:
        return node.keyword.value == "strict"
    return isinstance(node, cst.BaseString | cst.Raise | cst.Assert)


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
