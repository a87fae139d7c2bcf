"""Streamed ratings: the same columns as of ratings read at once, to the last bit."""

import gzip
import json
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epicrec.data import Ratings, Scale, formats, load_dataset, out_of_core
from epicrec.data.columns import ids_of
from epicrec.data.datasets import convert_dataset
from epicrec.data.formats import Source
from epicrec.data.out_of_core import Vocabulary
from epicrec.errors import InputError
from epicrec.progress import listening

STARS = Scale(1, 5, 1)
KINDS = ["csv", "csv.gz", "csv.zst", "parquet", "parts"]


def write(table: pa.Table, folder, kind: str):
    """The table in a file of this kind, or in a folder of parts."""
    at = folder / f"ratings.{kind}"
    if kind == "parquet":
        pa_parquet.write_table(table, at, row_group_size=7)
    elif kind == "parts":
        at.mkdir()
        (at / "_SUCCESS").touch()
        for part in range(3):
            third = table.slice(part * (len(table) // 3 + 1), len(table) // 3 + 1)
            pa_parquet.write_table(third, at / f"part-{part}.parquet")
    else:
        stream = pa.output_stream(at, compression="detect")
        with stream:
            pa_csv.write_csv(table, stream)
    return at


def columns(folder) -> dict[str, bytes]:
    """What `Ratings.save` and `into_columns` leave in a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


numbers = st.integers(-40, 40) | st.sampled_from([2**62, -(2**62)])
texts = st.text("abzé0,\"' ", min_size=1).filter(lambda text: text.strip())
rows = st.one_of(
    st.lists(st.tuples(user, item, st.integers(1, 5), st.integers(0, 2**40), st.booleans()),
             min_size=1, max_size=60, unique_by=lambda row: row[:2])
    for user in (numbers, texts) for item in (numbers, texts)
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(
    rows=rows,
    kind=st.sampled_from(KINDS),
    chunk=st.integers(1, 80),
    names=st.sampled_from(
        [
            ("user_id", "item_id"),
            ("user_id", "item_id", "rating"),
            ("user_id", "item_id", "rating", "timestamp", "probe"),
        ]
    ),
    listed=st.booleans(),
    scale=st.sampled_from([None, STARS, Scale(1, 4, 1)]),
    by_user=st.booleans(),
)
def test_a_stream_is_the_whole_to_the_last_bit(
    tmp_path_factory, rows, kind, chunk, names, listed, scale, by_user
) -> None:
    folder = tmp_path_factory.mktemp("stream")
    rows = sorted(rows, key=lambda row: row[0]) if by_user else rows
    every = ("user_id", "item_id", "rating", "timestamp", "probe")
    columns_of = dict(zip(every, map(list, zip(*rows, strict=True)), strict=True))
    at = write(pa.table({name: columns_of[name] for name in names}), folder, kind)
    items = None
    if listed:  # some of the items that there are, and some that there are not, in any order
        found = sorted({*columns_of["item_id"]}, reverse=True)
        items = np.array(found[::2] + ([99] if isinstance(found[0], int) else ["never"]))
    scale = scale if "rating" in names else None

    whole = Ratings.from_table(Source(at).table(), scale=scale, leave_out=True)
    whole = whole if items is None else whole.with_items(items)
    (folder / "whole").mkdir()
    whole.save(folder / "whole")

    (folder / "streamed").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "_ROWS", chunk)
        patch.setattr(formats, "BLOCK", 40 + 200 * chunk)
        patch.setattr(out_of_core, "_AT_ONCE", chunk)
        streamed, left_out = out_of_core.into_columns(
            Source(at), folder / "streamed", items=items, scale=scale, rows=chunk
        )
    assert columns(folder / "streamed") == columns(folder / "whole")
    assert len(streamed) + left_out == len(rows)


@pytest.mark.parametrize("kind", KINDS)
def test_order_and_parts_do_not_matter(tmp_path, viewers: Ratings, kind) -> None:
    table = viewers.to_table()
    mixed = table.take(np.random.default_rng(1).permutation(len(table)))
    viewers.with_scale(STARS).save(tmp_path / "whole")
    made = tmp_path / "made"
    made.mkdir()
    dataset = out_of_core.into_columns(
        Source(write(mixed, tmp_path, kind)), made, scale=STARS, rows=999
    )
    assert len(dataset[0]) == len(viewers)
    # a file tells of the items that were rated, not of those that are listed
    back = Ratings.open(made).with_items(viewers.item_ids)
    assert back.to_table().equals(viewers.to_table())


@pytest.mark.parametrize("late", ["x7", "7.5e3"])
def test_ids_are_what_the_whole_column_is(tmp_path, monkeypatch, late) -> None:
    """A late text makes all ids texts, as written; a late float leaves them whole numbers."""
    monkeypatch.setattr(formats, "BLOCK", 64)
    lines = [f"{user:03d},{item},3" for user in range(40) for item in range(3)]
    (tmp_path / "r.csv").write_text("\n".join(["user_id,item_id,rating", *lines, f"{late},1,4"]))
    (tmp_path / "out").mkdir()
    ratings, _ = out_of_core.into_columns(Source(tmp_path / "r.csv"), tmp_path / "out")
    expected = ["000", "x7"] if late == "x7" else [0, 7500]
    assert ratings.user_ids[[0, -1]].tolist() == expected
    assert len(ratings) == 121


def test_columns_and_separators_can_be_said(tmp_path) -> None:
    for sep, said in ((";", ";"), ("\t", "tab"), ("::", "::"), ("\t", "\\t")):
        at = tmp_path / "r.csv"
        at.write_text("noise,u,i,stars,at\n9,1,7,4,5\n".replace(",", sep))
        names = {"user_id": "u", "item_id": "i", "rating": "stars", "timestamp": "at"}
        table = Source(at, columns=names, sep=said).table()
        assert table.to_pylist() == [{"user_id": 1, "item_id": 7, "rating": 4.0, "timestamp": 5}]
    with pytest.raises(InputError, match="no column 'v' for user_id; it has"):
        Source(at, columns={"user_id": "v"}, sep="tab").table()
    with pytest.raises(InputError, match="cannot be separated by 'ab'"):
        Source(at, sep="ab").table()
    # what is said replaces what would have been taken
    at.write_text("user_id,who,item_id\n1,2,3\n")
    assert Source(at, columns={"user_id": "who"}).table()["user_id"].to_pylist() == [2]


def test_ratings_with_a_comma(tmp_path) -> None:
    at = tmp_path / "r.csv"
    head = "user_id;item_id;rating\n1;7;4\n1;8;4,5\n"
    at.write_text(head)
    assert Source(at, sep=";").table()["rating"].to_pylist() == [4.0, 4.5]
    at.write_text(head + "1;9;3.5\n")
    with pytest.raises(InputError, match=r"line 3 of .*: rating is '4,5'; .* in all with a comma"):
        Source(at, sep=";").table()


GOOD = "user_id,item_id,rating,timestamp\n1,2,3,4\n\n1,3,3,4\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + "1,4,good,4\n", "line 5 of .*: rating is 'good'; give a number"),
        (GOOD + "1,4,,4\n", r"line 5 of .*: the rating is missing \(NaN\)"),
        (GOOD + "1,4,inf,4\n", "line 5 of .*: the rating is infinite"),
        (GOOD + "1,4,3\n", "line 5 of .*: 3 columns where the first line has 4"),
        (GOOD + "1,4,3,4,5\n", "line 5 of .*: 5 columns where the first line has 4"),
        (GOOD + ",4,3,4\n", "line 5 of .*: user_id is missing"),
        (GOOD + "1,NA,3,4\n", "line 5 of .*: item_id is missing"),
        (GOOD + "ann,2,3,4\nbob,,3,4\n", "line 6 of .*: item_id is missing"),
        (GOOD + ",2,3,4\nbob,4,3,4\n", "line 5 of .*: user_id is missing"),
        (GOOD + "1.5,4,3,4\n", "line 5 of .*: user_id is 1.5"),
        (GOOD + "1,4,3,soon\n", "line 5 of .*: timestamp is 'soon'; give seconds"),
        (GOOD + "1,4,3,\n", "line 5 of .*: timestamp is missing"),
        (GOOD + "1,4,77,4\n", "line 5 of .*: rating 77 fits no scale"),
        (GOOD + "2,2,3,4\n1,2,3,4\n", "line 6 of .* repeats line 2 of .*: user 1 and item 2"),
        ("u,i\n1,2\n", "no column 'user_id'; found u, i.*--columns"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_bad_rows_are_named_and_nothing_is_written(tmp_path, text, message, packed) -> None:
    at = tmp_path / ("r.csv.gz" if packed else "r.csv")
    at.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    with pytest.raises(InputError, match=f"(?s){message}"):
        convert_dataset(at, tmp_path / "out" / "deep", mapped=True)
    assert not (tmp_path / "out" / "deep").exists()
    with pytest.raises(InputError, match=f"(?s){message}"):
        load_dataset(at)


def test_lines_of_quoted_texts_are_counted(tmp_path) -> None:
    at = tmp_path / "r.csv"
    at.write_text('user_id,why,item_id,rating\n1,"so\n\nand so",2,3\n1,"",3,x\n')
    with pytest.raises(InputError, match=r"line 5 of .*: rating is 'x'"):
        Source(at).table()


@pytest.mark.parametrize("kind", ["csv.gz", "csv.zst", "parquet", "parts"])
def test_what_was_cut_off_is_refused(tmp_path, viewers: Ratings, kind) -> None:
    at = write(viewers.to_table(), tmp_path, kind)
    cut = at / "part-1.parquet" if kind == "parts" else at
    cut.write_bytes(cut.read_bytes()[:-200])
    before = tmp_path / "kept"
    viewers.save(before)
    held = columns(before)
    with pytest.raises(InputError, match=f"cannot read .*{cut.name}"):
        convert_dataset(at, before, mapped=True)
    assert columns(before) == held, "what stood there stands there still"


def test_parts_must_agree(tmp_path) -> None:
    one = {"user_id": [1], "item_id": [2], "rating": [3]}
    for other, message in (
        ({"user_id": ["x"], "item_id": [2], "rating": [3]}, "user_id is a number in one part"),
        ({"user_id": [1], "item_id": [2]}, "part-1.parquet has the columns user_id, item_id"),
        ({"user_id": [None], "item_id": [2], "rating": [3]}, "row 1 of .*part-1.parquet: user_id"),
        (one, "row 1 of .*part-1.parquet repeats row 1 of .*part-0.parquet"),
    ):
        for part, table in enumerate((one, other)):
            pa_parquet.write_table(pa.table(table), tmp_path / f"part-{part}.parquet")
        with pytest.raises(InputError, match=message):
            convert_dataset(tmp_path, tmp_path / "out", mapped=True)
    with pytest.raises(InputError, match="compressed inside"):
        Source((tmp_path / "part-0.parquet").rename(tmp_path / "r.parquet.gz"))


def test_memory_holds_a_block_and_a_bucket_whatever_the_size(tmp_path, monkeypatch) -> None:
    """Four times the rows of the same people and items: the same peak."""
    monkeypatch.setattr(formats, "_ROWS", 1 << 10)
    monkeypatch.setattr(out_of_core, "_AT_ONCE", 1 << 10)
    peaks = []
    for rows in (100_000, 400_000):
        user = np.arange(rows) % 97
        table = pa.table(
            {"user_id": user, "item_id": np.arange(rows) // 97, "rating": user % 5 + 1.0}
        )
        at = tmp_path / "ratings.parquet"
        pa_parquet.write_table(table, at, row_group_size=1 << 12)
        out = tmp_path / f"{rows}"
        out.mkdir()
        out_of_core.into_columns(Source(at), out, rows=1 << 12)  # compiled
        del table
        tracemalloc.start()
        out_of_core.into_columns(Source(at), out, rows=1 << 12)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


@pytest.mark.parametrize("in_order", [False, True])
def test_progress_goes_to_the_end(tmp_path, viewers: Ratings, in_order) -> None:
    """Users in order are not dealt into buckets."""
    table, heard = viewers.to_table(), {}
    at = write(table if in_order else pa.concat_tables([table[1:], table[:1]]), tmp_path, "csv.gz")
    with listening(lambda what, done, total: heard.update({what: (done, total)})):
        convert_dataset(at, tmp_path / "out")
    steps = {"reading ratings", "dealing ratings", "sorting ratings", "writing ratings"}
    assert set(heard) == steps - ({"dealing ratings"} if in_order else set())
    assert all(done == total for done, total in heard.values())


def test_parquet_out_is_what_the_whole_would_be(tmp_path, viewers: Ratings) -> None:
    at = write(viewers.to_table().append_column("other", pa.nulls(len(viewers))), tmp_path, "parts")
    convert_dataset(at, tmp_path / "out", scale=STARS)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "dataset.toml", "ratings.parquet"
    ]  # fmt: skip
    assert (
        load_dataset(tmp_path / "out")
        .ratings.to_table()
        .equals(load_dataset(at).ratings.to_table())
    )


@given(blocks=st.lists(st.lists(numbers | st.integers(-(2**63), 2**63 - 1), max_size=50)))
def test_numbers_keep_their_codes(blocks) -> None:
    vocabulary, plain = Vocabulary("user_id"), {}
    for block in blocks:
        column = ids_of(pa.table({"user_id": pa.array(block, pa.int64())}), "user_id")
        codes = [plain.setdefault(value, len(plain)) for value in block]
        assert vocabulary.codes(column).tolist() == codes
    ids, position = vocabulary.in_order()
    assert ids.tolist() == sorted(plain)
    assert ids[position].tolist() == [*plain]


def test_more_numbers_than_a_table_begins_with() -> None:
    vocabulary = Vocabulary("user_id")
    values = np.random.default_rng(0).permutation(50_000) << 20
    for _ in range(2):
        assert vocabulary.codes(pa.chunked_array([values])).tolist() == [*range(50_000)]
    assert len(vocabulary) == 50_000


def test_a_stream_says_what_was_given(tmp_path, viewers: Ratings) -> None:
    at = write(viewers.to_table(), tmp_path, "parquet")
    convert_dataset(at, tmp_path / "guessed", mapped=True)
    convert_dataset(at, tmp_path / "given", scale=STARS, mapped=True)
    given = [
        json.loads((tmp_path / name / "ratings.json").read_text())["scale_given"]
        for name in ("guessed", "given")
    ]
    assert given == [False, True]
