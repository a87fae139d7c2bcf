"""What a server learns: recommenders behind one contract, found by the name of their method."""

from __future__ import annotations

from importlib import import_module

from epicrec.errors import InputError
from epicrec.models.base import Recommender, load

MODELS = {
    "bias": "bias:Bias",
    "popularity": "bias:Popularity",
    "item-knn": "neighbours.items:ItemKNN",
    "user-knn": "neighbours.users:UserKNN",
    "avg": "neighbours.users:Avg",
    "pcc": "neighbours.users:Pcc",
    "cos": "neighbours.users:Cos",
    "svd": "factors:SVD",
    "covariance-svd": "covariance.model:CovarianceSVD",
    "covariance-knn": "covariance.model:CovarianceKNN",
    "private-bias": "private_bias:PrivateBias",
    "dpi-avg": "after_dpi:DPIAvg",
    "dpi-pcc": "after_dpi:DPIPcc",
    "dpi-cos": "after_dpi:DPICos",
    "dpi-svd": "after_dpi:DPISvd",
    "dpm-avg": "yang:DPMAvg",
    "dpm-pcc": "yang:DPMPcc",
    "dpm-cos": "yang:DPMCos",
    "d2p": "alterego.users:D2PUserKNN",
    "i-d2p": "alterego.items:D2PItems",
    "d2p-svd": "alterego.items:D2PSvd",
}
"""Method names and the classes behind them, imported when asked for."""

PRIVATE: dict[str, str] = {
    "svd": "covariance-svd",
    "item-knn": "covariance-knn",
    "avg": "private-bias",
    "pcc": "private-bias",
    "cos": "private-bias",
}
"""The private counterparts that `--epsilon` chooses."""

__all__ = ["MODELS", "PRIVATE", "Recommender", "load", "model_class"]


def model_class(method: str) -> type[Recommender]:
    """The class behind a method name."""
    if method not in MODELS:
        raise InputError(f"there is no method {method!r}; choose from {', '.join(MODELS)}")
    module, name = MODELS[method].split(":")
    found: type[Recommender] = getattr(import_module(f"epicrec.models.{module}"), name)
    return found
