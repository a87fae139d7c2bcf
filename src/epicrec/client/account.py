"""Accounts: which server is asked, what is trusted there, and as whom this device is known."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TypedDict

from epicrec.client.remote import Remote, checked_url
from epicrec.client.store import Store
from epicrec.errors import InputError

Dial = Callable[..., Remote]


class Account(TypedDict):
    """As it is kept. Id and secret are empty before the first use."""

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
        url = checked_url(url)
        new = Account(url=url, certificate="", user_id="", secret="")
        account = self._known().get(url, new)
        if certificate:
            account["certificate"] = certificate
        self._keep(account)

    def dial(self) -> Remote:
        """A line to the chosen server, to be closed by the caller."""
        account = self._chosen()
        return self._dial(account["url"], key=account["secret"], certificate=account["certificate"])

    def registered(self) -> Account:
        """The account, with an id: asked for at the first use, telling the server nothing."""
        account = self._chosen()
        if not account["user_id"]:
            with closing(self.dial()) as remote:
                given = remote.register()
            account |= {"user_id": given.UserId, "secret": given.Secret}
            self._keep(account)
        return account

    def forget(self) -> None:
        """Have the server delete everything it holds of this client."""
        account = self.current
        if account is None or not account["user_id"]:
            return
        with closing(self.dial()) as remote:
            remote.forget(account["user_id"])
        self._keep(account | {"user_id": "", "secret": ""})

    def _chosen(self) -> Account:
        account = self.current
        if account is None:
            raise InputError("no server is chosen; choose one on the server page")
        return account

    def _known(self) -> dict[str, Account]:
        found: dict[str, Account] = self._store.setting("servers", {})
        return found

    def _keep(self, account: Account) -> None:
        self._store.set(server=account, servers=self._known() | {account["url"]: account})
