"""What Spark sees: recommenders as Spark ML knows them, and releases of whole populations."""

from epicrec.engine.spark import SparkRatings
from epicrec.spark.recommender import PrivateRecommender, PrivateRecommenderModel
from epicrec.spark.releases import release_population

__all__ = ["PrivateRecommender", "PrivateRecommenderModel", "SparkRatings", "release_population"]
