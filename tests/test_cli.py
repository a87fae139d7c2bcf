"""The command line as a person or a script uses it."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from epicrec.cli import main
from epicrec.data import Dataset, Scale, find, load_dataset, split_per_user
from epicrec.data.datasets import write_dataset
from epicrec.evaluate import list_metrics
from epicrec.models import load


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    captured = capsys.readouterr()
    return stop.value.code or 0, captured.out, captured.err


def run_json(capsys, *arguments: str) -> dict:
    code, out, _ = run(capsys, *arguments, "--json")
    assert code == 0
    return json.loads(out)


def test_version_and_help(capsys) -> None:
    assert run(capsys, "--version")[1].startswith("epicrec ")
    code, out, _ = run(capsys, "--help")
    assert code == 0
    for command in ("data", "demo", "evaluate", "fit", "methods", "recommend"):
        assert command in out


def test_data_commands(capsys, tmp_path) -> None:
    assert "films" in [row["name"] for row in run_json(capsys, "data", "list")["datasets"]]
    assert run_json(capsys, "data", "describe", "films")["users"] == 600
    made = tmp_path / "made"
    wrote = run_json(capsys, "data", "simulate", str(made), "--users", "50", "--seed", "3")
    assert wrote["users"] == 50
    mapped = tmp_path / "mapped"
    run_json(capsys, "data", "convert", str(made), str(mapped), "--mapped")
    one, two = (run_json(capsys, "data", "describe", str(at)) for at in (made, mapped))
    one.pop("name"), two.pop("name")
    assert one == two
    assert one["ratings"] == wrote["ratings"]


def test_plain_output_names_the_guarantee(capsys) -> None:
    code, out, _ = run(capsys, "evaluate", "bias")
    assert code == 0
    assert "rmse" in out
    assert "Guarantee: No privacy guarantee" in out


def test_evaluate_json(capsys) -> None:
    result = run_json(
        capsys, "evaluate", "item-knn", "--protocol", "topn", "-n", "5", "--set", "kept=7"
    )
    assert result["settings"]["kept"] == 7
    assert 0 < result["metrics"]["ndcg"] < 1
    assert result["peak_rss_mb"] > 0


def test_one_set_takes_several_settings(capsys) -> None:
    result = run_json(
        capsys, "evaluate", "d2p-svd", "--protocol", "topn",
        "--set", "p=0.7", "p_star=0.03", "lam=6.5", "--set", "factors=4", "--seed", "3",
    )  # fmt: skip
    settings = result["settings"]
    assert [settings[name] for name in ("p", "p_star", "lam", "factors")] == [0.7, 0.03, 6.5, 4]
    assert settings["seed"] == 3


@pytest.mark.parametrize(
    ("method", "options", "says"),
    [
        ("covariance-svd", ["--engine", "spark"], "--master"),
        ("covariance-svd", ["--master", "local[2]"], "--engine spark"),
        ("covariance-svd", ["--engine", "abacus"], "local or spark"),
        ("bias", ["--checkpoint", "kept"], "does not learn from sums"),
    ],
)
def test_engines_and_checkpoints_that_cannot_be(
    capsys, tmp_path, monkeypatch, method, options, says
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = run(capsys, "fit", method, "model.npz", *options)
    assert code == 2
    assert says in err
    assert not (tmp_path / "model.npz").exists()


def test_a_checkpoint_changes_nothing_and_goes(capsys, tmp_path) -> None:
    fit = ["fit", "covariance-svd", "--epsilon", "1", "--set", "seed=3"]
    for name, more in (("plain", []), ("kept", ["--checkpoint", str(tmp_path / "kept")])):
        run_json(capsys, *fit, str(tmp_path / f"{name}.npz"), *more)
    assert (tmp_path / "plain.npz").read_bytes() == (tmp_path / "kept.npz").read_bytes()
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["lock"]


def test_fit_then_recommend(capsys, tmp_path, films) -> None:
    model, history = tmp_path / "model.npz", tmp_path / "history.csv"
    run_json(capsys, "fit", "item-knn", str(model))
    seen = films.item_ids[:5].tolist()
    history.write_text("item_id,rating\n" + "".join(f"{i},{4}\n" for i in seen))
    rows = run_json(capsys, "recommend", str(model), "--history", str(history), "-n", "4")["items"]
    assert [row["rank"] for row in rows] == [1, 2, 3, 4]
    assert not {row["item_id"] for row in rows} & set(seen)
    assert all(row["title"] for row in rows)
    western = run_json(
        capsys, "recommend", str(model), "--history", str(history), "--category", "Western"
    )["items"]
    at = films.positions([row["item_id"] for row in western])
    assert all("Western" in films.categories_of(int(i)) for i in at)


@pytest.fixture
def history(tmp_path):
    path = tmp_path / "history.csv"
    path.write_text("item_id\nalien-1979\nup-2009\nheat-1995\n")
    return str(path)


@pytest.mark.parametrize(("epsilon", "popular"), [("0.05", True), ("5", False)])
def test_fit_evaluate_and_recommend_say_in_one_line_what_was_released(
    capsys, tmp_path, history, epsilon, popular
) -> None:
    """And that lists are popularity, where people and ε do not pay for more."""
    model = str(tmp_path / "model.npz")
    private = ["--task", "lists", "--unit", "user", "--epsilon", epsilon, "--delta", "1e-5"]
    for command in (
        ["fit", "covariance-svd", model, *private, "--set", "seed=1"],
        ["evaluate", "covariance-svd", "--protocol", "topn", *private, "--seed", "1"],
        ["recommend", model, "--history", history],
    ):
        code, out, _ = run(capsys, *command)
        assert code == 0
        (line,) = (x for x in out.splitlines() if "these shares of the budget" in x)
        assert line.startswith("Released with these shares of the budget: counts of items (")
        assert ("these lists are popularity: about " in line) == popular
        assert ("how tastes go together" in line) == (not popular)


def test_perturb(capsys, history) -> None:
    result = run_json(capsys, "perturb", "s-epicrec", "--history", history, "--epsilon", "0.5")
    assert result["guarantee"]["epsilon"] == 0.5
    assert set(result) >= {"items", "guarantee", "aggregates", "scales", "seconds"}
    assert len(result["aggregates"]) == 18
    again = run_json(capsys, "perturb", "s-epicrec", "--history", history, "--epsilon", "0.5")
    assert again["aggregates"] != result["aggregates"], "a real release is never repeatable"


def test_perturb_by_category(capsys, history, tmp_path) -> None:
    levels = tmp_path / "levels.toml"
    levels.write_text('Horror = "no release"\n"Science Fiction" = "no release"\n')
    result = run_json(
        capsys,
        "perturb",
        "m-epicrec",
        "--history",
        history,
        "--level",
        "all",
        "--levels",
        str(levels),
    )
    assert result["items"] == ["heat-1995", "up-2009"]
    levels.write_text('Opera = "no release"\n')
    code, _, err = run(
        capsys, "perturb", "m-epicrec", "--history", history, "--levels", str(levels)
    )
    assert code == 2
    assert "Opera" in err


def test_perturb_through_a_ledger(capsys, history, tmp_path) -> None:
    arguments = ["perturb", "s-epicrec", "--history", history, "--epsilon", "0.6"]
    arguments += ["--ledger", str(tmp_path / "ledger.jsonl")]
    run_json(capsys, *arguments)
    code, out, err = run(capsys, *arguments, "--json")
    assert (code, out) == (1, "")
    assert "limit" in err


def test_audit_exits_1_where_the_claim_is_broken(capsys) -> None:
    code, out, _ = run(capsys, "audit", "dpi-avg", "--runs", "8000", "--json")
    found = json.loads(out)
    assert found["holds"] == (found["lower_bound"] <= 1) == (code == 0)
    assert found["lower_bound"] < 1.2
    code, out, _ = run(capsys, "audit", "dpm-pcc", "--runs", "800", "--json")
    assert code == 1
    assert json.loads(out)["lower_bound"] > 1


def test_demo_ends_with_recommendations(capsys, monkeypatch) -> None:
    """With fewer devices than it has for people."""
    monkeypatch.setattr("epicrec.demo.walkthrough.IN_PROCESS", 1500)
    monkeypatch.setattr("epicrec.demo.walkthrough.OVER_HTTPS", 2)
    code, out, _ = run(capsys, "demo", "--once")
    assert code == 0
    said = " ".join(out.split())
    answered = r"one answer was sent for each of (\d+) titles.* (\d+) films reported, (\d+) denied"
    (found,) = re.findall(answered, said)
    titles, reported, denied = map(int, found)
    assert reported + denied == 24 < titles, "of each film of the example one thing is said"
    assert "Guarantee to the viewer: ε = 1 " in said
    assert "this device and 1,502 others trained a common model" in said
    assert "from the true history and the common model" in said
    assert "the guarantee is void here" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "nothing"], "no method 'nothing'"),
        (["evaluate", "bias", "--data", "nowhere"], "no data set 'nowhere'"),
        (["evaluate", "bias", "--scale", "x"], "low:high:step"),
        (["evaluate", "bias", "--set", "x"], "key=value"),
        (["evaluate", "svd", "--epsilon", "0"], "epsilon"),
        (["evaluate", "svd", "--epsilon", "1", "--delta", "1"], "delta"),
        (["evaluate", "s-epicrec", "--protocol", "rating"], "aggregates"),
        (["evaluate", "bias", "--protocol", "aggregates"], "s-epicrec"),
        (["perturb", "nothing", "--history", "absent.csv"], "no method 'nothing'"),
        (["reproduce", "nothing"], "no paper 'nothing'"),
        (["audit", "nothing"], "no method 'nothing' to audit"),
        (["audit"], "name one method"),
        (["audit", "d2p", "--all"], "name one method"),
        (["audit", "d2p", "--set", "k=3"], "takes no settings"),
        (["recommend", "absent.npz", "--history", "absent.csv"], "absent.npz"),
        (["data", "simulate", "somewhere", "--users", "0"], "users"),
    ],
)
def test_bad_input_exits_2_with_a_message_and_nothing_on_stdout(capsys, arguments, message) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())
    assert "Traceback" not in err


def test_what_fails_without_a_mistake_exits_1(capsys, monkeypatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("epicrec.data.describe", full)
    code, out, err = run(capsys, "data", "describe", "films")
    assert (code, out) == (1, "")
    assert "No space left on device" in err


def test_unknown_option_exits_2(capsys) -> None:
    assert run(capsys, "evaluate", "bias", "--nonsense")[0] == 2


def test_runs_as_a_program() -> None:
    program = Path(sys.executable).parent / "epicrec"
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("epicrec ")


def test_completes_in_the_shell() -> None:
    program = Path(sys.executable).parent / "epicrec"
    asked = {"_EPICREC_COMPLETE": "complete_bash", "COMP_WORDS": "epicrec eva", "COMP_CWORD": "1"}
    done = subprocess.run([program], capture_output=True, text=True, env=os.environ | asked)
    assert done.stdout.split() == ["evaluate"]


def test_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "epicrec", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("epicrec ")


def test_methods_lists_models_and_perturbers(capsys) -> None:
    rows = run_json(capsys, "methods")["methods"]
    by_name = {(row["kind"], row["method"]): row for row in rows}
    assert len(by_name) == len(rows)
    svd = by_name["model", "svd"]
    assert (svd["status"], svd["unit"], svd["with --epsilon"]) == ("none", "", "covariance-svd")
    assert by_name["model", "covariance-svd"]["unit"] == "rating or user"
    assert by_name["model", "dpm-pcc"]["status"] == "claimed"
    assert by_name["perturber", "s-epicrec"]["status"] == "proved"
    assert by_name["perturber", "dpi"]["task"] == "ratings"
    assert {row["package"] for row in rows} == {""}


def test_ratings_are_perturbed_on_their_public_scale(capsys, tmp_path) -> None:
    history = tmp_path / "history.csv"
    history.write_text("item_id,rating\n1,5\n2,3\n")
    line = ["perturb", "dpi", "--history", str(history), "--epsilon", "1", "--scale", "1:5:1"]
    sent = run_json(capsys, *line)
    assert sent["items"] == [1, 2]
    assert all(1 <= rating <= 5 for rating in sent["ratings"])


def test_results_name_what_ran(capsys, tmp_path) -> None:
    made = str(tmp_path / "made")
    run_json(capsys, "data", "simulate", made, "--users", "40")
    result = run_json(capsys, "evaluate", "svd", "--epsilon", "1", "--data", made)
    assert (result["method"], result["asked"]) == ("covariance-svd", "svd")
    result = run_json(capsys, "evaluate", "bias", "--data", made)
    assert (result["method"], result["asked"]) == ("bias", "bias")
    model = str(tmp_path / "model.npz")
    result = run_json(capsys, "fit", "svd", model, "--epsilon", "1", "--data", made)
    assert (result["method"], result["asked"]) == ("covariance-svd", "svd")


def test_a_private_fit_does_not_guess_the_items_or_the_scale(capsys, tmp_path, monkeypatch) -> None:
    """It says what to type before it reads any rating; what it says then works."""
    monkeypatch.chdir(tmp_path)
    Path("secret.csv").write_text("user_id,item_id,rating\n1,rated-once,77\n1,a,4.5\n2,a,5\n")
    Path("items.csv").write_text("item_id\na\nb\n")
    line = ["fit", "avg", "model.npz", "--data", "secret.csv", "--epsilon", "1"]
    code, _, err = run(capsys, *line)
    assert code == 2
    told = " ".join(err.split())
    command = shlex.join(["epicrec", *line, "--items", "items.csv", "--scale", "0.5:5:0.5"])
    assert command in told
    for value in ("77", "4.5", "rated-once"):
        assert value not in told
    assert not Path("model.npz").exists()
    code, _, err = run(capsys, *shlex.split(command)[1:])
    assert code == 0
    assert "left out: 1 ratings" in err
    assert "guessed" not in err
    assert load("model.npz").item_ids_.tolist() == ["a", "b"]
    assert load("model.npz").scale_ == Scale(0.5, 5, 0.5)


def test_a_private_fit_of_histories_needs_no_scale(capsys, tmp_path, monkeypatch) -> None:
    """And does not look at the ratings for one: these fit none."""
    monkeypatch.chdir(tmp_path)
    Path("odd.csv").write_text("user_id,item_id,rating\n1,a,77\n1,b,0.1\n2,a,3\n")
    Path("items.csv").write_text("item_id\na\nb\n")
    line = ["fit", "svd", "m.npz", "--data", "odd.csv", "--epsilon", "1", "--task", "lists"]
    code, _, err = run(capsys, *line)
    assert code == 2
    assert shlex.join([*line, "--items", "items.csv"]) in " ".join(err.split())
    assert "--scale" not in err
    assert run(capsys, *line, "--items", "items.csv")[0] == 0
    assert (load("m.npz").item_ids_.tolist(), load("m.npz").scale_) == (["a", "b"], None)


def test_a_folder_that_says_its_items_and_scale_is_fitted_as_it_is(capsys, tmp_path) -> None:
    run_json(capsys, "data", "simulate", str(tmp_path / "made"), "--users", "50")
    run_json(
        capsys, "data", "convert", str(tmp_path / "made"), str(tmp_path / "mapped"), "--mapped"
    )
    for folder in ("made", "mapped"):
        model = str(tmp_path / f"{folder}.npz")
        code, out, err = run(
            capsys, "fit", "svd", model, "--data", str(tmp_path / folder), "--epsilon", "1"
        )
        assert (code, "ε = 1" in out, err.strip()) == (0, True, "")
        loaded = load(model)
        assert (loaded.task, len(loaded.item_ids_)) == ("lists", 536)


def test_what_is_guessed_without_privacy_is_said(capsys, tmp_path) -> None:
    (tmp_path / "r.csv").write_text("user_id,item_id,rating\n1,a,4.5\n1,b,3\n2,a,5\n2,b,1\n")
    data = ["--data", str(tmp_path / "r.csv")]
    guesses = "guessed from the ratings: the 2 items (give --items), the scale 0.5 to 5"
    for line in (["fit", "bias", str(tmp_path / "m.npz")], ["evaluate", "avg", "--epsilon", "1"]):
        code, _, err = run(capsys, *line, *data)
        assert code == 0
        assert guesses in err
    (tmp_path / "i.csv").write_text("item_id\na\nb\n")
    public = ["--items", str(tmp_path / "i.csv"), "--scale", "0.5:5:0.5"]
    assert "guessed" not in run(capsys, "evaluate", "avg", *data, *public)[2]


MISTAKES = {
    'evaluate item-knn --set k="a"': "k of item-knn is a whole number, not 'a'",
    "evaluate bias --set damping=abc": "damping of bias is a number, not 'abc'",
    "evaluate bias --set depth=3": "no setting 'depth'",
    "evaluate bias --set damping=NaN": "NaN",
    "evaluate bias --protocol topn --relevant-from 99": "no held-out rating is 99 or more",
    "evaluate bias --protocol topn -n 0": "n of the protocol 'topn' must be at least 1",
    "evaluate bias --seed -1": "seed of the protocol 'rating' must be",
    "evaluate bias --max-users 0 --protocol topn": "max_users",
    "evaluate svd --epsilon nan": "NaN",
    "evaluate svd --epsilon 1 --delta 2": "delta of",
    "evaluate bias --scale 0:100:1": "the scale of films is known: 1 to 5",
    "evaluate s-epicrec --protocol aggregates --set depth=3": "no setting 'depth'",
    "fit bias /dev/full": "not a plain file",
    "fit bias no/such/model.npz": "there is no folder no/such",
    "fit bias .": "is a folder",
    "reproduce yang --out file": "cannot be a folder",
    "perturb s-epicrec --history history.csv --ledger no/ledger": "there is no folder no",
    "perturb s-epicrec --history history.csv --set p=0": "no setting 'p'",
    "perturb s-epicrec --history history.csv --epsilon nan": "NaN",
    "perturb dpi --history history.csv --epsilon 1": "dpi needs scale",
    "perturb s-epicrec --history history.csv --seed -1": "Invalid value for '--seed'",
    "data convert films file": "cannot be a folder, because file is a file",
    "data simulate file": "cannot be a folder",
    "data simulate made --seed -1": "Invalid value for '--seed'",
    "data describe odd.csv": "such as Scale(0, 100, 1) or --scale 0:100:1",
    "recommend cut.npz --history history.csv": "cut.npz is not a saved epicrec model",
    "audit s-epicrec --epsilon nan": "NaN",
    "audit s-epicrec --runs 0": "runs",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_mistakes_are_answered_with_a_remedy(capsys, tmp_path, monkeypatch, line) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("something")
    Path("history.csv").write_text("item_id\n1\n2\n")
    Path("odd.csv").write_text("user_id,item_id,rating\n1,1,77\n")
    Path("cut.npz").write_bytes(b"PK\x03\x04 and no more")
    code, out, err = run(capsys, *shlex.split(line))
    assert code == 2
    assert out == ""
    assert MISTAKES[line] in " ".join(err.split())
    assert "Traceback" not in err
    assert Path("file").read_text() == "something"


def test_what_is_measured_is_what_is_written(capsys, tmp_path, monkeypatch) -> None:
    """The README's commands on a table of one's own: `evaluate` has the nDCG of the lists that
    `fit` and `recommend` write for the same part held out."""
    monkeypatch.chdir(tmp_path)
    films = load_dataset("films")
    user, item, rating, _ = films.ratings.to_table().columns
    own = pa.table({"Kunde": user, "Film": item, "Sterne": rating})
    pa_csv.write_csv(own, "export.csv", pa_csv.WriteOptions(delimiter=";"))
    pa_csv.write_csv(films.catalogue.to_table(), "items.csv")
    convert = ["data", "convert", "export.csv", "shop", "--sep", ";", "--items", "items.csv"]
    names = "user=Kunde,item=Film,rating=Sterne"
    run_json(capsys, *convert, "--columns", names, "--scale", "1:5:1")
    shop = load_dataset("shop")
    train, test = split_per_user(shop.ratings, 0.2, seed=0)
    write_dataset(Dataset("train", train, shop.catalogue), tmp_path / "train")
    private = ["--epsilon", "8", "--unit", "user", "--delta", "1e-5"]
    for options in ([], private, ["--task", "ratings"]):
        protocol = ["--protocol", "topn"] if "ratings" in options else []
        said = run_json(capsys, "evaluate", "svd", "--data", "shop", *options, *protocol)
        seed = ["--set", "seed=0"] if options == private else []
        run_json(capsys, "fit", "svd", "m.npz", "--data", "train", *options, *seed)
        everyone = ["recommend", "m.npz", "--all", "--data", "train", "--output", "lists.parquet"]
        run_json(capsys, *everyone)
        lists = pq.read_table("lists.parquet")
        found = list_metrics(
            test.positions(lists["user_id"].to_numpy()),
            find(test.item_ids, np.asarray(lists["item_id"].to_pylist())),
            lists["rank"].to_numpy(), np.column_stack([test.users, test.items]), 10, test.n_items,
        )  # fmt: skip
        assert found["ndcg"] == pytest.approx(said["metrics"]["ndcg"], abs=1e-9), options
