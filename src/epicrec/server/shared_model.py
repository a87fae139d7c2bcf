"""A server's part in the shared model: its role and keys, the helper over HTTPS, the rounds.

`status`, `start`, `collect` and `abort` are the operator's commands. They work on the data folder,
beside the running server, and each resumes where the same command was interrupted.
"""

from __future__ import annotations

import hashlib
import os
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from epicrec.collective.aggregators import Aggregator, taught_by
from epicrec.collective.device import JoinLink
from epicrec.collective.helper import Helper
from epicrec.collective.keys import fingerprint, new_signing_key, sign, verify, verifying_key
from epicrec.collective.leader import Leader
from epicrec.collective.messages import PROBLEM, VERSION, Refusal, encode
from epicrec.collective.results import Taught
from epicrec.collective.rounds import REASONS, STATES, Round, outcomes
from epicrec.collective.shared_model import Collective, check_round, next_round, released_by
from epicrec.collective.task import RoundParameters, Task
from epicrec.data import Catalogue
from epicrec.data.datasets import load_catalogue
from epicrec.errors import EpicrecError, InputError
from epicrec.server.operations.file_permissions import close, close_folder, opener, write_new
from epicrec.server.operations.logs import event
from epicrec.server.operations.metrics import Gauge
from epicrec.server.settings import Settings
from epicrec.server.store.database import Database
from epicrec.server.store.shared_model_rounds import SqlStore

SIGNATURE = "X-Epicrec-Signature"
_PATIENCE = httpx.Timeout(3600, connect=10)


class RuntimeKeys:
    """Keys of rounds as files in memory: the system deletes them at a reboot, and no backup, copy
    or replica of the data has them.

    `own` is the server's public signing key: two servers of one user do not share keys.
    """

    def __init__(self, folder: Path, own: bytes) -> None:
        self._folder = folder / own.hex()[:16]

    def get(self, task: str, number: int) -> bytes | None:
        try:
            return self._path(task, number).read_bytes()
        except FileNotFoundError:
            return None

    def keep(self, task: str, number: int, secret: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        close(self._folder)
        path = self._path(task, number)
        beside = path.with_suffix(".new")
        with open(beside, "wb", opener=opener) as file:
            file.write(secret)
        beside.replace(path)

    def destroy(self, task: str, number: int) -> bool:
        try:
            self._path(task, number).unlink()
        except FileNotFoundError:
            return False
        return True

    def _path(self, task: str, number: int) -> Path:
        return self._folder / f"{hashlib.sha256(task.encode()).hexdigest()[:16]}-{number}.key"


def runtime_folder(settings: Settings) -> Path:
    """Where keys of rounds are: a folder that is in memory and ends with the system."""
    if settings.runtime:
        return Path(settings.runtime)
    if found := os.environ.get("RUNTIME_DIRECTORY"):  # systemd's, for a service
        return Path(found.split(":")[0])
    if found := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(found) / "epicrec"
    raise InputError(
        "the keys of rounds need a folder that is in memory and in no backup; set runtime to one, "
        "such as /run/epicrec, or start the server with systemd's RuntimeDirectory"
    )


class SharedModelServer:
    """The leader or the helper of the shared model, whichever this server is."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.settings = settings
        key = signing_key(settings)
        self.key = verifying_key(key)
        other, store = _other_key(settings), SqlStore(database)
        keys = RuntimeKeys(runtime_folder(settings), self.key)
        self.store = store
        self.leader = Leader(store, keys, key, other) if settings.role == "leader" else None
        self.helper = None
        if settings.role == "helper":
            known = load_catalogue(settings.listed) if settings.listed else None
            self.helper = Helper(store, keys, key, other, check=partial(check_round, known))

    @property
    def aggregator(self) -> Aggregator:
        found = self.leader or self.helper
        assert found is not None
        return found

    def end_lost_rounds(self) -> None:
        """Abort rounds whose keys are gone, and say so: the machine was started again.

        A database that several machines share may have rounds whose keys are on another one; they
        are left to the operator.
        """
        for found in self.rounds():
            if self.aggregator.is_lost(found):
                given = found.parameters
                event("round lost", task=given.task, round=given.round, state=found.state)
                if not self.settings.database:
                    self.aggregator.abort(encode(given.task, given.round))

    def rounds(self, name: str | None = None) -> list[Round]:
        """All rounds, or those of a task."""
        with self.store.reading() as book:
            found = [book.round(*one) for one in book.tasks() if name in (None, one[0])]
        return [one for one in found if one is not None]

    def gauges(self) -> list[Gauge]:
        """The newest round, for an operator's metrics."""
        rounds = self.rounds()
        if not rounds:
            return []
        told = _described(self, rounds[-1])
        state = STATES.index(rounds[-1].state)
        named = {"accepted": told["accepted"], **told["refused"]}
        return [
            ("round_state", f"Newest round: {', '.join(STATES)}, from 0", state),
            ("round_lost", "Whether its key is gone", told["state"] == "lost"),
            ("round_reports", "Reports of the newest round", told["reports"]),
            *(
                (f"round_{name.replace(' ', '_')}", f"Reports of it: {name}", named.get(name, 0))
                for name in REASONS
            ),
        ]

    def taught(self, rounds: list[Round]) -> list[Taught]:
        with self.store.reading() as book:
            return [taught_by(book, one) for one in rounds]

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.key)

    def check(self, step: str, body: bytes, signature: str) -> None:
        """Refuse a request that the leader has not signed."""
        try:
            found = bytes.fromhex(signature)
            verify(_other_key(self.settings), found, _request(step, body), "the request")
        except (ValueError, Refusal) as error:
            raise Refusal(
                "unauthorizedRequest", "this is for the leader, and signed by it"
            ) from error


