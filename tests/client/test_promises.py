"""Every sentence of the pages about what is sent, asked or known, held against the requests made.

One person's round is recorded request by request. `CHECKS` has a check for each sentence, beside
the sentence as it stands; a sentence that was changed, or added, fails until somebody looks again.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from html import unescape
from math import exp
from pathlib import Path
from typing import Any

import certifi
import httpx
import numpy as np
import pytest
from scipy.sparse import csr_array

from client.conftest import Served, serving
from client.test_extension import HEAT, ORIGIN, Paired
from client.test_shared_model_promises import CHECKS as OF_THE_SHARED_MODEL
from epicrec.client.device import Device
from epicrec.client.sending.exposure import in_worlds
from epicrec.client.sending.outbox import StoredRelease
from epicrec.client.sending.privacy_choice import STRENGTHS, Choice
from epicrec.client.sending.remote import ChangedError, Remote, RemoteError
from epicrec.client.sending.schedule import next_moment, run_due, set_schedule
from epicrec.client.vault import Vault
from epicrec.client.web import film_pages, history_pages, privacy_pages, promises, settings_pages
from epicrec.client.web.promises import PROMISES
from epicrec.client.web.request import Ask, State
from epicrec.data import Catalogue, Ratings, load_dataset
from epicrec.models.randomised_response import RandomisedResponseLists
from epicrec.perturb import D2P, Release, perturber_class
from epicrec.perturb.contract import Sent, Told
from epicrec.perturb.levels import ALL, NO
from epicrec.perturb.randomised_response import Answering, answers_about
from loopback import ADMIN, PATIENCE

WEB = Path(promises.__file__).parent
ABOUT_SENDING = re.compile(
    r"\b(sent|sends?|sending|told|tells?|knows?|known|learn\w*|leaves?|holds?|nobody|anywhere|"
    r"asks?|asked)\b"
)
CSV = b"title,year,imdb_id,tmdb_id,watched_at,rating,source\nHeat,1995,,,,,mine\n"


@dataclass
class Round:
    """A person's steps, with the requests that each of them made."""

    device: Device
    served: Served
    steps: dict[str, list[httpx.Request]] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)

    def step(self, name: str, *pages: tuple[Callable[[Ask], Any], dict[str, str]]) -> None:
        self.served.seen.clear()
        said = State(lambda _: self.device, self.device)
        for page, given in pages:
            form = {key: [value] for key, value in given.items()}
            files = [("own.csv", CSV)] if page is history_pages.upload else []
            path = {name: given[name] for name in ("id", "item_id") if name in given}
            answer = page(Ask(said, path, dict(given), form, files))
            self.device.published.settle()
            self.shown[name] = self.shown.get(name, "") + bytes(answer.body).decode(
                "utf-8", "replace"
            )
        self.kept[f"said at {name}"] = list(said.said)
        self.steps[name] = list(self.served.seen)

    def all(self) -> list[httpx.Request]:
        return [request for requests in self.steps.values() for request in requests]

    def paths(self, *names: str) -> set[tuple[str, str]]:
        """What was asked in these steps, and whether under a name."""
        found = (request for name in names for request in self.steps[name])
        return {
            (f"{r.method} {r.url.path.rpartition('/api/')[2].split('/')[0]}",
             "named" if "x-api-key" in r.headers else "nameless")
            for r in found
        }  # fmt: skip

    @property
    def first(self) -> StoredRelease:
        found: StoredRelease = self.kept["first"]
        return found


LOOKING = [
    (history_pages.start, {}), (history_pages.history, {}), (history_pages.sources, {}),
    (privacy_pages.privacy, {}), (privacy_pages.preview, {}),
    (privacy_pages.learned, {"look": "1"}), (privacy_pages.ledger, {}),
    (settings_pages.server, {}), (settings_pages.data, {}),
    (film_pages.for_you, {}), (film_pages.browse, {}), (film_pages.watchlist, {}),
]  # fmt: skip


