"""Private recommenders in the form of Spark ML: an Estimator and the Model that it fits.

The names are those of `pyspark.ml.recommendation.ALS`. The differences have one reason: the model
is a release about items and knows no users. To score for users it needs their histories: those it
was fitted on, until it is saved, or those given to `setHistories`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from epicrec.engine.packed_users import ratings_of
from epicrec.engine.spark import SparkRatings, by_user, tasks_at_once, told
from epicrec.errors import InputError, NotFittedError
from epicrec.extras import needs
from epicrec.models import Recommender, load, make_model
from epicrec.privacy import Guarantee

needs("spark", "pyspark")
from pyspark.ml import Estimator, Model  # noqa: E402
from pyspark.ml.param import Param, Params, TypeConverters  # noqa: E402
from pyspark.ml.param.shared import HasPredictionCol  # noqa: E402
from pyspark.ml.util import (  # noqa: E402
    DefaultParamsReadable,
    DefaultParamsReader,
    DefaultParamsWritable,
    DefaultParamsWriter,
    MLReadable,
    MLReader,
    MLWritable,
    MLWriter,
)
from pyspark.sql import DataFrame  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402

_CHUNK = 1 << 24
"""A saved model is written in rows of so many bytes."""


def _param(name: str, what: str, kind: Any = TypeConverters.toString) -> Any:
    return Param(Params._dummy(), name, what, typeConverter=kind)


class _Columns(HasPredictionCol):
    """What the Estimator and its Model share."""

    userCol = _param("userCol", "the column of users: whole numbers or text")
    itemCol = _param("itemCol", "the column of items: whole numbers or text")
    ratingCol = _param("ratingCol", "the column of ratings, where the task is ratings")
    coldStartStrategy = _param(
        "coldStartStrategy", "items that are not listed are predicted as 'nan', or 'drop'ped"
    )
    excludeSeen = _param(
        "excludeSeen", "whether lists leave out what is in the history", TypeConverters.toBoolean
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(
            userCol="user", itemCol="item", ratingCol="rating", coldStartStrategy="nan",
            excludeSeen=True,
        )  # fmt: skip

    @property
    def _names(self) -> dict[str, Any]:
        return {name: self.getOrDefault(f"{name}Col") for name in ("user", "item", "rating")}


class PrivateRecommender(Estimator, _Columns, DefaultParamsWritable, DefaultParamsReadable):
    """An Estimator that learns a recommender with a proved guarantee.

    `items`, all ids there are, and `scale`, such as "1:5:1", are public and therefore given. The
    settings are those of `covariance-svd`: `epsilon`, `delta`, `unit` ("rating" or "user"),
    `task` ("ratings" or "lists"). A `seed` makes noise repeatable: not private.

    `PrivateRecommender(items=ids, scale="1:5:1", epsilon=1.0).fit(frame)`
    """

    method = _param("method", "a method that learns from sums, as `epicrec methods` lists them")
    items = _param("items", "the public list of items", TypeConverters.toList)
    scale = _param("scale", "the public scale of ratings, low:high:step")
    epsilon = _param("epsilon", "the privacy budget ε", TypeConverters.toFloat)
    delta = _param("delta", "δ, for Gaussian noise", TypeConverters.toFloat)
    unit = _param("unit", "what is hidden: a 'rating' or a whole 'user'")
    task = _param("task", "'lists' of what to choose, or predicted 'ratings'")
    seed = _param("seed", "for experiments: repeatable, not private", TypeConverters.toInt)

    def __init__(self, **params: Any) -> None:
        super().__init__()
        self._setDefault(method="covariance-svd", unit="rating", task="lists")
        self.setParams(**params)

    def setParams(self, **params: Any) -> Self:
        """Set some of the params by name."""
        if "items" in params:
            params["items"] = np.asarray(params["items"]).tolist()
        self._set(**params)
        return self

    def _fit(self, dataset: DataFrame) -> PrivateRecommenderModel:
        settings = ("epsilon", "delta", "unit", "task", "seed")
        given = {name: self.getOrDefault(name) for name in settings if self.isDefined(name)}
        if not self.isDefined("items"):
            raise InputError("a private model takes the list of items from outside; give items=ids")
        rated = given["task"] == "ratings"
        if rated and not self.isDefined("scale"):
            raise InputError('a private model takes the scale from outside; give scale="1:5:1"')
        recommender = make_model(self.getOrDefault("method"), **given)
        scale = self.getOrDefault("scale") if rated else None
        items = self.getOrDefault("items")
        ratings = SparkRatings.of(dataset, items=items, scale=scale, **self._names)
        try:
            recommender.fit(ratings)
        finally:
            ratings.users.unpersist()
        model = PrivateRecommenderModel(recommender).setHistories(dataset)
        self._copyValues(model)
        return model


class PrivateRecommenderModel(Model, _Columns, MLWritable, MLReadable[Any]):
    """A fitted recommender: `transform`, and lists for all users or for some."""

    def __init__(self, recommender: Recommender | None = None) -> None:
        super().__init__()
        self.recommender = recommender
        self.histories: DataFrame | None = None

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee to the users the model was learned from."""
        return self._learned.guarantee

    def setHistories(self, frame: DataFrame) -> Self:
        """The histories to score with: a DataFrame like the one for `fit`."""
        self.histories = frame
        return self

    def recommendForAllUsers(self, numItems: int) -> DataFrame:
        """`userCol, recommendations` for each user with a history: an array of (item, rating)."""
        return self._lists(self._users(), numItems)

    def recommendForUserSubset(self, dataset: DataFrame, numItems: int) -> DataFrame:
        """The same for the users in `dataset`, each once; one without a history is left out."""
        user = dataset[self.getOrDefault("userCol")].alias("user")
        return self._lists(self._users().join(dataset.select(user), "user", "left_semi"), numItems)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        """`dataset` with the predictions of its users and items; a user without a history gets the
        prediction of an empty one."""
        names = [self.getOrDefault("userCol"), self.getOrDefault("itemCol")]
        users = self._users()
        kinds = [users.schema["user"].dataType, self._item_kind]
        ids = [F.col(n).cast(kind) for n, kind in zip(names, kinds, strict=True)]
        pairs = dataset.select(ids[0].alias("user"), ids[1].alias("item")).dropna().distinct()
        asked = pairs.groupBy("user").agg(F.collect_list("item").alias("asked"))
        schema = f"_user {kinds[0].simpleString()}, _item {kinds[1]}, _score float"
        scored = asked.join(users, "user", "left").mapInArrow(
            partial(_predicted, model=self._learned), schema
        )
        found = dataset.join(
            scored, (ids[0] == scored["_user"]) & (ids[1] == scored["_item"]), "left"
        ).drop("_user", "_item")
        prediction = self.getOrDefault("predictionCol")
        found = found.withColumn(
            prediction, F.coalesce("_score", F.lit(float("nan")).cast("float"))
        )
        known = ~F.isnan(prediction)
        found = found.drop("_score")
        return found.where(known) if self.getOrDefault("coldStartStrategy") == "drop" else found

    def write(self) -> MLWriter:
        return _Writer(self)

    @classmethod
    def read(cls) -> MLReader[Any]:
        return _Reader()

    @property
    def _learned(self) -> Recommender:
        if self.recommender is None:
            raise NotFittedError("this model is empty; fit a PrivateRecommender or load a model")
        return self.recommender

    @property
    def _item_kind(self) -> str:
        return "string" if self._learned.item_ids_.dtype.kind in "US" else "bigint"

    def _users(self) -> DataFrame:
        if self.histories is None:
            raise InputError(
                "a loaded model knows no users, only what was released of items; give their "
                "histories: model.setHistories(frame)"
            )
        scale = self._learned.scale_ if self._learned.task == "ratings" else None
        spark = self.histories.sparkSession
        with told(spark):
            at_once = tasks_at_once(spark)
            items = self._learned.item_ids_
            return by_user(self.histories, items, scale, self._names, at_once)

    def _lists(self, users: DataFrame, n: int) -> DataFrame:
        item, user = self.getOrDefault("itemCol"), self.getOrDefault("userCol")
        kind = users.schema["user"].dataType.simpleString()
        row = f"array<struct<`{item}`: {self._item_kind}, rating: float>>"
        work = partial(
            _recommended, model=self._learned, n=n, item=item,
            exclude_seen=self.getOrDefault("excludeSeen"),
        )  # fmt: skip
        return users.mapInArrow(work, f"`user` {kind}, recommendations {row}").withColumnRenamed(
            "user", user
        )


