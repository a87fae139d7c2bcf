"""Where faults are planted, the tests that must notice, and the faults that are named."""

from __future__ import annotations

from dataclasses import dataclass

SOURCES = "src/epicrec"


@dataclass(frozen=True)
class Area:
    places: tuple[str, ...]
    """Files, or functions of them as `file:function`, in which mutmut draws."""
    tests: tuple[str, ...]
    """The quick ones first: the first that fails ends the run."""
    drawn: int = 8


@dataclass(frozen=True)
class Fault:
    name: str
    area: str
    file: str
    old: str
    """Stands exactly once in the file."""
    new: str


AREAS = {
    "matching": Area(
        ("client/matching/matcher.py", "client/matching/titles.py"),
        ("tests/client/test_matching.py",),
    ),
    "ranking": Area(
        ("client/ranking/scores.py", "client/ranking/rows.py"), ("tests/client/test_ranking.py",)
    ),
    "metrics": Area(("evaluate/metrics.py",), ("tests/evaluate/test_metrics.py",)),
    "splits": Area(("data/splits.py",), ("tests/data/test_splits.py",)),
    "public": Area((), ("tests/data/test_public.py", "tests/models/test_public.py"), drawn=0),
    "undo": Area(
        ("client/history.py", "client/imports/review.py"),
        ("tests/client/test_history.py", "tests/client/test_app_imports.py"),
    ),
    "cursors": Area(("server/api/cursors.py",), ("tests/server/test_cursors.py",)),
    "purge": Area(
        ("server/store/users.py:purge", "server/main.py:_purge", "server/service.py:purge"),
        ("tests/server/test_operation.py", "-k", "last_day or purged"),
    ),
    "fold-in": Area((), ("tests/server/test_training.py",), drawn=0),
    "imports": Area(
        tuple(
            f"client/imports/{name}.py"
            for name in (
                "netflix",
                "imdb",
                "letterboxd",
                "trakt",
                "csv_tables",
                "recognise",
                "csv_history",
            )
        ),
        ("tests/client/test_imports.py",),
    ),
    "settings": Area(
        ("server/settings.py",),
        ("tests/server/test_operation.py", "-k", "environment or wrong_settings"),
    ),
    "blocks": Area((), ("tests/models/test_base.py",), drawn=0),
    "covariance": Area(
        (
            "models/private/budget.py",
            "models/private/measurements.py",
            "models/private/statistics.py",
            "models/private/ratings.py",
            "models/private/lists.py",
            "models/private/statistics.py",
            "models/private/tastes.py",
        ),
        (
            "tests/models/covariance/test_release.py",
            "tests/models/covariance/test_sensitivity.py",
            "tests/models/covariance/test_tastes.py",
            "tests/models/covariance/test_histories.py",
            "tests/models/covariance/test_model.py",
            "-k",
            "not TestCovariance",
        ),
    ),
    "private-bias": Area((), ("tests/models/test_private_bias.py",), drawn=0),
    "collective": Area(
        tuple(f"collective/{name}.py" for name in ("shares", "aggregators")),
        (
            *(
                f"tests/collective/test_{name}.py"
                for name in ("shares", "device", "encoding", "plausible", "rounds", "training")
            ),
            "-k",
            "not TestCollective",
        ),
    ),
    "common": Area(
        (), ("tests/server/test_shared_model.py", "tests/client/test_shared_model.py"), drawn=0
    ),
    "noise": Area(
        ("privacy/noise.py", "privacy/_sampler.py"),
        ("tests/privacy/test_noise.py", "tests/privacy/test_sampler.py"),
    ),
    "EpicRec": Area(
        tuple(
            f"perturb/epicrec/{name}.py"
            for name in ("mechanism", "plan", "calibrate", "prior", "quantify", "sanitise")
        ),
        (
            *(
                f"tests/perturb/epicrec/test_{name}.py"
                for name in ("calibrate", "prior", "sanitise", "quantify", "mechanism")
            ),
            "-k",
            "not audit",
        ),
    ),
    "GS": Area(("papers/epicrec/competitors.py",), ("tests/perturb/epicrec/test_gs.py",)),
    "D2P": Area(
        tuple(
            f"perturb/d2p/{name}.py"
            for name in ("mechanism", "law", "choice", "groups", "substitution", "rating_groups")
        ),
        tuple(
            f"tests/perturb/d2p/test_{name}.py"
            for name in (
                "substitution",
                "rating_groups",
                "groups",
                "correction",
                "mechanism",
                "choice",
            )
        ),
    ),
}