class HelperOverHttps:
    """The helper as the leader calls it. Its certificate authenticates it, our signature us."""

    def __init__(self, settings: Settings) -> None:
        context = ssl.create_default_context(cafile=settings.other_certificate or None)
        self._key = signing_key(settings)
        self._http = httpx.Client(
            base_url=settings.other_url, verify=context, trust_env=False, timeout=_PATIENCE,
            # no connection is reused: after minutes the helper may be closing it
            limits=httpx.Limits(max_keepalive_connections=0),
        )  # fmt: skip

    def close(self) -> None:
        self._http.close()

    def begin(self, message: bytes) -> bytes:
        return self._ask("begin", message)

    def verify(self, message: bytes) -> bytes:
        return self._ask("verify", message)

    def agree(self, message: bytes) -> bytes:
        return self._ask("agree", message)

    def aggregate(self, message: bytes) -> bytes:
        return self._ask("aggregate", message)

    def reveal(self, message: bytes) -> bytes:
        return self._ask("reveal", message)

    def confirm(self, message: bytes) -> bytes:
        return self._ask("confirm", message)

    def abort(self, message: bytes) -> bytes:
        return self._ask("abort", message)

    def _ask(self, step: str, body: bytes) -> bytes:
        signed = sign(self._key, _request(step, body)).hex()
        headers = {SIGNATURE: signed, "Content-Type": "application/octet-stream"}
        try:
            answer = self._http.post(f"/aggregation/{step}", content=body, headers=headers)
        except httpx.HTTPError as error:
            raise EpicrecError(
                f"the helper at {self._http.base_url} cannot be reached "
                f"({type(error).__name__}: {error}); the same command resumes where this one ended"
            ) from error
        if answer.status_code == 200:
            return answer.content
        try:
            problem = answer.json()
            raise Refusal(problem["type"].removeprefix(PROBLEM), problem["detail"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise EpicrecError(f"the helper answers {answer.status_code}") from error


def signing_key(settings: Settings) -> bytes:
    """The key in `collective.key`, made where it is missing."""
    path = settings.folder / "collective.key"
    try:
        return bytes.fromhex(path.read_text("ascii").strip())
    except FileNotFoundError:
        key = new_signing_key()
        write_new(path, f"{key.hex()}\n".encode())
        return key
    except ValueError as error:
        raise InputError(f"{path} holds no key; restore it from a backup") from error


def _other_key(settings: Settings) -> bytes:
    try:
        found = bytes.fromhex(settings.other_key)
    except ValueError:
        found = b""
    if len(found) != 32:
        other = "helper" if settings.role == "leader" else "leader"
        own = verifying_key(signing_key(settings)).hex()
        raise InputError(
            f"other_key must be the {other}'s signing key, 64 digits from 0 to f, as its operator "
            f"tells it. This server's own, for that operator, is {own}"
        )
    return found


def _request(step: str, body: bytes) -> bytes:
    return encode(VERSION, "request", step, body)


# ---- the operator's commands ------------------------------------------------------------------


def status(settings: Settings) -> dict[str, Any]:
    """Every round, and this server's signing key."""
    with _opened(settings) as server:
        return {
            "role": settings.role,
            "key": server.key.hex(),
            "fingerprint": server.fingerprint,
            "rounds": [_described(server, one) for one in server.rounds()],
        }


def _described(server: SharedModelServer, found: Round) -> dict[str, Any]:
    given = found.parameters
    with server.store.reading() as book:
        taken = book.count(given.task, given.round)
        verified = outcomes(book, given.task, given.round)
    return {
        "task": given.task,
        "round": given.round,
        "statistic": given.statistic,
        "state": "lost" if server.aggregator.is_lost(found) else found.state,
        "reports": taken,
        "accepted": verified.pop("accepted", 0),
        "refused": verified,
        "mu": given.round_mu,
    }


def join_link(settings: Settings, name: str, address: str) -> dict[str, Any]:
    """The link with which people take part, and the fingerprints that they compare."""
    if settings.role != "leader":
        raise InputError("people join at the leader; this server is not one")
    other = _other_key(settings)
    return {
        "link": JoinLink(address.rstrip("/"), other.hex(), name).text(),
        "leader": fingerprint(verifying_key(signing_key(settings))),
        "helper": fingerprint(other),
    }


def start(
    settings: Settings, name: str, *, epsilon: float, delta: float, most: int
) -> dict[str, Any]:
    """Open the task's next round; after the first one, with the budget of the first one."""
    with _leading(settings) as (server, leader, helper):
        rounds = server.rounds(name)
        if rounds and rounds[-1].state == "opening":
            half = rounds[-1].parameters
            with server.store.reading() as book:
                shown = book.published(name, half.round)
            return _told(leader.start(half, shown, helper))
        for one in rounds:
            if one.state != "finished":
                raise InputError(_what_to_do(one))
        new = Task.of(epsilon, delta, most, name)
        task = _task_of(rounds) if rounds else new
        following = _next_round(settings, task, server.taught(rounds))
        if following is None:
            raise InputError(f"the task {name!r} is finished; name another one to train again")
        return _told(leader.start(*following, helper))


def collect(settings: Settings, name: str) -> dict[str, Any]:
    """Close the task's last round and open its sum; after the last round, write the model."""
    with _leading(settings) as (server, leader, helper):
        rounds = server.rounds(name)
        if not rounds:
            raise InputError(f"there is no task {name!r}; start it first")
        leader.collect(name, rounds[-1].parameters.round, helper)
        rounds = server.rounds(name)
        task, told = _task_of(rounds), _told(rounds[-1])
        taught = server.taught(rounds)
        following = _next_round(settings, task, taught)
        if following is not None:
            return told | {"next": following[0].statistic}
        model = Collective.of_rounds(task, _catalogue(settings).item_ids, taught)
        assert model is not None
        folder = settings.folder / "common"
        folder.mkdir(exist_ok=True, mode=0o700)
        model.save(folder / f"{name}.npz")
        close(folder)
        return told | {"model": str(folder / f"{name}.npz"), "promise": str(model.guarantee)}


def abort(settings: Settings, name: str) -> dict[str, Any]:
    """Give up the task's last round, and with it the task: its reports are lost.

    The leader tells the helper; the helper's operator gives up their own side alone. Signed by
    both, it returns the round's share of the budget to the devices.
    """
    with _opened(settings) as server:
        rounds = server.rounds(name)
        if not rounds:
            raise InputError(f"there is no task {name!r} here")
        number = rounds[-1].parameters.round
        if server.leader is None:
            server.aggregator.abort(encode(name, number))
        else:
            with closing(HelperOverHttps(settings)) as helper:
                server.leader.give_up(name, number, helper)
        found = server.rounds(name)[-1]
        return _told(found) | {"signed by both": found.is_signed_by_both}


@contextmanager
def _opened(settings: Settings) -> Iterator[SharedModelServer]:
    if not settings.role:
        raise InputError("this server has no role in a shared model; set role to leader or helper")
    close_folder(settings.folder)
    with Database(settings.database_url) as database:
        database.migrate()
        yield SharedModelServer(settings, database)


@contextmanager
def _leading(settings: Settings) -> Iterator[tuple[SharedModelServer, Leader, HelperOverHttps]]:
    with _opened(settings) as server:
        if server.leader is None:
            raise InputError("rounds are started and collected by the leader; this is the helper")
        with closing(HelperOverHttps(settings)) as helper:
            yield server, server.leader, helper


def _task_of(rounds: list[Round]) -> Task:
    first = rounds[0].parameters
    return Task(name=first.task, mu=first.mu, delta=first.delta, most=first.most)


def _next_round(
    settings: Settings, task: Task, taught: list[Taught]
) -> tuple[RoundParameters, bytes] | None:
    films = _catalogue(settings)
    done = released_by(task, films.item_ids, taught)
    return next_round(task, films.item_ids, films, done)


def _catalogue(settings: Settings) -> Catalogue:
    if not settings.listed:
        raise InputError("a shared model is about the items of a catalogue; set catalogue")
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
