"""Accounts: which server is used, the certificate trusted there, and this device's id there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TypedDict

from epicrec.client.sending.remote import Remote, checked_url
from epicrec.client.store import Store
from epicrec.errors import InputError

Dial = Callable[..., Remote]


class Account(TypedDict):
    """As it is kept. Id and secret are empty before the first sending and after a deletion."""

    url: str
    certificate: str
    user_id: str
    secret: str


class Accounts:
    """The accounts at all servers ever chosen, one of them in use."""

    def __init__(self, store: Store, dial: Dial = Remote) -> None:
        self._store, self._dial = store, dial

    @property
    def current(self) -> Account | None:
        """The account at the chosen server."""
        found: Account | None = self._store.setting("server")
        return found

    def use(self, url: str, certificate: str = "") -> None:
        """Choose a server. Known ones keep their id, and the certificate that was trusted."""
        self._keep(self.at(url, certificate))

    def at(self, url: str, certificate: str = "") -> Account:
        """The account that `use` would choose; nothing is kept, so that it can be tried first."""
        url = checked_url(url)
        new = Account(url=url, certificate="", user_id="", secret="")
        account = self._known().get(url, new)
        return account | {"certificate": certificate} if certificate else account

    @property
    def named(self) -> list[Account]:
        """Those at servers that know this device by a name."""
        return [account for account in self._known().values() if account["user_id"]]

    def known(self, url: str) -> Account | None:
        """The account at a server that was chosen before."""
        return self._known().get(checked_url(url))

    def dial(self, account: Account | None = None) -> Remote:
        """A connection to a server, by default the chosen one; the caller closes it."""
        account = account or self.chosen()
        return self._dial(account["url"], key=account["secret"], certificate=account["certificate"])

    def registered(self) -> Account:
        """The account, with an id: asked for at the first sending and not before."""
        account = self.chosen()
        if not account["user_id"]:
            with closing(self.dial()) as remote:
                given = remote.register()
            account |= {"user_id": given.UserId, "secret": given.Secret}
            self._keep(account)
        return account

    def forget(self) -> None:
        """Have every server delete what it holds of this device, and give up the names there."""
        for account in self.named:
            with closing(self.dial(account)) as remote:
                remote.forget(account["user_id"])
            nameless: Account = {**account, "user_id": "", "secret": ""}
            current = self.current
            if current is not None and current["url"] == account["url"]:
                self._keep(nameless)
            else:
                self._store.set(servers=self._known() | {account["url"]: nameless})

    def chosen(self) -> Account:
        """The account at the chosen server, which there must be."""
        account = self.current
        if account is None:
            raise InputError("no server is chosen; choose one on the server page")
        return account

    def _known(self) -> dict[str, Account]:
        found: dict[str, Account] = self._store.setting("servers", {})
        return found

    def _keep(self, account: Account) -> None:
        self._store.set(server=account, servers=self._known() | {account["url"]: account})
