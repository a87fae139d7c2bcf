"""How good it is: metrics, protocols, the papers' experiments."""

from epicrec.evaluate.metrics import list_metrics, rating_metrics
from epicrec.evaluate.protocols import (
    Evaluation,
    evaluate_model,
    evaluate_rating,
    evaluate_topn,
    make_model,
)
from epicrec.evaluate.run import audit, evaluate, reproduce

__all__ = [
    "Evaluation",
    "audit",
    "evaluate",
    "evaluate_model",
    "evaluate_rating",
    "evaluate_topn",
    "list_metrics",
    "make_model",
    "rating_metrics",
    "reproduce",
]