@pytest.fixture(scope="module")
def told(
    tmp_path_factory: pytest.TempPathFactory, films: Catalogue, viewers: Ratings
) -> Iterator[Round]:
    """Start, keep to oneself, preview, send, look, delete; and once more without a server."""
    base = tmp_path_factory.mktemp("promises")
    with serving(base / "server") as served:
        served.publish(viewers)
        with closing(Device(base / "alone", films, dial=served.dial)) as alone:
            without = Round(alone, served)
            without.step("alone", (history_pages.example, {}), *LOOKING)
        with closing(Device(base / "device", films, server=served.url, dial=served.dial)) as device:
            now = Round(device, served, dict(without.steps), dict(without.shown))
            device.choose(Choice(overall=NO))
            now.step("fresh", (history_pages.example, {}), (history_pages.upload, {}), *LOOKING)
            set_schedule(device, "weekly")
            now.step("fetching at no release", (film_pages.refresh, {}))
            device.store.set(schedule=None)
            device.choose(Choice())
            now.step("drawing", (privacy_pages.draw, {}), *LOOKING)
            now.kept["first"] = stored = device.releases.unsent()[0]
            now.kept["entered"] = len(device.ledger.entries())
            now.kept["rows before"] = device.for_you().rows
            put_release, arrived = Remote.put_release, []

            def put_and_look(self: Remote, user_id: str, payload: bytes) -> None:
                arrived.append(any(stored.id in e.about for e in device.ledger.entries()))
                put_release(self, user_id, payload)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Remote, "put_release", put_and_look)
                now.step("sending", (privacy_pages.send, {"id": stored.id, "again": "yes"}))
            now.kept["at the server"] = arrived
            now.kept["sent"], now.kept["name"] = device.releases.get(stored.id), device.account
            now.kept["rows after"] = device.for_you().rows
            now.step("looking", *LOOKING)
            now.step("not interested", (film_pages.mark, {"item_id": "heat-1995", "act": "no"}))
            now.step("a film", (film_pages.film, {"item_id": "alien-1979"}))
            now.step("nothing new", (privacy_pages.draw, {}), (privacy_pages.preview, {}))
            now.kept["empty"] = device.releases.unsent()[0]
            device.set_limit(0.01)
            releases = len(device.releases.all())
            now.step("refused", (privacy_pages.draw, {}))
            now.kept["refused"] = len(device.releases.all()) - releases
            device.set_limit(50)
            due = next_moment(device.store.setting("schedule"))
            assert due is not None
            served.seen.clear()
            run_due(device, due)
            now.steps["scheduled"] = list(served.seen)
            device.choose(Choice(overall=NO))
            now.step("keeping again", (film_pages.refresh, {}), *LOOKING)
            now.kept["held then"] = served.rows_of(dict(now.kept["name"]))
            device.choose(Choice(overall=ALL, exceptions={"Horror": NO}))
            now.kept["clear"] = device.draw()
            now.kept["horror"] = {
                str(i) for k, i in enumerate(films.item_ids) if "Horror" in films.categories_of(k)
            }
            now.kept["watched"] = set(device.history.items())
            device.choose(Choice(mechanism="epicrec"))
            now.kept["altered"] = device.draw(everything=True)
            device.choose(Choice(mechanism="d2p"))
            now.kept["d2p"] = device.draw()
            device.choose(Choice())
            now.kept["answers"] = device.draw(everything=True)
            now.kept["copy"] = device.store.copy()
            now.step("deleting there", (settings_pages.forget_there, {"sure": "yes"}))
            now.kept["held after"] = served.rows_of(dict(now.kept["name"]))
            now.kept["plan after"] = device.store.setting("schedule")
            now.step("looking nameless", (film_pages.refresh, {}), *LOOKING)
            device.choose(Choice())
            (waiting, *_) = device.releases.unsent()
            device.accounts.registered()
            device.releases.readdress(waiting.id, (device.account or {})["user_id"])
            now.kept["anew"] = device.releases.get(waiting.id)
            now.step("sending anew", (privacy_pages.send, {"id": waiting.id}))
            now.kept["lost"], now.kept["repeated"] = lost_and_repeated(now)
            now.kept["second name"] = dict(device.account or {})
            now.kept["spent"] = device.ledger.total()["item"].epsilon
            now.step("deleting here", (settings_pages.erase, {"sure": "yes"}))
            now.kept["still held"] = served.rows_of(now.kept["second name"])
            now.kept["ledger after"] = device.ledger.total()["item"].epsilon
            now.kept["films after"] = device.history.count()
            now.step("after", *LOOKING)
            now.step(
                "deleting the ledger", (settings_pages.erase, {"sure": "yes", "ledger": "yes"})
            )
            now.kept["ledger gone"] = device.ledger.entries()
            yield now


