"""Pages of the history: where it comes from, what is in it, and what to do about it."""

from __future__ import annotations

from functools import partial
from hashlib import sha256

from starlette.responses import Response

from epicrec.client.device import Device
from epicrec.client.matching.matcher import Status
from epicrec.client.viewing import Evidence, Import
from epicrec.client.web.film_pages import about, check_known
from epicrec.client.web.jobs import in_background, onward
from epicrec.client.web.request import Ask, Handler, to
from epicrec.errors import InputError

_PAGE = 50
_AT_ONCE = 200  # lines of a review shown together
_OPEN = 4  # files that may have a question open


def start(ask: Ask) -> Response:
    device = ask.device
    films = device.history.count()
    return ask.page(
        "start.html",
        films=films,
        account=device.account,
        unsent=device.releases.unsent(),
        latest=device.releases.latest(),
        has_example=device.reading.has_example,
    )


def example(ask: Ask) -> Response:
    added = ask.device.example()
    films = f"{added} films" if added else "The films"
    ask.say(f"{films} of a made-up viewer are in your history. You can undo it there.")
    return to("/for-you")


# ---- history ------------------------------------------------------------------------------


ORDERS = {
    "newest": "newest first", "title": "title", "year": "year", "stars": "your stars",
}  # fmt: skip


