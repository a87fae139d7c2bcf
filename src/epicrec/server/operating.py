"""What an operator does: look at the rounds of a task, start the next, collect it, give it up.

It works on the data folder, beside the running server, and every call goes on where one like it
was interrupted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from epicrec.collective.aggregator import taught_by
from epicrec.collective.leader import Leader
from epicrec.collective.messages import Refusal, encode
from epicrec.collective.rounds import Round
from epicrec.collective.shared_model import Collective, NextRound
from epicrec.collective.task import Task
from epicrec.data import Catalogue
from epicrec.data.datasets import load_catalogue
from epicrec.errors import InputError
from epicrec.server.collective import HelperOverHttps, Part
from epicrec.server.rights import close, close_folder
from epicrec.server.settings import Settings
from epicrec.server.store.database import Database


def status(settings: Settings) -> dict[str, Any]:
    """Every round there is, and this server's signing key."""
    with _part(settings) as part:
        with part.store.looking() as book:
            names = book.tasks()
            found = [(book.round(*name), book.count(*name)) for name in names]
        rounds = [
            {
                "task": one.parameters.task,
                "round": one.parameters.round,
                "statistic": one.parameters.statistic,
                "state": one.state,
                "reports": one.people or len(one.ids) or waiting,
                "mu": one.parameters.round_mu,
            }
            for one, waiting in found
            if one is not None
        ]
        return {
            "role": settings.role,
            "key": part.key.hex(),
            "fingerprint": part.fingerprint,
            "rounds": rounds,
        }


def start(
    settings: Settings, name: str, *, epsilon: float, delta: float, most: int
) -> dict[str, Any]:
    """Open the task's next round; the budget is that of its first one, once there is one."""
    with _leading(settings) as (part, leader, helper):
        rounds = _rounds(part, name)
        if rounds and rounds[-1].state == "opening":
            half = rounds[-1]
            return _told(leader.start(half.parameters, half.published, helper))
        for one in rounds:
            if one.state != "finished":
                raise InputError(_what_to_do(one))
        task = _task(rounds, Task.of(epsilon, delta, most, name))
        try:
            films, taught = _catalogue(settings), [taught_by(one) for one in rounds]
            Collective.of_rounds(task, films.item_ids, taught, films)
        except NextRound as following:
            return _told(leader.start(following.parameters, following.published, helper))
        raise InputError(f"the task {name!r} is finished; name another one to train again")


def collect(settings: Settings, name: str) -> dict[str, Any]:
    """Close the task's last round and open its sum; write the model where no round is missing."""
    with _leading(settings) as (part, leader, helper):
        rounds = _rounds(part, name)
        if not rounds:
            raise InputError(f"there is no task {name!r}; start it first")
        leader.collect(name, rounds[-1].parameters.round, helper)
        rounds = _rounds(part, name)
        told = _told(rounds[-1])
        try:
            taught = [taught_by(one) for one in rounds]
            films = _catalogue(settings)
            model = Collective.of_rounds(_task(rounds, None), films.item_ids, taught, films)
        except NextRound as following:
            return told | {"next": following.parameters.statistic}
        folder = settings.folder / "common"
        folder.mkdir(exist_ok=True, mode=0o700)
        model.save(folder / f"{name}.npz")
        close(folder)
        return told | {"model": str(folder / f"{name}.npz"), "promise": str(model.guarantee)}


def abort(settings: Settings, name: str) -> dict[str, Any]:
    """Give the task's last round up, and so the task: what was reported for it is lost.

    At the leader the helper is told as well; the helper's operator gives up their own side.
    """
    with _part(settings) as part:
        rounds = _rounds(part, name)
        if not rounds:
            raise InputError(f"there is no task {name!r} here")
        message = encode(name, rounds[-1].parameters.round)
        if part.helper is not None:
            part.helper.abort(message)
        else:
            assert part.leader is not None
            part.leader.abort(message)
            _tell_helper(settings, message)
        return _told(_rounds(part, name)[-1])


def _tell_helper(settings: Settings, message: bytes) -> None:
    with closing(HelperOverHttps(settings)) as helper:
        try:
            helper.abort(message)
        except Refusal as error:
            if error.kind != "unrecognizedTask":  # a round that it never heard of is given up
                raise


@contextmanager
def _part(settings: Settings) -> Iterator[Part]:
    if not settings.role:
        raise InputError("this server has no role in a common model; set role to leader or helper")
    close_folder(settings.folder)
    database = Database(settings.database_url)
    try:
        database.migrate()
        yield Part(settings, database)
    finally:
        database.stop()


@contextmanager
def _leading(settings: Settings) -> Iterator[tuple[Part, Leader, HelperOverHttps]]:
    with _part(settings) as part:
        if part.leader is None:
            raise InputError("rounds are started and collected by the leader; this is the helper")
        helper = HelperOverHttps(settings)
        try:
            yield part, part.leader, helper
        finally:
            helper.close()


def _rounds(part: Part, name: str) -> list[Round]:
    with part.store.looking() as book:
        found = [book.round(*one) for one in book.tasks() if one[0] == name]
    return [one for one in found if one is not None]


def _task(rounds: list[Round], new: Task | None) -> Task:
    if not rounds:
        assert new is not None
        return new
    first = rounds[0].parameters
    return Task(name=first.task, mu=first.mu, delta=first.delta, most=first.most)


def _catalogue(settings: Settings) -> Catalogue:
    if not settings.listed:
        raise InputError("a common model is about the items of a catalogue; set catalogue")
    return load_catalogue(settings.listed)


def _told(one: Round) -> dict[str, Any]:
    given = one.parameters
    told = {"task": given.task, "round": given.round, "statistic": given.statistic}
    return told | {"state": one.state, "people": one.people, "promise": str(given.guarantee())}


def _what_to_do(one: Round) -> str:
    number, name = one.parameters.round, one.parameters.task
    if one.state == "aborted":
        return f"round {number} of {name!r} was given up, and the task with it; name another one"
    return f"round {number} of {name!r} is {one.state}; collect it first"
