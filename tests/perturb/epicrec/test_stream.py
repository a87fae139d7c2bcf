import pytest

from epicrec.data import Catalogue
from epicrec.errors import BudgetExceededError, InputError
from epicrec.perturb import MEpicRec, SEpicRec, Stream, release_through
from epicrec.privacy import Ledger

FILMS = Catalogue.from_columns(
    [1, 2, 3, 4, 5], list("abcde"), ["War", "War|Drama", "Opera", "Opera|Drama", "Drama"]
)


def test_the_ledger_knows_before_the_caller_does(tmp_path):
    ledger = Ledger(tmp_path / "ledger", limit_epsilon=1.0)
    release = release_through(ledger, SEpicRec(FILMS, epsilon=0.4), [1, 2])
    (entry,) = Ledger(tmp_path / "ledger", limit_epsilon=1.0).entries()
    assert entry.guarantee == release.guarantee
    release_through(ledger, SEpicRec(FILMS, epsilon=0.4), [1, 2])
    with pytest.raises(BudgetExceededError):
        release_through(ledger, SEpicRec(FILMS, epsilon=0.4), [1, 2])
    assert len(ledger.entries()) == 2


def test_what_is_sent_in_clear_is_listed_as_disclosure():
    ledger = Ledger(None, limit_epsilon=1.0)
    levels = {"Opera": "all", "War": "perturbed", "Drama": "perturbed"}
    release_through(ledger, MEpicRec(FILMS, epsilon=0.4), [1, 3], levels)
    noisy, clear = ledger.entries()
    assert (noisy.disclosure, clear.disclosure) == (False, True)
    release_through(ledger, SEpicRec(FILMS), [1, 3], "all release")
    assert ledger.entries()[-1].disclosure
    assert ledger.total()["item"].epsilon == pytest.approx(0.4)


def test_seeded_noise_cannot_be_released():
    with pytest.raises(InputError, match="seed"):
        release_through(Ledger(None, limit_epsilon=1.0), SEpicRec(FILMS, epsilon=0.4, seed=1), [1])


def counting(monkeypatch):
    """Note which items each release counts."""
    from epicrec.perturb.epicrec.plan import Plan

    seen, honest = [], Plan.totals

    def totals(self, items):
        seen.append(FILMS.item_ids[items[self.counted[items]]].tolist())
        return honest(self, items)

    monkeypatch.setattr(Plan, "totals", totals)
    return seen


def test_each_item_enters_one_release_and_the_cost_is_the_maximum(monkeypatch):
    seen = counting(monkeypatch)
    ledger = Ledger(None, limit_epsilon=0.5)
    stream = Stream(SEpicRec(FILMS, epsilon=0.5), ledger)
    for history in ([1], [1, 2], [1, 2, 3, 4], [1, 2, 3, 4]):
        stream.release(history)
    assert seen == [[1], [2], [3, 4], []]
    assert ledger.total()["item"].epsilon == pytest.approx(0.5)
    assert len({entry.group for entry in ledger.entries()}) == 4


def test_levels_may_change_between_releases(monkeypatch):
    seen = counting(monkeypatch)
    stream = Stream(MEpicRec(FILMS, epsilon=0.5), Ledger(None, limit_epsilon=0.5))
    strict = {"Opera": "no", "War": "perturbed", "Drama": "perturbed"}
    assert not {3, 4} & set(stream.release([1, 3, 4], strict).items)
    stream.release([1, 2, 3, 4], "perturbed")  # now 3 and 4 are allowed, for the first time
    assert seen == [[1], [2, 3, 4]]
    opened = stream.release([1, 2, 3, 4], {"Opera": "all", "War": "no", "Drama": "no"})
    assert opened.items == (3,), "what the person now shows openly is sent as it is"
    stream.release([1, 2, 3, 4, 5], "perturbed")
    assert seen[-1] == [5]


def test_a_refused_release_leaves_the_stream_as_it_was():
    ledger = Ledger(None, limit_epsilon=0.3)
    stream = Stream(SEpicRec(FILMS, epsilon=0.5), ledger)
    with pytest.raises(BudgetExceededError):
        stream.release([1, 2])
    assert stream.counted == set()
    assert ledger.entries() == ()
