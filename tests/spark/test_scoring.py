"""What a cluster's machines compute with a released model, without a cluster."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from epicrec.data import Ratings
from epicrec.engine.packed_users import packed_users
from epicrec.models.private.covariance import CovarianceSVD

pytest.importorskip("pyspark", reason="needs pyspark: pip install 'epicrec[spark]'")
from epicrec.spark.recommender import _predicted, _recommended


@pytest.fixture(scope="module")
def model(viewers: Ratings) -> CovarianceSVD:
    return CovarianceSVD(task="ratings", epsilon=50.0, seed=3).fit(viewers)


@pytest.fixture(scope="module")
def packed(viewers: Ratings) -> pa.Table:
    rows = viewers.to_table().select(["user_id", "item_id", "rating"])
    rows = rows.rename_columns(["user", "item", "rating"])
    found = packed_users(rows.to_batches(), viewers.item_ids, viewers.scale)
    return pa.Table.from_batches([*found])


def test_lists_are_those_of_the_model_whatever_the_batches(
    viewers: Ratings, model: CovarianceSVD, packed: pa.Table
) -> None:
    parts = packed.to_batches(max_chunksize=37)
    found = pa.Table.from_batches([*_recommended(parts, model, 4, "what", True)])
    assert found["user"].to_pylist() == viewers.user_ids.tolist()
    lists = [[row["what"] for row in rows] for rows in found["recommendations"].to_pylist()]
    expected = model.recommend(viewers, n=4)["item_id"].to_pylist()
    assert [item for one in lists for item in one] == expected
    seen = {*zip(viewers.users.tolist(), viewers.item_ids[viewers.items].tolist(), strict=True)}
    assert not seen & {(user, item) for user, one in enumerate(lists) for item in one}


def test_predictions_are_those_of_the_model_and_nan_where_the_item_is_unknown(
    viewers: Ratings, model: CovarianceSVD, packed: pa.Table
) -> None:
    asked = [*viewers.item_ids[[0, 5]].tolist(), "no such film"]
    history = {name: [None, *packed[name].to_pylist()[1:]] for name in ("items", "values")}
    rows = pa.RecordBatch.from_arrays(
        [
            packed["user"].combine_chunks(),
            pa.array([asked] * len(packed)),
            *(pa.array(column, pa.binary()) for column in history.values()),
        ],
        ["user", "asked", "items", "values"],
    )
    scores = pa.Table.from_batches([*_predicted([rows], model)])["_score"].to_numpy()
    scores = scores.reshape(-1, 3)
    pairs = {"user_id": np.repeat(viewers.user_ids, 2), "item_id": asked[:2] * viewers.n_users}
    expected = model.predict(pa.table(pairs), histories=viewers)["score"].to_numpy().reshape(-1, 2)
    np.testing.assert_allclose(scores[1:, :2], expected[1:], rtol=1e-6)
    assert np.isnan(scores[:, 2]).all()
    assert ((scores[0, :2] >= 1) & (scores[0, :2] <= 5)).all()  # who has no history, as anybody
