"""The utility theorems: false where noise is small, and the repaired bound that holds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from epicrec.cli import main
from epicrec.data import Catalogue, Dataset, Ratings
from epicrec.papers.epicrec.mechanism import PublishedSEpicRec
from epicrec.papers.epicrec.protocol import aggregates
from epicrec.papers.epicrec.utility import utility_bounds
from epicrec.perturb import SEpicRec


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 1000.0])
def test_the_repaired_bound_holds_and_the_theorem_does_not(
    epsilon: float, films: Catalogue, viewers: Ratings
) -> None:
    release = PublishedSEpicRec(films, epsilon=epsilon).release(())
    bounds = utility_bounds(films, release.settings["scales"])
    data = Dataset("films", viewers, films)
    found = aggregates(data, epsilon=epsilon, as_published=True, max_users=40).metrics
    error, unsure = found["category_mae"], found["category_mae_standard_error"]
    assert error + 6 * unsure < bounds.repaired
    assert (error - 6 * unsure > bounds.theorem) == (epsilon == 1000.0)


def test_noisy_totals_are_off_by_the_mean_scale(films: Catalogue) -> None:
    device = SEpicRec(films, epsilon=0.5)
    drawn = [device.release((), seed=seed) for seed in range(400)]
    bounds = utility_bounds(films, drawn[0].settings["scales"])
    off = np.mean([np.abs(list(release.aggregates.values())).mean() for release in drawn])
    assert off == pytest.approx(bounds.noisy, rel=0.1)
    assert utility_bounds(films, {}).repaired == 0.0


def test_the_command_tells_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = tmp_path / "history.csv"
    history.write_text("item_id\nalien-1979\nup-2009\n")
    command = ["perturb", "s-epicrec", "--history", str(history), "--epsilon", "1"]
    with pytest.raises(SystemExit):
        main(command)
    assert "Category totals: the noisy ones are off by" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([*command, "--json"])
    bounds = json.loads(capsys.readouterr().out)["bounds"]
    assert bounds["theorem"] == pytest.approx(2 * bounds["noisy"])