def lost_and_repeated(told: Round) -> tuple[bytes, bytes]:
    """What a person sends whose line breaks, and what they send when they press again."""
    device, put_release = told.device, Remote.put_release
    drawn = device.draw()
    device.releases.readdress(drawn.id, (device.account or {})["user_id"])

    def break_the_line(self: Remote, user_id: str, payload: bytes) -> None:
        put_release(self, user_id, payload)
        raise RemoteError("the line broke")

    spent = device.ledger.total()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Remote, "put_release", break_the_line)
        told.step("lost", (privacy_pages.send, {"id": drawn.id}))
    told.step("repeated", (privacy_pages.send, {"id": drawn.id}))
    assert device.ledger.total() == spent, "at no cost"
    return put(told, "lost")[0], put(told, "repeated")[0]


def nothing_asked(*steps: str) -> Callable[[Round], bool]:
    return lambda told: not [r for step in steps for r in told.steps[step]]


MODEL = {("GET model", "nameless")}


def only_the_model(*steps: str) -> Callable[[Round], bool]:
    """Asked for without a name, and nothing else."""
    return lambda told: told.paths(*steps) <= MODEL


def without_the_name(stored: StoredRelease) -> bytes:
    return re.sub(rb'"UserId":"\w*"', b'"UserId":""', stored.payload)


def put(told: Round, step: str) -> list[bytes]:
    return [r.content for r in told.steps[step] if r.method == "PUT"]


def no_film_in(told: Round, *steps: str) -> bool:
    """No film of the history in an address, a header or a body."""
    said = b"\n".join(
        bytes(r.url.raw_path) + repr(r.headers.raw).encode() + r.content
        for step in steps for r in told.steps[step]
    )  # fmt: skip
    return not [item for item in told.kept["watched"] if f'"{item}"'.encode() in said]


def odds_hold(_: Round) -> bool:
    """Whoever is wrong in at most the part f is right in at most e^ε f and 1 - (1 - f)/e^ε."""
    for epsilon in (0.01, 0.3, 0.5, 1.0, 3.0, 6.0):
        right, wrong = in_worlds(epsilon)
        most = min(exp(epsilon) * wrong / 100, 1 - (1 - wrong / 100) / exp(epsilon))
        if right / 100 < most or right / 100 < exp(epsilon) / (1 + exp(epsilon)):
            return False
    return in_worlds(0.3) == (58, 42)


def spoken_to_one_server(told: Round) -> bool:
    hosts = {(r.url.host, r.url.port) for r in told.all()}
    expected = {"POST register", "PUT user", "GET model", "GET recommend", "GET user",
                "DELETE user"}  # fmt: skip
    asked = {path for path, _ in told.paths(*told.steps)}
    lists = [r for step in ("fresh", "drawing", "keeping again", "looking nameless", "after")
             for r in told.steps[step] if "recommend" in r.url.path]  # fmt: skip
    return len(hosts) == 1 and asked <= expected and not lists and (
        ("GET recommend", "named") in told.paths("sending")
    )  # fmt: skip


def drawn_in_their_place(told: Round) -> bool:
    """Forty draws: most films others, and some that were watched. A draw has
    none of these in two of five, so that none in all has a chance below 1e-15."""
    films, watched = told.device.catalogue, told.kept["watched"]
    choice = Choice(mechanism="epicrec")
    perturber = choice.perturber(films)
    draws = [perturber.release(sorted(watched), choice.levels(films)).items for _ in range(40)]
    sent = [set(items) for items in (told.kept["altered"].release.items, *draws)]
    seen = sum(len(items & watched) for items in sent)
    return 0 < seen < sum(len(items - watched) for items in sent)


def learned_from(told: Round, release: Release) -> Told:
    """What a training takes from a release, by the mechanism's own correction."""
    films = told.device.catalogue
    at = films.positions(list(release.items))
    counts = csr_array((release.values, (np.zeros_like(at), at)), shape=(1, len(films)))
    sent = Sent(
        settings=release.settings, counts=counts, user_ids=np.array(["one"]),
        aggregates=release.aggregates, releases=1,
    )  # fmt: skip
    return perturber_class(release.method).told(sent, films)


def exchanged(told: Round) -> Release:
    perturber = Choice(mechanism="d2p").perturber(told.device.catalogue)
    return perturber.release(sorted(told.kept["watched"]))


