"""The contract of every perturber, as tests: what comes out has the form of what went in.

class TestSEpicRec(PerturberContract):
    def make(self, catalogue, **settings):
        return SEpicRec(catalogue, epsilon=1.0, **settings)
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from epicrec.data import Catalogue
from epicrec.errors import InputError
from epicrec.privacy import Guarantee


class PerturberContract:
    """Say how to make the perturber over a catalogue; `settings` are `seed` or nothing."""

    def make(self, catalogue: Catalogue, **settings: Any) -> Any:
        raise NotImplementedError("return a perturber over this catalogue")

    @pytest.fixture
    def history(self, films: Catalogue) -> list[Any]:
        return list(films.item_ids[10:300:7].tolist())

    def test_release_has_the_form_of_a_history(self, films: Catalogue, history: list[Any]) -> None:
        items = self.make(films).release(history).items
        assert len(set(items)) == len(items), "an item is sent once"
        assert (films.positions(list(items)) >= 0).all(), "only items of the catalogue are sent"
        assert all(type(i) is type(history[0]) for i in items), "plain ids, as they came in"

    def test_guarantee_is_stated(self, films: Catalogue, history: list[Any]) -> None:
        guarantee = self.make(films).release(history).guarantee
        assert isinstance(guarantee, Guarantee)
        assert guarantee.status in ("proved", "claimed", "none")
        assert not guarantee.reproducible

    def test_noise_is_fresh_without_a_seed(self, films: Catalogue, history: list[Any]) -> None:
        perturber = self.make(films)
        assert len({perturber.release(history).items for _ in range(5)}) > 1

    def test_a_seed_repeats_and_says_so(self, films: Catalogue, history: list[Any]) -> None:
        one, two = (self.make(films, seed=3).release(history) for _ in range(2))
        assert one.items == two.items
        assert one.guarantee.reproducible, "seeded noise is not private, and must say so"
        assert self.make(films, seed=4).release(history).items != one.items

    def test_order_and_repetition_do_not_matter(self, films: Catalogue, history: list[Any]) -> None:
        perturber = self.make(films, seed=3)
        again = perturber.release([*reversed(history), *history[:5]])
        assert again.items == perturber.release(history).items

    def test_any_table_is_a_history(self, films: Catalogue, history: list[Any]) -> None:
        perturber = self.make(films, seed=3)
        expected = perturber.release(history).items
        assert perturber.release(np.array(history)).items == expected
        assert perturber.release(pa.table({"item_id": history})).items == expected
        pandas = pytest.importorskip("pandas")
        assert perturber.release(pandas.DataFrame({"item_id": history})).items == expected

    def test_release_survives_json(self, films: Catalogue, history: list[Any]) -> None:
        release = self.make(films).release(history)
        text = release.to_json()
        assert type(release).from_json(text) == release
        assert {"items", "guarantee", "seconds"} <= json.loads(text).keys()

    def test_empty_history(self, films: Catalogue) -> None:
        assert isinstance(self.make(films).release([]).items, tuple)

    def test_history_outside_the_catalogue_is_not_released(
        self, films: Catalogue, history: list[Any]
    ) -> None:
        outside = [-5] if films.item_ids.dtype.kind == "i" else ["no such film"]
        perturber = self.make(films, seed=3)
        release = perturber.release(history + outside)
        assert outside[0] not in release.items
        assert release.items == perturber.release(history).items

    def test_bad_histories_are_refused(self, films: Catalogue) -> None:
        perturber = self.make(films)
        for bad in ("one text", [[1, 2], [3, 4]], [1.5, 2.5], [None], pa.table({"film": [1]})):
            with pytest.raises(InputError):
                perturber.release(bad)
