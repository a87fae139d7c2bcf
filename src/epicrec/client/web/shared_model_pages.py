"""Pages of the shared model: what taking part means, both keys, the rounds, every number."""

from __future__ import annotations

import base64
import json
from functools import partial
from math import ceil, hypot
from statistics import NormalDist
from typing import Any, get_args

import numpy as np
from starlette.responses import Response

from epicrec.client.device import Device
from epicrec.client.ranking.scores import knows_taste
from epicrec.client.sending.remote import checked_url
from epicrec.client.sending.shared_model_reports import KnownRound, Offer, Rounds
from epicrec.client.web.jobs import in_background
from epicrec.client.web.promises import said
from epicrec.client.web.request import Ask, Handler, download, to
from epicrec.collective.contributions import COUNTS, PRODUCTS
from epicrec.collective.device import JoinLink, Pins
from epicrec.collective.keys import fingerprint
from epicrec.collective.proofs.field import Q
from epicrec.errors import EpicrecError, InputError
from epicrec.privacy import gaussian_epsilon

_SHOWN = 8
"""So many numbers of a report are on the page; all of them are in its file."""
WHAT = {
    COUNTS: "how many have each film",
    PRODUCTS: "which tastes go together",
}
STATES = {
    "waiting": "is prepared soon",
    "sealed": "is prepared soon",
    "recorded": "prepared for",
    "sent": "arrived",
    "over": "none",
    "returned": "the round ended without a result, and both servers signed that they have shown "
    "nothing of it; what it cost is in your budget again",
}


def look(ask: Ask) -> Response:
    """What a training asks for, before anything is agreed to."""
    device, told = ask.device, ask.field("link").strip()

    def looking() -> Handler:
        try:
            link = JoinLink.parse(told)
            if device.account is None:
                device.use_server(link.server)
            elif device.account["url"] != checked_url(link.server):
                raise InputError(
                    f"this training is led by {link.server}, and your server is "
                    f"{device.account['url']}; choose the other one on the server page first"
                )
            return partial(overview, offer=device.shared_model.look(link.task, link.helper))
        except EpicrecError as error:
            return partial(overview, problem=str(error), typed=told)

    return in_background(ask, f"look-{told}", "asking the leader", looking)


def join(ask: Ask) -> Response:
    """Take part, or change in which rounds."""
    rounds = ask.field("rounds")
    if rounds not in get_args(Rounds):
        raise InputError(f"in which rounds: {', '.join(get_args(Rounds))}; choose one of them")
    chosen: Any = rounds
    try:
        mu = float(ask.field("mu"))
    except ValueError as error:
        raise InputError("look at the training once more, then take part") from error
    ask.device.shared_model.join(
        ask.field("task"), ask.field("leader_key"), ask.field("helper_key"), rounds=chosen, mu=mu
    )
    ask.say("Saved.")
    return to("/common")


def leave(ask: Ask) -> Response:
    ask.device.shared_model.leave()
    ask.say(said("common left"))
    return to("/common")


def numbers(ask: Ask) -> Response:
    """All of a report: the numbers, both halves, and the bytes that are sent."""
    found = {str(made.parameters.round): made for made in ask.device.shared_model.made()}
    made = found.get(ask.path["number"])
    if made is None or made.cut is None or made.report is None:
        raise InputError("there is no report of this round here; go back to the common model")
    given, cut = made.parameters, made.cut
    content = {
        "task": given.task,
        "round": given.round,
        "what": WHAT.get(given.statistic, given.statistic),
        "numbers": cut.numbers.tolist(),
        "modulus": str(Q),
        "the leader's half": cut.leader.tolist(),
        "the helper's half": cut.helper.tolist(),
        "cut and proved with these random bytes": cut.random.hex(),
        "the sealed report, base64": base64.b64encode(made.report).decode(),
    }
    name = f"common-model-round-{given.round}.json"
    return download(name, json.dumps(content).encode(), "application/json")


# ---- what the page shows ------------------------------------------------------------------


def overview(ask: Ask, offer: Offer | None = None, problem: str = "", typed: str = "") -> Response:
    device, part = ask.device, ask.device.shared_model.part
    found = device.shared_results.model()
    mu = offer.parameters.mu if offer else part["mu"] if part else None
    pins = None
    if offer is not None:
        pins = Pins.of(offer.leader_key, offer.helper_key)
    elif part is not None:
        pins = Pins.of(part["leader_key"], part["helper_key"])
    return ask.page(
        "shared_model.html", 400 if problem else 200, account=device.account, part=part,
        offer=offer, typed=typed, what=WHAT, states=STATES, mu=mu, odds=_worlds(mu),
        costs=_costs(device, mu),
        leader=pins and fingerprint(pins.leader), helper=pins and fingerprint(pins.helper),
        rounds=[(one, _numbers(device, one)) for one in device.shared_model.made()] if part else [],
        people=device.shared_results.people() if part else [], found=found,
        useful=found is not None and knows_taste(found.model),
        problem=problem or (part["problem"] if part else "") or device.shared_results.problem,
    )  # fmt: skip


def _worlds(mu: float | None) -> tuple[int, int] | None:
    """In how many of 100 worlds a guess is right at most, where it is wrong in no more than so
    many: a μ-GDP view lets Φ(Φ⁻¹(wrong) + μ) be right, here at its middle, rounded up."""
    if mu is None:
        return None
    right = ceil(100 * NormalDist().cdf(mu / 2))
    return right, 100 - right


def _costs(device: Device, mu: float | None) -> dict[str, float]:
    """ε for a whole person at the ledger's δ: spent so far, this training, both, and the limit."""
    ledger = device.ledger
    spent = ledger.total().get("user")
    found = {
        "limit": ledger.limit_epsilon,
        "delta": ledger.limit_delta,
        "spent": spent.epsilon if spent else 0.0,
    }
    if mu is not None:
        found["task"] = gaussian_epsilon(mu, ledger.limit_delta)
        if spent is None or spent.mu is not None:
            both = hypot(mu, spent.mu if spent and spent.mu else 0.0)
            found["afterwards"] = gaussian_epsilon(both, ledger.limit_delta)
    return found


def _numbers(device: Device, made: KnownRound) -> list[dict[str, Any]]:
    """The first numbers of a report that are not zero, or the first ones, each with its halves."""
    if made.cut is None:
        return []
    cut = made.cut
    at = np.flatnonzero(cut.numbers)[:_SHOWN]
    at = at if len(at) else np.arange(min(_SHOWN, len(cut.numbers)))
    halves = {"number": cut.numbers, "leader": cut.leader, "helper": cut.helper}
    return [
        {"about": _about(device, made, i)}
        | {name: int(values[i]) for name, values in halves.items()}
        for i in at.tolist()
    ]


def _about(device: Device, made: KnownRound, position: int) -> str:
    if made.parameters.statistic != COUNTS:
        return f"number {position}"
    if position >= len(made.item_ids):
        return "one person"
    item = str(made.item_ids[position])
    known = int(device.catalogue.positions([item])[0]) >= 0
    return str(device.catalogue.title_of(item)) if known else item
