"""D2P's tables and figures again: the paper's value beside ours, the honest ε beside both.

The protocol as far as the paper can be read (docs/d2p.md says where it cannot): 80 % of the trace
to learn from, 20 % held out; a list of N unseen items for every user with something held out;
precision, recall and F1 as means over users. On MovieLens a profile is what was rated, on
Jester, where nearly everything is, what was rated above 0. The asker's own profile is the true
one, as the paper's server has it; "server" rows rank from the asker's AlterEgo instead.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from epicrec.data import EMBEDDED, available, load_dataset
from epicrec.papers.d2p.figures import plot_budgets, plot_density, plot_sweeps
from epicrec.papers.d2p.overhead import overhead
from epicrec.papers.d2p.tables import (
    BUDGETS,
    PAPER,
    budget_table,
    coverage_table,
    density_table,
    drop_table,
    epsilon_table,
    sweep_table,
)
from epicrec.papers.d2p.trial import SIZES, jester, trial


def reproduce(folder: str | Path, *, quick: bool = False, seed: int = 0) -> dict[str, Any]:
    """Run the experiments, write `d2p.json` and the plots into `folder`, and return the tables.

    `quick` takes fewer settings and one draw. Where the paper's data is absent the embedded films
    stand in, and the tables say so.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    found = available()
    draws = 1 if quick else 3
    main = load_dataset("ml-100k") if "ml-100k" in found else load_dataset(EMBEDDED)
    datasets = [main]
    if "jester1-part1" in found and not quick:
        datasets.append(jester(load_dataset("jester1-part1"), seed=seed))
    trials = [trial(dataset, seed=seed) for dataset in datasets]
    sweeps = sweep_table(trials, quick=quick, draws=draws)
    budgets = budget_table(trials[0], (3.0,) if quick else BUDGETS, draws=1 if quick else 10)
    density = density_table(main, splits=1 if quick else 10)
    tables: dict[str, Any] = {
        "sweeps": sweeps,
        "drops": drop_table(sweeps),
        "epsilon": epsilon_table(trials),
        "coverage": coverage_table(trials[0], draws=draws),
        "density": density,
        "budgets": budgets,
        "overhead": [overhead(dataset) for dataset in datasets],
    }
    plots = [
        *plot_sweeps(sweeps, folder),
        *plot_budgets(budgets, PAPER["chosen"]["ml-100k"]["f1"] / 100, folder),
        *plot_density(density, SIZES, folder),
    ]
    result = {"paper": "d2p", "tables": tables, "plots": [str(path) for path in plots]}
    (folder / "d2p.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    return result
