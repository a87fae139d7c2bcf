"""Releases: recorded before anyone sees them, sent as shown, once, and never what is withheld."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import mannwhitneyu

from client.conftest import Served
from epicrec import wire
from epicrec.client.device import Device
from epicrec.client.sending.exposure import category_views, title_odds
from epicrec.client.sending.outbox import CHOSEN_MOMENT, Releases, StoredRelease
from epicrec.client.sending.privacy_choice import D2P_NAME, RESPONSE, Choice
from epicrec.client.sending.remote import Remote, RemoteError
from epicrec.client.sending.schedule import next_moment, run_due, set_schedule
from epicrec.client.store import PLAIN, Store
from epicrec.data import Catalogue
from epicrec.errors import BudgetExceededError, InputError
from epicrec.perturb import Release
from epicrec.perturb.levels import ALL, NO, PERTURBED
from epicrec.perturb.randomised_response import answers_about
from killing import ENVIRONMENT


def ids_with(films: Catalogue, category: str, n: int) -> list[str]:
    found = [i for i in range(len(films)) if category in films.categories_of(i)]
    return [str(films.item_ids[i]) for i in found[:n]]


def ids_without(films: Catalogue, category: str, n: int) -> list[str]:
    found = [i for i in range(len(films)) if category not in films.categories_of(i)]
    return [str(films.item_ids[i]) for i in found[:n]]


def named(stored: StoredRelease, films: Catalogue) -> Sequence[str]:
    """The films that a release says were watched."""
    if stored.release.answers is None:
        return stored.release.items
    return [str(item) for item in films.item_ids[answers_about(stored.release, films)]]


def test_recorded_before_it_is_seen_and_sent_as_it_is(device: Device, served: Served) -> None:
    device.example()
    stored = device.draw()
    assert stored.state == "recorded"
    entries = device.ledger.entries()
    assert [entry.about for entry in entries] == [f"release {stored.id}: {RESPONSE}, with noise"]
    assert not [r for r in served.seen if r.method == "PUT"], "nothing is sent by drawing"
    assert served.seen == [], "and nothing is asked"
    stored = device.send(stored.id)
    puts = [r for r in served.seen if r.method == "PUT"]
    assert [r.content for r in puts] == [stored.payload]
    message = wire.Released.model_validate_json(stored.payload)
    sent = Release.from_dict(message.Release)
    assert (message.ReleaseId, message.UserId) == (stored.id, stored.user_id)
    assert sent.kept == {}
    assert sent.seconds == 0, "how long drawing took may tell of the history"
    assert CHOSEN_MOMENT not in sent.guarantee.assumes, "what the device knows of the moment"
    own = stored.release
    assert (sent.items, sent.answers, sent.settings, sent.guarantee.epsilon) == (
        own.items, own.answers, own.settings, own.guarantee.epsilon,
    )  # fmt: skip
    assert served.answers_of(device.account) == [stored.release.answers]


def test_what_did_not_arrive_is_sent_again_and_what_arrived_is_not(
    device: Device, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    device.example()
    stored = device.draw()
    put = Remote.put_release

    def lose_the_answer(self: Remote, user_id: str, payload: bytes) -> None:
        put(self, user_id, payload)
        raise RemoteError("the line broke")

    with monkeypatch.context() as patch:
        patch.setattr(Remote, "put_release", lose_the_answer)
        for _ in range(2):
            with pytest.raises(RemoteError):
                device.send(stored.id)
    device.send(stored.id)
    assert len({r.content for r in served.seen if r.method == "PUT"}) == 1, "the same bytes"
    with pytest.raises(InputError, match="arrived"):
        device.send(stored.id)
    assert len(device.ledger.entries()) == 1
    assert served.answers_of(device.account) == [stored.release.answers]
    assert device.outlook().nothing_new


def test_each_film_enters_one_draw(device: Device, films: Catalogue) -> None:
    device.history.add([str(i) for i in films.item_ids[:30]])
    first = device.draw()
    assert device.outlook().counted == 30
    device.history.add([str(i) for i in films.item_ids[30:35]])
    outlook = device.outlook()
    assert (outlook.fresh, outlook.counted) == (5, 30)
    second = device.draw()
    epsilons = [s.release.guarantee.epsilon for s in (first, second)]
    assert device.ledger.total()["item"].epsilon == pytest.approx(max(epsilons))
    device.draw(everything=True)
    assert device.ledger.total()["item"].epsilon == pytest.approx(2 * max(epsilons))


def test_two_draws_at_once_share_no_film(device: Device) -> None:
    device.example()
    with ThreadPoolExecutor(4) as pool:
        drawn = list(pool.map(lambda _: device.draw().id, range(4)))
    assert len(set(drawn)) == len(device.ledger.entries()) == 4
    with device.store.reading() as db:
        works = [row[0] for row in db.execute("SELECT work FROM counted")]
    assert len(works) == len(set(works)), "each film entered one of them"
    one = device.releases.get(drawn[0]).release.guarantee.epsilon
    assert device.ledger.total()["item"].epsilon == pytest.approx(one)


def test_every_draw_is_drawn(device: Device) -> None:
    """Whether something new was watched shows neither in whether a draw happens nor in its size: a
    device that returned the last release where nothing is new would tell."""
    device.example()
    releases = [device.draw() for _ in range(4)]
    assert device.outlook().nothing_new
    assert len({stored.id for stored in releases}) == 4
    assert len({stored.release.answers for stored in releases}) == 4
    assert len({len(stored.release.answers or b"") for stored in releases}) == 1
    one = releases[0].release.guarantee.epsilon
    assert device.ledger.total()["item"].epsilon == pytest.approx(one), "batches share no film"


def test_a_moment_of_ones_own_is_said_in_the_guarantee(device: Device) -> None:
    device.example()
    by_hand, by_plan = device.draw(), device.draw(scheduled=True)
    assert CHOSEN_MOMENT in by_hand.release.guarantee.assumes
    assert CHOSEN_MOMENT not in by_plan.release.guarantee.assumes
    device.send(by_plan.id, scheduled=True)
    assert CHOSEN_MOMENT not in device.releases.get(by_plan.id).release.guarantee.assumes
    late = device.draw(scheduled=True)
    sent = device.send(late.id)
    sent_to = f'"UserId":"{sent.user_id}"'.encode()
    assert CHOSEN_MOMENT in sent.release.guarantee.assumes
    noted = [e for e in device.ledger.entries() if CHOSEN_MOMENT in e.guarantee.assumes]
    assert {e.about.split()[1].rstrip(":") for e in noted} == {by_hand.id, late.id}
    assert sent.payload == late.payload.replace(b'"UserId":""', sent_to), "the same films"


def test_d2p_about_no_film_is_empty_and_says_so(device: Device) -> None:
    device.choose(Choice(mechanism=D2P_NAME))
    stored = device.draw()
    assert stored.release.items == ()
    assert "how many" in str(stored.release.guarantee).lower()


def test_withheld_names_and_titles_leave_nowhere(
    device: Device, served: Served, films: Catalogue
) -> None:
    horror = ids_with(films, "Horror", 20)
    device.history.add(horror + ids_without(films, "Horror", 30))
    device.choose(Choice(overall=PERTURBED, exceptions={"Horror": NO}))
    device.send(device.draw().id)
    device.for_you()
    device.refresh()
    said = b"\n".join(
        bytes(r.url.raw_path) + repr(r.headers.raw).encode() + r.content for r in served.seen
    ).decode()
    assert "watch" in said
    secret = (device.account or {})["secret"]
    said = said.replace(secret, "")  # random letters, which may spell any short word
    keyed = {r.url.path.split("/")[2] for r in served.seen if r.headers.get("x-api-key") == secret}
    assert keyed == {"user", "recommend"}, "the model is asked for without the key"
    (sent,) = (r.content for r in served.seen if r.method == "PUT")
    told = Release.from_dict(json.loads(sent)["Release"])
    choice = Choice()
    usual = choice.perturber(films).release([], choice.levels(films))
    assert (told.settings, told.aggregates.keys()) == (usual.settings, usual.aggregates.keys())
    others = said.replace(sent.decode(), "")
    for category in films.categories:
        assert category not in others, "but the release, which names the same for everybody"
    # films of it may be made up, as of a category never watched; only what was drawn is said
    drawn = {item for stored in device.releases.all() for item in stored.release.items}
    assert {str(i) for i in films.item_ids if f'"{i}"' in said} == drawn
    titles = [films.title_of(i) for i in ids_with(films, "Horror", 10**6)]
    assert not [t for t in titles if len(t) > 4 and t in said]


@pytest.mark.parametrize("mechanism", [RESPONSE, "epicrec", D2P_NAME])
def test_one_release_and_ten_do_not_tell_what_is_withheld(
    tmp_path: Path, served: Served, films: Catalogue, mechanism: str
) -> None:
    """Twenty horror films, kept to oneself, against none: by what would arrive, whoever says which
    of the two it is, from one release or from ten in a row, is right about as often as a coin."""
    horror, others = set(ids_with(films, "Horror", 10**6)), ids_without(films, "Horror", 30)
    cases = {
        "withheld": (sorted(horror)[:20] + others, Choice(exceptions={"Horror": NO})),
        "never watched": (others, Choice()),
    }
    one: dict[str, list[int]] = {}
    ten: dict[str, list[int]] = {}
    for case, (watched, choice) in cases.items():
        one[case], ten[case] = [], []
        for k in range(30):
            folder = tmp_path / f"{case} {k}"
            with closing(Device(folder, films, server=served.url)) as device:
                device.history.add(watched)
                device.choose(replace(choice, mechanism=mechanism))
                sent = [named(device.draw(), films) for _ in range(10 if k < 12 else 1)]
            found = [sum(item in horror for item in items) for items in sent]
            one[case].append(found[0])
            ten[case] += [sum(found)] if k < 12 else []
    for seen in (one, ten):
        assert sum(seen["withheld"]) > 0, "as many are made up as for anybody else"
        assert mannwhitneyu(seen["withheld"], seen["never watched"]).pvalue > 1e-5, seen


def test_requests_are_the_same_whatever_is_withheld(
    tmp_path: Path, served: Served, films: Catalogue
) -> None:
    asked = []
    for k, choice in enumerate((Choice(), Choice(exceptions={"Horror": NO, "War": ALL}))):
        served.seen.clear()
        device = Device(tmp_path / str(k), films, server=served.url, dial=served.dial)
        device.example()
        device.choose(choice)
        device.send(device.draw().id)
        name = (device.account or {})["user_id"]
        asked.append([(r.method, str(r.url).replace(name, "me")) for r in served.seen])
        device.close()
    assert asked[0] == asked[1]


def test_clear_items_are_disclosed(device: Device, films: Catalogue) -> None:
    device.choose(Choice(overall=ALL))
    device.history.add([str(i) for i in films.item_ids[:3]])
    stored = device.draw()
    assert stored.release.items == tuple(str(i) for i in films.item_ids[:3])
    assert [entry.disclosure for entry in device.ledger.entries()] == [True]
    device.send(stored.id)
    odds = title_odds(films, device.releases.all(), str(films.item_ids[0]))
    assert odds.sent_as_it_is
    assert odds.after == 1
    other = title_odds(films, device.releases.all(), str(films.item_ids[9]))
    assert other.after == other.before


def test_no_release_sends_nothing(device: Device, served: Served) -> None:
    device.choose(Choice(overall=NO))
    device.example()
    assert device.outlook().nothing_new
    with pytest.raises(InputError, match="keep all of it"):
        device.draw()
    set_schedule(device, "weekly")
    assert run_due(device, datetime.now(UTC) + timedelta(days=8))
    device.for_you()
    assert device.releases.all() == []
    assert {(r.method, r.url.path) for r in served.seen} == {("GET", "/api/model/info")}
    assert not [r for r in served.seen if "x-api-key" in r.headers]


def test_the_limit_refuses_and_forgets_the_draw(device: Device) -> None:
    device.example()
    device.choose(Choice(strength="weak"))
    device.set_limit(1.0)
    with pytest.raises(BudgetExceededError):
        device.draw()
    assert device.releases.all() == []
    assert device.ledger.entries() == ()
    assert device.outlook().counted == 0, "the films may enter another draw"
    device.choose(Choice())
    assert device.draw().state == "recorded"


def test_d2p_is_a_second_mechanism(device: Device, films: Catalogue) -> None:
    device.choose(Choice(exceptions={"Horror": NO}, mechanism=D2P_NAME))
    device.history.add(ids_with(films, "Horror", 5) + ids_without(films, "Horror", 20))
    stored = device.draw()
    assert stored.release.method == "d2p"
    assert sum(stored.release.values) == 20
    assert device.ledger.total()["item"].epsilon <= 3.0


def test_answers_at_random_are_what_is_sent_by_default(device: Device, films: Catalogue) -> None:
    """A bit for each title, also where nothing is new; what it tells of a film is ε at most."""
    device.choose(Choice(exceptions={"Horror": NO}))
    horror = ids_with(films, "Horror", 5)
    device.history.add(horror + ids_without(films, "Horror", 20))
    first, second = device.draw(), device.draw()
    assert len(first.release.answers or b"") == len(second.release.answers or b"") == 67
    assert first.release.answers != second.release.answers
    assert device.outlook().nothing_new
    assert device.ledger.total()["item"].epsilon == 1.0, "batches share no film"
    stored = device.send(first.id)
    assert Release.from_dict(json.loads(stored.payload)["Release"]).answers == first.release.answers
    sent = [device.releases.get(first.id)]
    assert title_odds(films, sent, horror[0]).epsilon == 0
    assert title_odds(films, sent, ids_without(films, "Horror", 1)[0]).epsilon == 1.0


def test_works_that_are_open_are_known_whatever_was_watched(
    device: Device, films: Catalogue
) -> None:
    device.choose(Choice(exceptions={"Western": ALL}))
    device.draw()
    pure = [
        str(films.item_ids[i]) for i in range(len(films)) if films.categories_of(i) == ("Western",)
    ]
    assert pure, "or nothing is tried"
    assert title_odds(films, device.releases.all(), pure[0]).sent_as_it_is
    assert any(entry.disclosure for entry in device.ledger.entries())


def test_what_can_be_learned_is_bounded(device: Device, films: Catalogue) -> None:
    device.example()
    device.send(device.draw().id)
    sent = device.releases.all()
    limit = device.choice.epsilon(films)
    for item in films.item_ids[::40]:
        odds = title_odds(films, sent, str(item))
        ratio = (odds.after / (1 - odds.after)) / (odds.before / (1 - odds.before))
        assert 1 <= ratio <= 2.718281828**limit * (1 + 1e-9)
    views = category_views(films, sent, device.history.items(), dict(device.choice.levels(films)))
    assert {view.name for view in views} == set(films.categories)
    off = [abs((view.guess or 0) - view.truth) <= (view.give_or_take or 0) for view in views]
    assert sum(off) > len(off) / 2, "nine of ten are expected"


def test_a_lost_ledger_is_written_again_before_sending(device: Device) -> None:
    device.example()
    stored = device.draw()
    (device.folder / "ledger.jsonl").unlink()
    device.releases.recover()
    assert len(device.ledger.entries()) == 1, "also at the next start"
    (device.folder / "ledger.jsonl").unlink()
    device.send(stored.id)
    assert len(device.ledger.entries()) == 1


def test_an_unreachable_server_leaves_the_release_to_be_sent(
    tmp_path: Path, films: Catalogue, served: Served
) -> None:
    device = Device(tmp_path / "d", films, server=served.url)
    device.example()
    stored = device.draw()
    device.use_server("http://127.0.0.1:9")
    with pytest.raises(RemoteError, match="cannot be reached"):
        device.send(stored.id)
    assert device.releases.unsent()[0].id == stored.id
    device.use_server(served.url)
    device.send(stored.id)
    assert device.releases.unsent() == []
    device.close()


def test_another_account_gets_the_same_films(device: Device, served: Served) -> None:
    device.example()
    stored = device.send(device.draw().id)
    device.accounts.forget()
    with pytest.raises(InputError, match="look at it again"):
        device.send(stored.id)
    again = device.send(stored.id)
    assert again.user_id != stored.user_id
    assert again.release.answers == stored.release.answers
    assert served.answers_of(device.account) == [stored.release.answers]
    assert len(device.ledger.entries()) == 1


def test_scheduled_releases(device: Device, films: Catalogue) -> None:
    moment = datetime.now(UTC).replace(second=0, microsecond=0)
    assert not run_due(device, moment + timedelta(days=800)), "nothing before the person agreed"
    first = set()
    for _ in range(20):
        set_schedule(device, "weekly")
        first.add(next_moment(device.store.setting("schedule")))
    assert len(first) > 10, "drawn at random"
    assert all(moment <= at <= moment + timedelta(days=8) for at in first if at)
    start = next_moment(device.store.setting("schedule"))
    assert start is not None
    device.history.add([str(i) for i in films.item_ids[:10]])
    assert not run_due(device, start - timedelta(minutes=1))
    assert run_due(device, start + timedelta(days=2)), "the program did not run for two days"
    assert next_moment(device.store.setting("schedule")) == start + timedelta(days=7)
    assert not run_due(device, start + timedelta(days=6))
    assert run_due(device, start + timedelta(days=16)), "also when nothing is new"
    assert next_moment(device.store.setting("schedule")) == start + timedelta(days=21)
    assert [stored.state for stored in device.releases.all()] == ["sent", "sent"]
    one = device.releases.all()[0].release.guarantee.epsilon
    assert device.ledger.total()["item"].epsilon == pytest.approx(one)
    with pytest.raises(InputError):
        set_schedule(device, "hourly")


# ---- crashes ------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["before the ledger", "after the ledger", "after sending"])
def test_a_crash_at_each_step(
    tmp_path: Path, films: Catalogue, served: Served, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exception stands for the end of the process: nothing after it happens."""

    class Crash(BaseException):
        pass

    def crash(*_: Any, **__: Any) -> Any:
        raise Crash

    device = Device(tmp_path / "d", films, server=served.url)
    device.example()
    with monkeypatch.context() as patch:
        if point == "before the ledger":
            patch.setattr("epicrec.privacy.Ledger.spend", crash)
            with pytest.raises(Crash):
                device.draw()
        elif point == "after the ledger":
            enter = Releases._enter

            def enter_then_crash(self: Releases, stored: Any) -> None:
                enter(self, stored)
                raise Crash

            patch.setattr(Releases, "_enter", enter_then_crash)
            with pytest.raises(Crash):
                device.draw()
        else:
            stored = device.draw()
            put: Callable[..., None] = Remote.put_release

            def put_then_crash(self: Remote, user_id: str, payload: bytes) -> None:
                put(self, user_id, payload)
                raise Crash

            patch.setattr(Remote, "put_release", put_then_crash)
            with pytest.raises(Crash):
                device.send(stored.id)
        assert point == "after sending" or device.releases.all() == [], "unseen until recorded"
    device.close()
    device = Device(tmp_path / "d", films, server=served.url)
    assert len(device.ledger.entries()) == 1
    (stored,) = device.releases.unsent()
    device.send(stored.id)
    assert served.answers_of(device.account) == [stored.release.answers]
    assert len(device.ledger.entries()) == 1
    device.close()


