"""Faults that guard what matters most: each is a text of the package and what takes its place.

A fault is found by its text alone, which must occur exactly once in the package; so it stays when
its module moves. Where the text has changed, `make mutants` and the suite say so.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Fault:
    """A named fault; it must be caught."""

    name: str
    old: str
    """Occurs exactly once in the package."""
    new: str
    tests: tuple[str, ...] = ()
    """Test files that guard it, where they are not near its module."""

    def place(self, sources: Path) -> Path:
        """The file with this text."""
        texts = _texts(sources)
        found = [path for path, text in texts.items() for _ in range(text.count(self.old))]
        if len(found) != 1:
            raise LookupError(
                f"{self.name}: its text occurs {len(found)} times in the package, not once; bring "
                f"tests/mutants/faults.py up to date\n{self.old}\n{self._near(texts, sources)}"
            )
        return found[0]

    def planted(self, sources: Path) -> str:
        """The whole of that file with the fault in it."""
        return _texts(sources)[self.place(sources)].replace(self.old, self.new)

    def _near(self, texts: dict[Path, str], sources: Path) -> str:
        """The line most like the longest one of the text, which may be what it has become."""
        wanted = max(self.old.splitlines(), key=len).strip()
        lines = {line.strip(): path for path, text in texts.items() for line in text.splitlines()}
        near = difflib.get_close_matches(wanted, lines, n=1, cutoff=0.5)
        return "".join(f"nearest: {lines[one].relative_to(sources)}: {one}" for one in near)


@cache
def _texts(sources: Path) -> dict[Path, str]:
    return {path: path.read_text("utf-8") for path in sorted(sources.rglob("*.py"))}


NAMED = [
    Fault(
        "year ±2",
        "abs(self._years[i] - reading.year) <= 1", "abs(self._years[i] - reading.year) <= 2",
    ),
    Fault("fuzzy 80", "_FUZZY = 92", "_FUZZY = 80"),
    Fault("no preference for the same year", "return same_year or fitting", "return fitting"),
    Fault(
        "candidates least popular first",
        "key=lambda i: -popularity[i]", "key=lambda i: popularity[i]",
    ),
    Fault("candidates in no order", "fitting.sort(key=lambda i: -popularity[i])", "pass"),
    Fault("episodes are films", "if in_season else found)", "if False else found)"),
    Fault(
        "episodes by season only",
        'viewing.title.count(":") >= 2', 'viewing.title.count(":") >= 3',
    ),
    Fault("hits beyond n", "hit = (ranks <= n) & ", "hit = "),
    Fault("hits at n + 1", "hit = (ranks <= n) & ", "hit = (ranks <= n + 1) & "),
    Fault("coverage beyond n", "np.unique(items[ranks <= n])", "np.unique(items)"),
    Fault("split_last leaves nothing", "np.minimum(n, counts - 1)", "np.minimum(n, counts)"),
    Fault("a private fit guesses", "        self._check_public(ratings)\n", ""),
    Fault(
        "a private fit guesses the scale",
        '"scale": scale or self.task == "lists"', '"scale": True',
    ),
    Fault(
        "items are rated ones, too",
        "ratings = ratings.with_items(known.items)",
        "ratings = ratings.with_items(np.union1d(known.items, ratings.item_ids))",
    ),
    Fault(
        "a guessed scale counts as given",
        "scale_given=scale is not None and not leave_out", "scale_given=found is not None",
    ),
    Fault(
        "an update adds rated items",
        "np.union1d(self.item_ids_, catalogue.item_ids)",
        "np.union1d(self.item_ids_, changed.item_ids)",
        tests=("tests/models/test_public.py",),
    ),
    Fault(
        "fold-in without α for what was seen",
        "np.linalg.solve(left, alpha * own.sum(axis=0))", "np.linalg.solve(left, own.sum(axis=0))",
    ),
    Fault("fold-in with α for α - 1", "(alpha - 1) * own.T @ own", "alpha * own.T @ own"),
    Fault(
        "purge a day early",
        "users.c.seen_day < today() - days", "users.c.seen_day <= today() - days",
    ),
    Fault(
        "purge a day late",
        "users.c.seen_day < today() - days", "users.c.seen_day < today() - days - 1",
    ),
    Fault("Netflix hours ×6", "int(parts[0]) * 60", "int(parts[0]) * 6"),
    Fault(
        "undo keeps drafts",
        'db.execute("DELETE FROM drafts WHERE batch = ?", (batch,))\n            facts',
        "facts",
    ),
    Fault("oldest viewing date of a draft", "line[2] = max(filter", "line[2] = min(filter"),
    Fault(
        "oldest viewing date of a film",
        "max(watched_at) AS watched_at", "min(watched_at) AS watched_at",
    ),
    Fault('"why" names what shares nothing', "near = [k for k in near if shared[k]]", "pass"),
    Fault("what was rated low speaks", "LOW = 3.0", "LOW = 0.0"),
    Fault("a film in two rows", "self._left = self._left[~self._among(films)[self._left]]", "pass"),
    Fault("_HINT ×10", "_HINT = 0.1", "_HINT = 1.0"),
    Fault("habits are not believed", "PRIOR = 10.0", "PRIOR = 1e9"),
    Fault("what was disliked speaks for others", "DISLIKED = 0.5", "DISLIKED = -0.5"),
    Fault("an unknown title before all others", "+ lone.min() - lone.max() - 1", "+ 1e9"),
    Fault("_GOOD 1", "_GOOD = 4.0", "_GOOD = 1.0"),
    Fault(
        "block offset of predictions",
        "[rows[span] - start, items[span]]", "[rows[span], items[span]]",
    ),
    Fault(
        "excluded items are listed",
        "if not value > worst or excluded[item]:", "if not value > worst:",
    ),
    Fault(
        "of equal items the last",
        "(value == other and item > than)", "(value == other and item < than)",
    ),
    Fault(
        "histories of a private model in its pickle",
        'if histories is not None and model.guarantee.status == "none":',
        "if histories is not None:",
    ),
    Fault(
        "what a ledger refuses is kept",
        "if name not in self.get_params()]:\n                delattr(self, name)",
        "if name not in self.get_params()]:\n                pass",
    ),
    Fault(
        "a guarantee forgets public columns",
        "budget.guarantee(*assumption(self.columns_), *famous)", "budget.guarantee(*famous)",
    ),
    Fault("block offset of lists", "block.user_ids[rows]", "histories.user_ids[rows]"),
    Fault(
        "blocks of one user too many",
        "stop = min(start + size, histories.n_users)",
        "stop = min(start + size + 1, histories.n_users)",
    ),
    Fault(
        "shares of ratings add up to 1.15",
        "left.measure(pairs, plan.pairs,", "left.measure(pairs, plan.pairs + plan.items,",
    ),
    Fault(
        "shares of ratings add up to 1.1",
        "rest, units = 1 - FIRST_SHARE, first.users", "rest, units = 1.0, first.users",
    ),
    Fault(
        "shares of histories add up to 1.1",
        "Fraction(round(100 * whole), 100) - FIRST_COUNTS", "Fraction(round(100 * whole), 100)",
    ),
    Fault(
        "μ for the share, not its root",
        "mu = self.mu * sqrt(share)",
        "mu = self.mu * share**0.25",
    ),
    Fault(
        "sum of squares without noise",
        "columns, ridge = _columns(",
        "packed[-1] = engine(pairs, ratings)[-1]\n    columns, ridge = _columns(",
    ),
    Fault(
        "number of users without noise",
        "star, one, user, mean = statistic.per_unit",
        "raw[2 * n] = engine(statistic, ratings)[2 * n]\n"
        "    star, one, user, mean = statistic.per_unit",
    ),
    Fault(
        "counts of histories without noise",
        "_, one, user, _ = statistic.per_unit",
        "raw[:n] = engine(statistic, ratings)[:n]\n    _, one, user, _ = statistic.per_unit",
    ),
    Fault(
        "tastes as long as they are",
        "lengths = np.maximum(ceil_roots((size * size).sum(axis=1)), 1)",
        "lengths = np.maximum(size.max(axis=1, initial=0), 1)",
    ),
    Fault(
        "one item less moves a taste by less than its length",
        "5 * (root(2) * one + 2 * rounding", "5 * (one + 2 * rounding",
    ),
    Fault(
        "tastes of long histories weigh without bound",
        "shift) / unit, 1, LONGEST)", "shift) / unit, 1, None)",
    ),
    Fault(
        "tastes of short histories weigh less than one item",
        "shift) / unit, 1, LONGEST)", "shift) / unit, 0, LONGEST)",
    ),
    Fault(
        "tastes with a unit shorter than the longest item",
        "int(ceil_roots((size * size).sum(axis=1)).max()) << shift)",
        "int(size.max(initial=0)) << shift)",
    ),
    Fault(
        "tastes that are nothing until they are long",
        "least = np.minimum(least, unit // (4 * isqrt(rows.shape[1]) + 4))", "pass",
    ),
    Fault(
        "tastes too large to be exact",
        "while float(weights @ reach) >= _EXACT:",
        "while int(weights @ reach.astype(np.int64)) >= _EXACT:",
    ),
    Fault(
        "tastes by an edge without sampling noise",
        "np.sqrt((1 + np.outer(sampled, sampled)) / 2)",
        "np.sqrt((1 + 0 * np.outer(sampled, sampled)) / 2)",
    ),
    Fault(
        "tastes against a chance that is sure",
        "noise_edge(sampled * sqrt(1 / people + 1 / drawn))",
        "noise_edge(sampled * sqrt(1 / people))",
    ),
    Fault(
        "tastes shown by chance",
        "moments.whitened(moments.matrix - chance))[-1]", "moments.whitened(moments.matrix))[-1]",
    ),
    Fault(
        "tastes learned with people's own items",
        "moments.whitened(moments.matrix - own * chance)", "moments.whitened(moments.matrix)",
    ),
    Fault(
        "tastes measured again with what is spent",
        "Step(last.statistic, left, last.basis) if shown",
        "Step(last.statistic, left + FIRST_TASTES, last.basis) if shown",
    ),
    Fault(
        "fame that the guarantee does not name",
        "famous = [] if fame is None else [FAME.format(self.fame)]", "famous: list[str] = []",
    ),
    Fault("noise of one turn for all", 'derived(self.seed, "measurement", turn)', "self.seed"),
    Fault(
        "totals of one rating Δ/2",
        "laplace_scale(statistic.sensitivity, epsilon)",
        "laplace_scale(statistic.sensitivity, 2 * epsilon)",
    ),
    Fault(
        "second total without noise",
        "return once(lambda: add_discrete_laplace(totals, scale, seed=own))",
        "add_discrete_laplace(totals[0], scale, seed=own)\n    return totals",
    ),
    Fault(
        "fourth category without noise",
        "noisy = layout.totals(items) + discrete_laplace(len(names), scales.tolist(), seed=seed)",
        "noisy = layout.totals(items) + discrete_laplace(len(names), scales.tolist(), seed=seed)\n"
        "        noisy[3:4] = layout.totals(items)[3:4]",
    ),
    Fault(
        "one draw of noise for all categories",
        "discrete_laplace(len(names), scales.tolist(), seed=seed)",
        "discrete_laplace(1, float(scales[0]), seed=seed)",
    ),
    Fault(
        "GS noise for sensitivity 1",
        "discrete_laplace(len(sums), most / second,", "discrete_laplace(len(sums), 1 / second,",
    ),
    Fault("GS spends its sample's part twice", "(1 - _SAMPLE_PART) * epsilon", "epsilon"),
    Fault(
        "GS sample without noise",
        "guess = sample + discrete_laplace(categories, 1 / first, seed=seed)", "guess = sample",
    ),
    Fault("GS one noise for both parts", 'seed=derived(seed, "group sums")', "seed=seed"),
    Fault(
        "D2P says the published ε",
        "max(channel.epsilon for channel in channels)",
        "max(channel.epsilon_bound for channel in channels)",
    ),
    Fault("D2P forgets what earlier draws cost", "epsilon = past + max(", "epsilon = max("),
    Fault(
        "collective half noise",
        "parameters.sigma, seed=seed", "parameters.sigma / 2, seed=seed",
    ),
    Fault(
        "collective without the helper's noise",
        "in_field(self._noise(given))", 'in_field(self._noise(given) * (self.role == "leader"))',
    ),
    Fault(
        "collective same noise key twice",
        "parameters.sigma, seed=seed", "parameters.sigma, seed=seed or 1",
    ),
    Fault(
        "collective 32-bit seeds",
        "secrets.token_bytes(RANDOM)", "secrets.token_bytes(4) + bytes(RANDOM - 4)",
    ),
    Fault(
        "collective repeated seeds",
        "secrets.token_bytes(RANDOM)", "bytes(range(RANDOM))",
    ),
    Fault("collective id not bound", "self.parameters.round, report_id,", "self.parameters.round,"),
    Fault(
        "collective parameters not bound",
        "self.helper.public, self.helper.committed, self.parameters.digest,",
        "self.helper.public, self.helper.committed,",
    ),
    Fault(
        "collective keys not bound",
        "self.helper.public, self.helper.committed, self.parameters.digest,",
        "self.parameters.digest,",
    ),
    Fault(
        "collective public share not bound",
        "public, self.leader.public, self.leader.committed,",
        "self.leader.public, self.leader.committed,",
    ),
    Fault(
        "collective verification half not bound",
        "public, self.leader.public, self.leader.committed,", "public, self.leader.public,",
    ),
    Fault(
        "collective verification half not signed",
        '"round key", role, parameters.digest, public, committed)',
        '"round key", role, parameters.digest, public)',
    ),
    Fault(
        "collective verification key of the leader alone",
        '"verification key", leader, helper)', '"verification key", leader)',
    ),
    Fault(
        "collective leader's half as it likes",
        'if committed("leader", half) != found.other.committed:', "if not half:",
    ),
    Fault(
        "collective helper's half as it likes",
        'if committed("helper", half) != other.committed:', "if not half:",
    ),
    Fault(
        "collective nonce that is not the report's id",
        "return proofs.prepare(key, server, report.id, report.public, share)",
        "return proofs.prepare(key, server, bytes(16), report.public, share)",
    ),
    Fault(
        "collective proof not checked",
        "if proofs.accepts(elements(verifier), own.verifier):", "if len(verifier):",
    ),
    Fault(
        "collective helper tells why",
        "return bytes(one == ACCEPTED for one in job.outcome)", "return job.outcome",
    ),
    Fault(
        "collective stored partial sum",
        "                add_into(total, vector)\n                digest.update(report.id)\n",
        "                add_into(total, vector)\n                digest.update(report.id)\n"
        "            with self.store.transaction() as book:\n"
        "                book.keep(replace(found, share=total.tobytes()))\n",
    ),
    Fault(
        "collective sum before its set is signed",
        "verify(self.other_key, signature, signed, \"the set of reports\")", "pass",
    ),
    Fault(
        "collective sum of another set",
        "if digest.digest() != found.chosen or not", "if not",
    ),
    Fault(
        "collective two sums with one key",
        "if digest.digest() != found.chosen or not self.keys.destroy(given.task, given.round):",
        "self.keys.destroy(given.task, given.round)\n        if digest.digest() != found.chosen:",
    ),
    Fault(
        "collective abort that says nothing was shown",
        "self.keys.destroy(task, number) and held and found.other is not None",
        "(self.keys.destroy(task, number) or True) and found.other is not None",
    ),
    Fault(
        "collective abort of one server",
        '        verify(helper_key, self.helper, message, "the end of the round")\n', "",
    ),
    Fault(
        "collective abort by other servers",
        "self._results.rounds or not _signed_by(own, pins):", "self._results.rounds:",
        tests=("tests/client/test_shared_model.py",),
    ),
    Fault(
        "collective round of another plan",
        "self._check(parameters, published, [one.parameters for one in before if one])", "pass",
        tests=("tests/client/test_shared_model.py",),
    ),
    Fault(
        "collective basis with private features",
        "!= public.tocsc()[:, :known]).nnz or not single.all():", "!= told[:, :known]).nnz:",
    ),
    Fault("PINE one proof", "PROOFS, NORM_PROOFS = 2, 1", "PROOFS, NORM_PROOFS = 1, 1"),
    Fault("PINE fewer tests", "TESTS = 100", "TESTS = 50"),
    Fault(
        "PINE joint randomness used twice",
        "for i, own in enumerate(joint.reshape(self.proofs, 3)):",
        "for i, own in enumerate([joint[:3]] * self.proofs):",
    ),
    Fault(
        "PINE parts not compared",
        "if (given[server], given[2 + server]) != parts:", "if not given:",
    ),
    Fault("PINE words beyond q", "or (found >= Q).any():", "or (found >= 2**64 - 1).all():"),
    Fault(
        "PINE query in the domain",
        "if power(at, np.uint64(self.points)) == 1:", "if at == 0:",
    ),
    Fault("PINE output not checked", "return right and not verifier[0]", "return right"),
    Fault("PINE gadget not checked", "return right and not verifier[0]", "return not verifier[0]"),
    Fault(
        "PINE norm not compared with the bound",
        "_number(bits[:size]) + _number(bits[size : 2 * size]) - self.bound**2 * _HALF,",
        "0,",
    ),
    Fault(
        "PINE tests that may fail",
        "_sum(success.copy()) - self.passes * _HALF,", "0,",
    ),
    Fault(
        "PINE wider tests",
        "return 1 << (-(-87 * self.bound // 10)).bit_length()", "return 1 << 50",
    ),
    Fault("collective Δ not in the hash", "self.length, self.sensitivity,\n", "self.length, 0,\n"),
    Fault(
        "collective id twice in a batch",
        "if len(reports) > JOB or len({one.id for one, _ in reports}) != len(reports):",
        "if len(reports) > JOB:",
    ),
    Fault(
        "collective replay across rounds",
        "REPEATED if report.id in burnt else one", "one",
    ),
    Fault(
        "collective S then S without the victim",
        "if job is None or job.asked != asked:", "if job is None:",
    ),
    Fault(
        "collective abort and rerun",
        'state="aborted", share=b"", signatures=(own,)', "signatures=(own,)",
    ),
    Fault(
        "collective key kept after an abort",
        "self.keys.destroy(task, number) and held and", "held and",
    ),
    Fault(
        "collective earlier round opened again",
        "parameters.round <= last", "parameters.round < 0",
    ),
    Fault(
        "collective swapped helper key",
        '        self.helper.check(helper_key, "helper", self.parameters)\n', "",
    ),
    Fault("collective one server in two roles", "if leader_key == helper_key or", "if"),
    Fault(
        "collective retry after the history changed",
        "        if report is None:\n            part = self._chosen()",
        "        if report is None or True:\n            part = self._chosen()",
    ),
    Fault(
        "collective sent before it is recorded",
        '        self._enter(row["task"], row["number"], announcement.parameters.guarantee())\n',
        "",
    ),
    Fault(
        "collective norm not checked",
        "return vector if squared_norm(vector) <= bound**2 else nothing", "return vector",
    ),
    Fault(
        "collective overflow at the most people",
        "or 2 * self._reach >= Q:", "or self._reach >= Q:",
    ),
    Fault("collective NaN in the basis", "found.max() > most or found.min() < -most", "False"),
    Fault(
        "collective rounds that cost more than the task",
        "return self.mu * sqrt(self.share) * (1 - 2**-50)", "return self.mu",
    ),
    Fault(
        "collective noise for a smaller statistic",
        "if sensitivity_of(statistic) > given.sensitivity:", "if given.sensitivity < 0:",
    ),
    Fault("collective rounds beyond the budget", "    if whole > 1:\n", "    if whole > 2:\n"),
    Fault(
        "collective tastes added up in two bases",
        "    if len(bases) > 1:\n", "    if len(bases) > 2:\n",
    ),
    Fault("collective step of another plan", "if rest[:1] != [PLAN_VERSION]:", "if not rest:"),
    Fault(
        "collective plan for one noise",
        "item_features(catalogue, item_ids), task.mu / BOTH)",
        "item_features(catalogue, item_ids), task.mu)",
    ),
    Fault(
        "collective learns for one noise",
        "one.result.total, given.sigma * BOTH)", "one.result.total, given.sigma)",
    ),
    Fault(
        "collective share shown that was not committed to",
        "(found.parameters, other, share, salt) != found.theirs",
        "(found.parameters, other, share, salt) == b''",
    ),
    Fault(
        "collective result with one signature",
        '        verify(helper_key, self.helper, message, "the result")\n', "",
    ),
    Fault(
        "common keys in the data folder",
        "        return Path(settings.runtime)\n", "        return settings.folder\n",
        tests=("tests/server/test_shared_model.py",),
    ),
    Fault(
        "common result used unsigned",
        "        found.result.check(pins.leader, pins.helper)\n", "",
    ),
    Fault(
        "common basis that nobody signed",
        "if hashlib.sha256(self.published).digest() != self.result.parameters.basis:",
        "if not self.published:",
    ),
    Fault(
        "common round dearer than agreed to",
        'part["mu"] is not None and given.mu > part["mu"]', "given.mu < 0",
    ),
    Fault("common more rounds than a task pays for", "whole > 1 or any(", "any("),
    Fault(
        "common results asked for under a name",
        'self._ask("GET", path, public=True, expected=(404, 405, 409))',
        'self._ask("GET", path, expected=(404, 405, 409))',
    ),
    Fault(
        "common moment that waits for the history",
        "waits = \"state IN ('waiting', 'sealed', 'recorded') AND due <= ?\"",
        "waits = \"state IN ('sealed', 'recorded') AND due <= ?\"",
    ),
    Fault(
        "a cheaper release covers a more expensive one",
        "return alike and paid.epsilon >= other.epsilon",
        "return alike and paid.epsilon <= other.epsilon",
        tests=("tests/client/test_spending.py",),
    ),
    Fault(
        "answers by a biased coin",
        "lie = words < np.uint64(lies_of(self.epsilon))",
        "lie = words < np.uint64(lies_of(self.epsilon) // 10 * 9)",
    ),
    Fault(
        "answers with a repeated seed",
        'root_key(seed, "answers")', 'root_key(seed or 1, "answers")',
    ),
    Fault(
        "answers true where nothing was seen",
        "(lie & ~self.exact)", "(lie & ~self.exact & seen)",
    ),
    Fault("answers true where something was seen", "seen ^ (lie", "seen | (lie"),
    Fault(
        "answers true for works without categories",
        "        some = self.works.having(np.asarray(matrix.sum(axis=1)).ravel() > 0)\n"
        "        return some & ~", "        return ~",
    ),
    Fault(
        "answers true where one category is open",
        "~self.works.having(matrix @ (~opened).astype(np.int64) > 0)",
        "self.works.having(matrix @ opened.astype(np.int64) > 0)",
    ),
    Fault(
        "answers about what is withheld",
        "        seen &= ~withheld_works(how.works, chosen)\n", "",
    ),
    Fault(
        "answers with the odds of a float",
        "share.to_integral_value(rounding=ROUND_CEILING)", "float(share)",
    ),
    Fault(
        "answers of liars as long as they like",
        "squares = weights_of**2 * honest.clipped(found, variance)", "squares = weights_of**2",
        tests=("tests/models/private/test_answers.py",),
    ),
    Fault(
        "answers learned with their noise",
        "(self.products[used].sum(axis=0) / weight - noise)",
        "(self.products[used].sum(axis=0) / weight)",
        tests=("tests/models/private/test_answers.py",),
    ),
    Fault(
        "one client's totals without a bound",
        "bounded = max(-MOST_OF_CATEGORY, min(value, MOST_OF_CATEGORY))", "bounded = value",
        tests=("tests/server/test_training.py",),
    ),
    Fault(
        "one bit for each entry of a work",
        "joined[max(one, other)] = min(one, other)", "pass",
    ),
    Fault(
        "items of unknown years are alike",
        "return table * np.outer(distinct >= 0, distinct >= 0), codes", "return table, codes",
    ),
    Fault(
        "mean of all items known from a tenth as many",
        "CENTRE_ITEMS = 50.0", "CENTRE_ITEMS = 5.0",
    ),
    Fault(
        "extension heard with any token",
        'if not hmac.compare_digest(_hashed(_text(message.get("token"))), row["token"]):',
        "if not row:",
    ),
    Fault(
        "extension's word counts for a site that is off",
        'if viewing is None or entry.get("site") not in allowed:', "if viewing is None:",
    ),
]  # fmt: skip