_HISTORIES = "models/private/lists.py"
_TASTES = "models/private/tastes.py"
_RATINGS = "models/private/ratings.py"
_LOOKS = "models/private/measurements.py"
_BUDGET = "models/private/budget.py"
_EPICREC = "perturb/epicrec/mechanism.py"
_GS = "papers/epicrec/competitors.py"

NAMED = [
    Fault(
        "year ±2", "matching", "client/matching/matcher.py",
        "abs(self._years[i] - reading.year) <= 1", "abs(self._years[i] - reading.year) <= 2",
    ),
    Fault("fuzzy 80", "matching", "client/matching/matcher.py", "_FUZZY = 92", "_FUZZY = 80"),
    Fault(
        "no preference for the same year", "matching", "client/matching/matcher.py",
        "return same_year or fitting", "return fitting",
    ),
    Fault(
        "candidates least popular first", "matching", "client/matching/matcher.py",
        "key=lambda i: -popularity[i]", "key=lambda i: popularity[i]",
    ),
    Fault(
        "candidates in no order", "matching", "client/matching/matcher.py",
        "fitting.sort(key=lambda i: -popularity[i])", "pass",
    ),
    Fault(
        "episodes are films", "matching", "client/matching/matcher.py",
        "if in_season else found)", "if False else found)",
    ),
    Fault(
        "episodes by season only", "matching", "client/matching/matcher.py",
        'viewing.title.count(":") >= 2', 'viewing.title.count(":") >= 3',
    ),
    Fault(
        "hits beyond n", "metrics", "evaluate/metrics.py", "hit = (ranks <= n) & ", "hit = "
    ),
    Fault(
        "hits at n + 1", "metrics", "evaluate/metrics.py",
        "hit = (ranks <= n) & ", "hit = (ranks <= n + 1) & ",
    ),
    Fault(
        "coverage beyond n", "metrics", "evaluate/metrics.py",
        "np.unique(items[ranks <= n])", "np.unique(items)",
    ),
    Fault(
        "split_last leaves nothing", "splits", "data/splits.py",
        "np.minimum(n, counts - 1)", "np.minimum(n, counts)",
    ),
    Fault(
        "a private fit guesses", "public", "models/base.py",
        "        self._check_public(ratings)\n", "",
    ),
    Fault(
        "a private fit guesses the scale", "public", "models/base.py",
        '"scale": scale or self.feedback == "implicit"', '"scale": True',
    ),
    Fault(
        "items are rated ones, too", "public", "data/datasets.py",
        "ratings = ratings.with_items(known.items)",
        "ratings = ratings.with_items(np.union1d(known.items, ratings.item_ids))",
    ),
    Fault(
        "a guessed scale counts as given", "public", "data/ratings.py",
        "scale_given=scale is not None and not leave_out", "scale_given=found is not None",
    ),
    Fault(
        "an update adds rated items", "public", "models/d2p/alterego_model.py",
        "np.union1d(self.item_ids_, catalogue.item_ids)",
        "np.union1d(self.item_ids_, changed.item_ids)",
    ),
    Fault(
        "fold-in without α for what was seen", "fold-in", "server/serving/trained_lists.py",
        "np.linalg.solve(left, alpha * own.sum(axis=0))", "np.linalg.solve(left, own.sum(axis=0))",
    ),
    Fault(
        "fold-in with α for α - 1", "fold-in", "server/serving/trained_lists.py",
        "(alpha - 1) * own.T @ own", "alpha * own.T @ own",
    ),
    Fault(
        "purge a day early", "purge", "server/store/users.py",
        "users.c.seen_day < today() - days", "users.c.seen_day <= today() - days",
    ),
    Fault(
        "purge a day late", "purge", "server/store/users.py",
        "users.c.seen_day < today() - days", "users.c.seen_day < today() - days - 1",
    ),
    Fault(
        "Netflix hours ×6", "imports", "client/imports/netflix.py",
        "int(parts[0]) * 60", "int(parts[0]) * 6",
    ),
    Fault(
        "undo keeps drafts", "undo", "client/imports/review.py",
        'db.execute("DELETE FROM drafts WHERE batch = ?", (batch,))\n            facts',
        "facts",
    ),
    Fault(
        "oldest viewing date of a draft", "undo", "client/imports/review.py",
        "line[2] = max(filter", "line[2] = min(filter",
    ),
    Fault(
        "oldest viewing date of a film", "undo", "client/history.py",
        "max(watched_at) AS watched_at", "min(watched_at) AS watched_at",
    ),
    Fault(
        '"why" names one film twice', "ranking", "client/ranking/scores.py",
        "part[first, columns] = -np.inf", "pass",
    ),
    Fault("what was rated low speaks", "ranking", "client/ranking/scores.py", "LOW = 3.0", "LOW = 0.0"),
    Fault(
        "a film in two rows", "ranking", "client/ranking/rows.py",
        "self._left = self._left[~self._among(films)[self._left]]", "pass",
    ),
    Fault("_HINT ×10", "ranking", "client/ranking/scores.py", "_HINT = 0.1", "_HINT = 1.0"),
    Fault("_TASTE 0", "ranking", "client/ranking/scores.py", "_TASTE = 1.0", "_TASTE = 0.0"),
    Fault("_GOOD 1", "ranking", "client/ranking/scores.py", "_GOOD = 4.0", "_GOOD = 1.0"),
    Fault(
        "block offset of predictions", "blocks", "models/base.py",
        "[rows[span] - start, items[span]]", "[rows[span], items[span]]",
    ),
    Fault(
        "block offset of lists", "blocks", "models/base.py",
        "block.user_ids[rows]", "histories.user_ids[rows]",
    ),
    Fault(
        "blocks of one user too many", "blocks", "models/base.py",
        "stop = min(start + size, histories.n_users)",
        "stop = min(start + size + 1, histories.n_users)",
    ),
    Fault(
        "shares of ratings add up to 1.15", "covariance", _RATINGS,
        "left.measure(pairs, plan.pairs,", "left.measure(pairs, plan.pairs + plan.items,",
    ),
    Fault(
        "shares of ratings add up to 1.1", "covariance", _RATINGS,
        "rest, units = 1 - FIRST_SHARE, first.users", "rest, units = 1.0, first.users",
    ),
    Fault(
        "shares of histories add up to 1.1", "covariance", _HISTORIES,
        "rest = 1 - look.share - share", "rest = 1 - share",
    ),
    Fault(
        "a second look at tastes with all of the rest", "covariance", _HISTORIES,
        "measured(rest - HALF * rest, turn=3)", "measured(rest, turn=3)",
    ),
    Fault(
        "μ for the share, not its root", "covariance", _BUDGET,
        "mu = gaussian_mu(self.epsilon, self.delta) * sqrt(share)",
        "mu = gaussian_mu(self.epsilon, self.delta) * share**0.25",
    ),
    Fault(
        "sum of squares without noise", "covariance", _RATINGS,
        "columns, ridge = _columns(",
        "packed[-1] = engine(pairs, ratings)[-1]\n    columns, ridge = _columns(",
    ),
    Fault(
        "number of users without noise", "covariance", _LOOKS,
        "star, one, user, mean = statistic.per_unit",
        "raw[2 * n] = engine(statistic, ratings)[2 * n]\n"
        "    star, one, user, mean = statistic.per_unit",
    ),
    Fault(
        "counts of histories without noise", "covariance", _HISTORIES,
        "_, one, user, _ = statistic.per_unit",
        "raw[:n] = engine(statistic, ratings)[:n]\n    _, one, user, _ = statistic.per_unit",
    ),
    Fault(
        "tastes as long as they are", "covariance", _TASTES,
        "lengths = np.maximum(ceil_roots((rows * rows).sum(axis=1)), 1)",
        "lengths = np.maximum(np.abs(rows).max(axis=1, initial=0), 1)",
    ),
    Fault(
        "one item less moves a taste by less than its length", "covariance", _TASTES,
        'Fraction(one) if self.unit == "user" else root(2) * one', "Fraction(one)",
    ),
    Fault(
        "noise of one turn for all", "covariance", _BUDGET,
        'derived(self.seed, "measurement", turn)', "self.seed",
    ),
    Fault(
        "totals of one rating Δ/2", "private-bias", "models/private_bias.py",
        "laplace_scale(statistic.sensitivity, epsilon)",
        "laplace_scale(statistic.sensitivity, 2 * epsilon)",
    ),
    Fault(
        "second total without noise", "private-bias", "models/private_bias.py",
        "return once(lambda: add_discrete_laplace(totals, scale, seed=own))",
        "add_discrete_laplace(totals[0], scale, seed=own)\n    return totals",
    ),
    Fault(
        "fourth category without noise", "EpicRec", _EPICREC,
        "aggregates = dict(zip(names, noisy.tolist(), strict=True))",
        "noisy[3:4] = noised[3:4]\n"
        "            aggregates = dict(zip(names, noisy.tolist(), strict=True))",
    ),
    Fault(
        "one draw of noise for all categories", "EpicRec", _EPICREC,
        "discrete_laplace(len(names), z.tolist(), seed=seed)",
        "discrete_laplace(1, float(z[0]), seed=seed)",
    ),
    Fault(
        "GS noise for sensitivity 1", "GS", _GS,
        "discrete_laplace(len(sums), most / second,", "discrete_laplace(len(sums), 1 / second,",
    ),
    Fault(
        "GS spends its sample's part twice", "GS", _GS,
        "(1 - _SAMPLE_PART) * epsilon", "epsilon",
    ),
    Fault(
        "GS sample without noise", "GS", _GS,
        "guess = sample + discrete_laplace(categories, 1 / first, seed=seed)", "guess = sample",
    ),
    Fault(
        "GS one noise for both parts", "GS", _GS,
        'seed=derived(seed, "group sums")', "seed=seed",
    ),
    Fault(
        "D2P says the published ε", "D2P", "perturb/d2p/tuning.py",
        "channel.published_epsilon if as_published else channel.epsilon",
        "channel.published_epsilon",
    ),
    Fault(
        "D2P forgets what earlier draws cost", "D2P", "perturb/d2p/tuning.py",
        "epsilon = past + max(", "epsilon = max(",
    ),
    Fault(
        "collective half noise", "collective", "collective/results.py",
        "parameters.sigma, seed=seed", "parameters.sigma / 2, seed=seed",
    ),
    Fault(
        "collective without the helper's noise", "collective", "collective/aggregators.py",
        "self._noise(parameters))", 'self._noise(parameters) * (self.role == "leader"))',
    ),
    Fault(
        "collective same noise key twice", "collective", "collective/results.py",
        "parameters.sigma, seed=seed", "parameters.sigma, seed=seed or 1",
    ),
    Fault(
        "collective 32-bit seed", "collective", "collective/shares.py",
        "secrets.token_bytes(SEED)", "secrets.token_bytes(4) + bytes(SEED - 4)",
    ),
    Fault(
        "collective repeated seed", "collective", "collective/shares.py",
        "secrets.token_bytes(SEED)", "bytes(range(SEED))",
    ),
    Fault(
        "collective id not bound", "collective", "collective/shares.py",
        "self.parameters.round, report_id,", "self.parameters.round,",
    ),
    Fault(
        "collective parameters not bound", "collective", "collective/shares.py",
        "self.helper.public, self.parameters.digest,", "self.helper.public,",
    ),
    Fault(
        "collective keys not bound", "collective", "collective/shares.py",
        "self.leader.public, self.helper.public, self.parameters.digest,",
        "self.parameters.digest,",
    ),
    Fault(
        "collective Δ not in the hash", "collective", "collective/task.py",
        "self.length, self.sensitivity,\n", "self.length, 0,\n",
    ),
    Fault(
        "collective id twice in a batch", "collective", "collective/aggregators.py",
        "len(set(ids)) != len(ids) or len(ids) != len(sealed)", "len(ids) != len(sealed)",
    ),
    Fault(
        "collective replay across rounds", "collective", "collective/rounds.py",
        "new = set(ids) - self.used", "new = set(ids)",
    ),
    Fault(
        "collective S then S without the victim", "collective", "collective/aggregators.py",
        "elif found.asked != asked:", "elif not found.asked:",
    ),
    Fault(
        "collective abort and rerun", "collective", "collective/aggregators.py",
        'state="aborted", share=None', "share=None",
    ),
    Fault(
        "collective key kept after collection", "collective", "collective/aggregators.py",
        "        book.forget(parameters.task, parameters.round)\n", "",
    ),
    Fault(
        "collective earlier round opened again", "collective", "collective/aggregators.py",
        "parameters.round <= last", "parameters.round < 0",
    ),
    Fault(
        "collective swapped helper key", "collective", "collective/shares.py",
        '        self.helper.check(helper_key, "helper", self.parameters)\n', "",
    ),
    Fault(
        "collective one server in two roles", "collective", "collective/shares.py",
        "if leader_key == helper_key or", "if",
    ),
    Fault(
        "collective retry after the history changed", "collective", "collective/device.py",
        "if before is not None:", "if before is None and False:",
    ),
    Fault(
        "collective sent before it is recorded", "collective", "collective/device.py",
        "    drawer.keep(cut, report, parameters.guarantee())\n", "",
    ),
    Fault(
        "collective norm not checked", "collective", "collective/shares.py",
        "return vector if squared_norm(vector) <= bound**2 else nothing", "return vector",
    ),
    Fault(
        "collective overflow at the most people", "collective", "collective/task.py",
        "self._reach < 2**31", "self._reach < 2**34",
    ),
    Fault(
        "collective NaN in the basis", "collective", "collective/contributions.py",
        "found.max() > most or found.min() < -most", "False",
    ),
    Fault(
        "collective rounds that cost more than the task", "collective", "collective/task.py",
        "return self.mu * sqrt(self.share) * (1 - 2**-50)", "return self.mu",
    ),
    Fault(
        "collective share shown that was not committed to", "collective",
        "collective/aggregators.py",
        "commitment(found.parameters, other, share, salt) != found.theirs", "not salt",
    ),
    Fault(
        "collective result with one signature", "collective", "collective/results.py",
        '        verify(helper_key, self.helper, message, "the result")\n', "",
    ),
    Fault(
        "common helper restored with its keys", "common", "server/store/schema.py",
        "NOT_IN_BACKUPS = (collective_keys, collective_reports)", "NOT_IN_BACKUPS = ()",
    ),
    Fault(
        "common result used unsigned", "common", "client/sending/shared_model_results.py",
        "        found.result.check(pins.leader, pins.helper)\n", "",
    ),
    Fault(
        "common basis that nobody signed", "common", "collective/results.py",
        "if hashlib.sha256(self.published).digest() != self.result.parameters.basis:",
        "if not self.published:",
    ),
    Fault(
        "common round dearer than agreed to", "common", "client/sending/shared_model_reports.py",
        'part["mu"] is not None and given.mu > part["mu"]', "given.mu < 0",
    ),
    Fault(
        "common more rounds than a task pays for", "common", "client/sending/shared_model_reports.py",
        "whole > 1 + _SLACK or any(", "any(",
    ),
    Fault(
        "common results asked for under a name", "common", "client/sending/remote.py",
        'self._ask("GET", path, public=True, expected=(404, 405, 409))',
        'self._ask("GET", path, expected=(404, 405, 409))',
    ),
    Fault(
        "common moment that waits for the history", "common", "client/sending/shared_model_reports.py",
        "waits = \"state IN ('waiting', 'sealed', 'recorded') AND due <= ?\"",
        "waits = \"state IN ('sealed', 'recorded') AND due <= ?\"",
    ),
]  # fmt: skip
