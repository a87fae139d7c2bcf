"""A list as Netflix exports it, 2015 to 2025: films and episodes, some by their German titles."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from epicrec.client.imports.recognise import recognise
from epicrec.client.matching.matcher import Match, Matcher, Status
from epicrec.data.datasets import load_catalogue

with (Path(__file__).parent / "netflix_list.csv").open(encoding="utf-8") as file:
    LINES = list(csv.DictReader(file))
"""With the title and year that each line means; none for a series that the catalogue has not."""
TITLES = load_catalogue("titles")


def netflix_export() -> str:
    rows = "".join(f'"{line["Titel"]}","{line["Datum"]}"\n' for line in LINES)
    return f"Titel,Datum\n{rows}"


@pytest.fixture(scope="module")
def found() -> list[Match]:
    read = recognise("NetflixViewingHistory.csv", netflix_export().encode())
    assert not read.questions
    assert not read.unread
    return list(Matcher(TITLES).match_all(read.viewings))


def meant(match: Match) -> str:
    at = TITLES.positions([match.item_id])[0] if match.item_id is not None else -1
    return f"{TITLES.titles[at]} {TITLES.years[at]}" if at >= 0 else ""


def test_most_lines_need_no_question(found: list[Match]) -> None:
    settled = [
        match.status in (Status.MATCHED, Status.NOT_A_FILM) and meant(match) == line["expected"]
        for match, line in zip(found, LINES, strict=True)
    ]
    assert len(settled) == 60
    assert sum(settled) / len(settled) >= 0.85


def test_no_line_is_taken_for_another_work(found: list[Match]) -> None:
    for match, line in zip(found, LINES, strict=True):
        if match.status is Status.MATCHED:
            assert meant(match) == line["expected"], line


def test_a_question_offers_what_is_meant(found: list[Match]) -> None:
    for match, line in zip(found, LINES, strict=True):
        if match.status in (Status.AMBIGUOUS, Status.SUGGESTED):
            years = {str(TITLES.years[TITLES.positions([c])[0]]) for c in match.candidates}
            assert line["expected"][-4:] in years, line


def test_episodes_of_one_series_are_one_work() -> None:
    lines = [f'"Dark: Staffel {k}: Folge {n}","1.1.2{k}"\n' for k in (1, 2) for n in range(4)]
    read = recognise("x.csv", f"Titel,Datum\n{''.join(lines)}".encode())
    matches = list(Matcher(TITLES).match_all(read.viewings))
    assert {match.item_id for match in matches} == {"dark-series-2017"}
