"""Film sites: what the address and title of a page say of a film, on sites where people watch films
or look them up.

Each site is one entry of a table: the addresses of its films, and how it writes titles.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from epicrec.client.matching.titles import Kind, ParsedTitle, read_slug, read_title
from epicrec.client.viewing import Evidence, Visit
from epicrec.data.works import MAX_TITLE, normalise


@dataclass(frozen=True, slots=True)
class Clue:
    """What a page or a line of a file tells: whether it is on a film, its numbers, and the readings
    of its title."""

    site: str
    film: bool
    sure: bool = True
    """False where a series, a book or a place may have the same address form and title."""
    readings: tuple[ParsedTitle, ...] = ()
    imdb_id: str | None = None
    tmdb_id: str | None = None
    evidence: Evidence = Evidence.LOOKED_UP
    work: str | None = None
    """The site's own number for the film: its player's page has it, but seldom the title."""
    series: bool | None = None
    """Whether it is a series, where that is known."""


@dataclass(frozen=True, slots=True)
class _Site:
    name: str
    film: re.Pattern[str]
    """Addresses of films; the groups `slug`, `imdb`, `tmdb`, `work` are taken where present."""
    titles: tuple[re.Pattern[str], ...]
    """How the page's title holds the film's, first fitting form first."""
    player: re.Pattern[str] | None = None
    mixed: bool = False
    """Films and series share the form of those addresses that have no slug."""


def _site(
    name: str, film: str, *titles: str, player: str | None = None, mixed: bool = False
) -> _Site:
    return _Site(
        name,
        re.compile(film, re.IGNORECASE),
        tuple(re.compile(f"^{title}$", re.IGNORECASE) for title in titles),
        re.compile(player, re.IGNORECASE) if player else None,
        mixed,
    )


_MAX_PATH = 500
_LOCALE = r"(?:/[a-z]{2}(?:-[a-z]{2,4})?)?"
_DASH = r"\s*[-–—|•·:]\s*"
_WITH_YEAR = r"(.+? \([^()]*\d{4}[^()]*\))"
_WATCH = r"(?:watch |stream )?"

_IMDB = _site(
    "IMDb", rf"^{_LOCALE}/title/(?P<imdb>tt\d{{7,}})",
    rf"{_WITH_YEAR}.*", rf"IMDb{_DASH}(.+)", rf"(.+?){_DASH}IMDb",
)  # fmt: skip
_AMAZON = _site(
    "Prime Video", r"/(?:gp/video|video)/detail/",
    rf"Prime Video{_DASH}(.+)",
    rf"Amazon\.[\w.]+: (?:watch )?(.+?)(?: ?: .*)?{_DASH}Prime Video",
    rf"{_WATCH}(.+?){_DASH}Prime Video", mixed=True,
)  # fmt: skip

_SITES: dict[str, _Site] = {
    "imdb.com": _IMDB,
    "boxofficemojo.com": _site(
        "Box Office Mojo", r"^/title/(?P<imdb>tt\d{7,})", rf"(.+?){_DASH}Box Office Mojo"
    ),
    "themoviedb.org": _site(
        "TMDB", r"^/movie/(?P<tmdb>\d+)(?:-(?P<slug>[^/?#]+))?", rf"{_WITH_YEAR}.*",
        rf"(.+?){_DASH}The Movie Database.*",
    ),
    "letterboxd.com": _site(
        "Letterboxd", r"^(?:/[\w-]+)?/film/(?P<slug>[\w-]+)",
        rf".*\breview of {_WITH_YEAR}.*", rf"{_WITH_YEAR}.*", rf"(.+?){_DASH}.*Letterboxd",
    ),
    "trakt.tv": _site(
        "Trakt", r"^/movies/(?P<slug>[\w-]+)", rf"{_WITH_YEAR}.*", rf"(.+?){_DASH}Trakt.*"
    ),
    "wikipedia.org": _site(
        "Wikipedia", r"^/wiki/(?!\w+:)", rf"(.+?){_DASH}(?:Wikip\w*|Википедия|ウィキペディア).*"
    ),
    "rottentomatoes.com": _site(
        "Rotten Tomatoes", r"^/m/(?:\d+-)?(?P<slug>[\w-]+)",
        rf"(.+?)(?:{_DASH}movie reviews|{_DASH}cast and crew)?{_DASH}Rotten Tomatoes",
    ),
    "metacritic.com": _site(
        "Metacritic", r"^/movie/(?P<slug>[\w-]+)",
        rf"(.+?)(?: (?:critic |user )?reviews)?{_DASH}Metacritic",
    ),
    "justwatch.com": _site(
        "JustWatch", r"^/[a-z]{2}/(?:movie|film|pelicula|filme)/(?P<slug>[\w-]+)",
        rf"{_WITH_YEAR}.*", r"(.+?)(?: - movie:| streaming:| streaming online| - stream).*",
        rf"(.+?){_DASH}JustWatch",
    ),
    "mubi.com": _site(
        "MUBI", rf"^{_LOCALE}(?:/[a-z]{{2}})?/films/(?P<slug>[\w-]+)",
        rf"{_WITH_YEAR}.*", rf"{_WATCH}(.+?){_DASH}MUBI",
        player=r"/films/[\w-]+/(?:player|watch)",
    ),
    "criterion.com": _site(
        "Criterion", r"^/films/(?:\d+-)?(?P<slug>[\w-]+)", rf"(.+?){_DASH}The Criterion Collection"
    ),
    "criterionchannel.com": _site(
        "Criterion Channel", r"^/(?:videos/)?(?P<slug>[\w-]+)$",
        rf"(.+?){_DASH}The Criterion Channel", player=r"^/videos/",
    ),
    "netflix.com": _site(
        "Netflix", rf"^{_LOCALE}/(?:title|watch)/(?P<work>\d+)",
        rf"{_WATCH}(.+?)(?: online)?{_DASH}Netflix.*", player=r"/watch/", mixed=True,
    ),
    "primevideo.com": _site(
        "Prime Video", r"/detail/", rf"Prime Video{_DASH}(.+)", rf"{_WATCH}(.+?){_DASH}Prime Video",
        mixed=True,
    ),
    "disneyplus.com": _site(
        "Disney+", rf"^{_LOCALE}/(?:movies/(?P<slug>[\w-]+)|browse/entity-|(?:play|video)/)",
        rf"{_WATCH}(.+?)(?: full movie)?{_DASH}Disney(?:\+|Plus).*", player=r"/(?:play|video)/",
        mixed=True,
    ),
    "hulu.com": _site(
        "Hulu", r"^/(?:movie/(?P<slug>[\w-]+?)(?:-[0-9a-f]{8}-[0-9a-f-]{27})?$|watch/)",
        rf"{_WATCH}(.+?)(?: streaming online| online)?{_DASH}Hulu.*", player=r"^/watch/",
        mixed=True,
    ),
    "max.com": _site(
        "Max", r"/(?:movies?/(?P<slug>[\w-]+)|video/watch/|feature/)",
        rf"{_WATCH}(.+?){_DASH}(?:HBO )?Max.*", player=r"/video/watch/", mixed=True,
    ),
    "tv.apple.com": _site(
        "Apple TV", rf"^{_LOCALE}/movie/(?P<slug>[\w-]+?)(?:/|$)",
        rf"{_WATCH}(.+?)(?:{_DASH}| on )Apple TV.*",
    ),
    "play.google.com": _site(
        "Google Play", r"^/store/movies/details/(?P<slug>[^/?#]+)",
        rf"(.+?){_DASH}Movies on Google Play",
    ),
    "paramountplus.com": _site(
        "Paramount+", rf"^{_LOCALE}/movies/(?:video/)?(?P<slug>[\w-]+)",
        rf"{_WATCH}(.+?){_DASH}(?:stream|watch).*Paramount.*", rf"{_WATCH}(.+?){_DASH}Paramount.*",
        player=r"/movies/video/",
    ),
    "peacocktv.com": _site(
        "Peacock", r"^/(?:watch-online/movies/(?P<slug>[\w-]+)|watch/(?:asset|playback)/)",
        rf"{_WATCH}(.+?)(?: streaming online| online)?{_DASH}Peacock.*", player=r"/playback/",
        mixed=True,
    ),
    "tubitv.com": _site(
        "Tubi", rf"^{_LOCALE}/movies/\d+/(?P<slug>[\w-]+)",
        rf"{_WATCH}{_WITH_YEAR}.*", rf"{_WATCH}(.+?){_DASH}.*Tubi.*", player=r"/movies/",
    ),
}  # fmt: skip
_SITES["hbomax.com"] = _SITES["max.com"]

_AMAZON_HOST = re.compile(r"(?:^|\.)amazon\.(?:com|de|fr|it|es|nl|se|pl|ca|in|co\.uk|co\.jp)$")
_ADDRESS = re.compile(r"^https?://(?:[^/@?#]*@)?([^/:?#]+)(?::\d+)?([^?#]*)", re.IGNORECASE)
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_DESCRIBED_FILM = re.compile(r"\b(1[89]\d\d|20\d\d)\b[^.]{0,60}?\bfilm\b", re.IGNORECASE)
_RATING_STARS = re.compile(r"\s*⭐.*$")


def read_page(visit: Visit) -> Clue | None:
    """What this page tells, None where its site is not known."""
    found = _ADDRESS.match(visit.url)
    if not found:
        return None
    host, path = found.group(1).lower(), found.group(2)[:_MAX_PATH]
    site = _site_of(host)
    if site is None:
        return None
    address = site.film.search(path)
    if address is None:
        return Clue(site.name, film=False)
    parts = address.groupdict()
    played = bool(site.player and site.player.search(path))
    readings = _readings(site, visit.title, unquote(parts.get("slug") or ""))
    said = readings[0] if readings else ParsedTitle("")
    if said.kind is Kind.NOT_A_FILM:
        return Clue(site.name, film=False)
    sure = said.kind is Kind.FILM or said.year is not None
    if site.name == "Wikipedia":
        # only the name in brackets, or the page's own description, tells the film from its subject
        described = _DESCRIBED_FILM.search(visit.description[:MAX_TITLE])
        if described and not sure:
            sure, year = True, int(described.group(1))
            readings = (ParsedTitle(said.title, year, Kind.FILM, said.alternatives),)
    elif not sure:
        # a series has the same address; that two words are also a film's whole title is rare
        sure = not site.mixed or bool(parts.get("slug")) or " " in normalise(said.title)
    return Clue(
        site.name,
        film=True,
        sure=sure,
        readings=readings,
        imdb_id=parts.get("imdb"),
        tmdb_id=parts.get("tmdb"),
        evidence=Evidence.STREAMED if played else Evidence.LOOKED_UP,
        work=f"{site.name}:{parts['work']}" if parts.get("work") else None,
    )


def _site_of(host: str) -> _Site | None:
    labels = host.split(".")
    for k in range(len(labels) - 1):
        site = _SITES.get(".".join(labels[k:]))
        if site is not None:
            return site
    return _AMAZON if _AMAZON_HOST.search(host) else None


def _readings(site: _Site, title: str, slug: str) -> tuple[ParsedTitle, ...]:
    """From the title; the address adds a year that the title lacks, or replaces a missing title."""
    from_slug = read_slug(slug)
    text = _RATING_STARS.sub("", " ".join(_INVISIBLE.sub("", title[:MAX_TITLE]).split()))
    if normalise(text) == normalise(site.name):
        return from_slug
    for form in site.titles:
        found = form.match(text)
        if found and found.group(1).strip():
            said = read_title(found.group(1).strip(' "“”'))
            dated = next((r for r in from_slug if r.year), None)
            if said.year is None and dated and normalise(dated.title) == normalise(said.title):
                said = ParsedTitle(said.title, dated.year, said.kind, said.alternatives)
            return (said,)
    return from_slug
