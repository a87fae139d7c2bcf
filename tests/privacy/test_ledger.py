from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from itertools import chain
from math import exp

import pytest

from epicrec.errors import BudgetExceededError, InputError
from epicrec.privacy import Guarantee, Ledger, compose, gaussian_epsilon, gaussian_guarantee
from epicrec.privacy.ledger import LedgerDamagedError
from killing import ENVIRONMENT, NEVER


def pure(epsilon, unit="item", relation="add or remove one", **fields):
    return Guarantee(epsilon=epsilon, unit=unit, relation=relation, **fields)


@pytest.fixture(params=["file", "memory"])
def path(request, tmp_path):
    return tmp_path / "deep" / "ledger.jsonl" if request.param == "file" else None


@pytest.fixture
def file(tmp_path):
    return tmp_path / "ledger.jsonl"


def test_sums_up_to_the_limit_and_refuses_beyond(path):
    ledger = Ledger(path, limit_epsilon=1.0)
    assert ledger.total() == {}
    for _ in range(10):
        ledger.spend(pure(0.1), about="weekly release")
    assert ledger.total()["item"].epsilon == 1.0
    with pytest.raises(BudgetExceededError, match=r"ε = 1\.01 .* The limit is ε = 1, δ = 0"):
        ledger.spend(pure(0.01), about="one too many")
    assert len(ledger.entries()) == 10


def test_disjoint_groups_cost_their_maximum_and_the_rest_is_added(path):
    ledger = Ledger(path, limit_epsilon=1.0)
    ledger.spend(pure(0.3), about="first batch", group="a")
    ledger.spend(pure(0.2), about="again", group="a")
    ledger.spend(pure(0.4), about="second batch", group="b")
    assert ledger.total()["item"].epsilon == 0.5
    ledger.spend(pure(0.25), about="everything")
    assert ledger.total()["item"].epsilon == 0.75
    ledger.spend(pure(0.3), about="second batch", group="b")
    assert ledger.total()["item"].epsilon == 0.95
    with pytest.raises(BudgetExceededError):
        ledger.spend(pure(0.3), about="first batch", group="a")
    ledger.spend(pure(0.75), about="third batch", group="c")


def test_coarser_units_count_for_finer_ones(path):
    ledger = Ledger(path, limit_epsilon=10.0)
    ledger.spend(pure(1.0, unit="user"), about="model")
    ledger.spend(pure(0.5, unit="rating"), about="ratings")
    # A user who stays and loses a rating: taken out, put back without it.
    assert {unit: total.epsilon for unit, total in ledger.total().items()} == {
        "rating": 2.5,
        "user": 1.0,
    }
    ledger = Ledger(None, limit_epsilon=10.0)
    ledger.spend(pure(1.0, unit="user", relation="change one"), about="model")
    ledger.spend(pure(0.5, unit="rating", relation="change one"), about="ratings")
    assert ledger.total()["rating"].epsilon == 1.5


def test_changing_one_is_removing_and_adding_one():
    ledger = Ledger(None, limit_epsilon=10.0, limit_delta=1e-3)
    ledger.spend(pure(1.0, unit="rating"), about="counts")
    ledger.spend(pure(0.5, unit="rating value", relation="change one"), about="values")
    totals = ledger.total()
    assert totals["rating"].epsilon == 1.0
    assert (totals["rating value"].epsilon, totals["rating value"].relation) == (2.5, "change one")

    ledger = Ledger(None, limit_epsilon=10.0, limit_delta=1e-3)
    ledger.spend(
        gaussian_guarantee(0.5, 1e-6, unit="rating", relation="add or remove one"), about="g"
    )
    ledger.spend(gaussian_guarantee(0.1, 1e-6, unit="rating", relation="change one"), about="g")
    mu = (1.0**2 + 0.1**2) ** 0.5
    assert ledger.total()["rating"].mu == pytest.approx(mu)

    ledger = Ledger(None, limit_epsilon=10.0, limit_delta=1e-3)
    ledger.spend(pure(1.0, delta=1e-4), about="approximate")
    ledger.spend(pure(1.0, relation="change one"), about="changes")
    assert ledger.total()["item"].epsilon <= 3
    assert (1 + exp(1)) * 4e-4 > 1e-3
    with pytest.raises(BudgetExceededError):
        ledger.spend(pure(1.0, delta=4e-4), about="approximate")


