"""Every sentence about the shared model, held against what was sent and what servers could open.

One person looks at a training, takes part in all its rounds, looks at the result and leaves; beside
them are an empty history, one round only, none at all, a wrong key, a small limit and a small μ.
"""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import NormalDist
from typing import Any

import httpx
import numpy as np
import pytest

from epicrec.client.device import Device
from epicrec.client.ranking.scores import knows_taste
from epicrec.client.sending.remote import Remote
from epicrec.client.sending.shared_model_reports import EVERY, WINDOW
from epicrec.client.web import shared_model_pages
from epicrec.client.web.promises import PROMISES, said
from epicrec.client.web.request import Ask, State
from epicrec.collective.device import JoinLink
from epicrec.collective.keys import (
    RoundSecret,
    fingerprint,
    new_signing_key,
    opener,
    verifying_key,
)
from epicrec.collective.messages import Refusal
from epicrec.collective.proofs.field import add_into
from epicrec.collective.shares import NUMBERS, Report, open_share
from epicrec.data import Catalogue
from epicrec.errors import InputError
from epicrec.privacy import gaussian_epsilon
from epicrec.server import shared_model
from server.conftest import two_running

NOW = datetime(2030, 1, 1, tzinfo=UTC)
TASK = "common-model"
HISTORY = ["heat-1995", "alien-1979", "up-2009"]


