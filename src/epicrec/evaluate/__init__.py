"""How good and how private methods are: metrics, protocols, comparison, audits, attacks."""

from epicrec.evaluate.audits.methods import audit
from epicrec.evaluate.metrics import list_metrics, rating_metrics
from epicrec.evaluate.protocols import (
    Evaluation,
    evaluate_model,
    evaluate_rating,
    evaluate_topn,
)
from epicrec.evaluate.run import evaluate

__all__ = [
    "Evaluation",
    "audit",
    "evaluate",
    "evaluate_model",
    "evaluate_rating",
    "evaluate_topn",
    "list_metrics",
    "rating_metrics",
]
