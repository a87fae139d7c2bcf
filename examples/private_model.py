"""A model learned with privacy from a dataframe, and a list for somebody it never saw."""

import pyarrow as pa

from epicrec import load_dataset, make_model

films = load_dataset("films")  # in its place: your own dataframe, of pandas, polars or pyarrow
frame = films.ratings.to_table()  # columns user_id, item_id, rating

# What is public is given, never read off the ratings: which items there are, and the scale.
model = make_model("svd", epsilon=1.0, delta=1e-6)
model.fit(frame, items=films.catalogue.item_ids, scale="1:5:1")
print(model.guarantee)
print(model.record)

# A new person is a history in the call; it goes nowhere else.
mine = pa.table(
    {
        "user_id": ["me"] * 3,
        "item_id": ["alien-1979", "up-2009", "the-matrix-1999"],
        "rating": [5, 2, 4],
    }
)
for row in model.recommend(mine, n=5).to_pylist():
    print(row["rank"], films.catalogue.title_of(row["item_id"]), f"{row['score']:.2f}")
