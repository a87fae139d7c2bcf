"""For Spark users: recommenders in the form of Spark ML, and releases of whole populations."""

from epicrec.engine.spark import SparkRatings
from epicrec.spark.population import release_population
from epicrec.spark.recommender import PrivateRecommender, PrivateRecommenderModel

__all__ = ["PrivateRecommender", "PrivateRecommenderModel", "SparkRatings", "release_population"]
