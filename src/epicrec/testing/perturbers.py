"""The contract of every perturber, as tests.

class TestSEpicRec(PerturberContract):
    def make(self, catalogue, **settings):
        return SEpicRec(catalogue, epsilon=1.0, **settings)
"""

from __future__ import annotations

import json
from math import inf
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from epicrec.data import Catalogue
from epicrec.errors import InputError
from epicrec.perturb.batches import batch_of, release_through
from epicrec.perturb.contract import Perturber, Release, item_ids_of
from epicrec.perturb.levels import LEVELS, PERTURBED, Levels
from epicrec.privacy import Guarantee, Ledger


class PerturberContract:
    """Subclass it and define `make`, which returns the perturber; `settings` are `seed` or nothing.

    Where a history is more than item ids, give a `history` fixture: a pyarrow table. All tests run
    at `levels`.
    """

    levels: ClassVar[Levels] = PERTURBED

    def make(self, catalogue: Catalogue, **settings: Any) -> Perturber:
        raise NotImplementedError("return a perturber over this catalogue")

    def draw(self, films: Catalogue, history: Any, **settings: Any) -> Release:
        return self.make(films, **settings).release(history, self.levels)

    @pytest.fixture
    def history(self, films: Catalogue) -> Any:
        return pa.table({"item_id": films.item_ids[10:300:7].tolist()})

    @pytest.fixture
    def release(self, films: Catalogue, history: Any) -> Release:
        return self.draw(films, history)

    # ---- what comes out -------------------------------------------------------------------

    def test_release_has_the_form_of_a_history(self, release: Release, history: Any) -> None:
        assert isinstance(release, Release)
        first = history["item_id"][0].as_py()
        assert all(type(i) is type(first) for i in release.items), "plain ids, as they came in"
        assert len(release.values) == len(release.items)

    def test_only_items_of_the_catalogue_are_sent(self, films: Catalogue, release: Release) -> None:
        assert not release.items or (films.positions(list(release.items)) >= 0).all()

    def test_guarantee_is_stated(self, release: Release) -> None:
        assert isinstance(release.guarantee, Guarantee)
        assert release.guarantee.status in ("proved", "claimed", "none")
        assert not release.guarantee.reproducible

    def test_the_list_of_methods_tells_the_same(self, films: Catalogue, release: Release) -> None:
        """Except for a paper's own version, and where nothing is hidden."""
        perturber = self.make(films)
        if release.guarantee.status != "none" and not getattr(perturber, "as_published", False):
            assert release.guarantee.status == perturber.status
            assert release.guarantee.unit in perturber.units

    def test_the_budget_is_known_before(self, films: Catalogue, release: Release) -> None:
        assert self.make(films).budget(self.levels) == release.guarantee.epsilon

    def test_release_survives_json(self, release: Release) -> None:
        text = release.to_json()
        assert Release.from_json(text) == release
        assert {"format", "method", "items", "settings", "guarantee"} <= json.loads(text).keys()

    def test_what_the_device_keeps_does_not_leave(self, release: Release) -> None:
        assert release.public().kept == {}
        assert release.public().items == release.items

    def test_settings_do_not_depend_on_the_history(self, films: Catalogue, history: Any) -> None:
        perturber = self.make(films)
        assert (
            perturber.release(history, self.levels).settings
            == perturber.release(history[:1], self.levels).settings
        )

    # ---- noise ----------------------------------------------------------------------------

    def test_noise_is_fresh_without_a_seed(self, films: Catalogue, history: Any) -> None:
        perturber = self.make(films)
        drawn = (perturber.release(history, self.levels) for _ in range(5))
        assert len({_sent(release) for release in drawn}) > 1

    def test_a_seed_repeats_and_says_so(self, films: Catalogue, history: Any) -> None:
        one, two = (self.draw(films, history, seed=3) for _ in range(2))
        assert (
            _sent(one)
            == _sent(two)
            == _sent(self.make(films).release(history, self.levels, seed=3))
        )
        assert one.guarantee.reproducible, "seeded noise is not private, and must say so"
        assert _sent(self.draw(films, history, seed=4)) != _sent(one)

    # ---- what goes in ---------------------------------------------------------------------

    def test_order_does_not_matter(self, films: Catalogue, history: Any) -> None:
        perturber = self.make(films, seed=3)
        turned = history.take(np.arange(len(history))[::-1])
        assert _sent(perturber.release(turned, self.levels)) == _sent(
            perturber.release(history, self.levels)
        )

    def test_any_table_is_a_history(self, films: Catalogue, history: Any) -> None:
        expected = _sent(self.draw(films, history, seed=3))
        if history.column_names == ["item_id"]:
            ids = history["item_id"].to_pylist()
            for same in (ids, np.array(ids), [*ids, *ids[:5]]):
                assert _sent(self.draw(films, same, seed=3)) == expected
        pytest.importorskip("pandas")
        assert _sent(self.draw(films, history.to_pandas(), seed=3)) == expected

    def test_empty_history(self, films: Catalogue, history: Any) -> None:
        assert isinstance(self.draw(films, history[:0]).items, tuple)

    def test_history_outside_the_catalogue_is_not_released(
        self, films: Catalogue, history: Any
    ) -> None:
        outside = -5 if films.item_ids.dtype.kind == "i" else "no such film"
        row = pa.table({n: [outside if n == "item_id" else 1.0] for n in history.column_names})
        release = self.draw(films, pa.concat_tables([history, row]), seed=3)
        if _knows_a_catalogue(self.make(films)):
            assert _sent(release) == _sent(self.draw(films, history, seed=3))

    def test_bad_histories_are_refused(self, films: Catalogue) -> None:
        perturber = self.make(films)
        for bad in ("one text", [[1, 2], [3, 4]], [1.5, 2.5], [None], pa.table({"film": [1]})):
            with pytest.raises(InputError):
                perturber.release(bad)

    def test_levels_that_are_none_are_refused(self, films: Catalogue, history: Any) -> None:
        with pytest.raises(InputError):
            self.make(films).release(history, "very private")

    # ---- what it tells --------------------------------------------------------------------

    def test_every_item_is_treated_somehow(self, films: Catalogue, history: Any) -> None:
        treated = self.make(films).treatment(history, self.levels)
        assert len(treated) == len(history)
        assert set(treated) <= set(LEVELS)

    def test_odds_are_within_the_guarantee_or_not_said(
        self, films: Catalogue, history: Any, release: Release
    ) -> None:
        perturber = self.make(films)
        treated = perturber.treatment(history, self.levels)
        for item, level in zip(item_ids_of(history).tolist(), treated, strict=True):
            odds = type(perturber).odds(release, item, films)
            promise = release.guarantee
            if odds and level == PERTURBED and (promise.unit, promise.status) == ("item", "proved"):
                assert odds.epsilon <= promise.epsilon * (1 + 1e-9)
                assert odds.epsilon > 0, "what is released with noise tells something"
            if promise.status == "none":
                assert odds is None or odds.epsilon == inf, "no promise, no bound"

    # ---- over time ------------------------------------------------------------------------

    def test_each_item_enters_one_batch(self, films: Catalogue, history: Any) -> None:
        perturber = self.make(films)
        first = batch_of(perturber, history, self.levels)
        assert first.fresh == first.perturbed
        again = batch_of(perturber, history, self.levels, set(first.fresh))
        assert again.fresh == []

    def test_the_ledger_knows_before_the_caller_does(self, films: Catalogue, history: Any) -> None:
        perturber = self.make(films)
        promise = perturber.release(history, self.levels).guarantee
        ledger = Ledger(None, limit_epsilon=1e9, limit_delta=0.5)
        release_through(ledger, perturber, history, self.levels)
        assert ledger.entries()[0].guarantee.epsilon == promise.epsilon


def _sent(release: Release) -> tuple[Any, ...]:
    return release.items, release.counts, release.ratings, release.answers


def _knows_a_catalogue(perturber: Any) -> bool:
    return hasattr(perturber, "catalogue") or hasattr(perturber, "item_ids")
