"""What commands and trainings import, for the processes they are forks of."""

import gc
from importlib import import_module

import numba

for name in (
    "pandas", "scipy.linalg", "scipy.sparse.linalg", "epicrec.cli", "epicrec.client.device",
    "epicrec.evaluate.protocols", "epicrec.models.private.covariance", "epicrec.models.factors",
    "epicrec.models.neighbours.items", "epicrec.perturb.d2p.mechanism",
    "epicrec.perturb.epicrec.mechanism", "epicrec.server.api.app", "epicrec.server.main",
    "epicrec.server.training.fit", "epicrec.server.training.publish",
):  # fmt: skip
    import_module(name)
numba.njit(lambda: 0)()  # at its first use it reads its registries
gc.freeze()  # or each fork looks through all of it as it ends