def test_gaussian_and_mixed_releases_are_composed_tightly(path):
    gaussian = gaussian_guarantee(0.2, 1e-8, unit="rating", relation="add or remove one")
    ledger = Ledger(path, limit_epsilon=5.0, limit_delta=1e-6)
    for _ in range(4):
        ledger.spend(gaussian, about="statistics")
    assert ledger.total()["rating"].epsilon == pytest.approx(gaussian_epsilon(0.4, 1e-6))
    ledger.spend(pure(0.5, unit="rating"), about="counts")
    total = ledger.total()["rating"]
    assert gaussian_epsilon(0.4, 1e-6) < total.epsilon <= gaussian_epsilon(0.4, 1e-6) + 0.501
    assert total.delta == 1e-6


def test_delta_beyond_the_limit_is_refused(path):
    with pytest.raises(BudgetExceededError, match="limit_delta"):
        Ledger(path, limit_epsilon=5).spend(pure(0.1, delta=1e-9), about="approximate")


def test_disclosures_are_listed_apart(path):
    ledger = Ledger(path, limit_epsilon=1.0)
    with pytest.raises(InputError, match="disclosure=True"):
        ledger.spend(Guarantee.none(unit="item"), about="films sent in clear")
    with pytest.raises(InputError, match=r"Guarantee\.none"):
        ledger.spend(pure(0.1), about="noisy", disclosure=True)
    entry = ledger.spend(Guarantee.none(unit="item"), about="films sent in clear", disclosure=True)
    ledger.spend(pure(1.0), about="noisy", group="ü")
    assert ledger.total()["item"].epsilon == 1.0
    assert [e for e in ledger.entries() if e.disclosure] == [entry]


def test_what_showed_nothing_is_taken_back_once(path):
    ledger = Ledger(path, limit_epsilon=1.0)
    ledger.spend(pure(0.4), about="another")
    ledger.spend(pure(0.6), about="a round")
    first = ledger.take_back(about="a round")
    assert ledger.take_back(about="a round") == first
    assert ledger.total()["item"].epsilon == 0.4
    assert [entry.returned for entry in ledger.entries()] == [False, False, True]
    ledger.spend(pure(0.5), about="a round")
    assert ledger.total()["item"].epsilon == 0.9, "only what was spent before it"
    with pytest.raises(InputError, match="nothing was spent"):
        ledger.take_back(about="a third")
    with pytest.raises(BudgetExceededError):
        ledger.spend(pure(0.2), about="one more")


def test_seeded_noise_is_refused(path):
    with pytest.raises(InputError, match="without a seed"):
        Ledger(path, limit_epsilon=1.0).spend(pure(0.1).seeded(1), about="experiment")


@pytest.mark.parametrize("limits", [{"limit_epsilon": 0}, {"limit_epsilon": 1, "limit_delta": 1}])
def test_refuses_unusable_limits(limits):
    with pytest.raises(InputError, match="must be"):
        Ledger(None, **limits)


def test_entries_come_back_as_written(file):
    ledger = Ledger(file, limit_epsilon=9.0, limit_delta=1e-5)
    given = [
        ledger.spend(pure(0.1 + 0.2, assumes=("Größe ist öffentlich.",)), about="a\nb", group="g"),
        ledger.spend(Guarantee.none(unit="item"), about="clear", disclosure=True),
        ledger.spend(gaussian_guarantee(0.3, 1e-6, unit="item", relation="change one"), about=""),
    ]
    assert Ledger(file, limit_epsilon=9.0).entries() == tuple(given)
    assert file.stat().st_mode & 0o077 == 0  # nobody else reads it


def test_a_torn_last_line_is_dropped_at_every_length(file):
    ledger = Ledger(file, limit_epsilon=9.0)
    first = ledger.spend(pure(1.0), about="kept")
    whole = file.read_bytes()
    ledger.spend(pure(2.0), about="torn")
    both = file.read_bytes()
    for length in range(len(whole), len(both)):
        file.write_bytes(both[:length])
        assert ledger.entries() == (first,)
    third = ledger.spend(pure(3.0), about="after the crash")
    assert ledger.entries() == (first, third)


def test_any_other_damage_is_an_error(file):
    ledger = Ledger(file, limit_epsilon=9.0)
    for epsilon in (1.0, 2.0, 3.0):
        ledger.spend(pure(epsilon), about="release")
    lines = file.read_bytes().splitlines(keepends=True)
    cheaper = json.loads(lines[1])
    cheaper["guarantee"]["epsilon"] = 0.1
    damaged = {
        "line 1": [b"x" + lines[0][1:], *lines[1:]],
        "line 2": [lines[0], json.dumps(cheaper).encode() + b"\n", lines[2]],
        "line 2, ": [lines[0], lines[2]],  # one taken out
        "line 2,": [lines[0], b"[]\n", lines[2]],
        "line 1,": [lines[1], lines[0], lines[2]],
        "line 3": [lines[0], lines[1], lines[2][:40] + b"\n"],
        "line 3,": [lines[0], lines[1], b"\xff\n"],
    }
    for where, content in damaged.items():
        file.write_bytes(b"".join(content))
        with pytest.raises(LedgerDamagedError, match=rf"{where}.*Restore the file from a backup"):
            ledger.spend(pure(0.1), about="more")
        assert file.read_bytes() == b"".join(content)


