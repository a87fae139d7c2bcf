"""What a server learns: recommenders behind one contract, found by the name of their method."""

from epicrec.models.base import Recommender
from epicrec.models.by_name import PRIVATE, load, make_model, model_class

__all__ = ["PRIVATE", "Recommender", "load", "make_model", "model_class"]