class Recording(httpx.HTTPTransport):
    """Keeps every request, and what the device's ledger held when it was made."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.seen: list[tuple[httpx.Request, int]] = []
        self.device: Device | None = None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        assert self.device is not None
        self.seen.append((request, len(self.device.ledger.entries())))
        return super().handle_request(request)


@dataclass
class Person:
    """A device, its pages, and the requests of each step."""

    device: Device
    line: Recording
    steps: dict[str, list[tuple[httpx.Request, int]]] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)
    reads: int = 0

    def page(self, name: str, handler: Callable[[Ask], Any], **given: str) -> Any:
        state = State(lambda _: self.device, self.device)
        ask = Ask(state, dict(given), {}, {key: [value] for key, value in given.items()}, [])
        answer = self.step(name, handler, ask)
        self.shown[name] = bytes(answer.body).decode()
        return answer

    def step(self, name: str, call: Callable[..., Any], *given: Any) -> Any:
        before = len(self.line.seen)
        answer = call(*given)
        self.steps.setdefault(name, []).extend(self.line.seen[before:])
        return answer

    def history(self) -> list[str]:
        self.reads += 1
        return self.device.history.items()

    def puts(self) -> list[httpx.Request]:
        return [request for request, _ in self.line.seen if request.method == "PUT"]


@dataclass
class Story:
    people: dict[str, Person]
    servers: tuple[Any, Any, Any]
    kept: dict[str, Any] = field(default_factory=dict)

    @property
    def me(self) -> Person:
        return self.people["me"]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, films: Catalogue) -> Iterator[Story]:
    base = tmp_path_factory.mktemp("common")
    with two_running(base, catalogue="films") as servers, ExitStack() as stack:
        leader, helper, _ = servers
        key = helper.service.shared_model.key.hex()
        certificate = (Path(leader.settings.data) / "tls" / "ca.pem").read_text()

        def person(name: str, items: list[str]) -> Person:
            line = Recording(verify=ssl.create_default_context(cadata=certificate))
            device = Device(
                base / name, films, server=leader.url, certificate=certificate,
                dial=lambda url, **options: Remote(url, transport=line, **options),
            )  # fmt: skip
            stack.callback(device.close)
            line.device = device
            device.history.add(items)
            return Person(device, line)

        now = Story({"me": person("me", HISTORY), "empty": person("empty", [])}, servers)
        me = now.me
        me.page("before", shared_model_pages.overview)
        shared_model.start(leader.settings, TASK, epsilon=1.0, delta=1e-5, most=100)
        link = shared_model.join_link(leader.settings, TASK, leader.url)["link"]
        me.page("looking", shared_model_pages.look, link=f" {link}\n")
        offer = now.kept["offer"] = me.device.shared_model.look(TASK, key)
        agreed = {
            "task": TASK, "leader_key": offer.leader_key, "helper_key": key,
            "mu": str(offer.parameters.mu),
        }  # fmt: skip
        me.page("joining", shared_model_pages.join, rounds="every", **agreed)
        now.people["empty"].page("joining", shared_model_pages.join, rounds="every", **agreed)
        for name, rounds, changed in (
            ("one", "one", {}),
            ("none", "none", {}),
            ("wrong key", "every", {"helper_key": verifying_key(new_signing_key()).hex()}),
            ("small limit", "every", {}),
            ("small mu", "every", {"mu": str(offer.parameters.mu / 2)}),
        ):
            now.people[name] = other = person(name, HISTORY)
            other.page("joining", shared_model_pages.join, rounds=rounds, **(agreed | changed))
        now.people["small limit"].device.set_limit(0.01)
        train(now)
        for name, other in now.people.items():
            other.page("looking after", shared_model_pages.overview)
            assert PROMISES["common together"] in other.shown["looking after"], name
        me.page("file", shared_model_pages.numbers, number="0")
        now.kept["spent"] = me.device.ledger.total()
        me.page("leaving", shared_model_pages.leave)
        for days in range(3):
            me.step("after", tick, me, NOW + timedelta(days=90 + days))
        yield now


def tick(person: Person, moment: datetime) -> None:
    person.device.shared_model.tick(moment, person.history)


def train(now: Story) -> None:
    """All rounds; what each server could open of the first is kept."""
    leader, helper, _ = now.servers
    told: dict[str, Any] = {}
    moment = NOW
    while "model" not in told:
        if told:
            shared_model.start(leader.settings, TASK, epsilon=1.0, delta=1e-5, most=100)
        for name, person in now.people.items():
            if not told and name == "me":
                person.step("hearing", person.device.shared_model.hear, moment)
                now.kept["due"] = person.device.shared_model.made()[0].due
                now.kept["reads before it was drawn"] = person.reads
            person.step("hearing", tick, person, moment)
            if not told and name == "me":
                assert now.kept["due"] == person.device.shared_model.made()[0].due
                now.kept["puts before the moment"] = len(person.puts())
            person.step("sending", tick, person, moment + WINDOW)
        if not told:
            now.kept["keys"] = {
                role: key_of(server) for role, server in (("leader", leader), ("helper", helper))
            }
        told = shared_model.collect(leader.settings, TASK)
        moment += WINDOW + EVERY
    for person in now.people.values():
        person.step("fetching", tick, person, moment)


def key_of(server: Any) -> Any:
    kept = server.service.shared_model.aggregator.keys.get(TASK, 0)
    return opener(RoundSecret.from_encoded(kept).sealing)


def halves(told: Story, name: str) -> dict[str, Any]:
    """What each server opens of a person's report in the first round."""
    report = Report.from_encoded(told.people[name].puts()[0].content)
    announcement = told.servers[0].service.shared_model.leader.round(TASK, 0).announcement
    return {
        role: announcement.parameters.proofs.vector(
            NUMBERS[role], open_share(announcement, role, key, report)
        )
        for role, key in told.kept["keys"].items()
    }


def together(told: Story, name: str) -> Any:
    both = halves(told, name)
    total = both["leader"].copy()
    add_into(total, both["helper"])
    return total


# ---- the checks -------------------------------------------------------------------------------


def paths(person: Person, *steps: str) -> set[tuple[str, str]]:
    """The last word of what was asked, and whether under a name."""
    return {
        (f"{request.method} {request.url.path.rpartition('/')[2]}",
         "named" if "x-api-key" in request.headers else "nameless")
        for step in steps for request, _ in person.steps[step]
    }  # fmt: skip


def off_until_chosen(told: Story) -> bool:
    asked = told.me.steps["before"], told.me.steps["joining"]
    return asked == ([], []) and "PUT" not in str(paths(told.me, "looking"))