def exchanged_one_by_one(told: Round) -> bool:
    """As many as were watched, each for one drawn by a law that keeps few."""
    perturber = Choice(mechanism="d2p").perturber(told.device.catalogue)
    assert isinstance(perturber, D2P)
    stays = perturber.channel.matrix().diagonal()
    return sum(exchanged(told).counts or ()) == len(told.kept["watched"]) and 0 < max(stays) < 0.1


def withheld_like_never_watched(told: Round) -> bool:
    """Of films of a withheld category that were all watched as many are claimed as of others that
    never were, 27 of 100; that no release tells which is withheld is for
    `test_one_release_and_ten_do_not_tell_what_is_withheld`."""
    films, horror = told.device.catalogue, sorted(told.kept["horror"])
    choice, at = Choice(exceptions={"Horror": NO}), films.positions(horror)
    perturber, levels = choice.perturber(films), choice.levels(films)
    draws = [answers_about(perturber.release(horror, levels), films)[at] for _ in range(40)]
    return abs(float(np.mean(draws)) - 0.27) < 0.1


def truth_is_told(told: Round) -> bool:
    """As often as the page says at each strength, by the odds that the release itself states."""
    films, page = told.device.catalogue, told.shown["fresh"]
    for strength, cases in zip(STRENGTHS, (62, 73, 88, 95), strict=True):
        drawn = Choice(strength=strength).perturber(films).release([])
        true = 1 - Answering.of(drawn.settings, films).lie
        if np.any(np.round(100 * true) != cases) or f"truth in {cases} of 100" not in page:
            return False
    return True


def refuses_another_certificate(told: Round) -> bool:
    """The line is closed before a request is written: nobody was registered."""
    with serving(told.device.folder.parent / "secure", http=False) as secure:
        other = Path(certifi.where()).read_text("utf-8")
        with closing(Remote(secure.url, certificate=other)) as remote, pytest.raises(ChangedError):
            remote.register()
        trusted = ssl.create_default_context(cafile=str(secure.folder / "tls" / "ca.pem"))
        users = httpx.get(
            f"{secure.url}/api/users", headers={"X-API-Key": ADMIN}, timeout=PATIENCE,
            verify=trusted,
        ).json()  # fmt: skip
    return users["Users"] == []


def sealed_tells_its_size(_: Round) -> bool:
    """Two contents of one size: two files of one size, with nothing in common but the head."""
    vault = Vault.new(Path("export"), "four words are better")
    one, two = vault.sealed(b"a" * 5000), vault.sealed(b"b" * 5000)
    return len(one) == len(two) and one[60:] != two[60:] and b"a" * 16 not in one


def kept_to_oneself(told: Round) -> bool:
    """No request under a name but the one for what the server holds, which the person made."""
    asked = told.paths("fresh", "fetching at no release", "keeping again")
    return asked <= MODEL | {("GET user", "named")} and no_film_in(told, "fresh", "keeping again")


def made_here(told: Round) -> bool:
    """Nothing under a name, no film in a request, and rows on the page."""
    return kept_to_oneself(told) and '<li class="film"' in told.shown["fresh"]


def paired_in(told: Round, name: str) -> tuple[Device, Paired]:
    """A device of its own with a paired browser that looks at one site."""
    folder = told.device.folder.parent / name
    device = Device(folder, told.device.catalogue)
    made = device.extension.pair(device.extension.new_code(1), ORIGIN)
    assert made is not None
    return device, Paired(made)


def told_by_a_browser(told: Round) -> bool:
    """Nobody without the code is heard; `test_chromium` holds all requests of the extension, and
    `test_packed` the fields it tells, against the sentence."""
    device, browser = paired_in(told, "paired")
    with closing(device):
        sealed = browser.message(browser.entry("a"))["sealed"]
        other = device.extension.receive("other", sealed, ORIGIN)
        heard = device.extension.receive(browser.id, sealed, ORIGIN)
        search = browser.message(search="Heat")["sealed"]
        found = browser.opened(str(device.extension.receive(browser.id, search, ORIGIN)))["found"]
        said = {"title", "year", "kind", "season", "number", "ids", "how", "share", "site", "when"}
        return (
            not other and bool(heard) and found[0]["title"] == "Heat"
            and set(HEAT) <= said and device.history.count() == 1
        )  # fmt: skip


