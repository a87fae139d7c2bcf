"""What the machine has, also where the system does not say."""

import os
import subprocess
import sys

from epicrec import machine


def test_only_processors_this_process_may_use_are_counted(monkeypatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 3, 5}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert machine.processors() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    assert machine.processors() == 64
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert machine.processors() == 1


def test_peak_memory_counts_what_was_held_and_let_go() -> None:
    code = (
        "import numpy; from epicrec.machine import peak_memory; before = peak_memory();"
        "numpy.ones(2**25); print(peak_memory() - before)"  # 256 MB
    )
    # a process begins with the count of the one that started it: let a small one start it
    through = ["sh", "-c", '"$0" -c "$1"; exit $?', sys.executable, code]
    run = subprocess.run(through, capture_output=True, text=True, check=True)
    assert 200 < float(run.stdout) < 300


def test_peak_memory_is_unknown_where_the_system_keeps_no_count(monkeypatch) -> None:
    assert machine.peak_memory() is not None
    monkeypatch.setitem(sys.modules, "resource", None)  # importing it fails
    assert machine.peak_memory() is None


def test_free_memory_is_at_most_all_memory(monkeypatch) -> None:
    everything = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    free = machine.free_memory()
    assert free is not None
    assert 0 < free <= everything

    def absent(*_args: object, **_named: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", absent)
    assert machine.free_memory() == everything
    monkeypatch.delattr(os, "sysconf")
    assert machine.free_memory() is None
