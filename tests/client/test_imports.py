"""Files that people bring: recognised by what is in them, read safely, and asked about."""

import io
import json
import struct
import zipfile
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicrec.client.imports import archives
from epicrec.client.imports.csv_history import write_history
from epicrec.client.imports.csv_tables import read_table
from epicrec.client.imports.netflix import is_short
from epicrec.client.imports.recognise import recognise
from epicrec.client.viewing import Evidence, Import, Viewing
from epicrec.errors import InputError

TODAY = date(2026, 5, 1)


def zipped(files: dict[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


def read(name: str, text: str, **answers: str) -> Import:
    named = {key.replace("_", " "): value for key, value in answers.items()}
    return recognise(name, text.encode(), named, today=TODAY)


def by_title(found: Import) -> dict[str, Viewing]:
    return {viewing.title: viewing for viewing in found.viewings}


class TestNetflixShort:
    @pytest.mark.parametrize(
        ("dates", "first"),
        [
            (["5/31/24", "5/30/24"], datetime(2024, 5, 31, tzinfo=UTC)),
            (["31/05/2024", "01/05/2024"], datetime(2024, 5, 31, tzinfo=UTC)),
            (["31.05.24", "02.01.24"], datetime(2024, 5, 31, tzinfo=UTC)),
            (["2024-05-31", "2024-05-02"], datetime(2024, 5, 31, tzinfo=UTC)),
            # only one order makes the newest come first, as Netflix lists them
            (["3/1/24", "2/9/24", "2/3/24"], datetime(2024, 3, 1, tzinfo=UTC)),
            # 12/1/26 lies ahead if the month comes first
            (["12/1/26"], datetime(2026, 1, 12, tzinfo=UTC)),
            (["4/4/24"], datetime(2024, 4, 4, tzinfo=UTC)),
            # the year comes first only where it has four figures
            (["24/5/12"], datetime(2012, 5, 24, tzinfo=UTC)),
            # there was nothing to stream before 2007
            (["5/6/2007", "6/5/2007", "13/12/2006"], datetime(2007, 6, 5, tzinfo=UTC)),
            (["31/1/2007", "1/1/2007"], datetime(2007, 1, 31, tzinfo=UTC)),
            # a date that is none in any order leaves the titles without days
            (["5/31/24", "31/5/24"], None),
        ],
    )
    def test_the_order_of_day_and_month_comes_from_the_column(self, dates, first) -> None:
        lines = "".join(f'"Film {k}","{day}"\r\n' for k, day in enumerate(dates))
        found = read("NetflixViewingHistory.csv", f"Title,Date\r\n{lines}")
        assert found.kind == "Netflix viewing history"
        assert not found.questions
        assert found.viewings[0].watched_at == first

    def test_an_open_order_is_asked(self) -> None:
        text = 'Title,Date\n"Heat","2/3/24"\n"It","2/3/24"\n'
        asked = read("x.csv", text)
        assert not asked.viewings
        (question,) = asked.questions
        assert question.choices == {"month first": "03 February 2024", "day first": "02 March 2024"}
        month = read("x.csv", text, date_order="month first")
        assert month.viewings[0].watched_at == datetime(2024, 2, 3, tzinfo=UTC)
        day = read("x.csv", text, date_order="day first")
        assert day.viewings[0].watched_at == datetime(2024, 3, 2, tzinfo=UTC)
        assert read("x.csv", text, date_order="nonsense").questions

    def test_the_question_is_about_the_first_date_that_leaves_it_open(self) -> None:
        (question,) = read("x.csv", "Title,Date\nHeat,4/4/24\nIt,2/3/24\nRan,2/3/24\n").questions
        assert question.text == "Which day is 2/3/24?"

    def test_today_may_be_the_day(self) -> None:
        (question,) = read("x.csv", "Title,Date\nHeat,5/1/26\n").questions
        assert question.choices == {"month first": "01 May 2026", "day first": "05 January 2026"}

    def test_a_line_without_a_date_keeps_its_title(self) -> None:
        lines = [f"Film {k},5/31/24" for k in range(200)]
        found = read("x.csv", "\n".join(["Title,Date", *lines, "Last,never"]))
        assert found.viewings[0].watched_at == datetime(2024, 5, 31, tzinfo=UTC)
        assert (found.viewings[-1].title, found.viewings[-1].watched_at) == ("Last", None)

    def test_quotes_commas_and_other_languages(self) -> None:
        text = '\ufeffTitel,Datum\n"Good Bye, Lenin!","31.12.23"\n"Die ""Welle""","1.12.23"\n'
        found = read("x.csv", text)
        assert list(by_title(found)) == ["Good Bye, Lenin!", 'Die "Welle"']
        assert all(v.maybe_episode for v in found.viewings)


FULL = (
    "Profile Name,Start Time,Duration,Attributes,Title,Supplemental Video Type,Device Type,"
    "Bookmark,Latest Bookmark,Country\n"
)


class TestNetflixFull:
    rows = FULL + (
        "Anna,2024-05-31 20:15:00,01:10:00,,Heat,,TV,1,1,DE\n"
        "Anna,2024-06-01 20:15:00,00:50:00,,Heat,,TV,1,1,DE\n"
        "Anna,2024-06-02 20:15:00,00:00:40,,Ran,,TV,1,1,DE\n"
        "Anna,2024-06-02 20:16:00,00:01:00,,Up: Trailer,TRAILER,TV,1,1,DE\n"
        "Anna,2024-06-02 20:17:00,00:01:00,Autoplayed: user action: None; ,It,,TV,1,1,DE\n"
    )

    def test_rows_of_a_film_become_one_and_trailers_none(self) -> None:
        found = read("ViewingActivity.csv", self.rows)
        assert found.kind == "Netflix account activity"
        films = by_title(found)
        assert set(films) == {"Heat", "Ran"}
        assert films["Heat"].watched_at == datetime(2024, 6, 1, 20, 15, tzinfo=UTC)
        assert films["Heat"].evidence is Evidence.WATCHED
        assert films["Ran"].evidence is Evidence.STREAMED
        assert (films["Heat"].raw, films["Ran"].raw) == ("Heat, 2 sittings", "Ran")
        assert found.dropped == {"trailers and clips": 1, "played by itself": 1}

    @pytest.mark.parametrize(
        ("durations", "evidence"),
        [
            (["00:20:00"], Evidence.WATCHED),
            (["00:19:59"], Evidence.STREAMED),
            (["01:00:00"], Evidence.WATCHED),
            (["00:12:00", "00:08:00"], Evidence.WATCHED),
            (["00:00:59"], Evidence.STREAMED),
            (["a while"], Evidence.STREAMED),
        ],
    )
    def test_twenty_minutes_in_all_are_watching(self, durations, evidence) -> None:
        lines = "".join(f"Anna,2024-05-31 20:15:00,{d},,Heat,,TV,1,1,DE\n" for d in durations)
        (heat,) = read("ViewingActivity.csv", FULL + lines).viewings
        assert heat.evidence is evidence

    def test_which_profile_is_asked(self) -> None:
        rows = self.rows + "Ben,2024-06-02 20:15:00,01:00:40,,Fargo,,TV,1,1,DE\n"
        (question,) = read("ViewingActivity.csv", rows).questions
        assert set(question.choices) == {"Anna", "Ben"}
        assert set(by_title(read("ViewingActivity.csv", rows, profile="Ben"))) == {"Fargo"}
        account = zipped({"CONTENT_INTERACTION/ViewingActivity.csv": rows, "a/b.csv": "x,y\n1,2\n"})
        assert recognise("netflix-report.zip", account).questions == (question,)


class TestLetterboxd:
    files = {
        "watched.csv": "Date,Name,Year,Letterboxd URI\n"
        "2024-01-01,Heat,1995,https://boxd.it/1\n2024-01-01,Dune,2021,https://boxd.it/2\n",
        "watchlist.csv": "Date,Name,Year,Letterboxd URI\n2024-01-01,Ran,1985,https://boxd.it/3\n",
        "ratings.csv": "Date,Name,Year,Letterboxd URI,Rating\n"
        "2024-01-02,Heat,1995,https://boxd.it/1,4.5\n",
        "diary.csv": "Date,Name,Year,Letterboxd URI,Rating,Rewatch,Tags,Watched Date\n"
        "2024-02-02,Heat,1995,https://boxd.it/9,4.5,,,2024-02-01\n",
        "deleted/diary.csv": "Date,Name,Year,Letterboxd URI\n2024-01-01,It,2017,https://b.it/1\n",
        "likes/films.csv": "Date,Name,Year,Letterboxd URI\n2024-01-01,Up,2009,https://b.it/1\n",
        "profile.csv": "Date Joined,Username\n2020-01-01,anna\n",
        "comments.csv": "",
    }

    @pytest.mark.parametrize("prefix", ["", "letterboxd-anna-2024/"])
    def test_every_film_once_with_its_best_evidence(self, prefix: str) -> None:
        data = zipped({prefix + name: text for name, text in self.files.items()})
        found = recognise("letterboxd-anna.zip", data)
        assert found.kind == "Letterboxd export"
        films = by_title(found)
        assert set(films) == {"Heat", "Dune"}
        heat = films["Heat"]
        assert (heat.year, heat.rating, heat.evidence) == (1995, 4.5, Evidence.RATED)
        assert heat.watched_at == datetime(2024, 2, 1, tzinfo=UTC)
        assert films["Dune"].evidence is Evidence.WATCHED
        assert found.dropped == {"only wanted, not watched": 1, "in other lists": 2}

    def test_one_list_alone_is_told_by_its_name_or_asked(self) -> None:
        watched = self.files["watched.csv"]
        assert len(read("watched.csv", watched).viewings) == 2
        assert read("watchlist.csv", watched).viewings == ()
        (question,) = read("list(1).csv", watched).questions
        assert set(question.choices) == {"watched", "watchlist"}
        assert len(read("list(1).csv", watched, list="watched").viewings) == 2
        assert read("list(1).csv", watched, list="watchlist").viewings == ()


def movie(title: str, year: int | None = 1999, **more: object) -> dict[str, object]:
    return {"movie": {"title": title, "year": year, "ids": {"imdb": "tt1", "tmdb": 7}}, **more}


class TestTrakt:
    def test_told_by_structure_whatever_the_names(self) -> None:
        data = zipped(
            {
                "a/history-1.json": json.dumps(
                    [
                        movie("Heat", 1995, watched_at="2024-05-01T20:00:00.000Z", type="movie"),
                        movie("Heat", 1995, watched_at="2024-06-01T20:00:00.000Z", type="movie"),
                        {"watched_at": "2024-05-01T20:00:00Z", "type": "episode",
                         "episode": {"title": "Pilot"}, "show": {"title": "Fargo"}},
                    ]
                ),
                "b.json": json.dumps([movie("Heat", 1995, rated_at="2024-07-01", rating=9)]),
                "c.json": json.dumps([movie("Ran", 1985, listed_at="2024-07-01T00:00:00Z")]),
                "d.json": json.dumps({"user": {"name": "anna"}}),
                "e.json": "not json",
            }
        )  # fmt: skip
        found = recognise("export.zip", data)
        assert found.kind == "Trakt export"
        heat, fargo = found.viewings
        assert (fargo.title, fargo.series) == ("Fargo", "Fargo"), "an episode is of its series"
        assert (heat.year, heat.imdb_id, heat.tmdb_id, heat.rating) == (1995, "tt1", "7", 4.5)
        assert heat.watched_at == datetime(2024, 6, 1, 20, tzinfo=UTC)
        assert found.dropped == {"only wanted or collected, not watched": 1}

    def test_one_file_and_odd_values(self) -> None:
        odd = [movie("Heat", None, last_watched_at=None, plays=3), movie("  ", watched_at="x"), 5,
               {"movie": {"title": 7, "ids": None}, "watched_at": "x"}]  # fmt: skip
        (heat,) = recognise("watched-movies.json", json.dumps(odd).encode()).viewings
        assert (heat.title, heat.watched_at) == ("Heat", None)


def test_imdb_ratings_go_by_number_and_known_types() -> None:
    header = (
        "Const,Your Rating,Date Rated,Title,Original Title,URL,Title Type,IMDb Rating,"
        "Runtime (mins),Year,Genres,Num Votes,Release Date,Directors\n"
    )
    found = read(
        "ratings.csv",
        header
        + "tt0113277,9,2024-05-01,Heat,Heat,https://x,Film,8.3,170,1995,Crime,1,1995-12-15,Mann\n"
        + "tt2802850,8,2024-05-01,Fargo,Fargo,https://x,TV Series,8.8,53,2014,Crime,1,,\n"
        + "tt0089881,,2024-05-01,Ran,Ran,https://x,Movie,8.2,160,1985,War,1,,\n"
        + "co0000001,8,2024-05-01,What,What,https://x,Movie,8.2,160,1985,War,1,,\n",
    )
    heat, fargo = found.viewings
    assert (heat.imdb_id, heat.rating, heat.year) == ("tt0113277", 4.5, 1995)
    assert (heat.series, fargo.series) == ("", "Fargo")
    assert heat.evidence is Evidence.RATED
    assert sum((found.dropped or {}).values()) == 2
    titles = read(
        "ratings.csv",
        header
        + "tt0047478,9,2024-05-01,Seven Samurai,Shichinin no samurai,https://x,Movie,8.6,,1954,,,,\n"
        + "tt0043014,9,2024-05-01,,Sunset Blvd.,https://x,Movie,8.4,,1950,,,,\n",
    )
    assert [viewing.title for viewing in titles.viewings] == ["Seven Samurai", "Sunset Blvd."]


class TestOwn:
    def test_formulas_are_disarmed(self) -> None:
        text = write_history([Viewing('=HYPERLINK("http://x")', "@evil"), Viewing("-1", "+2")])
        cells = [cell for line in text.splitlines() for cell in line.split(",")]
        assert not any(cell.strip('"').startswith(("=", "+", "-", "@", "\t")) for cell in cells)
        assert {v.title for v in read("x.csv", text).viewings} == {'=HYPERLINK("http://x")', "-1"}

    words = st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0"), min_size=1
    ).filter(str.strip)

    @given(
        st.lists(
            st.builds(
                Viewing,
                title=words,
                source=words,
                year=st.none() | st.integers(1888, 2100),
                imdb_id=st.none() | st.from_regex(r"tt\d{7}", fullmatch=True),
                tmdb_id=st.none() | st.from_regex(r"[0-9]{1,6}", fullmatch=True),
                watched_at=st.none()
                | st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
                rating=st.none() | st.integers(1, 10).map(lambda half: half / 2),
            ),
            min_size=1,
        )
    )
    def test_what_is_written_is_read_back(self, viewings: list[Viewing]) -> None:
        found = read("x.csv", write_history(viewings))
        keys = ("title", "source", "year", "imdb_id", "tmdb_id", "watched_at", "rating")
        assert [[getattr(v, k) for k in keys] for v in found.viewings] == [
            [getattr(v, k) for k in keys] for v in viewings
        ]

    @pytest.mark.parametrize(
        ("line", "message", "read_of_it"),
        [
            ("Heat,soon,,,,,x", "line 3: 'soon' is no year; read without it", ["Heat"]),
            ("Heat,1995,,,,9,x", "line 3: '9' is no rating; read without it", ["Heat"]),
            ("Heat,1995,,,yesterday,,x", "line 3: 'yesterday' is no watched_at; read without it",
             ["Heat"]),
            (",1995,,,,,x", "line 3: it has no title", []),
        ],
    )  # fmt: skip
    def test_bad_lines_are_listed_and_the_others_read(
        self, line: str, message: str, read_of_it: list[str]
    ) -> None:
        head = "title,year,imdb_id,tmdb_id,watched_at,rating,source\n"
        found = read("x.csv", f"{head}Ran,1985,,,,,x\n{line}\nAlien,1979,,,,,x\n")
        assert [v.title for v in found.viewings] == ["Ran", *read_of_it, "Alien"]
        assert found.unread == (message,)


class TestLists:
    """Any CSV with titles."""

    @pytest.mark.parametrize(
        "text",
        ["title,year\nHeat,1995\n", "Titel;Jahr\nHeat;1995\n", "Name,Year\nHeat,1995\n",
         "Film\tYear\tStars\nHeat\t1995\t\n", "\ufeffTítulo,Año\nHeat,1995\n"],
    )  # fmt: skip
    def test_titles_and_years(self, text: str) -> None:
        found = read("mine.csv", text)
        assert found.kind == "List of films"
        assert [(v.title, v.year) for v in found.viewings] == [("Heat", 1995)]

    @pytest.mark.parametrize(
        ("lines", "titles"),
        [
            (['"Ran,1985', "Up,2009"], ["Heat", "Ran,1985", "Up"]),
            (['"Ran,1985', "Up,2009", 'Al"ien,1979', '"Fargo,1996', "Se7en,1995"],
             ["Heat", "Ran,1985", "Up", 'Al"ien', "Fargo,1996", "Se7en"]),
            (["Up," + "9" * 200_000, "Ran,1985"], ["Heat", "Up," + "9" * 997, "Ran"]),
            (['"Ran\n(restored)",1985', "Up,2009"], ["Heat", "Ran\n(restored)", "Up"]),
        ],
        ids=["never closed", "twice", "endless", "a break within a title"],
    )  # fmt: skip
    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    def test_one_odd_line_costs_one_line(
        self, lines: list[str], titles: list[str], end: str
    ) -> None:
        text = end.join(["title,year", "Heat,1995", *lines, ""])
        assert [v.title for v in read("x.csv", text).viewings] == titles

    def test_stars_of_five_or_ten(self) -> None:
        five = read("x.csv", "title,year,rating\nHeat,1995,4\nRan,1985,3.5\n")
        ten = read("x.csv", "title,year,rating\nHeat,1995,8\nRan,1985,7\n")
        assert [v.rating for v in five.viewings] == [v.rating for v in ten.viewings] == [4, 3.5]

    def test_names_of_people_are_no_films(self) -> None:
        with pytest.raises(InputError, match="none of the files"):
            read("x.csv", "name,phone\nAnna,123\n")


class TestPrimeVideo:
    def test_the_accounts_own_history(self) -> None:
        text = (
            "Playback Hour,Title,Marketplace,Device Type\n"
            "2024-05-31T20:00:00Z,Heat,Amazon.de,TV\n"
            "2024-05-30T20:00:00Z,The Boys - Season 3,Amazon.de,TV\n,,,\n"
        )
        found = read("Digital.PrimeVideo.ViewingHistory.csv", text)
        assert found.kind == "Prime Video history"
        assert [(v.title, v.series) for v in found.viewings] == [("Heat", ""), ("The Boys",) * 2]
        assert found.viewings[0].watched_at == datetime(2024, 5, 31, 20, tzinfo=UTC)

    @pytest.mark.parametrize(
        "head", ["Date Watched,Type,Title,Episode Title", "Datum angesehen,Typ,Titel,Folge"]
    )
    def test_the_exporter_in_the_accounts_language(self, head: str) -> None:
        text = f"{head}\n2024-05-31,Film,Heat,\n2024-05-30,Serie,Fargo: Staffel 2,Warten\n"
        found = read("watch-history.csv", text)
        assert [(v.title, v.series) for v in found.viewings] == [("Heat", ""), ("Fargo", "Fargo")]


class TestForgiving:
    def test_one_bad_day_costs_one_day(self) -> None:
        lines = "".join(f'"Film {k}","{k % 28 + 1}.12.23"\n' for k in range(40))
        found = read("x.csv", f'Titel,Datum\n"Heat","99.99.99"\n"Ran","gestern"\n{lines}')
        assert found.kind == "Netflix viewing history"
        assert not found.questions
        assert [v.watched_at is None for v in found.viewings[:3]] == [True, True, False]
        assert len(found.viewings) == 42
        assert [text.partition(":")[0] for text in found.unread] == ["line 2", "line 3"]

    def test_thumbs_of_an_account(self) -> None:
        packed = io.BytesIO()
        thumbs = (
            "Profile Name,Title Name,Rating Type,Star Value,Thumbs Value,Device Model,"
            "Event Utc Ts,Region View Date\nAnna,Heat,thumb,0,1,TV,2024-05-31,\n"
            "Anna,Ran,thumb,0,3,TV,2024-05-31,\nBo,Up,thumb,0,1,TV,2024-05-31,\n"
        )
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("CONTENT_INTERACTION/Ratings.csv", thumbs)
            archive.writestr(
                "CONTENT_INTERACTION/ViewingActivity.csv",
                FULL + "".join(
                    f"Anna,2024-05-31 20:15:00,01:10:00,,{title},,TV,1,1,DE\n"
                    for title in ("Heat", "Ran", "Up")
                ),
            )  # fmt: skip
        found = recognise("netflix.zip", packed.getvalue())
        assert {v.title: v.rating for v in found.viewings} == {"Heat": 1.0, "Ran": 5.0, "Up": None}


class TestUnsafeFiles:
    def test_a_zip_bomb_is_refused_by_what_comes_out(self, monkeypatch) -> None:
        assert archives.MAX_UNPACKED == 256 * 2**20
        monkeypatch.setattr(archives, "MAX_UNPACKED", 2**20)
        # each fits, together they do not
        bomb = zipped({f"{k}/watched.csv": b"0" * 2**19 for k in range(3)})
        assert len(bomb) < 2**16
        with pytest.raises(InputError, match="unpacks to more than 1 MB"):
            recognise("bomb.zip", bomb)

    def test_a_bomb_that_lies_about_its_size(self, monkeypatch) -> None:
        monkeypatch.setattr(archives, "MAX_UNPACKED", 2**20)
        honest = zipped({"watched.csv": b"0" * 2**22})
        at = honest.index(b"PK\x01\x02")
        lying = honest[: at + 24] + struct.pack("<I", 10) + honest[at + 28 :]
        with pytest.raises(InputError, match=r"more than 1 MB|damaged zip"):
            recognise("bomb.zip", lying)

    def test_too_many_files(self) -> None:
        with pytest.raises(InputError, match="holds 10,001 files"):
            recognise("many.zip", zipped(dict.fromkeys(map(str, range(10_001)), "")))

    def test_names_that_lead_out_write_nothing(self, tmp_path, monkeypatch) -> None:
        inner = tmp_path / "inner"
        inner.mkdir()
        monkeypatch.chdir(inner)
        data = zipped({f"../{name}": text for name, text in TestLetterboxd.files.items()})
        assert len(recognise("x.zip", data).viewings) == 2
        assert [p.name for p in tmp_path.rglob("*")] == ["inner"]

    @pytest.mark.parametrize(
        ("name", "data", "message"),
        [
            ("a.csv", b"", "is empty"),
            ("a.csv", b"\n\n", "holds no lines"),
            ("a.csv", b"x" * (archives.MAX_FILE + 1), "more than the 64 MB"),
            ("a.csv", b"colour,size\nred,1\n", "none of the files"),
            ("a.csv", b"Title,Date\n", "none of the files"),
            ("a.json", b'{"a": 1}', "none of the files"),
            ("a.json", b"[" * 100_000, "none of the files|readable"),
            ("a.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "none of the files"),
            ("a.zip", b"PK\x03\x04 nothing more", "damaged zip"),
            ("a.zip", zipped({"readme.txt": "hello"}), "none of the files"),
        ],
    )
    def test_unusable_files_are_named(self, name: str, data: bytes, message: str) -> None:
        with pytest.raises(InputError, match=message) as caught:
            recognise(f"C:\\fakepath\\{name}", data)
        assert "fakepath" not in str(caught.value)

    def test_a_damaged_zip_never_fails_otherwise(self) -> None:
        whole = zipped(TestLetterboxd.files)
        for at in range(0, len(whole), 7):
            broken = bytearray(whole)
            broken[at] ^= 0xFF
            try:
                recognise("x.zip", bytes(broken))
            except InputError:
                continue

    @given(st.binary(max_size=300))
    def test_no_bytes_make_it_fail_otherwise(self, data: bytes) -> None:
        for start in (b"", b"Title,Date\n", b"PK\x03\x04", b"[", FULL.encode()):
            try:
                recognise("x", start + data)
            except InputError:
                continue

    def test_a_password_is_named(self) -> None:
        data = bytearray(zipped({"watched.csv": "Date,Name\n"}))
        for sign, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            data[data.index(sign) + offset] |= 1
        with pytest.raises(InputError, match="protected by a password"):
            recognise("x.zip", bytes(data))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings(encoding: str) -> None:
    text = 'Title,Date\n"Amélie","31/12/23"\n'
    assert recognise("x.csv", text.encode(encoding)).viewings[0].title == "Amélie"


@pytest.mark.parametrize(("days", "short"), [(2, False), (3, True)])
def test_a_netflix_list_has_a_day_in_most_lines(days: int, short: bool) -> None:
    lines = [f"Film {i},{'01.02.24' if i < days else 'good'}" for i in range(5)]
    assert is_short(read_table("list.csv", "\n".join(["Titel,Datum", *lines]))) is short
