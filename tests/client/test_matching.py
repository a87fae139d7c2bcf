"""Matching: the right film, or a question, and never a wrong film by itself."""

import csv
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz import process

from epicrec.client.matching.catalogues import read_catalogue
from epicrec.client.matching.matcher import Matcher, Status
from epicrec.client.matching.titles import read_slug
from epicrec.client.viewing import Evidence, Viewing, Visit
from epicrec.data import Catalogue
from epicrec.data.works import MAX_TITLE, normalise
from epicrec.progress import listening

NOW = datetime(2026, 5, 1, 20, tzinfo=UTC)
LABELLED = Path(__file__).parent / "labelled_titles.csv"


def page(url: str, title: str = "", description: str = "") -> Visit:
    return Visit(url, title, NOW, "Firefox: test", description)


def labelled() -> list[tuple[Visit | Viewing, str | None]]:
    with LABELLED.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    things: list[tuple[Visit | Viewing, str | None]] = []
    for row in rows:
        film = None if row["film"] == "none" else row["film"]
        if row["source"] == "page":
            things.append((page(row["url"], row["title"], row["description"]), film))
        else:
            year = int(row["year"]) if row["year"] else None
            episodes = row["source"] == "netflix"
            viewing = Viewing(row["title"], row["source"], year=year, maybe_episode=episodes)
            things.append((viewing, film))
    return things


@pytest.fixture(scope="module")
def matcher(films: Catalogue) -> Matcher:
    return Matcher(films)


def test_labelled_list(matcher: Matcher, films: Catalogue, capsys) -> None:
    things = labelled()
    assert len(things) >= 200
    assert {film for _, film in things if film} <= set(films.item_ids.tolist())
    found = [(matcher.match(thing), film) for thing, film in things]
    automatic = [(m.item_id, film) for m, film in found if m.status is Status.MATCHED]
    wanted = [(m.candidates, film) for m, film in found if film]
    precision = sum(item == film for item, film in automatic) / len(automatic)
    recall = sum(film in candidates for candidates, film in wanted) / len(wanted)
    with capsys.disabled():
        print(
            f"\n{len(things)} lines: {len(automatic)} matched by themselves, precision "
            f"{precision:.3f}; {len(wanted)} films, recall with suggestions {recall:.3f}"
        )
    assert precision >= 0.98
    assert recall >= 0.9
    # most films need no question, or the review table would be the whole history
    assert len(automatic) >= 0.85 * len(wanted)


