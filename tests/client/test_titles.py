"""The list of titles: what the client begins with, what is added to it, and other lists."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from client.conftest import Pages, Served, showing
from epicrec.client.device import Device
from epicrec.client.matching.catalogues import merged
from epicrec.client.sending.privacy_choice import Choice
from epicrec.data import Catalogue
from epicrec.data.datasets import load_catalogue
from epicrec.data.embedded import among, titles_catalogue
from epicrec.perturb.randomised_response import answers_about
from epicrec.server.training.training_data import gather

TITLES = titles_catalogue()


def test_it_has_the_films_under_their_ids_and_knows_what_is_well_known(films: Catalogue) -> None:
    assert len(TITLES) > 10_000
    at = TITLES.positions(films.item_ids)
    assert (at >= 0).all()
    assert TITLES.popularity is not None
    assert films.popularity is not None
    assert spearmanr(TITLES.popularity[at], films.popularity)[0] > 0.7, "two judgements of fame"
    known = TITLES.popularity[TITLES.positions(["rushmore-1998", "thumbelina-1994"])]
    assert known[0] > known[1]


def test_what_two_lists_have_in_common(films: Catalogue) -> None:
    assert among(TITLES, films.item_ids).item_ids.tolist() == films.item_ids.tolist()
    assert among(films, films.item_ids) is films
    assert among(films, np.array([1, 2])) is films, "of another kind altogether"


def other_list() -> Catalogue:
    return Catalogue.from_columns(
        [1, 2, 3, 4],
        ["Heat", "A Film That Nobody Knows", "Another One", "Fargo"],
        ["Crime", "Drama", "Western", "Crime"],
        year=[1996, 2001, 1950, 2014],
        imdb_id=["tt0113277", "tt9999999", "", ""],
        kind=["film", "film", "film", "series"],
        popularity=[10.0, 1000.0, 1.0, 5.0],
    )


def test_lists_are_merged_by_works(films: Catalogue) -> None:
    both = merged(films, other_list())
    assert len(both) == len(films) + 3, "Heat is there, the series Fargo is no film"
    at = both.positions(["heat-1995", "tt9999999", "another-1-1950", "fargo-2014"])
    assert (at >= 0).all()
    assert both.extra is not None
    assert both.extra["imdb_id"][int(at[0])].as_py() == "tt0113277", "its number is known now"
    assert both.popularity is not None
    assert both.popularity[at[1]] < both.popularity[at[0]]
    assert len(merged(both, other_list())) == len(both), "once is enough"
    assert set(films.item_ids) <= set(both.item_ids)


@pytest.fixture
def with_titles(tmp_path: Path, publishing: Served) -> Iterator[Pages]:
    with showing(tmp_path / "client", server=publishing.url, catalogue="titles") as pages:
        yield pages


def test_a_server_with_another_list_takes_what_is_sent(
    with_titles: Pages, publishing: Served, films: Catalogue
) -> None:
    """It takes only items that it lists, so no others are drawn."""
    device = with_titles.device
    with_titles.http.post("/example")
    device.history.add(["dark-series-2017", "thumbelina-1994"])
    with_titles.http.post("/preview/draw")
    (stored,) = device.releases.unsent()
    assert len(answers_about(stored.release, device.sendable)) == len(device.sendable)
    assert set(device.sendable.item_ids) <= set(films.item_ids)
    sent = with_titles.http.post(f"/release/{stored.id}/send")
    assert "Sent, exactly as shown" in sent.text
    assert publishing.answers_of(device.account) == [stored.release.answers]
    assert "Ranked on this device" in sent.text
    shown = with_titles.http.get("/browse?kind=series&q=dark").text
    assert "/film/dark-series-2017" in shown


def test_a_server_of_films_without_a_model_takes_what_is_sent(
    tmp_path: Path, served: Served
) -> None:
    """And corrects it: it makes anew the list that the device has cut for it, and keeps it."""
    device = Device(tmp_path / "device", TITLES, server=served.url)
    device.choose(Choice(mechanism="d2p", strength="weak"))
    device.history.add(["heat-1995", "dark-series-2017"])
    sent = device.send(device.draw().id)
    assert {row.ItemId for row in served.held(device)} == {*sent.release.items}
    device.close()
    with served.service.database.reading() as connection:
        found = gather(connection, served.service.settings.feedback_rules)
    assert found.left_out == {}
    assert [listed.version for listed in found.lists] == [sent.release.settings["catalogue"]]
    assert [law.method for law, _ in found.drawn] == ["d2p"]


def test_another_list_adds_once_to_what_was_spent(
    tmp_path: Path, films: Catalogue, publishing: Served
) -> None:
    device = Device(tmp_path / "device", films, server=publishing.url)
    device.example()
    device.refresh()
    device.send(device.draw().id)
    first = device.ledger.total()["item"].epsilon
    items = device.history.items()
    device.close()
    device = Device(tmp_path / "device", TITLES)
    assert device.history.items() == items, "the history is the same"
    assert device.outlook().counted + device.outlook().withheld == len(items)
    again = device.draw()
    assert again.group is None
    cost = again.release.guarantee.epsilon
    assert device.ledger.total()["item"].epsilon == pytest.approx(first + cost)
    device.draw()
    assert device.ledger.total()["item"].epsilon == pytest.approx(max(first, cost) + cost)
    device.close()


def test_what_an_earlier_import_did_not_find_is_found_in_a_larger_list(tmp_path: Path) -> None:
    rows = "item_id,title,genres,year\n1,A Film That Nobody Knows,Drama,2001\n2,Heat,Crime,1995\n"
    with showing(tmp_path / "client", catalogue="titles") as pages:
        device = pages.device
        reading, history, imports = device.reading, device.history, device.imports
        batch = reading.file("h.csv", b"title,year\nA Film That Nobody Knows,2001\nHeat,1995\n", {})
        assert isinstance(batch, int)
        imports.keep(batch, {})
        assert history.items() == ["heat-1995"]
        assert [b.waiting for b in imports.batches()] == [0]
        before = len(pages.device.catalogue)
        added = pages.http.post("/data/catalogue", files={"list": ("mine.csv", rows.encode())})
        assert "1 title was added, and 1 line of" in added.text
        assert len(pages.device.catalogue) == before + 1
        assert history.items() == ["a-film-that-nobody-knows-2001", "heat-1995"]
        assert pages.http.get("/film/a-film-that-nobody-knows-2001").status_code == 200
    with showing(tmp_path / "client", catalogue="titles") as pages:
        assert len(pages.device.catalogue) == before + 1
        pages.http.post("/data/catalogue/forget")
        assert len(pages.device.catalogue) == before == len(load_catalogue("titles"))


def test_episodes_count_for_their_series(with_titles: Pages) -> None:
    lines = "".join(f'"Breaking Bad: Season 1: Episode {k}","5/2{k}/2024"\n' for k in range(1, 8))
    files = {"file": ("h.csv", f"Title,Date\n{lines}".encode(), "text/csv")}
    review = with_titles.http.post("/sources/file", files=files)
    assert "<strong>1</strong> matched" in review.text
    with_titles.http.post(review.url.path + "/keep")
    assert with_titles.device.history.items() == ["breaking-bad-series-2008"]