def one_report_of_one_size(told: Story) -> bool:
    mine, empty = told.me.puts(), told.people["empty"].puts()
    rounds = told.servers[0].service.shared_model.leader.round(TASK, 1).people
    return (
        len(mine) == len({request.url.path for request in mine}) == 2
        and [len(one.content) for one in mine] == [len(one.content) for one in empty]
        and {str(one.url.copy_with(path="/")).rstrip("/") for one in mine} == {told.servers[0].url}
        and all("x-api-key" in one.headers for one in mine)
        and rounds == 2
    )


def halves_are_random(told: Story) -> bool:
    """Each adds up with the other; half of its bits are ones; a server opens its own only."""
    found = halves(told, "me")
    report = Report.from_encoded(told.me.puts()[0].content)
    announcement = told.servers[0].service.shared_model.leader.round(TASK, 0).announcement
    for role, other in (("leader", "helper"), ("helper", "leader")):
        bits = np.unpackbits(found[role].view(np.uint8))
        if abs(bits.mean() - 0.5) > 0.5 * 7 / np.sqrt(bits.size):
            return False
        with pytest.raises(Refusal):
            open_share(announcement, role, told.kept["keys"][other], report)
    return bool(together(told, "me").any())


def moment_drawn_before(told: Story) -> bool:
    due = datetime.fromisoformat(told.kept["due"])
    return (
        NOW <= due < NOW + WINDOW
        and told.kept["puts before the moment"] == 0
        and not together(told, "empty").any()
        and told.kept["reads before it was drawn"] == 0
    )


def both_read_everything(told: Story) -> bool:
    films = told.me.device.catalogue
    at = np.flatnonzero(together(told, "me"))
    return [str(films.item_ids[i]) for i in at if i < len(films)] == sorted(HISTORY)


def noise_in_what_is_shown(told: Story) -> bool:
    """One server's noise in what the other sees, both in the result: by their spread."""
    servers = {"leader": told.servers[0], "helper": told.servers[1]}
    rounds = {r: getattr(servers[r].service.shared_model, r).round(TASK, 0) for r in servers}
    given = rounds["leader"].parameters
    reports = [name for name in told.people if told.people[name].puts()]
    opened = [halves(told, name) for name in reports]
    spreads = []
    for role, found in rounds.items():
        known = np.sum([one[role] for one in opened], axis=0, dtype=np.uint64)
        spreads.append(np.std((np.frombuffer(found.share, "<u8") - known).view(np.int64)))
    plain = sum(together(told, name) for name in reports)
    both = np.std(np.frombuffer(rounds["leader"].total, "<i8") - plain)
    near = [abs(spread / given.sigma - 1) < 0.25 for spread in spreads]  # by chance: below 1e-9
    return all(near) and abs(both / given.sigma / np.sqrt(2) - 1) < 0.25


def leader_sees_who_and_helper_does_not(told: Story) -> bool:
    leader, helper, _ = told.servers
    account = told.me.device.account or {}
    name = str(account["user_id"]).encode()
    held = {
        server.url: b"".join(
            path.read_bytes() for path in Path(server.settings.data).rglob("epicrec.sqlite*")
        )
        for server in (leader, helper)
    }
    hosts = {request.url.port for person in told.people.values() for request, _ in person.line.seen}
    return (
        name in held[leader.url]
        and name not in held[helper.url]
        and hosts == {httpx.URL(leader.url).port}
    )


def odds_hold(_: Story) -> bool:
    normal = NormalDist()
    for mu in (0.01, 0.27, 0.5, 1.0, 3.0):
        right, wrong = shared_model_pages._worlds(mu) or (0, 0)
        if wrong and normal.cdf(normal.inv_cdf(wrong / 100) + mu) > right / 100:
            return False
    return shared_model_pages._worlds(0.27) == (56, 44)


def costs_no_more(told: Story) -> bool:
    person = told.people["small mu"]
    spent = told.kept["spent"]["user"].epsilon
    mu = told.kept["offer"].parameters.mu
    costs = shared_model_pages._costs(told.me.device, mu)
    return (
        not person.puts()
        and "costs more" in person.shown["looking after"]
        and spent <= costs["task"] == gaussian_epsilon(mu, costs["delta"])
        and said("common cost", epsilon="1", delta="1e-05") in told.me.shown["looking"]
    )


