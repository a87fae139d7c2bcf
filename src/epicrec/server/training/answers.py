"""Answers: the stored releases by randomised response, as the learner reads them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection

from epicrec import registry
from epicrec.arrays import Floats
from epicrec.data import Catalogue, find
from epicrec.errors import InputError
from epicrec.models.private.answers import Answers, Block
from epicrec.models.randomised_response import RandomisedResponseLists
from epicrec.perturb.randomised_response import OPEN, PUBLIC, Answering, RandomisedResponse
from epicrec.privacy import Guarantee
from epicrec.server.settings import Settings
from epicrec.server.store import catalogue, histories
from epicrec.server.store.histories import Mechanism
from epicrec.server.training.training_data import MOST_MECHANISMS, Lists, TrainingData

METHOD = registry.name_of(registry.PERTURBERS, RandomisedResponse)


@dataclass(frozen=True, eq=False)
class Learned:
    """The item model of all answers, and how popular they say that items are."""

    model: RandomisedResponseLists
    people: int

    def joined(self, shares: Floats, features: Catalogue, others: int) -> Floats:
        """Shares of items in viewing, by these people and by what `others` released."""
        at = find(self.model.item_ids_, features.item_ids)
        own = np.where(at >= 0, self.model.offsets_[at], 0.0)
        weight = self.people / max(self.people + others, 1)
        return np.asarray(weight * own / max(float(own.sum()), 1e-300) + (1 - weight) * shares)


def learn_stored(connection: Connection, settings: Settings, found: TrainingData) -> Learned | None:
    """The item model of what is stored, None where nobody answered."""
    lists = Lists(connection, catalogue.public(connection) or found.features)
    left_out: Counter[str] = Counter(found.left_out)
    answers = stored_answers(connection, settings, lists, left_out)
    found.left_out.update(left_out)
    found.lists.extend(lists.found.values())
    if answers is None:
        return None
    epsilon = max(way.epsilon for way in answers.ways)
    opened = any(way.exact.any() for way in answers.ways)
    promise = Guarantee(
        epsilon=epsilon,
        unit="item",
        relation="add or remove one",
        assumes=(PUBLIC, OPEN) if opened else (PUBLIC,),
    )
    model = RandomisedResponseLists(epsilon=epsilon).fit_answers(answers, promise)
    return Learned(model, answers.number)


def stored_answers(
    connection: Connection, settings: Settings, lists: Lists, left_out: Counter[str]
) -> Answers | None:
    """The answers about the list that most people answered for, None where there are none.

    Only releases with a proved guarantee within the limit take part; a release of another list, or
    of another length than its list, is left out, and counted in `left_out` with the reason.
    """
    _, received = histories.mechanisms(connection)
    ways: dict[Mechanism, Answering] = {}
    for mechanism in received:
        if mechanism.method == METHOD:
            try:
                ways[mechanism] = _way(mechanism, settings, lists)
            except (InputError, TypeError, ValueError) as error:
                why = str(error) if isinstance(error, InputError) else "settings that cannot be"
                left_out[f"{METHOD}: {why}"] += received[mechanism].releases
    often: Counter[str] = Counter()
    for mechanism, way in ways.items():
        often[way.works.version] += received[mechanism].releases
    if not often:
        return None
    version = often.most_common(1)[0][0]
    for mechanism, way in [*ways.items()]:
        if way.works.version != version:
            left_out[f"{METHOD}: another list of works"] += received[mechanism].releases
            del ways[mechanism]
    chosen = sorted(ways, key=lambda one: -received[one].releases)[:MOST_MECHANISMS]
    for mechanism in ways.keys() - set(chosen):
        left_out[f"more than {MOST_MECHANISMS} mechanisms"] += received[mechanism].releases
    how = tuple(ways[mechanism] for mechanism in chosen)

    def blocks() -> Iterator[Block]:
        before = 0
        for users, places, bits in histories.answers(connection, chosen):
            whole = np.array([len(one) == how[0].size for one in bits])
            if whole.any():
                numbers = np.unique(users[whole], return_inverse=True)[1]
                rows = np.array([np.frombuffer(b, np.uint8) for b in np.array(bits, object)[whole]])
                yield Block(before + numbers, places[whole], rows)
                before += int(numbers[-1]) + 1

    people = 0
    for block in blocks():
        people = int(block.people[-1]) + 1
    return Answers(how[0].works, how, blocks, people) if people else None


def _way(mechanism: Mechanism, settings: Settings, lists: Lists) -> Answering:
    stated = json.loads(mechanism.settings)
    if not settings.feedback_rules.counts(mechanism.kind):
        raise InputError(f"releases of type {mechanism.kind} count for nothing")
    if not mechanism.proved:
        raise InputError("its guarantee is not proved")
    listed: Catalogue = lists.of(str(stated.get("catalogue", "")))
    way = Answering.of(stated, listed)
    if way.epsilon > settings.limit_epsilon:
        raise InputError("its ε is above the limit")
    return way
