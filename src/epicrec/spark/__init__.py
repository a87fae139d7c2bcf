"""What Spark sees: recommenders as Spark ML knows them, and releases of whole populations.

Names are loaded when first used, so that importing this package imports nothing heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epicrec._lazy import attach

if TYPE_CHECKING:
    from epicrec.engine.spark import SparkRatings
    from epicrec.spark.recommender import PrivateRecommender, PrivateRecommenderModel
    from epicrec.spark.releases import release_population

__getattr__, __dir__ = attach(__name__, __file__)

__all__ = ["PrivateRecommender", "PrivateRecommenderModel", "SparkRatings", "release_population"]
