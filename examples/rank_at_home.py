"""Ranking at home: a file that somebody published, and a history that stays here."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from epicrec import load, load_dataset
from epicrec.models import make_model

films = load_dataset("films")

with TemporaryDirectory() as folder:
    # Somebody who is trusted with everyone's history, once, and adds noise:
    published = Path(folder) / "model.npz"
    model = make_model("svd", epsilon=5.0, delta=1e-5, unit="user")
    model.fit(films.ratings, films.catalogue).save(published)
    print(f"published: {published.stat().st_size:,} bytes")

    # Everybody else:
    item_model = load(published)

print(item_model.guarantee)
mine = pa.table({"user_id": ["me"] * 3, "item_id": ["alien-1979", "heat-1995", "the-matrix-1999"]})
for row in item_model.recommend(mine, n=5).to_pylist():
    print(row["rank"], films.catalogue.title_of(row["item_id"]))
