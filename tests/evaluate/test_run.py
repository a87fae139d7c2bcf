"""Which protocol measures which method: ours, and those that packages register."""

import pytest

from epicrec.data import Catalogue, Dataset, Ratings
from epicrec.errors import InputError
from epicrec.evaluate import evaluate
from epicrec.evaluate.run import protocols
from epicrec.models.bias import Bias


@pytest.fixture(scope="module")
def small(films: Catalogue, viewers: Ratings) -> Dataset:
    return Dataset("films", viewers, films)


def test_errors_name_every_protocol(small: Dataset) -> None:
    papers = {"aggregates", "mae-loss", "d2p", "yang"}
    assert {"rating", "topn", "release-topn"} | papers <= {*protocols()}
    with pytest.raises(InputError, match="no protocol 'x'") as unknown:
        evaluate("bias", small, protocol="x")
    assert all(name in str(unknown.value) for name in protocols())
    with pytest.raises(InputError, match="measure them by the protocol") as wrong:
        evaluate("s-epicrec", small, protocol="yang")
    fitting = str(wrong.value).rpartition("the protocol ")[2].split(", ")
    assert {*fitting} == {"release-topn", "aggregates", "mae-loss"}


@pytest.mark.parametrize("protocol", ["release-topn", "aggregates", "mae-loss"])
def test_models_make_no_releases(small: Dataset, protocol: str) -> None:
    with pytest.raises(InputError, match="is for perturbers"):
        evaluate("bias", small, protocol=protocol)


@pytest.mark.parametrize("protocol", ["d2p", "yang"])
def test_papers_protocols_make_their_models(small: Dataset, protocol: str) -> None:
    with pytest.raises(InputError, match="give a method's name"):
        evaluate(Bias(), small, protocol=protocol)
    with pytest.raises(InputError, match="seeds"):
        evaluate("popularity", small, protocol=protocol, settings={"seeds": 0})


def test_a_name_of_two_is_what_the_protocol_measures(small: Dataset) -> None:
    model = evaluate("d2p", small, protocol="topn", settings={"p": 0.5}, max_users=5)
    release = evaluate("d2p", small, protocol="aggregates", settings={"p": 0.5, "max_users": 5})
    assert "ndcg" in model.metrics
    assert "category_mae" in release.metrics
    with pytest.raises(InputError, match="no setting 'dataset'"):
        evaluate("d2p", small, protocol="aggregates", settings={"dataset": 1})
