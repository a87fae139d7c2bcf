"""Posters: a film's card, drawn here from its title, year and genre; no image is fetched."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from math import cos, pi, sin
from unicodedata import east_asian_width
from xml.sax.saxutils import escape, quoteattr

WIDTH, HEIGHT = 200, 300
_HUES = {
    "action": 12, "adventure": 32, "animation": 190, "children": 48, "family": 48, "comedy": 42,
    "crime": 350, "documentary": 160, "drama": 262, "fantasy": 285, "history": 24, "horror": 356,
    "music": 322, "musical": 322, "mystery": 232, "romance": 338, "science fiction": 205,
    "sci-fi": 205, "thriller": 216, "war": 84, "western": 20, "film-noir": 225,
}  # fmt: skip
_SIZES = ((26, 9), (22, 11), (18, 14), (15, 17), (13, 20))  # font size, letters to a line
_MOST_LINES = 6
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def draw_poster(title: str, year: int | None = None, genres: Sequence[str] = ()) -> str:
    """A 2:3 card as SVG: the same words always give the same picture, and nothing is loaded.

    Only attributes are used, no style sheet, so that it may be inside a page with a strict
    content policy; the ids are the film's own, so that many may be in one page.
    """
    title = " ".join(_NOT_IN_XML.sub("", title).split()) or "Untitled"
    genre = _NOT_IN_XML.sub("", genres[0]) if genres else ""
    seed = hashlib.sha256(f"{title}\0{year or ''}\0{genre}".encode()).digest()
    hue = _HUES.get(genre.casefold(), seed[0] * 360 // 256) + seed[1] % 25 - 12
    mark = seed.hex()[:12]
    size, lines = _set_type(title)
    top = HEIGHT - 36 - (len(lines) - 1) * size * 1.16
    words = "".join(
        f'<text x="16" y="{top + k * size * 1.16:.1f}" font-size="{size}" font-weight="700" '
        f'fill="#fff">{escape(line)}</text>'
        for k, line in enumerate(lines)
    )
    below = " · ".join(part for part in (str(year or ""), genre) if part)
    label = f"{title} ({year})" if year else title
    shade = max(top - size * 1.6, 90)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label={quoteattr(label)} font-family="system-ui, sans-serif">'
        f'<defs><linearGradient id="s{mark}" x1="0" y1="0" x2="0.35" y2="1">'
        f'<stop offset="0" stop-color="hsl({hue % 360},58%,46%)"/>'
        f'<stop offset="1" stop-color="hsl({(hue + 28) % 360},62%,17%)"/></linearGradient>'
        f'<linearGradient id="d{mark}" x1="0" y1="0" x2="0" y2="1">'
        '<stop offset="0" stop-color="#000" stop-opacity="0"/>'
        '<stop offset="0.5" stop-color="#000" stop-opacity="0.62"/>'
        '<stop offset="1" stop-color="#000" stop-opacity="0.78"/></linearGradient></defs>'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="url(#s{mark})"/>'
        f'<g fill="hsl({(hue + 40) % 360},80%,74%)" stroke="none">'
        f"{_MOTIFS[seed[2] % len(_MOTIFS)](seed)}</g>"
        f'<rect y="{shade:.1f}" width="{WIDTH}" height="{HEIGHT - shade:.1f}" '
        f'fill="url(#d{mark})"/>{words}'
        f'<text x="16" y="{HEIGHT - 14}" font-size="11" fill="#fff" fill-opacity="0.88">'
        f"{escape(below)}</text></svg>"
    )


def _set_type(title: str) -> tuple[int, list[str]]:
    """The largest letters in which the title fits, and its lines."""
    wide = any(east_asian_width(letter) in "WF" for letter in title)
    for size, usual in _SIZES:
        smallest = size == _SIZES[-1][0]
        letters = usual // 2 if wide else usual
        lines = _wrap(title, letters)
        fits = max(map(len, lines)) <= letters and len(lines) <= (4 if size > 20 else 5)
        if fits or smallest:
            break
    lines = [part for line in lines for part in _broken(line, letters)]
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], lines[_MOST_LINES - 1][: letters - 1].rstrip() + "…"]
    return size, lines


def _wrap(title: str, letters: int) -> list[str]:
    """The title in lines of so many letters; a longer word has a line for itself."""
    lines: list[str] = []
    for word in title.split():
        if lines and len(lines[-1]) + 1 + len(word) <= letters:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _broken(line: str, letters: int) -> list[str]:
    """A word that is longer than a line, in pieces."""
    return [line[k : k + letters] for k in range(0, len(line), letters)]


def _circle(x: float, y: float, r: float, opacity: float) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}" fill-opacity="{opacity:.2f}"/>'


def _moons(seed: bytes) -> str:
    x, y = 60 + seed[3] % 90, 70 + seed[4] % 50
    return "".join(_circle(x, y, 22 + 26 * k, 0.34 - 0.06 * k) for k in range(5))


def _rays(seed: bytes) -> str:
    x, y, count = 30 + seed[3] % 140, 60 + seed[4] % 80, 14 + seed[5] % 8
    wedge = pi / count
    rays = (
        f"M{x} {y}L{x + 420 * cos(a):.1f} {y + 420 * sin(a):.1f}"
        f"L{x + 420 * cos(a + wedge):.1f} {y + 420 * sin(a + wedge):.1f}Z"
        for a in (2 * wedge * k for k in range(count))
    )
    return f'<path d="{"".join(rays)}" fill-opacity="0.17"/>' + _circle(x, y, 30, 0.6)


def _hills(seed: bytes) -> str:
    layers = []
    for k in range(4):
        base, lift = 120 + 34 * k, 26 + seed[3 + k] % 30
        layers.append(
            f'<path d="M0 {base}C50 {base - lift} 80 {base + lift} 120 {base}'
            f'S180 {base - lift} 200 {base - lift / 2:.0f}V300H0Z" '
            f'fill-opacity="{0.12 + 0.05 * k:.2f}"/>'
        )
    return _circle(40 + seed[8] % 120, 62, 26, 0.55) + "".join(layers)


def _bars(seed: bytes) -> str:
    return "".join(
        f'<rect x="{k * 20 + 3}" y="{150 - seed[3 + k] % 120}" width="14" height="240" rx="7" '
        f'fill-opacity="{0.14 + (seed[13 + k] % 20) / 100:.2f}"/>'
        for k in range(10)
    )


def _sky(seed: bytes) -> str:
    stars = (
        _circle(seed[3 + k] % 200, seed[7 + k] % 190, 1 + seed[5 + k] % 4, 0.25 + k % 5 / 10)
        for k in range(22)
    )
    return "".join(stars) + _circle(50 + seed[30] % 100, 80 + seed[31] % 40, 34, 0.42)


def _tiles(seed: bytes) -> str:
    return "".join(
        f'<path d="M{x * 50} {y * 50}h50v50{"h-50" if seed[(4 * y + x) % 32] & 1 else ""}Z" '
        f'fill-opacity="{0.08 + (seed[(4 * y + x + 9) % 32] % 30) / 100:.2f}"/>'
        for y in range(5)
        for x in range(4)
    )


_MOTIFS: tuple[Callable[[bytes], str], ...] = (_moons, _rays, _hills, _bars, _sky, _tiles)
