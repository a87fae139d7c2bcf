"""Settings: one TOML file, environment variables over it, the command line over both."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self

from epicrec.errors import InputError
from epicrec.server.feedback_rules import FeedbackRules

PREFIX = "EPICREC_SERVER_"
NOTHING = "none"
"""The `catalogue` of a server whose items come through the API alone."""
STORE = "store"
"""The `train_from` that means the ratings users gave to this server."""

_AT_LEAST_ONE = (
    "factors", "iterations", "list_length", "body_limit", "requests_per_minute", "connections",
    "connections_per_address", "workers", "read_timeout", "rows_per_user", "bytes_per_user",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How the server runs. Every field is a key of the TOML file and, in capitals after
    `EPICREC_SERVER_`, an environment variable."""

    # where things are
    data: str = "epicrec-server"  # the folder of database, models, ledger, certificates, admin key
    database: str = ""  # an SQLAlchemy URL; empty: SQLite in the data folder
    # items to load at start: a data set's name, a folder, a file, or none; empty: `titles`, if the
    # database has no items yet
    catalogue: str = ""

    # how it is reached
    host: str = "127.0.0.1"
    port: int = 8088
    http: bool = False  # plain HTTP, on loopback only
    names: str = ""  # further host names for the development certificate, comma between
    certificate: str = ""  # own certificate chain and key (PEM); empty: a development CA
    private_key: str = ""
    forwarded_from: str = ""  # addresses of proxies whose X-Forwarded-For is believed
    workers: int = 1  # processes that answer; more than one needs PostgreSQL
    connections: int = 1000  # at once, for each worker
    connections_per_address: int = 200
    read_timeout: int = 10  # seconds for the headers of a request, and for a body that stalls

    # who may do what, and how much of it
    admin_key: str = ""  # empty: made at first start and kept in data/admin.key
    registration: bool = True  # clients may register by themselves
    requests_per_minute: int = 1200  # for each client
    registrations_per_hour: int = 60  # for each address
    failures_per_minute: int = 60  # wrong keys from one address
    body_limit: int = 2_000_000  # bytes
    rows_per_user: int = 20_000  # of feedback, in all messages of a client together
    bytes_per_user: int = 1_000_000  # of comments and stated guarantees
    purge_days: int = 0  # remove users not seen for so long; 0: never

    # what is learned from releases and feedback
    positive_feedback: str = "watch,read,like,star,rating>=3"  # what counts for an item
    negative_feedback: str = "dislike"  # what counts against it
    train_every: int = 3600  # seconds between trainings, if anything changed; 0: only when asked
    factors: int = 64
    iterations: int = 15
    regularization: float = 0.05
    alpha: float = 10.0  # confidence in a released item over one that was not released
    list_length: int = 200
    training_nice: int = 10  # how far training gives way to answering, as of nice(1)

    # the published item model
    train_from: str = ""  # a rating set, or "store" for ratings users gave; empty: none published
    rating_type: str = "rating"  # the feedback type that holds those ratings
    rating_scale: str = "1:5:1"  # public, as the catalogue is; never read off the ratings
    publish_task: str = "lists"
    publish_epsilon: float = 1.0
    publish_delta: float = 1e-6
    publish_unit: str = "user"
    limit_epsilon: float = 4.0  # what all published models together may cost
    limit_delta: float = 1e-5

    # the shared model, of which nobody sees a part (docs/collective.md)
    role: str = ""  # "leader" or "helper"; empty: neither
    other_url: str = ""  # the leader's: where the helper is
    other_certificate: str = ""  # a certificate (PEM) to trust for it instead of the system's
    other_key: str = ""  # the other server's signing key, as its operator tells it
    runtime: str = ""  # a folder in memory for the keys of rounds; empty: the system's (/run)
    collective_body_limit: int = 32_000_000  # bytes of a report, or of a round's basis

    def __post_init__(self) -> None:
        if self.role not in ("", "leader", "helper"):
            raise InputError(f"role is 'leader' or 'helper', not {self.role!r}")
        if self.role == "leader" and not self.other_url:
            raise InputError("a leader needs the helper's address; set other_url")
        if not 0 <= self.port <= 65535:
            raise InputError(f"port must lie between 0 and 65535, not {self.port}")
        if self.workers > 1 and not self.database.startswith("postgresql"):
            raise InputError(
                f"{self.workers} workers need PostgreSQL, as SQLite has one writer; set database "
                "to postgresql://…, or workers to 1"
            )
        if self.http and not is_loopback(self.host):
            raise InputError(
                f"plain HTTP is for loopback only, and host is {self.host!r}; leave http out to "
                "serve TLS, or set host = '127.0.0.1'"
            )
        if bool(self.certificate) != bool(self.private_key):
            raise InputError("certificate and private_key come together; give both files or none")
        for name in _AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.publish_task not in ("lists", "ratings"):
            raise InputError(f"publish_task is 'lists' or 'ratings', not {self.publish_task!r}")
        _ = self.feedback_rules
        if self.admin_key and len(self.admin_key) < 16:
            raise InputError("admin_key is too short to be safe; give 16 characters or more")

    @property
    def feedback_rules(self) -> FeedbackRules:
        """Which feedback is positive, and which negative."""
        return FeedbackRules.parse(self.positive_feedback, self.negative_feedback)

    @property
    def listed(self) -> str:
        """The list of items to load at start, or nothing."""
        return "" if self.catalogue == NOTHING else self.catalogue

    @property
    def folder(self) -> Path:
        return Path(self.data)

    @property
    def database_url(self) -> str:
        """The URL SQLAlchemy opens; plain `postgresql://` means psycopg 3."""
        url = self.database or f"sqlite:///{self.folder.resolve() / 'epicrec.sqlite'}"
        return url.replace("postgresql://", "postgresql+psycopg://", 1)

    @classmethod
    def load(
        cls,
        file: str | os.PathLike[str] | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        **given: Any,
    ) -> Self:
        """Defaults, the file over them, the environment over that, and what is `given` (not None)
        over everything."""
        values: dict[str, Any] = {}
        if file is not None:
            try:
                values |= tomllib.loads(Path(file).read_text("utf-8"))
            except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
                raise InputError(f"cannot read the settings in {file}: {error}") from error
        found = os.environ if environment is None else environment
        values |= {
            name.removeprefix(PREFIX).lower(): text
            for name, text in found.items()
            if name.startswith(PREFIX)
        }
        values |= {name: value for name, value in given.items() if value is not None}
        kinds = {field.name: str(field.type) for field in fields(cls)}
        for name in values:
            if name not in kinds:
                raise InputError(f"there is no setting {name!r}; there are {', '.join(kinds)}")
        return cls(**{name: _read(name, value, kinds[name]) for name, value in values.items()})

    def to_dict(self) -> dict[str, Any]:
        """All settings but the admin key, as plain values."""
        return asdict(self) | {"admin_key": ""}


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _read(name: str, value: Any, kind: str) -> Any:
    """A value in the type of its setting; environment variables arrive as text."""
    try:
        if kind == "bool":
            return value if isinstance(value, bool) else _BOOLEANS[str(value).lower()]
        if kind == "str":
            return str(value)
        if isinstance(value, bool):
            raise ValueError
        if kind == "int" and isinstance(value, float):
            raise ValueError  # int() would truncate it
        return int(value) if kind == "int" else float(value)
    except (ValueError, TypeError, KeyError):
        readable = {"bool": "true or false", "int": "a whole number", "float": "a number"}[kind]
        raise InputError(f"the setting {name} must be {readable}, not {value!r}") from None


_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
