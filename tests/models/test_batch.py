"""Lists and scores for everybody: what `recommend` and `predict` say, in files, block by block."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
import pytest

from epicrec.cli import main
from epicrec.data import Ratings
from epicrec.data.formats import Source
from epicrec.errors import InputError
from epicrec.models import base, make_model
from epicrec.models.batch import write_lists, write_scores


@pytest.fixture(scope="module")
def model(viewers: Ratings):
    return make_model("svd", task="ratings").fit(viewers)


@pytest.fixture
def saved(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model.save("model.npz")
    return "model.npz"


def run(capsys, *line: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(line)
    said = capsys.readouterr()
    return stop.value.code or 0, said.out, said.err


def same(one: pa.Table, other: pa.Table) -> bool:
    """The same rows; scores up to the order in which BLAS sums a block of another size."""
    scores = (table["score"].to_numpy() for table in (one, other))
    return one.drop(["score"]).equals(other.drop(["score"])) and np.allclose(*scores, rtol=1e-6)


def test_lists_of_all_are_those_of_each(tmp_path, model, viewers: Ratings, monkeypatch) -> None:
    whole = model.recommend(viewers, n=3)
    monkeypatch.setattr(base, "_SCORES_AT_ONCE", 7 * viewers.n_items)
    assert write_lists(tmp_path / "lists.parquet", model, viewers, n=3) == len(whole)
    assert same(pa_parquet.read_table(tmp_path / "lists.parquet"), whole)
    write_lists(tmp_path / "lists.csv", model, viewers, n=3)
    assert pa_csv.read_csv(tmp_path / "lists.csv").num_rows == len(whole)
    assert same(model.recommend(viewers, n=3), whole)


def test_lists_from_the_disk_hold_no_history_in_memory(tmp_path, model, viewers: Ratings) -> None:
    viewers.save(tmp_path / "mapped")
    mapped = Ratings.open(tmp_path / "mapped")
    blocks = [*model.lists(mapped, n=3)]
    assert pa.concat_tables(blocks).combine_chunks().equals(model.recommend(viewers, n=3))
    assert isinstance(mapped.items, np.memmap)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_scores_keep_the_order_of_the_pairs(tmp_path, model, viewers: Ratings, suffix) -> None:
    pairs = viewers.to_table().select(["user_id", "item_id"]).take([70, 3, 3, 900, 4])
    at = tmp_path / f"pairs.{suffix}"
    (pa_parquet.write_table if suffix == "parquet" else pa_csv.write_csv)(pairs, at)
    rows, unknown = write_scores(tmp_path / "scores.parquet", model, Source(at), viewers)
    assert (rows, unknown) == (5, 0)
    assert pa_parquet.read_table(tmp_path / "scores.parquet").equals(model.predict(pairs))


def test_commands_write_what_they_say(capsys, saved, viewers: Ratings, tmp_path) -> None:
    code, said, _ = run(
        capsys, "recommend", saved, "--all", "--output", "lists.parquet", "-n", "2", "--json"
    )
    lists = pa_parquet.read_table("lists.parquet")
    assert (code, json.loads(said)["rows"]) == (0, len(lists))
    assert lists.column_names == ["user_id", "item_id", "score", "rank"]
    assert json.loads(said)["users"] == viewers.n_users
    user, known = viewers.user_ids[3], viewers.item_ids[0]
    (tmp_path / "pairs.csv").write_text(f"user_id,item_id\n{user},{known}\n{user},unheard-of\n")
    code, said, err = run(capsys, "predict", saved, "pairs.csv", "--output", "scores.csv", "--json")
    assert (code, json.loads(said)["unknown_items"]) == (0, 1)
    assert "does not know the items of 1 pair" in err
    scores = pa_csv.read_csv("scores.csv")["score"].to_pylist()
    assert viewers.scale.low <= scores[0] <= viewers.scale.high
    assert scores[1] is None, "NaN"


def test_a_private_model_asks_whose_histories(capsys, tmp_path, monkeypatch, films) -> None:
    from epicrec.data import load_dataset

    monkeypatch.chdir(tmp_path)
    make_model("private-bias").fit(load_dataset("films").ratings, films).save("m.npz")
    line = ["recommend", "m.npz", "--all", "--output", "lists.csv", "-n", "1"]
    code, _, err = run(capsys, *line)
    assert code == 2
    assert "private-bias keeps nobody's history in its file" in " ".join(err.split())
    code, said, _ = run(capsys, *line, "--data", "films")
    assert (code, "wrote 600 rows to lists.csv" in said, "ε = 1" in said) == (0, True, True)


MISTAKES = {
    "recommend model.npz": "give --history FILE",
    "recommend model.npz --all --history h.csv": "give --history FILE",
    "recommend model.npz --all": "name the file to write: --output lists.parquet",
    "recommend model.npz --history h.csv --output l.csv": "go with --all",
    "recommend absent.npz --all --output lists.txt": "name a .parquet or a .csv file",
    "recommend absent.npz --all --output no/lists.csv": "there is no folder no",
    "recommend model.npz --all --output l.csv --category Nothing": "no category 'Nothing'",
    "recommend model.npz --all --output l.csv -n 0": "n must be a whole number of at least 1",
    "predict absent.npz pairs.csv --output no/s.csv": "there is no folder no",
    "predict model.npz absent.csv --output s.csv": "absent.csv",
    "predict model.npz strangers.csv --output s.csv": "user nobody is unknown",
    "predict model.npz holes.csv --output s.csv": "line 3 of holes.csv: item_id is missing",
    "predict model.npz odd.csv --output s.csv": "no column 'user_id'",
    "predict model.npz none.csv --output s.csv": "there are no rows",
}


@pytest.mark.parametrize("line", MISTAKES)
@pytest.mark.usefixtures("saved")
def test_mistakes_leave_no_file(capsys, tmp_path, viewers: Ratings, line) -> None:
    user, item = viewers.user_ids[0], viewers.item_ids[0]
    for name, text in {
        "pairs": f"user_id,item_id\n{user},{item}\n",
        "strangers": f"user_id,item_id\nnobody,{item}\n",
        "holes": f"user_id,item_id\n{user},{item}\n{user},\n",
        "odd": "a,b\n1,2\n",
        "none": "user_id,item_id\n",
        "h": f"item_id\n{item}\n",
    }.items():
        (tmp_path / f"{name}.csv").write_text(text)
    code, out, err = run(capsys, *line.split())
    assert (code, out) == (2, "")
    assert MISTAKES[line] in " ".join(err.split())
    assert not [path for path in tmp_path.iterdir() if path.name[:2] in ("l.", "s.", ".l", ".s")]


def test_a_table_without_rows_is_refused(tmp_path, model, viewers: Ratings) -> None:
    with pytest.raises(InputError, match="nobody is asked for"):
        write_lists(tmp_path / "lists.csv", model, viewers.between(0, 0))
    assert not (tmp_path / "lists.csv").exists()
