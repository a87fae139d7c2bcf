"""Small faults, drawn from every function of a module.

A fault changes one number, operator, comparison or condition. Left out is what no test should hold:
texts, the words of errors and progress, pauses, assertions for mypy, decorators and types. Faults
are drawn by a hash of the line they change, so one stays drawn while its line stays as it is,
wherever the module moves.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

SEED = 12
_CALLS = {"report", "event", "HTTPException", "print", "echo", "sleep"}  # and those in …Error
_ARGUMENTS = {"strict", "daemon", "ignore_errors", "memory_map", "zero_copy_only", "backlog"}
_OPERATORS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
    ast.And: ("and", "or"), ast.Or: ("or", "and"), ast.Add: ("+", "-"), ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.FloorDiv: ("//", "/"), ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"), ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}  # fmt: skip
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}

Edit = tuple[int, int, str]
"""First byte, byte after the last, and what takes their place."""


@dataclass(frozen=True)
class Drawn:
    """A file with a fault in it."""

    name: str
    """The function, and a hash of the change."""
    file: Path
    text: str


def draw(file: Path, count: int) -> list[Drawn]:
    """So many faults of a module: those whose names have the least hashes with the seed."""
    source = file.read_bytes()
    edits = sorted(_named(source), key=lambda one: _hash(str(SEED), one[0]))
    return [
        Drawn(name, file, (source[:start] + new.encode() + source[stop:]).decode())
        for name, (start, stop, new) in edits[:count]
    ]


def _named(source: bytes) -> Iterator[tuple[str, Edit]]:
    seen: Counter[str] = Counter()
    for function, (start, stop, new) in _Module(source).edits():
        begin, end = source.rfind(b"\n", 0, start) + 1, source.find(b"\n", stop)
        line, old = source[begin:end].decode().strip(), source[start:stop].decode()
        said = f"{function}: {line}: {start - begin}: {old} -> {new}"
        seen[said] += 1
        yield f"{function}:{_hash(said, str(seen[said]))[:6]}", (start, stop, new)


class _Module:
    """The source of a module and every edit that is a fault."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.lines = [0]
        for line in source.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))

    def edits(self) -> Iterator[tuple[str, Edit]]:
        yield from self._walk(ast.parse(self.source), "")

    def _walk(self, node: ast.AST, function: str) -> Iterator[tuple[str, Edit]]:
        if _is_left_out(node):
            return
        if function:
            for edit in self._edits_of(node):
                yield function, edit
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
        for name, value in ast.iter_fields(node):
            if name not in ("decorator_list", "annotation", "returns"):
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        yield from self._walk(child, function)

    def _edits_of(self, node: ast.AST) -> Iterator[Edit]:
        match node:
            case ast.Constant(value=bool(value)):
                yield self._begin(node), self._end(node), str(not value)
            case ast.Constant(value=int(value) | float(value)):
                yield self._begin(node), self._end(node), repr(_other_number(value))
            case ast.Compare(left=left, ops=operators, comparators=rest):
                for (one, other), operator in zip(pairwise([left, *rest]), operators, strict=True):
                    yield from self._between(one, operator, other)
            case ast.BoolOp(op=operator, values=values):
                for one, other in pairwise(values):
                    yield from self._between(one, operator, other)
            case ast.BinOp(left=left, op=operator, right=right):
                if not (_is_text(left) or _is_text(right)):
                    yield from self._between(left, operator, right)
            case ast.AugAssign(target=target, op=operator, value=value):
                yield from self._between(target, operator, value)
            case ast.UnaryOp(op=ast.Not() | ast.Invert() | ast.USub()):
                found = re.compile(rb"(not|~|-)\s*").match(self.source, self._begin(node))
                assert found is not None
                yield *found.span(), ""
            case ast.IfExp(test=test):
                yield self._begin(test), self._begin(test), "True or "
            case ast.Call(func=ast.Name(id=name) as called) if name in _NAMES:
                yield self._begin(called), self._end(called), _NAMES[name]

    def _between(self, left: ast.expr, operator: ast.AST, right: ast.expr) -> Iterator[Edit]:
        if type(operator) in _OPERATORS:
            old, new = _OPERATORS[type(operator)]
            pattern = r"\s+".join(map(re.escape, old.split()))
            if old[0].isalpha():
                pattern = rf"\b{pattern}\b"
            place = self._end(left), self._begin(right)
            found = re.compile(pattern.encode()).search(self.source, *place)
            assert found is not None
            yield *found.span(), new

    def _begin(self, node: ast.expr) -> int:
        return self.lines[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.lines[node.end_lineno - 1] + node.end_col_offset


def _other_number(value: float) -> float:
    """The next small number; twice a large one, or one that is not whole."""
    return value + 1 if value in range(10) else value * 2


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _is_left_out(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _CALLS or name.endswith("Error")
        case ast.keyword(arg=str(name)):
            return name in _ARGUMENTS
    return isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert)


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
