"""D2P's overhead beside the paper's Table 4 and as a ratio to McSherry-Mironov's preprocessing.

python benchmarks/d2p.py

Processor time on one core, in one run. The paper has 1/26 on MovieLens and 1/4.5 on Jester.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import json

from epicrec.data import available, load_dataset
from epicrec.papers.d2p.overhead import overhead
from epicrec.papers.d2p.protocol import jester

if __name__ == "__main__":
    for name in ("ml-100k", "jester1-part1", "ml-1m"):
        if name in available():
            dataset = load_dataset(name)
            print(
                json.dumps(overhead(jester(dataset) if "jester" in name else dataset)), flush=True
            )
