"""The private covariance recommender: measure with noise once, then anyone ranks at home."""

from __future__ import annotations

from epicrec.data import Catalogue, Ratings
from epicrec.errors import InputError
from epicrec.models.base import Feedback
from epicrec.models.covariance.budget import Budget, NoiseKind, check_budget
from epicrec.models.covariance.histories import release_histories
from epicrec.models.covariance.neighbours import ByNeighbours
from epicrec.models.covariance.ratings import release_ratings
from epicrec.models.covariance.statistics import Unit
from epicrec.models.exact import fit_ratings
from epicrec.models.factors import ReleasedFactors, fit_histories, most_factors
from epicrec.models.features import item_features
from epicrec.privacy import Guarantee


class CovarianceSVD(ReleasedFactors):
    """Item factors from noisy item effects and a noisy item × item covariance.

    McSherry & Mironov (2009), improved: item effects (`ItemEffects`, in two looks) and a covariance
    (`PairSums`), integer sums with integer noise; all else is computed from what was released
    (`spectrum`), and each user's part from their own ratings, at home.

    Neighbours differ by one `unit` added or removed: a rating, or a user with all their ratings.
    The sensitivities are proved in docs/covariance.md. The guarantee is ε (`noise="laplace"`) or
    (ε, δ) by exact Gaussian composition (`noise="gaussian"`). `epsilon=None` is the same without
    noise.
    """

    status = "proved"
    units = ("rating", "user")

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float = 1e-6,
        unit: Unit = "rating",
        noise: NoiseKind = "gaussian",
        feedback: Feedback = "explicit",
        factors: int | None = None,
        seed: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.unit: Unit = unit
        self.noise: NoiseKind = noise
        self.feedback: Feedback = feedback
        self.factors = factors
        self.seed = seed

    @property
    def by_sums(self) -> bool:
        return self.epsilon is not None

    def _fit(self, ratings: Ratings) -> None:
        self._fit_with(ratings, None)

    def _fit_with(self, ratings: Ratings, catalogue: Catalogue | None) -> None:
        self._check()
        k = most_factors(self.factors, self.feedback)
        features = item_features(catalogue, ratings.item_ids)
        if self.epsilon is None:
            promise = Guarantee.none(unit=self.unit)
            if self.feedback == "implicit":
                state = fit_histories(ratings, k)
            else:
                state = fit_ratings(ratings, k, features)
        else:
            budget = Budget(
                self.epsilon, self.delta, self.unit, self.noise, self.seed, once=self.once
            )
            ratings = budget.bounded(ratings)
            if self.feedback == "implicit":
                state = release_histories(ratings, features, budget, k, self.engine)
            else:
                state = release_ratings(ratings, features, budget, k, self.engine)
            promise = budget.guarantee()
            state["released_"] = budget.spent
        for name in ("doubt_", "variance_", "usual_"):
            vars(self).pop(name, None)  # of an earlier fit
        vars(self).update(state)
        self.guarantee_ = promise.to_dict()

    def _check(self) -> None:
        check_budget(self.epsilon, self.delta, self.unit, self.noise)


class CovarianceKNN(ByNeighbours, CovarianceSVD):
    """Neighbours by the same released covariance, with ridge weights solved at the user's side.

    McSherry & Mironov (2009), section 5.1, after Bell & Koren (2007): item i is predicted from the
    user's `k` rated items N with the largest covariance with i, by the weights
    (C_NN + s² I)⁻¹ C_Ni, where C is the cleaned covariance F Fᵀ of `CovarianceSVD`. `k` is 40.
    """

    def __init__(
        self,
        *,
        k: int | None = None,
        epsilon: float | None = None,
        delta: float = 1e-6,
        unit: Unit = "rating",
        noise: NoiseKind = "gaussian",
        feedback: Feedback = "explicit",
        factors: int | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            noise=noise,
            feedback=feedback,
            factors=factors,
            seed=seed,
        )
        self.k = k

    def _check(self) -> None:
        super()._check()
        self._check_k()
        if self.feedback == "implicit":
            raise InputError(
                "covariance-knn weighs neighbours by their ratings; for histories use "
                "covariance-svd"
            )