SPENDER = """
import sys
from epicrec.privacy import Guarantee, Ledger
from epicrec.errors import BudgetExceededError
from killing import kill_at
path, name, limit, count, moment = sys.argv[1:]
kill_at(moment)
ledger = Ledger(path, limit_epsilon=float(limit))
guarantee = Guarantee(epsilon=1.0, unit="item", relation="add or remove one")
for number in range(int(count)):
    try:
        ledger.spend(guarantee, about=f"{name} {number}")
    except BudgetExceededError:
        break
    print(name, number, flush=True)
"""


def start(file, name, limit, count, moment=NEVER):
    return subprocess.Popen(
        [sys.executable, "-c", SPENDER, str(file), name, str(limit), str(count), moment],
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


@pytest.mark.parametrize(
    "moments",
    [
        ("fsync 1", "ftruncate 3", "write 1", "write 4", "fsync 9"),
        pytest.param([str(step) for step in range(1, 101)], marks=pytest.mark.soak),
    ],
    ids=["some steps", "a hundred steps"],
)
def test_no_acknowledged_entry_is_lost_when_killed(file, moments):
    """At most the one in flight is recorded beside them."""
    acknowledged = []
    for moment in moments:
        process = start(file, f"at {moment},", 1e9, 10**6, moment)
        said, _ = process.communicate()
        assert process.returncode == -signal.SIGKILL
        before = len(acknowledged)
        acknowledged += said.split("\n")[:-1]
        recorded = [entry.about for entry in Ledger(file, limit_epsilon=1.0).entries()]
        assert recorded[:before] == acknowledged[:before], "in their order, once"
        assert recorded[: len(acknowledged)] == acknowledged
        assert len(recorded) <= len(acknowledged) + 1
        acknowledged = recorded  # from now on it is there
    assert len(acknowledged) > len(moments)


def test_processes_share_one_limit(file):
    processes = [start(file, f"p{number}", 60.0, 100) for number in range(3)]
    spent = [process.communicate()[0].split("\n")[:-1] for process in processes]
    assert all(process.returncode == 0 for process in processes)
    assert sum(map(len, spent)) == 60
    entries = Ledger(file, limit_epsilon=60.0).entries()
    assert sorted(entry.about for entry in entries) == sorted(chain(*spent))


def test_threads_share_one_limit(path):
    ledger = Ledger(path, limit_epsilon=20.0)

    def spend():
        for _ in range(10):
            try:
                ledger.spend(pure(1.0), about="thread")
            except BudgetExceededError:
                return

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledger.entries()) == 20


def test_is_on_disk_before_spend_returns(file, monkeypatch):
    calls = []
    for name in ("write", "fsync"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, n=name, r=real: (calls.append(n), r(*a))[1])
    ledger = Ledger(file, limit_epsilon=9.0)
    ledger.spend(pure(1.0), about="first")
    assert calls == ["fsync", "write", "fsync"]  # the directory, the line, the file
    calls.clear()
    ledger.spend(pure(1.0), about="second")
    assert calls == ["write", "fsync"]


def test_the_total_over_groups_is_the_worst_of_each_part() -> None:
    """The largest ε alone would hide the other groups' δ, status and assumptions."""
    ledger = Ledger(None, limit_epsilon=5.0, limit_delta=1e-5)
    dear = Guarantee(epsilon=2.0, unit="item", relation="add or remove one", assumes=("It is so.",))
    other = Guarantee(
        epsilon=1.0, delta=1e-6, unit="item", relation="add or remove one", status="claimed",
        assumes=("That is so.",),
    )  # fmt: skip
    ledger.spend(dear, about="one", group="a")
    ledger.spend(other, about="two", group="b")
    total = ledger.total()["item"]
    assert total.epsilon == 2.0
    assert total.delta >= 1e-6
    assert total.status == "claimed"
    assert set(total.assumes) == {"It is so.", "That is so."}


def test_gaussian_releases_say_that_a_delta_is_needed() -> None:
    gaussian = gaussian_guarantee(0.5, 1e-6, unit="item", relation="add or remove one")
    with pytest.raises(BudgetExceededError, match="limit_delta"):
        Ledger(None, limit_epsilon=5.0).spend(gaussian, about="no delta")
    with pytest.raises(InputError, match="delta=…"):
        compose([gaussian])
    Ledger(None, limit_epsilon=5.0, limit_delta=1e-6).spend(gaussian, about="with it")
