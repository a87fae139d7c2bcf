"""Pages of films: rows for you, one film, all of them, and what the person says about them."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote_plus

import numpy as np
from starlette.responses import PlainTextResponse, Response

from epicrec.arrays import Bools, Integers
from epicrec.client.device import Device
from epicrec.client.matching.search import PEOPLE
from epicrec.client.ranking.content import popularity_of
from epicrec.client.ranking.rows import positions
from epicrec.client.web.jobs import in_background, onward
from epicrec.client.web.posters import draw_poster
from epicrec.client.web.promises import said
from epicrec.client.web.request import Ask, Handler, to
from epicrec.data import Catalogue
from epicrec.data.embedded import theme_meanings
from epicrec.data.works import FILM, SERIES, column, texts
from epicrec.errors import InputError

_PAGE = 60
_FOUND = 600  # films that a search finds, to be filtered
THUMBS = {"up": 4.0, "down": 1.0}
"""Stars for a film that was good, or was not."""
_FACTS = ("imdb_id", "kind", "country", "original_title", "language", "length", "about")
_SEVERAL = ("alternatives", "directors", "cast", "themes")
"""What a catalogue may say of a film beside its title: one thing, or several ('|' between them)."""
_OWN = re.compile(r"/(?!/)[\w/?&=%.,+-]*(#[\w-]*)?")


def for_you(ask: Ask) -> Response:
    device, compare = ask.device, "compare" in ask.query
    found = device.for_you(compare=compare, wait=False)
    cards = {card.item_id: card for row in found.rows for card in row.cards}
    later = set(device.shelf.watchlist())
    return ask.page(
        "for_you.html", found=found, compare=compare, account=device.account,
        films={item: about(device, item) | {"later": item in later} for item in cards},
        watched=len(device.history.items()), listed=bool(device.published.listed),
        fetching=device.published.is_fetching,
        unwanted=[about(device, item) for item in device.shelf.unwanted()],
    )  # fmt: skip


def refresh(ask: Ask) -> Response:
    device = ask.device

    def fetching() -> Handler:
        problem = device.refresh()
        if problem and problem == device.published.problem:
            return onward("/for-you")  # which says what went wrong
        return onward("/for-you", problem or "Fetched what the server has for everybody.")

    return in_background(ask, "fetch", "asking the server", fetching)


# ---- one film -----------------------------------------------------------------------------


def film(ask: Ask) -> Response:
    device, item = ask.device, ask.path["item_id"]
    check_known(device, item)
    entry = next(iter(device.history.films([item])), None)
    shown = about(device, item)
    return ask.page(
        "film.html", film=shown, entry=entry, why=device.shelf.why(item),
        with_model=device.shelf.has_model,
        similar=[about(device, other) for other in device.shelf.similar(item)],
        later=item in device.shelf.watchlist(), unwanted=item in device.shelf.unwanted(),
        links=links(shown),
    )  # fmt: skip


def links(shown: dict[str, Any]) -> dict[str, str]:
    """Where else one can read about a film; nothing is asked there before it is pressed."""
    words = quote_plus(f"{shown['title']} {shown['year'] or ''}".strip())
    number = shown["imdb_id"]
    return {
        "IMDb": f"https://www.imdb.com/title/{quote_plus(number)}/" if number
        else f"https://www.imdb.com/find/?q={words}",
        "Wikipedia": f"https://en.wikipedia.org/w/index.php?search={words}",
        "JustWatch": f"https://www.justwatch.com/us/search?q={words}",
    }  # fmt: skip


def mark(ask: Ask) -> Response:
    """What the person says about a film: seen, good or not, stars, for later, not interested."""
    device, item, act = ask.device, ask.field("item_id"), ask.field("act")
    if act not in ("not-later", "again"):  # what a list had that is gone can be taken back
        check_known(device, item)
    shelf, history = device.shelf, device.history
    if act in THUMBS or act == "stars":
        stars = THUMBS[act] if act in THUMBS else _stars(ask.field("stars"))
        history.rate(item, stars)
        shelf.see_later(item, later=False)
        words = "your stars are saved." if stars else "your stars are taken back."
    elif act == "seen":
        history.add([item])
        shelf.see_later(item, later=False)
        words = "is in your history."
    elif act in ("later", "not-later"):
        shelf.see_later(item, later=act == "later")
        words = "is on your watchlist." if act == "later" else "is no longer on your watchlist."
    elif act in ("no", "again"):
        shelf.not_interested(item, wanted=act == "again")
        words = said("not interested")
    else:
        raise InputError("nothing can be done of that name; go back to the film")
    if ask.field("in-place"):
        return PlainTextResponse(words[:1].upper() + words[1:])
    ask.say(f"{device.catalogue.title_of(item)}: {words}")
    back = ask.field("back")
    return to(back if _OWN.fullmatch(back) else "/for-you")


def _stars(text: str) -> float | None:
    """None for "0", which takes them back."""
    if text not in {str(k) for k in range(6)}:
        raise InputError("stars are a whole number from 0 to 5")
    return float(text) or None


# ---- all of them --------------------------------------------------------------------------


BY = {
    "you": "what suits you", "found": "how well it was found", "popular": "fame", "year": "year",
    "title": "title",
}  # fmt: skip
FILTERS = ("q", "genre", "decade", "kind", "person", "theme", "seen")


def browse(ask: Ask) -> Response:
    device, query = ask.device, ask.query
    films = device.catalogue
    by = query.get("by", "")
    by = by if by in BY else "found" if query.get("q", "").strip() else "you"
    found = _in_order(device, _filtered(device, query), by)
    pages = max(1, -(-len(found) // _PAGE))
    text = query.get("page", "1")
    page = min(max(int(text), 1), pages) if text.isdecimal() and len(text) < 10 else 1
    items = [str(films.item_ids[k]) for k in found[(page - 1) * _PAGE : page * _PAGE]]
    later = set(device.shelf.watchlist())
    years = films.years[films.years > 0] // 10 * 10
    chosen = {name: query.get(name, "")[:200] for name in FILTERS}
    return ask.page(
        "browse.html", total=len(found), page=page, pages=pages, by=by, orders=BY, chosen=chosen,
        films=[about(device, item) | {"later": item in later} for item in items],
        decades=[int(decade) for decade in np.unique(years)[::-1]],
        kinds=_kinds(device), meaning=theme_meanings().get(chosen["theme"], ""),
        here_again=_address(chosen | {"by": by}),
    )  # fmt: skip


def _address(chosen: dict[str, str]) -> str:
    given = "&".join(f"{name}={quote_plus(value)}" for name, value in chosen.items() if value)
    return f"/browse?{given}"


def _kinds(device: Device) -> list[str]:
    extra = device.catalogue.extra
    return [FILM, SERIES] if extra is not None and "kind" in extra.column_names else []


def _filtered(device: Device, query: dict[str, str]) -> Integers:
    """The films that a search and its filters leave, as a search found them."""
    films = device.catalogue
    among, order = np.ones(len(films), np.bool_), np.arange(len(films))
    text = query.get("q", "").strip()[:200]
    if text:
        order = films.positions(device.reading.matcher.search(text, _FOUND))
    genre = query.get("genre", "")
    if genre:
        if genre not in films.categories:
            raise InputError("the catalogue has no such category; choose another")
        column_of = films.matrix.tocsc()[:, [films.categories.index(genre)]]
        among &= column_of.toarray().ravel() > 0
    decade = query.get("decade", "")
    if decade.isdecimal() and len(decade) < 6:
        among &= films.years // 10 * 10 == int(decade)
    if query.get("kind") in _kinds(device):
        among &= np.asarray(texts(films, "kind"), dtype=object) == query["kind"]
    for name, columns in (("person", PEOPLE), ("theme", ("themes",))):
        if query.get(name):
            among &= np.any([_names(films, column, query[name]) for column in columns], axis=0)
    if query.get("seen") == "no":
        among[positions(films, device.history.items())] = False
    return order[among[order]]


def _names(films: Catalogue, name: str, wanted: str) -> Bools:
    """Which films name this person or theme in a column."""
    return np.array([wanted in (text or "").split("|") for text in texts(films, name)], np.bool_)


def _in_order(device: Device, found: Integers, by: str) -> Integers:
    films = device.catalogue
    if by == "found":
        return found
    if by == "popular":
        return found[np.argsort(-popularity_of(films)[found], kind="stable")]
    if by == "year":
        return found[np.argsort(-films.years[found].astype(np.int64), kind="stable")]
    if by == "title":
        return found[np.argsort([str(films.titles[k]).casefold() for k in found], kind="stable")]
    return device.shelf.order(found)


def watchlist(ask: Ask) -> Response:
    device = ask.device
    return ask.page(
        "watchlist.html",
        films=[about(device, item) | {"later": True} for item in device.shelf.watchlist()],
    )


# ---- for the templates --------------------------------------------------------------------


def about(device: Device, item_id: str) -> dict[str, Any]:
    """A film as the templates show it; what is not known of it is None or empty."""
    films = device.catalogue
    at = int(films.positions([item_id])[0])
    known = at >= 0
    facts: dict[str, Any] = {name: column(films, name, at) if known else None for name in _FACTS}
    for name in _SEVERAL:
        text = column(films, name, at) if known else None
        facts[name] = [one for one in (text or "").split("|") if one]
    title = str(films.titles[at]) if known else item_id
    facts["others"] = [
        o for o in facts["alternatives"] if o not in (title, facts["original_title"])
    ]
    return facts | {
        "id": item_id, "title": title, "year": int(films.years[at]) if known else 0,
        "genres": films.categories_of(at) if known else (),
    }  # fmt: skip


def check_known(device: Device, item_id: str) -> None:
    if int(device.catalogue.positions([item_id])[0]) < 0:
        raise InputError("the catalogue has no such film; search for it")


def poster(ask: Ask) -> Response:
    shown = about(ask.device, ask.path["item_id"])
    drawn = draw_poster(shown["title"], shown["year"] or None, shown["genres"])
    kept = {"Cache-Control": "private, max-age=86400"}
    return Response(drawn, media_type="image/svg+xml", headers=kept)