def looks_away(told: Round) -> bool:
    device, browser = paired_in(told, "switched off")
    with closing(device):
        device.extension.receive(browser.id, browser.message()["sealed"], ORIGIN)
        device.extension.switch("kino.example", allowed=False)
        message = browser.message(browser.entry("a"))["sealed"]
        answer = device.extension.receive(browser.id, message, ORIGIN)
        off = browser.opened(answer or "")["off"]
        return device.history.count() == 0 and off == ["kino.example"]


def revoked_for_good(told: Round) -> bool:
    """The key that could read what waited is in no file any more."""
    device, browser = paired_in(told, "revoked")
    with closing(device):
        with device.store.reading() as db:
            (key,) = db.execute("SELECT key FROM pairings").fetchone()
        assert key.encode() in device.store.copy()
        device.extension.revoke(browser.id)
        message = browser.message(browser.entry("a"))["sealed"]
        heard = device.extension.receive(browser.id, message, ORIGIN)
        return heard is None and key.encode() not in device.store.copy()


def links_wait(told: Round) -> bool:
    """A film's page asks for nothing, and names other sites only in links; that a browser follows
    none by itself is for `test_a_films_page_asks_nobody`."""
    page = told.shown["a film"]
    outside = re.findall(r"<[^>]*https?://(?!www\.w3)[^>]*>", page)
    named = all(tag.startswith("<a ") and "noreferrer" in tag for tag in outside)
    return nothing_asked("a film")(told) and len(outside) == 3 and named and "Alien" in page


def learned_from_answers() -> bool:
    """More than how popular films are comes of the answers of the embedded viewers."""
    viewers = load_dataset("films")
    model = RandomisedResponseLists(epsilon=3.0, seed=1).fit(viewers.ratings, viewers.catalogue)
    return model.note_ == "" and model.factors_.shape[1] > 1


def answered_at_random(told: Round) -> bool:
    """A bit for each title and nothing else; films that were watched are denied, and others
    claimed, about as often as the odds of a lie say."""
    release, films = told.kept["answers"].release, told.device.sendable
    said = answers_about(release, films)
    watched = np.isin(films.item_ids, [*told.kept["watched"]])
    lies = float((said != watched).mean())
    return release.items == () and len(said) == len(films) and abs(lies - 0.27) < 0.1