@pytest.mark.realdata
def test_labelled_list_in_a_large_catalogue(real_data: Path, films: Catalogue) -> None:
    """What is no film of the small catalogue may be one of the large: then its title says so."""
    large = read_catalogue(real_data / "catalogue-6000")
    matcher = Matcher(large)
    years = dict(zip(large.item_ids.tolist(), large.years.tolist(), strict=True))
    small = dict(zip(films.item_ids.tolist(), films.years.tolist(), strict=True))
    wrong, asked, matched = [], 0, 0
    for thing, film in labelled():
        found = matcher.match(thing)
        asked += found.status in (Status.AMBIGUOUS, Status.SUGGESTED)
        if found.status is Status.MATCHED:
            matched += 1
            expected = small[film] if film else found.year
            if expected and abs(years[found.item_id] - expected) > 1:
                wrong.append((thing, large.title_of(found.item_id)))
    assert matched > 80
    assert not wrong
    assert asked < 0.1 * len(labelled())
    # two films named "Frozen" and two "Coco" are in it: no year, no answer
    assert matcher.match(Viewing("Frozen", "Netflix")).status is Status.AMBIGUOUS
    assert len(matcher.match(Viewing("Coco", "Netflix")).candidates) == 2
    assert matcher.match(page("https://www.imdb.com/title/tt1375666/")).item_id == 27205
    assert matcher.match(page("https://www.themoviedb.org/movie/27205")).item_id == 27205


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Matrix, The", "The Matrix"),
        ("Les Misérables", "Les Miserables"),
        ("Rocky II", "Rocky 2"),
        ("The Godfather: Part II", "The Godfather Part Two"),
        ("Pride & Prejudice", "Pride and Prejudice"),
        ("Schindler’s List", "Schindler's List"),
        ("8½", "8 1/2"),
        ("WALL·E", "WALL-E"),
        ("Twelve Monkeys", "12 Monkeys"),
        ("Avventura, L'", "L'avventura"),
    ],
)
def test_spellings_of_one_title(one: str, other: str) -> None:
    assert normalise(one) == normalise(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Alien", "Aliens"),
        ("Rocky", "Rocky II"),
        ("V for Vendetta", "5 for Vendetta"),
        ("American History X", "American History 10"),
        ("Batman", "The Batman"),
        ("The War of the Worlds", "War of the Worlds"),
    ],
)
def test_different_titles_stay_different(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


@given(st.text(max_size=60))
def test_normalising_twice_changes_nothing(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once


@pytest.mark.parametrize(
    ("slug", "readings"),
    [
        ("dune-2021", [("dune", 2021), ("dune 2021", None)]),
        ("the-third_man+1949", [("the third man", 1949), ("the third man 1949", None)]),
        ("2012", [("2012", None)]),
        ("room-237", [("room 237", None)]),
        ("", []),
    ],
)
def test_what_an_address_may_mean(slug: str, readings: list[tuple[str, int | None]]) -> None:
    assert [(reading.title, reading.year) for reading in read_slug(slug)] == readings


@pytest.mark.parametrize("title", ["Alien: Romulus (2024)", "Rocky III (1982)", "Toy Story 5"])
def test_a_longer_title_is_not_its_beginning(matcher: Matcher, title: str) -> None:
    found = matcher.match(page("https://www.imdb.com/title/tt9999999/", f"{title} - IMDb"))
    assert (found.status, found.candidates) == (Status.NOT_IN_CATALOGUE, ())


def test_a_misspelt_title_is_suggested_and_never_matched(matcher: Matcher) -> None:
    for title, film in (
        ("Blade Runer 2049", "blade-runner-2049-2017"),
        ("Schindlers Liste", "schindlers-list-1993"),
        ("Spider Man 3: No Way Home", None),
    ):
        found = matcher.match(Viewing(title, "Netflix"))
        assert found.item_id is None
        assert found.candidates == ((film,) if film else ())


def test_a_number_contradicting_the_title_wins() -> None:
    films = Catalogue.from_columns(
        [1, 2, 3], ["Heat", "Heat", "Ran"], ["", "", ""], year=[1995, 1995, 1985],
        imdb_id=["tt0113277", None, "tt0089881"],
    )  # fmt: skip
    matcher = Matcher(films)
    found = matcher.match(page("https://www.imdb.com/title/tt0113277/", "Wrong (1950) - IMDb"))
    assert (found.item_id, found.confidence) == (1, 1.0)
    # another number: the film that has a different one is out, the one without stays
    assert matcher.match(Viewing("Heat", "IMDb", year=1995, imdb_id="tt0000009")).item_id == 2
    assert matcher.match(Viewing("Ran", "IMDb", year=1985, imdb_id="tt0000009")).item_id is None


def remakes() -> Matcher:
    return Matcher(
        Catalogue.from_columns(
            [1, 2, 3, 4], ["Solaris", "Sabrina", "Sabrina", "Sabrina"], [""] * 4,
            year=[1972, 1994, 1995, 1954], popularity=[1, 2, 3, 9],
        )
    )  # fmt: skip


@pytest.mark.parametrize(("year", "film"), [(1970, None), (1971, 1), (1973, 1), (1974, None)])
def test_a_year_may_be_one_off_and_no_more(year: int, film: int | None) -> None:
    found = remakes().match(Viewing("Solaris", "x", year=year))
    assert found.item_id == film
    assert found.status is (Status.MATCHED if film else Status.NOT_IN_CATALOGUE)


def test_the_same_year_goes_before_one_next_to_it() -> None:
    found = remakes().match(Viewing("Sabrina", "x", year=1994))
    assert (found.status, found.candidates) == (Status.MATCHED, (2,))
    between = remakes().match(Viewing("Sabrina", "x", year=1996))
    assert (between.status, between.candidates) == (Status.MATCHED, (3,))


def test_films_of_one_title_are_offered_the_best_known_first() -> None:
    found = remakes().match(Viewing("Sabrina", "x"))
    assert (found.status, found.candidates) == (Status.AMBIGUOUS, (4, 3, 2))


@pytest.mark.parametrize(
    ("written", "offered"), [("The Conversion", True), ("The Conservation", False)]
)
def test_a_letter_or_two_are_a_slip_and_more_another_title(written: str, offered: bool) -> None:
    matcher = Matcher(Catalogue.from_columns([1], ["The Conversation"], [""], year=[1974]))
    found = matcher.match(Viewing(written, "x"))
    assert found.status is (Status.SUGGESTED if offered else Status.NOT_IN_CATALOGUE)


@pytest.mark.parametrize(
    ("title", "status"),
    [
        ("Dune: Part Two", Status.MATCHED),  # a film, though it looks like an episode
        ("Dune: Part Nine", Status.NOT_A_FILM),
        ("Dark: Season 1: Secrets", Status.NOT_A_FILM),
        ("Dark: Staffel 1", Status.NOT_A_FILM),
        ("Dark: The Hour: Secrets", Status.NOT_A_FILM),
        ("Dark: Secrets", Status.NOT_IN_CATALOGUE),  # one colon: as likely a film's
    ],
)
def test_episodes_are_told_from_films(title: str, status: Status) -> None:
    matcher = Matcher(Catalogue.from_columns([1], ["Dune: Part Two"], [""], year=[2024]))
    found = matcher.match(Viewing(title, "Netflix", maybe_episode=True))
    assert found.status is status
    if status is Status.NOT_A_FILM:
        assert found.why == "an episode of a series"
        # where a source lists films only there is no such doubt
        film = matcher.match(Viewing(title, "Letterboxd"))
        assert film.status in (Status.NOT_IN_CATALOGUE, Status.SUGGESTED)


def test_an_episode_is_one_of_its_series() -> None:
    films = Catalogue.from_columns([1, 2], ["Dark", "Heat"], [""] * 2, kind=["series", "film"])
    found = Matcher(films).match(Viewing("Dark: Staffel 1: Lügen", "Netflix", maybe_episode=True))
    assert (found.status, found.item_id) == (Status.MATCHED, 1)


def test_a_movielens_catalogue_as_it_comes() -> None:
    films = Catalogue.from_columns(
        [1, 2], ["Matrix, The (1999)", "Seven (a.k.a. Se7en) (1995)"], ["", ""],
        imdb_id=[133093, 114369], tmdb_id=[603.0, None],
    )  # fmt: skip
    matcher = Matcher(films)
    assert matcher.match(page("https://www.imdb.com/title/tt0133093/")).item_id == 1
    assert matcher.match(page("https://www.themoviedb.org/movie/603-the-matrix")).item_id == 1
    assert matcher.match(Viewing("The Matrix", "x", year=1999)).item_id == 1
    assert matcher.match(Viewing("Se7en", "x", year=1995)).item_id == 2


def test_answers_are_remembered_and_overrule(matcher: Matcher) -> None:
    asked = matcher.match(Viewing("Dune", "Netflix"))
    assert asked.status is Status.AMBIGUOUS
    assert set(asked.candidates) == {"dune-1984", "dune-2021"}
    answered = matcher.match(Viewing("Dune", "Netflix"), {asked.key: "dune-1984"})
    assert (answered.status, answered.item_id) == (Status.MATCHED, "dune-1984")
    other_site = page("https://www.metacritic.com/movie/dune/", "Dune Reviews - Metacritic")
    assert matcher.match(other_site, {asked.key: "dune-1984"}).item_id == "dune-1984"
    certain = matcher.match(Viewing("Heat", "x", year=1995))
    none = matcher.match(Viewing("Heat", "x", year=1995), {certain.key: None})
    assert (none.status, none.item_id) == (Status.NOT_A_FILM, None)


def test_scanning_other_sites_only_on_demand_and_only_suggests(matcher: Matcher) -> None:
    review = page("https://blog.example.org/7", "The Shawshank Redemption (1994) review | My blog")
    assert matcher.match(review).status is Status.NOT_A_FILM
    found = matcher.match(review, scan=True)
    assert (found.status, found.candidates) == (
        Status.SUGGESTED,
        ("the-shawshank-redemption-1994",),
    )
    for title in ("Up", "Her - my diary", "It | Shop", "Once upon a time", "Heat pumps - review"):
        quiet = matcher.match(page("https://blog.example.org/8", title), scan=True)
        assert quiet.status is Status.NOT_A_FILM


def test_a_player_takes_its_film_from_the_films_page(matcher: Matcher) -> None:
    visits = [
        page("https://www.netflix.com/watch/60010110?trackId=2", "Netflix"),
        page("https://www.netflix.com/title/60010110", "The Matrix | Netflix"),
        page("https://www.netflix.com/watch/1", "Netflix"),
    ]
    watched, looked_up, unknown = matcher.match_all(visits)
    assert (watched.item_id, watched.evidence) == ("the-matrix-1999", Evidence.STREAMED)
    assert (looked_up.item_id, looked_up.evidence) == ("the-matrix-1999", Evidence.LOOKED_UP)
    assert unknown.item_id is None


@pytest.mark.parametrize(
    "url",
    [
        "https://imdb.com.evil.example/title/tt0133093/",
        "https://evil.example/www.imdb.com/title/tt0133093/",
        "https://www.imdb.com@evil.example/title/tt0133093/",
        "file:///www.imdb.com/title/tt0133093/",
        "https://xn--/", "https://", "http://[::1/", "",
    ],
)  # fmt: skip
def test_a_disguised_or_broken_address_is_no_site(matcher: Matcher, url: str) -> None:
    assert matcher.match(page(url, "The Matrix (1999) - IMDb")).status is Status.NOT_A_FILM


@given(st.text(max_size=80), st.text(max_size=80))
def test_no_page_makes_it_fail(films: Catalogue, title: str, path: str) -> None:
    found = Matcher(films.__class__.from_columns(["a"], ["Heat"], [""])).match(
        page(f"https://www.netflix.com/title/1{path}", title), scan=True
    )
    assert found.item_id in (None, "a")


@pytest.mark.parametrize(
    "text", ["(1999", "(1", " (", "1", " - ", ": ", " ", ", the", "a (b) ", "watch ", "[", "-"]
)
def test_of_a_hostile_title_or_address_little_is_looked_at(matcher: Matcher, text: str) -> None:
    long = "x" + text * (100_000 // len(text))
    title, path = long[:MAX_TITLE], long[:2_000]
    sites = ["imdb.com/title/tt0133093/", "amazon.com/gp/video/detail/", "netflix.com/title/1"]
    pairs: list[tuple[Visit | Viewing, Visit | Viewing]] = [
        (page("https://example.org/", long), page("https://example.org/", title)),
        (Viewing(long, "Netflix", year=1999), Viewing(title, "Netflix", year=1999)),
    ]
    for site in (*sites, "en.wikipedia.org/wiki/x", "hulu.com/movie/x", "letterboxd.com/film/x"):
        url = f"https://www.{site}"
        pairs.append((page(url, long, long), page(url, title, title)))
        pairs.append((page(url + long), page(url + path)))
    for whole, cut in pairs:
        one, two = (replace(matcher.match(thing, scan=True), title="") for thing in (whole, cut))
        assert one == two


def test_search_finds_the_plain_and_the_misspelt(matcher: Matcher) -> None:
    assert matcher.search("matrix")[0] == "the-matrix-1999"
    assert matcher.search("up")[0] == "up-2009"
    assert "inglourious-basterds-2009" in matcher.search("inglorious bastards")
    assert set(matcher.search("dune")[:2]) == {"dune-1984", "dune-2021"}
    assert matcher.search("  ") == []


def test_many_unknown_films_with_progress(
    films: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each title is compared once, and with the few of its shape, not with the whole catalogue."""
    kinds = (
        ("https://www.imdb.com/title/tt{k:07}/", "Film number {k} (1999) - IMDb"),
        ("https://www.netflix.com/title/{k}", "A title of its own {k} | Netflix"),
        ("https://example.org/{k}", "Page {k} about nothing"),
        ("https://en.wikipedia.org/wiki/Page_{k}", "Page {k} - Wikipedia"),
        ("https://letterboxd.com/film/heat-1995/", "Heat (1995) • Letterboxd"),
    )
    visits = [
        Visit(url.format(k=k), title.format(k=k), NOW + timedelta(seconds=k), "Chrome: Default")
        for k in range(12_000)
        for url, title in [kinds[k % len(kinds)]]
    ]
    heard: list[tuple[str, int, int]] = []
    compared: list[int] = []
    extract = process.extract

    def counting(title: str, candidates: list[str], **options: object) -> object:
        compared.append(len(candidates))
        return extract(title, candidates, **options)

    monkeypatch.setattr(process, "extract", counting)
    with listening(lambda *step: heard.append(step)):
        found = list(Matcher(films).match_all([*visits, *visits]))
    assert sum(match.item_id == "heat-1995" for match in found) == 4_800
    steps = [0, 5_000, 10_000, 15_000, 20_000, 24_000]
    assert heard == [("recognising films", done, 24_000) for done in steps]
    titles = {visit.title for visit in visits if "example.org" not in visit.url}
    assert 0 < len(compared) < 1.1 * len(titles)
    assert sum(compared) < 0.02 * len(compared) * len(films)
