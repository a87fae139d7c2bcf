"""Progress reaches who listens to that work, and no one else; parts in threads belong to it."""

import threading

import pytest

from epicrec import machine
from epicrec.machine import in_threads
from epicrec.progress import listening, report


def test_a_listener_hears_what_runs_inside_and_nothing_after() -> None:
    outer, inner = [], []
    with listening(lambda *said: outer.append(said)):
        report("a", 1, 3)
        with listening(lambda *said: inner.append(said)):
            report("b", 2, 3)
        report("c", 3, 3)
    report("d", 4, 3)
    assert outer == [("a", 1, 3), ("b", 2, 3), ("c", 3, 3)]
    assert inner == [("b", 2, 3)]


def test_a_listener_is_gone_after_a_failure() -> None:
    heard = []
    with pytest.raises(ValueError, match="stop"), listening(lambda *said: heard.append(said)):
        raise ValueError("stop")
    report("later", 1, 1)
    assert heard == []


def test_two_threads_hear_only_their_own() -> None:
    """Both are inside `listening` before either speaks, and speak in turns."""
    together = threading.Barrier(2, timeout=60)
    heard: dict[str, list[str]] = {"one": [], "two": []}

    def task(name: str) -> None:
        with listening(lambda what, _done, _total: heard[name].append(what)):
            together.wait()
            for step in range(20):
                report(name, step, 20)
                together.wait()

    both = [threading.Thread(target=task, args=(name,)) for name in heard]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert heard == {"one": ["one"] * 20, "two": ["two"] * 20}


def test_parts_in_threads_report_to_their_own_listener(monkeypatch) -> None:
    """Two tasks, each with its parts in worker threads that run at the same time."""
    monkeypatch.setattr(machine, "processors", lambda: 2)
    together = threading.Barrier(4, timeout=60)
    heard: dict[str, list[tuple[str, int, int]]] = {"one": [], "two": []}

    def task(name: str) -> None:
        def part(number: int) -> int:
            together.wait()
            report(name, number, 2)
            return threading.get_ident()

        with listening(lambda *said: heard[name].append(said)):
            workers = set(in_threads(part, range(2)))
        assert len(workers) == 2
        assert threading.get_ident() not in workers

    both = [threading.Thread(target=task, args=(name,)) for name in heard]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    for name, said in heard.items():
        assert sorted(said) == [(name, 0, 2), (name, 1, 2)]


def test_results_come_in_order_and_errors_come_out() -> None:
    assert list(in_threads(lambda part: part * part, range(50))) == [n * n for n in range(50)]
    assert list(in_threads(str, [])) == []
    with pytest.raises(ZeroDivisionError):
        list(in_threads(lambda part: 1 // part, [1, 0, 2]))
