"""The whole job once, on the embedded films: learn privately, alter a history, recommend."""

from __future__ import annotations

from typing import Any

import numpy as np

from epicrec.data import Catalogue, Ratings, Scale, split_per_user
from epicrec.data.simulate import embedded_items, simulate_table
from epicrec.evaluate import evaluate_topn, make_model
from epicrec.models import Recommender
from epicrec.perturb import SEpicRec
from epicrec.progress import report

VIEWERS = 10_000
EPSILON, DELTA = 2.0, 1e-6


def run_once() -> dict[str, Any]:
    """Simulated viewers, a model learned from them privately, and one viewer's own round."""
    films = Catalogue.from_table(embedded_items())
    report("simulating viewers", 0, VIEWERS)
    viewers = Ratings.from_table(simulate_table(VIEWERS), scale=Scale(1, 5, 1)).with_items(
        films.item_ids
    )
    report("simulating viewers", VIEWERS, VIEWERS)
    train, test = split_per_user(viewers, 0.2, seed=0)
    private = make_model(
        "covariance-svd", epsilon=EPSILON, delta=DELTA, unit="user", feedback="implicit"
    )
    compared: dict[str, Recommender] = {
        "popularity": make_model("popularity"),
        "svd": make_model("svd", feedback="implicit"),
        "covariance-svd, private": private,
    }
    comparison = []
    for name, model in compared.items():
        report(f"judging {name}", 0, 1)
        metrics, _ = evaluate_topn(model, train, test, max_users=1000)
        report(f"judging {name}", 1, 1)
        row = {"method": name, "nDCG@10": round(metrics["ndcg"], 3), "promise": "none"}
        if model.guarantee.status != "none":
            row["promise"] = f"ε = {EPSILON:g} for a whole person"
        comparison.append(row)

    someone = train.users_at(np.argmin(np.abs(train.user_counts - 30)).reshape(1))
    own = someone.item_ids[someone.items]
    release = SEpicRec(films).release(own)
    best = private.recommend(someone, n=10).to_pylist()
    return {
        "comparison": comparison,
        "history": [_film(films, item) for item in own[:10]],
        "history_size": len(own),
        "release": {
            "items": [_film(films, item) for item in release.items[:10]],
            "size": len(release.items),
            "guarantee": release.guarantee.to_dict(),
            "promise": str(release.guarantee),
        },
        "recommendations": [{"rank": row["rank"], **_film(films, row["item_id"])} for row in best],
        "guarantee": private.guarantee.to_dict(),
        "promise": str(private.guarantee),
    }


def _film(films: Catalogue, item_id: Any) -> dict[str, Any]:
    at = int(films.positions([item_id])[0])
    return {
        "title": str(films.titles[at]),
        "year": int(films.years[at]),
        "genres": ", ".join(films.categories_of(at)),
    }