CHECKS: dict[str, Callable[[Round], bool]] = {
    "A browser is paired by a code that you see here and enter "
    "there. It then tells this program, and nobody else, of films "
    "and series on the sites you allowed in it: title, year, kind, "
    "season and number, its numbers in catalogues, how it was seen "
    "and how much of it, the site and the time. Where it does not "
    "know a name it asks you, and searches this program's list of "
    "titles for it.": told_by_a_browser,
    "Of a site that is not ticked nothing is kept, and the "
    "extension is told to look away there.": looks_away,
    "That browser can tell this program nothing more, and what "
    "still waited in it can be read by nobody.": revoked_for_good,
    "This page comes from your own machine. It speaks to nobody but"
    " the server you chose: it fetches the model published there "
    "for everybody, without saying who asks; it sends what you "
    "release; after a release it asks for the list made from that; "
    "it adds to a common model where you take part in one; and it "
    "has the server show or delete what it holds of you when you "
    "say so.": spoken_to_one_server,
    "Nothing of your history leaves this device before you send a release or take part in "
    "a common model.": only_the_model("fresh", "drawing"),
    "No server is chosen, so nothing can be sent. Everything else works.": nothing_asked("alone"),
    "Files and browsers are read on this device; reading them sends nothing.": lambda told: (
        no_film_in(told, "fresh") and told.paths("fresh") <= MODEL
    ),
    "noted, on this device only.": nothing_asked("not interested"),
    "Nothing is asked of these sites before you press one. Then "
    "that site sees which film you look up.": links_wait,
    "No release is sent. Your rows work all the same: they are made here.": (
        lambda told: made_here(told)
    ),
    "No more releases are sent. The server keeps what was sent "
    "before, until you have it deleted.": lambda told: (
        not put(told, "keeping again") and bool(told.kept["held then"])
    ),
    "No release has left yet, as far as this device knows. A first "
    "one leaves when you have looked at it and sent it.": only_the_model("fresh", "drawing"),
    "Your history is shared with random changes, with {server}.": lambda told: (
        put(told, "sending") == [told.kept["sent"].payload]
        and told.kept["sent"].release.guarantee.status == "proved"
    ),
    "What you watched is shared as it is with {server}.": lambda told: (
        set(told.kept["clear"].release.items) <= told.kept["watched"]
    ),
    "No release. What the server publishes for everybody is "
    "fetched, without saying who asks.": lambda told: (
        kept_to_oneself(told) and told.paths("fetching at no release") == MODEL
    ),
    "From releases nothing, as there are none.": lambda told: kept_to_oneself(told),
    "Rows all the same, made here from all you really watched.": lambda told: made_here(told),
    "Nothing, unless you take part in the common model.": lambda told: (
        put(told, "fresh") == put(told, "keeping again") == []
    ),
    "Films drawn at random whose categories add up to about those "
    "of yours. Most are made up, and some you may really have "
    "watched.": drawn_in_their_place,
    "Roughly how much you watch of each category. Of a single film "
    "little more than by guessing: the odds are below.": odds_hold,
    "As many films as are new, each exchanged at random for another "
    "one or, now and then, for itself.": exchanged_one_by_one,
    "How many films you watched. Which they are, no more than the odds below allow.": lambda told: (
        odds_hold(told) and exchanged_one_by_one(told)
    ),
    "Little today: your rows are made here either way, with what "
    "the server publishes. Where it publishes nothing, its own list "
    "gives a hint.": lambda told: told.kept["rows before"] == told.kept["rows after"],
    "They count towards how popular each category is.": (
        lambda told: (
            learned_from(told, told.kept["altered"].release).events is None
            and set(learned_from(told, told.kept["altered"].release).totals)
            == set(told.device.catalogue.categories)
        )
    ),
    "They count towards how popular films are.": lambda told: (
        learned_from(told, exchanged(told)).events is not None
    ),
    "For every title of the list an answer to “have you seen it?”, true or false at random.": (
        lambda told: answered_at_random(told)
    ),
    "Of a single film little more than by guessing: the odds are below. The answers about many "
    "films together can tell who you are to whoever knows them.": lambda told: (
        told.kept["answers"].release.guarantee.epsilon == 1.0 and answered_at_random(told)
    ),
    "Rows are ranked here with the model that comes of everybody’s answers.": lambda told: (
        told.kept["rows before"] == told.kept["rows after"]
    ),
    "From many people’s answers the server learns which films go together.": lambda _: (
        learned_from_answers()
    ),
    "For each of {titles} titles one answer, seen or not, some of them lies.": (
        lambda told: answered_at_random(told)
    ),
    "For each title of the list as it was when this was drawn one answer, seen or not, some of "
    "them lies.": lambda told: answered_at_random(told),
    "The server also holds the answers of {releases} of your releases, as they were sent.": (
        lambda told: told.first.release.answers in told.kept["held then"]
    ),
    "your computer tells the truth in {cases} of 100 cases": truth_is_told,
    "What you watched, without protection.": lambda told: (
        set(told.kept["clear"].release.items) <= told.kept["watched"]
    ),
    "All of it: whoever sees it knows that you watched those films.": lambda told: (
        set(told.kept["clear"].release.items) == told.kept["watched"] - told.kept["horror"]
    ),
    "No more than random changes do.": lambda told: (
        told.kept["rows before"] == told.kept["rows after"]
    ),
    "The server learns from your history as it is.": lambda told: (
        told.kept["clear"].release.guarantee.status == "none"
    ),
    "Whoever gets them sees no difference.": lambda told: (
        set(told.kept["altered"].release.values) == {1.0}
        and [*told.kept["altered"].release.items] == sorted(told.kept["altered"].release.items)
        and told.first.release.items == told.first.release.values == ()
    ),
    "What you watched of a category that you keep to yourself has "
    "no influence on what is sent. It is treated as if you had "
    "never watched any of it, so that nobody can tell that you keep"
    " it: films of it that you never watched may be claimed in your "
    "name.": withheld_like_never_watched,
    "Where no category is sent with noise there is nothing to hide "
    "behind: what you keep to yourself is then seen to be missing.": lambda told: (
        not set(told.kept["clear"].release.items) & told.kept["horror"]
    ),
    "Nothing about your history leaves this device, unless you take "
    "part in a common model. You still get recommendations: they "
    "are made here.": kept_to_oneself,
    "What you allow is sent as it is: whoever sees it knows that "
    "you watched those films. Nothing is hidden by noise.": lambda told: (
        set(told.kept["clear"].release.items) == told.kept["watched"] - told.kept["horror"]
    ),
    "Films whose categories you all send as they are have no such protection.": lambda told: (
        told.kept["clear"].release.guarantee.status == "none"
    ),
    "Whoever guesses from what was sent whether you watched a film,"
    " and says so wrongly in no more than {wrong} of 100 worlds "
    "where you did not, says so in at most {right} of 100 worlds "
    "where you did.": odds_hold,
    "Whoever guesses from what was sent which of two films you "
    "watched, and names the one wrongly in no more than {wrong} of "
    "100 worlds, names it rightly in at most {right} of 100.": odds_hold,
    "How many films are sent is not hidden: it is the number of "
    "those that are new, and where none is new none is sent.": lambda told: (
        told.kept["d2p"].release.items == ()
        and "how many" in str(told.kept["d2p"].release.guarantee).lower()
    ),
    "It is exactly what will be sent, byte for byte.": lambda told: (
        put(told, "sending anew") == [told.kept["anew"].payload]
    ),
    "It is exactly what will be sent, but for your name: this "
    "device has none at the server and gets a random one with this "
    "release, in the place of the empty UserId.": lambda told: (
        [without_the_name(told.kept["sent"])] == [told.first.payload]
        and put(told, "sending") == [told.kept["sent"].payload]
        and told.first.user_id == ""
    ),
    "Where you do not send it, it leaves at the next scheduled moment: {due} UTC.": lambda told: (
        [re.sub(rb'"UserId":"\w*"', b'"UserId":""', sent) for sent in put(told, "scheduled")]
        == [without_the_name(told.kept["empty"])]
    ),
    "Noise is drawn once. You then see exactly what would be sent, "
    "and decide. Drawing sends nothing.": lambda told: (
        only_the_model("drawing")(told)
        and told.first.payload.decode() in unescape(told.shown["drawing"])
    ),
    "Nothing is new. A release is drawn all the same, as if you had "
    "watched nothing: otherwise that something is sent would tell that "
    "something was watched.": lambda told: (
        len(told.kept["empty"].release.answers) == len(told.first.release.answers)
        and told.kept["empty"].release.answers != told.first.release.answers
    ),
    "Nothing was drawn for you to see and nothing was sent.": lambda told: (
        nothing_asked("refused")(told) and told.kept["refused"] == 0
    ),
    "Sent, exactly as shown.": lambda told: put(told, "sending") == [told.kept["sent"].payload],
    "Not sent, or not known to have arrived: {error} Sending the "
    "same bytes again costs nothing.": lambda told: told.kept["lost"] == told.kept["repeated"],
    "Nothing about your history was sent for this.": lambda told: (
        no_film_in(told, "looking", "looking nameless") and not put(told, "looking")
    ),
    "Every release is written here, on the disk, before it is shown or sent.": lambda told: (
        told.kept["entered"] == 1 and told.kept["at the server"] == [True]
    ),
    "No release is recorded here as sent. What was sent from "
    "another machine, or before everything here was deleted, does "
    "not count on this page.": lambda told: bool(told.kept["still held"]),
    "It knows this device as {name}, a random name it gave.": lambda told: (
        bool(told.kept["name"]["user_id"])
        and told.paths("sending") >= {("POST register", "nameless")}
    ),
    "This device has no name there. It gets a random one with the "
    "first release or report it sends.": lambda told: (
        [
            told.paths(s) & {("POST register", "nameless")}
            for s in ("fresh", "drawing", "looking nameless", "after")
        ]
        == [set()] * 4
    ),
    "What is new is sent at moments that were fixed beforehand, at "
    "your level, also when nothing is new: so the moment tells "
    "nothing of what you watched. Where this program does not run "
    "at that moment, it sends at its next start.": lambda told: len(put(told, "scheduled")) == 1,
    "Nothing is sent to a server that shows another certificate "
    "than the one you trusted, unless you trust the new one here.": refuses_another_certificate,
    "The zip is not sealed: whoever has it reads your history, and "
    "can speak to the server in your name.": lambda told: (
        bool(told.kept["name"]["secret"])
        and told.kept["name"]["secret"].encode() in told.kept["copy"]
    ),
    "Whoever has the sealed file and not the passphrase learns its size.": sealed_tells_its_size,
    "{servers} will be told to delete what it holds of this device,"
    " and nothing more is scheduled. What others copied before, and "
    "what went into a common model, cannot be called back; the "
    "ledger goes on counting it.": lambda told: (
        ("DELETE user", "named") in told.paths("deleting there")
        and not told.kept["held after"]
        and told.kept["plan after"]["every"] == "never"
    ),
    "This device has no name at a server, so it can have nothing "
    "deleted there. What was sent under an earlier name and not "
    "deleted then is still there.": lambda told: (
        told.paths("looking nameless", "after") <= MODEL and bool(told.kept["still held"])
    ),
    "History, releases and settings on this device go. The ledger "
    "stays: it holds no titles, and what was spent stays spent.": lambda told: (
        told.kept["films after"] == 0 and told.kept["ledger after"] == told.kept["spent"]
    ),
    "No server is told: it keeps what was sent to it, and without "
    "your name there you can no longer have it deleted.": lambda told: (
        nothing_asked("deleting here")(told) and bool(told.kept["still held"])
    ),
    "Forget the ledger too. What was spent still counts, and "
    "nothing here will know it any more.": lambda told: (
        told.kept["ledger gone"] == () and nothing_asked("deleting the ledger")(told)
    ),
    "The server was told to delete everything it holds of you, and confirmed it.": lambda told: (
        ("DELETE user", "named") in told.paths("deleting there") and not told.kept["held after"]
    ),
    "History, releases and settings on this device are deleted.": lambda told: (
        told.kept["films after"] == 0
    ),
    "The ledger is kept: ε = {epsilon} stays spent.": lambda told: (
        told.kept["ledger after"] == told.kept["spent"] > 0
    ),
    "The ledger is deleted too. What was spent, ε = {epsilon}, "
    "still counts for whoever has what was sent.": lambda told: told.kept["ledger gone"] == (),
    "{servers} was not told and still holds what was sent to it.": lambda told: (
        nothing_asked("deleting here")(told) and bool(told.kept["still held"])
    ),
}


