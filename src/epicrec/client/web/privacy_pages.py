"""Pages of privacy: the levels, the preview, sending, the ledger, what the server can learn."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import Any

from starlette.responses import Response

from epicrec import wire
from epicrec.client.device import Device
from epicrec.client.sending.exposure import category_views, in_worlds, title_odds
from epicrec.client.sending.outbox import CHOSEN_MOMENT, StoredRelease
from epicrec.client.sending.privacy_choice import RESPONSE, Choice, mechanisms
from epicrec.client.sending.remote import RemoteError
from epicrec.client.sending.schedule import DEFAULT, next_moment, set_schedule
from epicrec.client.web.film_pages import about
from epicrec.client.web.jobs import in_background, onward
from epicrec.client.web.promises import said
from epicrec.client.web.request import Ask, Handler, to
from epicrec.data.works import catalogue_works
from epicrec.errors import BudgetExceededError, InputError
from epicrec.perturb import parse_level
from epicrec.perturb.levels import LEVELS, PERTURBED
from epicrec.perturb.randomised_response import answers_about

_POSTERS = 120  # of a release, shown as pictures


def privacy(ask: Ask) -> Response:
    device = ask.device
    device.refresh_soon()
    latest = next((stored for stored in device.releases.all() if stored.sent_at), None)
    others, of = _measured(device)
    return ask.page(
        "privacy.html", now=_now(device), account=device.account, others=others, of=of,
        part=device.shared_model.part is not None, last=latest.sent_at if latest else "",
        **_explained(ask, device.choice),
    )  # fmt: skip


def _now(device: Device) -> str:
    """What is shared now: the choice, and whether anything was ever sent."""
    sent = device.releases.any_sent()
    if not device.choice.sends(device.sendable):
        return "stopped" if sent else "nothing"
    if not sent:
        return "not yet"
    return "altered" if device.choice.perturbs(device.sendable) else "everything"


def _measured(device: Device) -> tuple[int | None, int]:
    """How many of the first films are others with what the server publishes than without."""
    if not device.shelf.has_model:
        return None, 0
    first, without = device.shelf.first(), set(device.shelf.first(compare=True))
    return len([item for item in first if item not in without]), len(first)


def odds(ask: Ask) -> Response:
    """The words and pictures for a choice that is not saved yet, for the page's script."""
    return ask.page("odds.html", **_explained(ask, _chosen(ask, dict(ask.query))))


def choose(ask: Ask) -> Response:
    given = {name: values[0] for name, values in ask.form.items()}
    ask.device.choose(_chosen(ask, given))
    limit = given.get("limit", "")
    if limit:
        try:
            ask.device.set_limit(float(limit))
        except ValueError as error:
            raise InputError("the limit is a number above 0 and at most 100") from error
    ask.say("Saved.")
    return to("/preview" if "onward" in given else "/privacy")


def _chosen(ask: Ask, given: dict[str, str]) -> Choice:
    overall = parse_level(given.get("overall", PERTURBED))
    exceptions = {
        name: parse_level(given[f"level-{name}"])
        for name in ask.device.catalogue.categories
        if given.get(f"level-{name}")
    }
    exceptions = {name: level for name, level in exceptions.items() if level != overall}
    strength = given.get("strength", "recommended")
    return Choice(overall, exceptions, strength, given.get("mechanism", RESPONSE))


def _explained(ask: Ask, choice: Choice) -> dict[str, Any]:
    device = ask.device
    films = device.sendable
    epsilon = choice.epsilon(films)
    totals = device.ledger.total()
    plan = device.store.setting("schedule")
    return {
        "choice": choice,
        "levels_chosen": sorted(set(choice.levels(films).values())),
        "plan": plan,
        "due": next_moment(plan),
        "chosen_moment": CHOSEN_MOMENT,
        "levels": LEVELS,
        "mechanisms": mechanisms(),
        "epsilon": epsilon,
        "worlds": in_worlds(epsilon),
        "limit": device.ledger.limit_epsilon,
        "total": totals.get("item"),
        "outlook": device.releases.outlook(films, device.history.items(), choice),
    }


# ---- preview and send ---------------------------------------------------------------------


def preview(ask: Ask) -> Response:
    ask.device.refresh_soon()  # which films the server takes
    return _preview(ask)


def _preview(ask: Ask, refused: str = "") -> Response:
    device = ask.device
    unsent = None if refused else next(iter(device.releases.unsent()), None)
    shown = (
        _answered(ask, unsent) if unsent and unsent.release.answers else _posters(device, unsent)
    )
    return ask.page(
        "preview.html", 409 if refused else 200, unsent=unsent, **shown,
        latest=device.releases.latest(), account=device.account, refused=refused,
        **_explained(ask, device.choice),
    )  # fmt: skip