CHILD = """
import os, sys, traceback
from pathlib import Path
from epicrec.client.sending.privacy_choice import Choice
from epicrec.client.device import Device
from epicrec.client.matching.matcher import Matcher
from epicrec.data.datasets import load_catalogue
from killing import kill_at

folder, url, phrase = Path(sys.argv[1]), sys.argv[2], sys.argv[3] or None
films = load_catalogue("films")
ids = [str(i) for i in films.item_ids]
choice = Choice(strength="strongest", mechanism="epicrec")
choice.perturber(films).release(ids[:9], choice.levels(films))  # compiled before the first fork
matcher = Matcher(films)


def say(*words):
    print(*words, flush=True)


def live():
    device = Device(folder, films, server=url, passphrase=phrase)
    device.reading._matcher = matcher
    device.choose(choice)
    k = device.history.count()
    while True:
        for stored in device.releases.unsent():
            device.send(stored.id, scheduled=True)
        rows = "\\n".join(f'"{films.titles[j]}",5/31/2024' for j in range(k % 500, k % 500 + 6))
        batch = device.reading.file("netflix.csv", f"Title,Date\\n{rows}".encode(), {})
        if isinstance(batch, int):
            entered = device.imports.keep(batch, {})
            say("kept", batch, entered)
        stored = device.draw(scheduled=True)
        say("drawn", stored.id)
        device.send(stored.id, scheduled=True)
        say("sent", stored.id)
        k += 3


for line in sys.stdin:
    child = os.fork()
    if child == 0:
        try:
            kill_at(line, lambda what: say("killed", what))
            live()
        except BaseException:
            traceback.print_exc()
        os._exit(1)
    say("over", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

MOMENTS = (
    "1", "COMMIT 1", "COMMIT 2", "COMMIT 3", "COMMIT 4", "COMMIT 5", "COMMIT 6", "ftruncate 1",
    "write 1", "fsync 1", "fsync 2", "UPDATE 1", "request 1", "request 2", "request 3", "answer 1",
    "answer 2", "COMMIT 20", "answer 7",
)  # fmt: skip
"""Around each change of the store, the ledger and the server, and in the middle of later rounds."""


def in_sight_unrecorded(folder: Path, copy: Path) -> set[str]:
    """Releases that a person could see by now though the ledger on the disk knows nothing."""
    shutil.copytree(folder, copy)  # to open it mends it, which is for the program to do
    with closing(sqlite3.connect(copy / PLAIN)) as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        query = "SELECT id FROM releases WHERE state <> 'drawn'"
        seen = {identity for (identity,) in db.execute(query)} if "releases" in tables else set()
    ledger = copy / "ledger.jsonl"
    entered = ledger.read_text() if ledger.exists() else ""
    shutil.rmtree(copy)
    return {identity for identity in seen if identity not in entered}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moments", "phrase"),
    [
        (MOMENTS, ""),
        (("COMMIT 3", "write 1", "replace 2", "COMMIT 20", "answer 4"), "under a passphrase"),
        pytest.param([str(k) for k in range(1, 301)], "", marks=pytest.mark.soak),
        pytest.param([str(k) for k in range(4, 401, 4)], "a passphrase", marks=pytest.mark.soak),
    ],
    ids=["plain", "sealed", "plain at every step", "sealed at every fourth step"],
)
def test_killed_at_any_step(
    tmp_path: Path, films: Catalogue, served: Served, moments: Sequence[str], phrase: str
) -> None:
    """While a client imports, keeps, draws and sends: kill -9, again and again."""
    folder = tmp_path / "d"
    if phrase:
        store = Store(folder)
        store.seal(phrase)
        store.close()
    said: list[list[str]] = []
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder), served.url, phrase],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT,
    ) as parent:  # fmt: skip
        assert parent.stdin is not None
        assert parent.stdout is not None
        for moment in moments:
            parent.stdin.write(f"{moment}\n")
            parent.stdin.flush()
            while (line := parent.stdout.readline().split())[0] != "over":
                said.append(line)
            assert line == ["over", str(-signal.SIGKILL)], f"it ended by itself before {moment}"
            if not phrase:
                assert in_sight_unrecorded(folder, tmp_path / "copy") == set(), moment
    device = Device(folder, films, server=served.url, passphrase=phrase or None)
    stored = {one.id: one for one in device.releases.all()}
    assert {line[1] for line in said if line[0] == "drawn"} <= set(stored), "nothing is lost"
    sent = {line[1] for line in said if line[0] == "sent"}
    assert len(sent) > 2, "the kills left room for some"
    assert {one.state for one in stored.values() if one.id in sent} <= {"sent"}
    batches = {batch.id: batch.films for batch in device.imports.batches()}
    for line in said:
        assert line[0] != "kept" or int(line[1]) not in batches or (
            batches[int(line[1])] == int(line[2])
        )  # fmt: skip
    entered = [entry.about.split()[1].rstrip(":") for entry in device.ledger.entries()]
    assert sorted(entered) == sorted(stored), "one entry for each release, and no other"
    held = {row.ItemId for row in served.held(device)}
    certain = {i for one in stored.values() if one.state == "sent" for i in one.release.items}
    recorded = {i for one in stored.values() for i in one.release.items}
    assert certain <= held <= recorded, "the server has what was sent, and nothing unrecorded"
    for one in device.releases.unsent():
        device.send(one.id)
    assert {row.ItemId for row in served.held(device)} == recorded
    device.close()