def in_the_ledger_first(told: Story) -> bool:
    entered = [count for request, count in told.me.line.seen if request.method == "PUT"]
    stopped = told.people["small limit"]
    return (
        all(count >= number for number, count in enumerate(entered, start=1))
        and not stopped.puts()
        and "limit" in stopped.shown["looking after"]
        and not stopped.device.ledger.entries()
    )


def nameless_and_signed(told: Story) -> bool:
    """That what is not signed is not used: `test_a_result_that_not_both_signed_is_not_kept`."""
    me = told.people["empty"]
    asked = paths(me, "hearing", "sending", "fetching")
    names = {"GET round": "nameless", "GET result": "nameless", "GET abort": "nameless",
             "PUT reports": "named", "POST register": "nameless"}  # fmt: skip
    kept = me.device.folder / "common" / "round-0"
    before = kept.read_bytes()
    assert me.device.shared_results.model() is not None
    kept.write_bytes(before[:-2000] + bytes(2000))
    me.device.shared_results._kept = None
    refused = me.device.shared_results.model() is None
    kept.write_bytes(before)
    me.device.shared_results._kept = None
    return dict(asked) == names and refused and me.device.shared_results.model() is not None


def nothing_added(told: Story) -> bool:
    person = told.people["none"]
    asked = paths(person, "hearing", "sending", "fetching")
    found = person.device.shared_results.model()
    return asked == {("GET result", "nameless")} and found is not None


def wrong_key_gets_nothing(told: Story) -> bool:
    person = told.people["wrong key"]
    return not person.puts() and "not trusted" in person.shown["looking after"]


def as_it_was_sealed(told: Story) -> bool:
    found, opened = json.loads(told.me.shown["file"]), halves(told, "me")
    return (
        base64.b64decode(found["the sealed report, base64"]) == told.me.puts()[0].content
        and found["numbers"] == together(told, "me").tolist()
        and found["the leader's half"] == opened["leader"].tolist()
        and found["the helper's half"] == opened["helper"].tolist()
    )


def left(told: Story) -> bool:
    device = told.me.device
    return (
        told.me.steps["after"] == told.me.steps["leaving"] == []
        and device.shared_results.model() is None
        and device.ledger.total() == told.kept["spent"]
    )


def in_everybodys_sums(told: Story) -> bool:
    """Of all who sent, one sum with noise is left: `noise_in_what_is_shown` says so of the sum."""
    reports = [name for name in told.people if told.people[name].puts()]
    people = told.servers[0].service.shared_model.leader.round(TASK, 0).people
    return "me" in reports and people == len(reports) and noise_in_what_is_shown(told)


def ranked_where_people_are_enough(told: Story) -> bool:
    """Here they are too few; that rows follow the model of enough people is for
    `test_over_the_network_the_model_is_that_of_the_evaluation_to_the_last_bit`."""
    device = told.people["none"].device
    found = device.shared_results.model()
    assert found is not None
    return (device.shelf.rows().shared_model is not None) is knows_taste(found.model)