def _posters(device: Device, drawn: StoredRelease | None) -> dict[str, Any]:
    """The films of a release as pictures, those that were watched and those that are made up."""
    items = [str(item) for item in drawn.release.items] if drawn else []
    watched = set(device.history.items())
    yours = [item for item in items if item in watched]
    return {
        "films": [(about(device, item), item in watched) for item in items[:_POSTERS]],
        "yours": len(yours), "made_up": len(items) - len(yours), "more": len(items) - _POSTERS,
    }  # fmt: skip


def _answered(ask: Ask, drawn: StoredRelease) -> dict[str, Any]:
    """What answers say of the films that were watched, and of those that were not; with a search,
    of the titles that fit it."""
    device, text = ask.device, ask.query.get("q", "").strip()[:200]
    films, watched = device.sendable, set(device.history.items())
    if drawn.release.settings.get("works") != catalogue_works(films).version:
        return {"answers": None}  # drawn by the list that a server had before
    said = answers_about(drawn.release, films)
    yes = {str(item) for item in films.item_ids[said]}
    mine = [str(item) for item in films.item_ids.tolist() if str(item) in watched]
    found = [str(item) for item in device.reading.matcher.search(text, 24)] if text else mine
    listed = [item for item in found if films.positions([item])[0] >= 0]
    return {
        "answers": {
            "titles": len(films), "yours": len(mine), "claimed": len(yes - watched),
            "reported": len([item for item in mine if item in yes]),
        },
        "q": text,
        "told": [(about(device, i), i in yes, i in watched) for i in listed[:_POSTERS]],
        "more": len(listed) - _POSTERS,
    }  # fmt: skip


def draw(ask: Ask) -> Response:
    """Draw, unless one that was drawn waits already: a button pressed twice draws once."""
    device, everything = ask.device, bool(ask.field("everything"))
    device.refresh_soon()

    def drawing() -> Handler:
        try:
            if not device.releases.unsent():
                device.draw(everything=everything)
        except BudgetExceededError as error:
            return partial(_preview, refused=str(error))
        return onward("/preview")

    return in_background(ask, "draw", "drawing", drawing)


def send(ask: Ask) -> Response:
    device, identity, again = ask.device, ask.path["id"], bool(ask.field("again"))

    def sending() -> Handler:
        try:
            device.send(identity)
        except RemoteError as error:
            return onward("/preview", said("not sent", error=error))
        if device.store.setting("schedule") is None:
            set_schedule(device, DEFAULT if again else "never")
        return onward("/for-you", said("sent"))

    return in_background(ask, f"send-{identity}", "sending", sending)


def payload(ask: Ask) -> Response:
    """The bytes that are sent."""
    stored = ask.device.releases.get(ask.path["id"])
    if stored.state == "drawn":
        raise InputError("this release is not in the ledger yet; preview it first")
    return Response(stored.payload, media_type="application/json")


# ---- afterwards ---------------------------------------------------------------------------


def ledger(ask: Ask) -> Response:
    device = ask.device
    return ask.page(
        "ledger.html",
        entries=list(reversed(device.ledger.entries())),
        totals=device.ledger.total(),
        limit=device.ledger.limit_epsilon,
        releases=device.releases.all(),
        path=device.ledger.path,
        account=device.account,
    )


def learned(ask: Ask) -> Response:
    device = ask.device
    name = device.account["user_id"] if device.account else ""
    if "look" not in ask.query or not name:
        return _learned(ask)

    def looking() -> Handler:
        with closing(device.accounts.dial()) as remote:
            try:
                return partial(_learned, held=remote.feedback(name))
            except RemoteError as error:
                return partial(_learned, problem=str(error))

    return in_background(ask, "look", "asking the server", looking)


def _learned(ask: Ask, held: list[wire.Feedback] | None = None, problem: str = "") -> Response:
    device, text = ask.device, ask.query.get("q", "").strip()[:200]
    sent = [stored for stored in device.releases.all() if stored.sent_at]
    items = device.history.items()
    watched = set(items)
    titles = [str(item) for item in device.reading.matcher.search(text, 12)] if text else items[:12]
    rows = held or []
    return ask.page(
        "learned.html",
        q=text,
        sent=sent,
        titles=[
            (about(device, i), title_odds(device.sendable, sent, i), i in watched) for i in titles
        ],
        categories=category_views(
            device.sendable, sent, items, dict(device.choice.levels(device.sendable))
        ),
        looked=held is not None,
        answered=len([stored for stored in sent if stored.release.answers]),
        account=device.account,
        held=[(about(device, row.ItemId), row, row.ItemId in watched) for row in rows],
        missing=len(watched - {row.ItemId for row in rows}),
        problem=problem,
    )
