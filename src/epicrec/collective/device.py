"""Device: what it does in a round before anything is kept or sent: check, compute, cut."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self
from urllib.parse import parse_qs, urlencode

import numpy as np

from epicrec.arrays import Integers
from epicrec.collective.keys import fingerprint
from epicrec.collective.messages import Refusal
from epicrec.collective.shares import Announcement, Cut
from epicrec.collective.task import RoundParameters
from epicrec.errors import InputError

_SCHEME = "epicrec:"


@dataclass(frozen=True)
class Pins:
    """Both servers' signing keys; the helper's must not come from the leader."""

    leader: bytes
    helper: bytes

    @classmethod
    def of(cls, leader: str, helper: str) -> Self:
        """From keys as hexadecimal text."""
        try:
            keys = bytes.fromhex(leader), bytes.fromhex(helper)
        except ValueError:
            keys = b"", b""
        if {len(key) for key in keys} != {32}:
            raise InputError("a server's signing key has 64 figures from 0 to f; copy it whole")
        return cls(*keys)

    def __post_init__(self) -> None:
        if self.leader == self.helper:
            raise Refusal(
                "outdatedConfig",
                "leader and helper have the same key: they are one, and would read everything "
                f"({fingerprint(self.helper)})",
            )


@dataclass(frozen=True)
class JoinLink:
    """A training as an operator hands it out: the leader's address, the helper's key, the task."""

    server: str
    helper: str
    task: str

    def text(self) -> str:
        return f"{_SCHEME}{self.server}?{urlencode({'task': self.task, 'helper': self.helper})}"

    @classmethod
    def parse(cls, text: str) -> Self:
        server, _, query = text.strip().removeprefix(_SCHEME).partition("?")
        found = parse_qs(query)
        if not text.strip().startswith(_SCHEME) or set(found) != {"task", "helper"}:
            raise InputError(
                f"this is no join link: it begins with {_SCHEME} and names a task and the "
                "helper's key; copy it whole"
            )
        return cls(server, found["helper"][0], found["task"][0])


def take_part(
    announcement: Announcement,
    published: bytes,
    pins: Pins,
    contribution: Callable[[], Integers],
) -> Cut:
    """A round's report, cut and not yet sealed; the caller keeps and records it before it sends.

    `published` is what the round's statistic is computed with; `contribution` reads the history
    and is called last. If it fails, zeros are sent: whether a device sends, and how much, must not
    depend on its history.
    """
    announcement.check(pins.leader, pins.helper)
    if hashlib.sha256(published).digest() != announcement.parameters.basis:
        raise Refusal("outdatedConfig", "what is published is not what this round was opened for")
    return Cut.make(announcement, computed(announcement.parameters, contribution))


def computed(parameters: RoundParameters, contribution: Callable[[], Integers]) -> Integers:
    """The contribution, or zeros where it could not be computed."""
    try:
        return contribution()
    except Exception:  # silence would reveal something about the history
        return np.zeros(parameters.length, np.int64)