CHECKS: dict[str, Callable[[Story], bool]] = {
    "From one server alone no more than the odds of its training "
    "allow. Both servers together read your whole history.": lambda told: (
        noise_in_what_is_shown(told) and both_read_everything(told)
    ),
    "When all rounds are over and enough people took part, rows are "
    "ranked here with the model that came of them.": ranked_where_people_are_enough,
    "Your numbers are in the sums that everybody's model is made from.": in_everybodys_sums,
    "Nothing is asked for it before you look at a training here, "
    "and nothing is sent for it before you take part.": off_until_chosen,
    "Looking asks the leader for its key and for the round, without your name.": lambda told: (
        paths(told.me, "looking") == {("GET key", "nameless"), ("GET round", "nameless")}
    ),
    "Once in a round one sealed report goes to the server you "
    "chose, the leader, under this device's name there. It has the "
    "same number of bytes for everybody, whatever they watched.": one_report_of_one_size,
    "In it are your numbers, cut at random into two halves: one is "
    "sealed for the leader, one for the helper. Either half alone "
    "is a row of random numbers.": halves_are_random,
    "It leaves at a moment drawn at random within a day of this "
    "device hearing of the round, before your history is read. "
    "Where there is nothing to add, zeros are sent.": moment_drawn_before,
    "Leader and helper together read everything that you add, and "
    "so your whole history. If their operators are one, or share "
    "what they have, nothing here protects you.": both_read_everything,
    "Each server puts noise into its sum before the other sees it. "
    "Of your history either of them alone learns no more than the "
    "odds of the training allow, over all its rounds and whatever "
    "other devices it invents; anybody else learns less.": noise_in_what_is_shown,
    "That you take part is not hidden. The leader sees this "
    "device's name, its address and the moment; the helper sees "
    "none of them.": leader_sees_who_and_helper_does_not,
    "Whoever has all that one server sees in all rounds, and "
    "guesses from it whether you added your history or nothing at "
    "all, and says so wrongly in no more than {wrong} of 100 worlds "
    "where it was nothing, says so in at most {right} of 100 worlds "
    "where it was your history.": odds_hold,
    "All rounds together cost you, as a whole person, at most "
    "ε = {epsilon} (δ = {delta}); a round that asks for more gets "
    "no report.": costs_no_more,
    "Each report is in your ledger, on the disk, before it leaves. "
    "At your limit taking part stops, and this page says so.": in_the_ledger_first,
    "Rounds and results are asked for without your name, and a "
    "result is used only where both servers signed it.": nameless_and_signed,
    "one report for each, by itself": lambda told: len(told.me.puts()) == 2,
    "the open one, or the next; in a later one only if you say so again": lambda told: (
        len(told.people["one"].puts()) == 1
    ),
    "Nothing of yours is added; what the rounds of others taught is "
    "fetched without your name.": nothing_added,
    "Compare the helper's fingerprint with what the helper's operator "
    "publishes: a leader that gives you another key as the helper's "
    "could read everything you add.": wrong_key_gets_nothing,
    "As they are in the sealed report.": as_it_was_sealed,
    "Nothing is asked or sent for a common model from then on, and "
    "its model is no longer used here. What was sent stays in the "
    "sums it went into; what was spent stays spent.": left,
}


@pytest.mark.parametrize("sentence", CHECKS)
def test_what_the_page_says_is_what_happened(told: Story, sentence: str) -> None:
    assert CHECKS[sentence](told)


def test_the_page_shows_both_keys_the_rounds_and_the_halves(told: Story) -> None:
    leader, helper, _ = told.servers
    for name in ("looking", "looking after"):
        for server in (leader, helper):
            assert fingerprint(server.service.shared_model.key) in told.me.shown[name]
    page = told.me.shown["looking after"]
    assert "The common model is there" in page
    assert "Round 2" in page
    cut = together(told, "me")
    for title, item in (("Heat", "heat-1995"), ("Up", "up-2009")):
        at = int(told.me.device.catalogue.positions([item])[0])
        assert f'<th scope="row">{title}</th><td>{cut[at]}</td>' in page


def test_what_is_not_there_or_not_chosen_is_said(told: Story) -> None:
    me = told.people["none"]
    with pytest.raises(InputError, match="no report of this round"):
        me.page("no file", shared_model_pages.numbers, number="7")
    with pytest.raises(InputError, match="choose one of them"):
        me.page("wrong", shared_model_pages.join, rounds="always", mu="1")
    with pytest.raises(InputError, match="once more"):
        me.page("wrong", shared_model_pages.join, rounds="every", mu="cheap")
    server = told.servers[0].url
    for link, says in (
        ("12", "no join link"),
        (JoinLink(server, "12", "another").text(), "64 figures"),
        (JoinLink("https://else.where", "12" * 32, "another").text(), "choose the other one"),
    ):
        answer = me.page("mistyped", shared_model_pages.look, link=link)
        assert answer.status_code == 400
        assert says in me.shown["mistyped"]