def history(ask: Ask) -> Response:
    device, text = ask.device, ask.query.get("q", "").strip()[:200]
    order = ask.query.get("by", "newest")
    found = [str(item) for item in device.reading.matcher.search(text, 30)] if text else None
    ids = ordered(device, order)
    if found is not None:
        ids = [item for item in ids if item in set(found)]
    pages = max(1, -(-len(ids) // _PAGE))
    page = min(_number(ask.query.get("page", "1")), pages) or 1
    shown = ids[(page - 1) * _PAGE : page * _PAGE]
    films = {film.item_id: film for film in device.history.films(shown)}
    return ask.page(
        "history.html",
        q=text,
        films=[(films[item], about(device, item)) for item in shown],
        addable=[about(device, item) for item in found or () if item not in films],
        total=device.history.count(),
        order=order,
        orders=ORDERS,
        page=page,
        pages=pages,
        batches=device.imports.batches(),
        counting=device.history.evidence,
        kinds=list(Evidence),
    )


def ordered(device: Device, order: str) -> list[str]:
    """The films of the history as the person wants to see them."""
    entries = device.history.newest()
    ids = [item for item, _ in entries]
    if order == "stars":
        return [item for item, _ in sorted(entries, key=lambda entry: -(entry[1] or 0))]
    if order not in ("title", "year") or not ids:
        return ids
    films, at = device.catalogue, device.catalogue.positions(ids).tolist()
    if order == "title":
        names = [str(films.titles[k]).casefold() if k >= 0 else "" for k in at]
        return [item for _, item in sorted(zip(names, ids, strict=True))]
    years = [int(films.years[k]) if k >= 0 else 0 for k in at]
    return [ids[k] for k in sorted(range(len(ids)), key=lambda k: -years[k])]


def remove(ask: Ask) -> Response:
    device, item = ask.device, ask.field("item_id")
    device.history.remove(item)
    ask.say(f"{device.catalogue.title_of(item)} is no longer in the history.")
    return to("/history")


def fix(ask: Ask) -> Response:
    """One film's entries belong to another: choose among films of a like title, then replace."""
    device, item = ask.device, ask.field("item_id") or ask.query.get("item_id", "")
    right = ask.field("right")
    check_known(device, item)
    if right:
        check_known(device, right)
        device.history.replace(item, right)
        ask.say(f"Changed to {device.catalogue.title_of(right)}.")
        return to("/history")
    text = (ask.query.get("q", "") or device.catalogue.title_of(item))[:200]
    found = [str(other) for other in device.reading.matcher.search(text, 20) if str(other) != item]
    return ask.page(
        "fix.html", film=about(device, item), q=text, others=[about(device, i) for i in found]
    )


def evidence(ask: Ask) -> Response:
    chosen = [Evidence(name).value for name in ask.form.get("evidence", []) if name in _KINDS]
    ask.device.store.set(evidence=chosen)
    ask.say("Saved what counts as watched.")
    return to("/history")


_KINDS = {kind.value for kind in Evidence}


def undo(ask: Ask) -> Response:
    ask.device.imports.undo(_number(ask.path["batch"]))
    ask.say("That import is undone.")
    return to("/history")


# ---- sources and imports ------------------------------------------------------------------


def sources(ask: Ask) -> Response:
    device = ask.device
    profiles = [
        (profile, device.imports.scanned_until(str(profile.database)))
        for profile in device.reading.profiles()
    ]
    return ask.page("sources.html", profiles=profiles)


def read_browsers(ask: Ask) -> Response:
    wanted, device = ask.form.get("profile", []), ask.device
    if not wanted:
        raise InputError("no browser is ticked; tick one, then read it")
    scan = bool(ask.field("scan"))
    return in_background(
        ask, "browsers", "reading browsers",
        lambda: _to_review(device.reading.browsers(wanted, scan=scan)),
    )  # fmt: skip


def upload(ask: Ask) -> Response:
    """A file, or the answer to what one left open: `upload` says which, as two tabs may ask."""
    device, uploads = ask.device, ask.state.uploads
    if ask.files and ask.files[0][0]:
        which = sha256(ask.files[0][1]).hexdigest()[:16]
        uploads.pop(which, None)
        uploads[which] = ask.files[0]
        for old in list(uploads)[:-_OPEN]:
            del uploads[old]
    else:
        which = ask.field("upload")
    if which not in uploads:
        raise InputError("no file was chosen, or it waited too long; choose one, then read it")
    name, data = uploads[which]
    answers = {field.removeprefix("answer-"): values[0] for field, values in ask.form.items()}
    said = sha256(repr(sorted(answers.items())).encode()).hexdigest()[:8]
    return in_background(
        ask, f"file-{which}-{said}", f"reading {name}",
        lambda: _to_review(device.reading.file(name, data, answers), which),
    )  # fmt: skip


def _to_review(found: Import | int, which: str = "") -> Handler:
    """What is to be asked about a file, or what was found in it."""
    if isinstance(found, Import):
        return partial(_questions, found=found, which=which)
    return onward(f"/import/{found}")


def _questions(ask: Ask, found: Import, which: str) -> Response:
    return ask.page("questions.html", found=found, which=which)


def review(ask: Ask) -> Response:
    device, number = ask.device, _number(ask.path["batch"])
    batch = next((b for b in device.imports.batches() if b.id == number), None)
    if batch is None:
        raise InputError("this import was undone or is no longer there")
    lines = device.imports.drafts(number)
    matched = [d for d in lines if d.status == Status.MATCHED]
    fresh, known_ones = ([d for d in matched if d.known is known] for known in (False, True))
    open_ones = [d for d in lines if d.status in (Status.AMBIGUOUS, Status.SUGGESTED)]
    asked = list({d.key or d.row: d for d in reversed(open_ones)}.values())[::-1]
    shown = [*fresh[:_AT_ONCE], *known_ones[:_AT_ONCE], *asked[:_AT_ONCE]]
    return ask.page(
        "review.html",
        batch=batch,
        fresh=fresh,
        known=known_ones,
        asked=asked[:_AT_ONCE],
        more=len(asked) - _AT_ONCE,
        missing=[d for d in lines if d.status == Status.NOT_IN_CATALOGUE],
        films={
            i: about(device, i) for d in shown for i in (d.item_id, *d.candidates) if i is not None
        },
        most=_AT_ONCE,
    )


def keep(ask: Ask) -> Response:
    device, number = ask.device, _number(ask.path["batch"])
    picks: dict[int, str | None] = {}
    for name, (value, *_) in ask.form.items():
        if name.startswith("pick-") and value:
            if value != "none":
                check_known(device, value)
            picks[_number(name.removeprefix("pick-"))] = None if value == "none" else value
    dropped = [_number(row) for row in ask.form.get("drop", [])]
    is_first = not device.history.items()
    entered = device.imports.keep(number, picks, dropped)
    ask.say(f"{entered} new {'entry is' if entered == 1 else 'entries are'} in the history.")
    waiting = any(b.id == number and b.waiting for b in device.imports.batches())
    if waiting and picks:
        return to(f"/import/{number}")
    return to("/for-you" if is_first and device.history.items() else "/history")


def _number(text: str) -> int:
    """A number in an address or a form, of a size that means something."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise InputError("there is no such page; go on from your history")
    return int(text)
