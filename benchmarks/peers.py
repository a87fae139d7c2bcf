"""Speed beside other recommenders: import, fit, predict, lists of ten, memory; ratios in one run.

    python benchmarks/peers.py [DATA]                         films where none is named
    python benchmarks/peers.py ml-100k --with ../env/bin/python

Each peer runs in a process of its own, so that import and memory are its own; the same ratings and
one thread for all. `implicit` is here wherever the tests are; LensKit and Surprise pull much with
them and belong into environments of their own, whose interpreters `--with` names. A line is one
peer: processor seconds (the best of three), megabytes at the peak, and how many times ours that is.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from epicrec.data import load_dataset

ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
TIMED = """
import json, sys, time
began = time.process_time()
{imports}
found = {{"import": time.process_time() - began}}
import numpy as np
users, items, values = (np.load(sys.argv[1])[name] for name in ("users", "items", "values"))
def best(work):
    work()
    times = []
    for _ in range(3):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)
{work}
status = open("/proc/self/status").read()  # of this program alone, not of who started it
found["megabytes"] = int(status.split("VmHWM:")[1].split()[0]) / 1024
print(json.dumps(found))
"""
PEERS = {
    "epicrec, svd for histories": (
        "from epicrec.data import Ratings\nfrom epicrec.models.factors import SVD",
        "table = Ratings.from_columns(users, items, values)\n"
        "fit = lambda: SVD(feedback='implicit').fit(table)\nfound['fit'] = best(fit)\n"
        "model = fit()\nfound['lists'] = best(lambda: model.recommend(table, n=10))",
    ),
    "implicit, als": (
        "from implicit.als import AlternatingLeastSquares",
        "from scipy.sparse import csr_matrix\nfrom threadpoolctl import threadpool_limits\n"
        "threadpool_limits(1, 'blas')\n"
        "table = csr_matrix((np.ones(len(users), np.float32), (users, items)))\n"
        "def fit():\n"
        "    model = AlternatingLeastSquares(factors=64, use_gpu=False, random_state=0)\n"
        "    model.fit(table, show_progress=False)\n    return model\n"
        "found['fit'] = best(fit)\nmodel = fit()\n"
        "everyone = np.arange(table.shape[0])\n"
        "found['lists'] = best(lambda: model.recommend(everyone, table, N=10))",
    ),
    "epicrec, svd for ratings": (
        "from epicrec.data import Ratings\nfrom epicrec.models.factors import SVD",
        "table = Ratings.from_columns(users, items, values)\n"
        "fit = lambda: SVD().fit(table)\nfound['fit'] = best(fit)\n"
        "model = fit()\nfound['predict'] = best(lambda: model.predict(table))",
    ),
    "surprise, SVD": (
        "import surprise",
        "import pandas as pd\n"
        "frame = pd.DataFrame({'u': users, 'i': items, 'r': values})\n"
        "reader = surprise.Reader(rating_scale=(values.min(), values.max()))\n"
        "table = surprise.Dataset.load_from_df(frame, reader).build_full_trainset()\n"
        "fit = lambda: surprise.SVD(random_state=0).fit(table)\nfound['fit'] = best(fit)\n"
        "model = fit()\nasked = table.build_testset()\n"
        "found['predict'] = best(lambda: model.test(asked))",
    ),
    "lenskit, biased MF": (
        "import lenskit.als\nfrom lenskit.data import from_interactions_df",
        "import pandas as pd\nfrom lenskit.batch import predict\n"
        "from lenskit.pipeline import predict_pipeline\n"
        "frame = pd.DataFrame({'user_id': users, 'item_id': items, 'rating': values})\n"
        "table = from_interactions_df(frame)\n"
        "def fit():\n    pipe = predict_pipeline(lenskit.als.BiasedMFScorer(features=50))\n"
        "    pipe.train(table)\n    return pipe\n"
        "found['fit'] = best(fit)\nmodel = fit()\n"
        "found['predict'] = best(lambda: predict(model, frame, n_jobs=1))",
    ),
}  # fmt: skip


def measured(peer: str, python: str, table: Path) -> dict[str, Any] | None:
    """What a peer took, or None where this interpreter does not have it."""
    imports, work = PEERS[peer]
    script = TIMED.format(imports=imports, work=work)
    done = subprocess.run(
        [python, "-W", "ignore", "-c", script, str(table)], capture_output=True, text=True,
        env=os.environ | dict.fromkeys(ONE_THREAD, "1"),
    )  # fmt: skip
    if "ModuleNotFoundError" in done.stderr:
        return None
    if done.returncode:
        raise SystemExit(f"{peer} failed:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", nargs="?", default="films")
    parser.add_argument("--with", dest="others", action="append", default=[])
    asked = parser.parse_args()
    ratings = load_dataset(asked.data).ratings
    ours: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "ratings.npz"
        np.savez(table, users=ratings.users, items=ratings.items, values=ratings.values)
        for peer in PEERS:
            tries = (measured(peer, python, table) for python in (sys.executable, *asked.others))
            found = next((one for one in tries if one is not None), None)
            if found is None:
                print(json.dumps({"peer": peer, "missing": "name its interpreter: --with PYTHON"}))
                continue
            if peer.startswith("epicrec"):
                ours = found
            ratio = {f"{name}, of ours": round(found[name] / ours[name], 2) for name in found}
            plain = {name: round(value, 4) for name, value in found.items()}
            line = {"peer": peer, "data": asked.data, **plain}
            print(json.dumps(line if found is ours else line | ratio), flush=True)


if __name__ == "__main__":
    main()
