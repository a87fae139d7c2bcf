"""layers.svg, drawn from the code, and client.png, a photograph of the client."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
import time
import tomllib
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import grimp
from tables import HERE, Made

# ---- layers.svg: the layers of pyproject.toml, and who imports whom -----------------------------

LEFT, WIDTH, HEIGHT, STEP = 100, 510, 40, 62
SHARED = "shared"
STYLE = """
text { font-family: sans-serif; font-size: 14px; fill: #1c1c1e }
.role { fill: #55555c } .name { font-weight: bold }
rect { fill: #eef2fb; stroke: #4a6fb5 } .shared { fill: #f3f3f5; stroke: #8a8a92 }
path { fill: none; stroke: #4a6fb5; stroke-width: 1.5 } marker path { fill: #4a6fb5; stroke: none }
@media (prefers-color-scheme: dark) {
text { fill: #f2f2f5 } .role { fill: #b4b4bf }
rect { fill: #222c44; stroke: #8fb0ee } .shared { fill: #2c2c31; stroke: #8a8a92 }
path { stroke: #8fb0ee } marker path { fill: #8fb0ee; stroke: none } }
"""


class Box(NamedTuple):
    x: float
    row: int
    width: float

    @property
    def y(self) -> int:
        return 10 + self.row * STEP

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def is_left(self) -> bool:
        return self.middle < LEFT + WIDTH / 2

    @property
    def is_inside(self) -> bool:
        """Neither of its sides is a side of the drawing."""
        return self.x > LEFT and self.x + self.width < LEFT + WIDTH


def layers() -> Made:
    """An arrow for each import that no chain of other arrows stands for."""
    drawing = _drawing()
    return {"layers.svg": lambda _: drawing}


def _rows() -> tuple[list[list[str]], list[str]]:
    """The rows of folders in the contract, from the top, and the single modules below them."""
    settings = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (contract,) = (one for one in contracts if one["type"] == "layers")
    rows = [
        [name.strip().removeprefix("epicrec.") for name in row.split("|")]
        for row in contract["layers"]
    ]
    single = [*takewhile(_has_no_folder, reversed(rows))]
    return rows[: len(rows) - len(single)], [name for row in reversed(single) for name in row]


def _has_no_folder(row: list[str]) -> bool:
    return not any((HERE.parent / "src" / "epicrec" / name).is_dir() for name in row)


def _imports(folders: list[str], shared: list[str]) -> dict[str, set[str]]:
    """What each folder imports directly; all single modules count as one."""
    graph = grimp.build_graph("epicrec", cache_dir=None, exclude_type_checking_imports=True)
    for name in folders:
        if graph.find_descendants(f"epicrec.{name}"):
            graph.squash_module(f"epicrec.{name}")
    found: dict[str, set[str]] = {SHARED: set()}
    for name in folders:
        asked = graph.find_modules_directly_imported_by(f"epicrec.{name}")
        plain = {other.removeprefix("epicrec.") for other in asked} - {name}
        found[name] = plain & {*folders} | ({SHARED} if plain & {*shared} else set())
    return found


def _arrows(found: dict[str, set[str]]) -> list[tuple[str, str]]:
    """The direct imports, without those that other arrows already lead to."""

    def reached(name: str) -> set[str]:
        return found[name].union(*(reached(other) for other in found[name]))

    return sorted(
        (name, other)
        for name, direct in found.items()
        for other in direct
        if not any(other in reached(between) for between in direct - {other})
    )


def _roles() -> dict[str, str]:
    """What each folder is for, as architecture.md says."""
    page = (HERE / "architecture.md").read_text("utf-8")
    (listed,) = re.findall(r"^```\n(cli/.*?)^```", page, re.S | re.M)
    return dict(re.findall(r"^(\w+)(?:/|\.py) +(.+?) {2,}", listed, re.M))


def _drawing() -> str:
    rows, shared = _rows()
    places = {
        name: Box(LEFT + at * (WIDTH + 10) / len(row), number, (WIDTH + 10) / len(row) - 10)
        for number, row in enumerate([*rows, [SHARED]])
        for at, name in enumerate(row)
    }
    found = _imports([name for row in rows for name in row], shared)
    lines = [_arrow(places[one], places[other]) for one, other in _arrows(found)]
    said = _roles()
    if silent := [name for row in rows for name in row if name not in said]:
        raise SystemExit(f"architecture.md does not list what these are for: {', '.join(silent)}")
    boxes = [_named(places[name], name, said[name]) for row in rows for name in row]
    bottom = places[SHARED]
    return "\n".join([
        '<svg xmlns="http://www.w3.org/2000/svg" role="img"'
        f' viewBox="0 0 {2 * LEFT + WIDTH} {bottom.y + HEIGHT + 26}"'
        ' aria-label="The layers of epicrec; each imports what stands below it">',
        f"<style>{STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8"'
        ' markerHeight="8" orient="auto" markerUnits="userSpaceOnUse">'
        '<path d="M0 0 L8 4 L0 8 z"/></marker></defs>',
        *lines, *boxes, _shared(bottom, shared), "</svg>\n",
    ])  # fmt: skip


def _named(box: Box, name: str, role: str) -> str:
    """The name, and behind or below it what it is for."""
    place = (
        f'x="{box.x + 10}" y="{box.y + 34}" style="font-size: 12px"'
        if box.width < WIDTH / 2 - 10
        else 'dx="12"'
    )
    y = box.y + (18 if "y=" in place else 25)
    return (
        f'<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{HEIGHT}" rx="6"/>'
        f'<text x="{box.x + 10}" y="{y}"><tspan class="name">{name}</tspan>'
        f'<tspan class="role" {place}>{role}</tspan></text>'
    )


def _shared(box: Box, names: list[str]) -> str:
    """The single modules, in two lines."""
    half = (len(names) + 1) // 2
    lines = (
        f'<text class="role" x="{box.x + 12}" y="{box.y + 22 + 20 * at}">{", ".join(part)}</text>'
        for at, part in enumerate((names[:half], names[half:]))
    )
    return (
        f'<rect class="shared" x="{box.x}" y="{box.y}" width="{box.width}" height="{HEIGHT + 16}"'
        f' rx="6"/>{"".join(lines)}'
    )


def _arrow(one: Box, other: Box) -> str:
    """Straight to the next row, else around the rows between."""
    if other.row == one.row + 1:
        narrow = min(one, other, key=lambda box: box.width)
        way = f"M{narrow.middle} {one.y + HEIGHT} V{other.y}"
    else:
        side = -1 if one.is_left or other.is_left else 1
        edge = LEFT if side < 0 else LEFT + WIDTH
        away = edge + side * (24 + 12 * (other.row - one.row))
        start, end = one.y + HEIGHT - 10, other.y + 10
        before, after = f"M{edge} {start}", ""
        if one.is_inside:
            start = one.y + HEIGHT + 8
            before = f"M{one.middle} {one.y + HEIGHT} V{start} H{edge}"
        if other.is_inside:
            end = other.y - 8
            after = f"H{other.middle} V{other.y}"
        way = f"{before} C{away} {start} {away} {end} {edge} {end} {after}".rstrip()
    return f'<path marker-end="url(#head)" d="{way}"/>'


# ---- client.png: the page "For you" of the example viewer, with the embedded films --------------


def take_picture() -> None:
    """Start a client on this machine and take the picture with Debian's chromium."""
    from playwright.sync_api import sync_playwright

    from epicrec.client.main import make_client

    with tempfile.TemporaryDirectory() as folder:
        client, address = make_client(Path(folder), catalogue="films")
        assert client.state.device is not None
        client.state.device.example()
        thread = threading.Thread(target=client.run)
        thread.start()
        try:
            while not client.started:
                time.sleep(0.05)
            with sync_playwright() as running:
                browser = running.chromium.launch(
                    executable_path=shutil.which("chromium"), args=["--no-sandbox"]
                )
                page = browser.new_page(viewport={"width": 1000, "height": 625})
                page.goto(address)
                page.get_by_role("navigation", name="Places").get_by_text("For you").click()
                page.wait_for_load_state("networkidle")
                page.screenshot(path=HERE / "client.png")
                browser.close()
        finally:
            client.should_exit = True
            thread.join()
