"""The command line as a person or a script uses it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from epicrec.cli import main


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
    code, out, _ = run(capsys, "audit", "dpi-avg", "--runs", "4000", "--json")
    found = json.loads(out)
    assert found["holds"] == (found["lower_bound"] <= 1) == (code == 0)
    assert found["lower_bound"] < 1.2
    code, out, _ = run(capsys, "audit", "dpm-pcc", "--json")
    assert code == 1
    assert json.loads(out)["lower_bound"] > 1


def test_demo_ends_with_recommendations(capsys) -> None:
    code, out, _ = run(capsys, "demo", "--once")
    assert code == 0
    assert "Recommended" in out
    assert "Guarantee to the viewer: ε = " in out


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
        (["audit", "nothing"], "no audit of 'nothing'"),
        (["recommend", "absent.npz", "--history", "absent.csv"], "absent.npz"),
        (["data", "simulate", "somewhere", "--users", "0"], "users"),
    ],
)
def test_bad_input_exits_2_with_a_message_and_nothing_on_stdout(capsys, arguments, message) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())
    assert "Traceback" not in err


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