def _recommended(
    batches: Iterable[pa.RecordBatch], model: Recommender, n: int, item: str, exclude_seen: bool
) -> Iterator[pa.RecordBatch]:
    """Lists of users, a batch at a time; the model scores as many as fit at once."""
    scale = model.scale_ if model.task == "ratings" else None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        histories = ratings_of(pa.Table.from_batches([batch]), model.item_ids_, scale)
        lists = model.recommend(histories, n=n, exclude_seen=exclude_seen)
        counts = np.bincount(lists["user_id"].to_numpy(), minlength=batch.num_rows)
        edges = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        columns = [lists["item_id"].combine_chunks(), lists["score"].cast(pa.float32())]
        pairs = pa.StructArray.from_arrays(
            [columns[0], columns[1].combine_chunks()], [item, "rating"]
        )
        yield pa.RecordBatch.from_arrays(
            [batch["user"], pa.ListArray.from_arrays(pa.array(edges), pairs)],
            ["user", "recommendations"],
        )


def _predicted(batches: Iterable[pa.RecordBatch], model: Recommender) -> Iterator[pa.RecordBatch]:
    """The predictions of the items that are asked for, by the histories beside them."""
    scale = model.scale_ if model.task == "ratings" else None
    for batch in batches:
        asked = batch["asked"]
        items = asked.flatten()
        if len(items) == 0:
            continue
        packed = pa.table({name: batch[name].fill_null(b"") for name in batch.schema.names[2:]})
        histories = ratings_of(packed, model.item_ids_, scale)
        rows = np.repeat(np.arange(len(asked)), asked.value_lengths().to_numpy())
        pairs = pa.table({"user_id": rows, "item_id": items})
        scores = model.predict(pairs, histories=histories)["score"].cast(pa.float32())
        yield pa.RecordBatch.from_arrays(
            [batch["user"].take(pa.array(rows)), items, scores.combine_chunks()],
            ["_user", "_item", "_score"],
        )


class _Writer(MLWriter):
    """The params as Spark writes them, and beside them the bytes of the model's own file."""

    def __init__(self, model: PrivateRecommenderModel) -> None:
        super().__init__()
        self.model = model

    def saveImpl(self, path: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.npz"
            self.model._learned.save(file)
            whole = file.read_bytes()
        parts = [(at // _CHUNK, whole[at : at + _CHUNK]) for at in range(0, len(whole), _CHUNK)]
        spark = self.sparkSession
        with told(spark):
            DefaultParamsWriter.saveMetadata(self.model, path, spark)
            spark.createDataFrame(parts, "number int, part binary").write.parquet(f"{path}/model")


class _Reader(MLReader[Any]):
    def load(self, path: str) -> PrivateRecommenderModel:
        spark = self.sparkSession
        with told(spark):
            metadata = DefaultParamsReader.loadMetadata(path, spark)
            parts = spark.read.parquet(f"{path}/model").orderBy("number").collect()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.npz"
            file.write_bytes(b"".join(row["part"] for row in parts))
            model = PrivateRecommenderModel(load(file))
        model._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(model, metadata)
        return model