def test_there_is_a_check_for_every_sentence() -> None:
    assert set(CHECKS) | set(OF_THE_SHARED_MODEL) == set(PROMISES.values())


@pytest.mark.parametrize("sentence", CHECKS)
def test_what_the_pages_say_is_what_happened(told: Round, sentence: str) -> None:
    assert CHECKS[sentence](told), told.steps


def test_the_sentences_stand_on_the_pages(told: Round) -> None:
    """Every sentence has its place, and a page shows it with its key."""
    files = [*WEB.glob("templates/*.html"), *WEB.glob("*_pages.py")]
    calls = "".join(_calls(path.read_text("utf-8")) for path in files)
    assert [key for key in PROMISES if f'"{key}"' not in calls] == []
    assert f'data-promise="footer">{PROMISES["footer"]}' in told.shown["looking"]


def _calls(text: str) -> str:
    return "\n".join(
        re.findall(r"(?:promise|said)\((?:[^()]|\([^()]*\))*\)", text.replace("'", '"'))
    )


NOT_PROMISES = (
    "Ask the server for everything it holds of me",
    "Choose a server to send it.",
    "Do you know this server?",
    "I know why it changed",
    "Preview and send",
    "Save and look at what would be sent Save",
    "The item model the server publishes knows only how popular films are, so it is not used.",
    "Then this browser does not know addresses that end in .localhost.",
    "What can be learned, and by whom",
    "What leaves",
    "What a stranger could learn",
    "What leaves this device",
    "What the server can learn",
    "What the server holds",
    "What will be sent",
    "Why we ask",
    "sent as it is not known:",
    "the mechanism gives no bound nothing learned",
    "the two would not know of each other's releases.",
    "“after” is the most that can be believed from what was sent, whatever else is known.",
)
"""Headings, questions, buttons, and what is said of bounds and of other things than requests."""


def test_no_other_sentence_speaks_of_what_is_sent_or_known() -> None:
    """What stands in a template and not in the table is about something else."""
    found = set()
    for path in WEB.glob("templates/*.html"):
        text = re.sub(r"{%.*?%}|{{.*?}}|{#.*?#}", " ", path.read_text("utf-8"), flags=re.DOTALL)
        text = re.sub(r"</?(?:strong|i|code|span|a|label|button|b)\b[^>]*>", "", text)
        for piece in re.split(r"<[^>]*>|(?<=[.:;?])\s", text):
            words = " ".join(piece.split())
            if ABOUT_SENDING.search(words):
                found.add(words)
    assert found == set(NOT_PROMISES)
