"""Methods found by name: ours, other packages', and what other packages get wrong."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from epicrec import registry
from epicrec.cli import main
from epicrec.data import Ratings
from epicrec.errors import InputError
from epicrec.models import Recommender, load, make_model, model_class
from epicrec.perturb import Perturber, perturber_class
from epicrec.registry import MODELS, PERTURBERS

MODULE = """
from epicrec.models import Recommender
import numpy as np

class Flat(Recommender):
    "Every item alike."

    task = "lists"
    level_: float

    def __init__(self, *, level: float = 1.0) -> None:
        self.level = level

    def _fit(self, ratings):
        self.level_ = self.level

    def _scores(self, histories):
        return np.full((histories.n_users, histories.n_items), self.level_)

class Stranger:
    pass
"""

Package = Callable[..., None]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    """Install a made-up package: its name, its entry points and its one module."""

    def install(name: str, group: str, *lines: str, module: str = MODULE) -> None:
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]))
        (tmp_path / f"{name}.py").write_text(module)
        registry.entries.cache_clear()

    monkeypatch.syspath_prepend(str(tmp_path))
    yield install
    registry.entries.cache_clear()
    for name in [*sys.modules]:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.parametrize("name", registry.names(MODELS))
def test_every_model_is_a_recommender_that_knows_its_name(name: str) -> None:
    cls = model_class(name)
    assert issubclass(cls, Recommender)
    assert registry.name_of(MODELS, cls) == name


@pytest.mark.parametrize("name", registry.names(PERTURBERS))
def test_every_perturber_knows_its_name(name: str) -> None:
    cls = perturber_class(name)
    assert issubclass(cls, Perturber)
    assert registry.name_of(PERTURBERS, cls) == name


def test_the_papers_perturbers_are_there() -> None:
    assert {"s-epicrec", "m-epicrec", "d2p", "dpi", "hiding-dpi", "randomised-response"} <= {
        *registry.names(PERTURBERS)
    }


def test_another_package_saves_loads_and_comes_last(package: Package, tmp_path: Path) -> None:
    package("elsewhere", MODELS, "a-flat = elsewhere:Flat")
    assert registry.names(MODELS)[-1] == "a-flat"
    ratings = Ratings.from_columns(["a", "a", "b"], ["x", "y", "x"])
    model = make_model("a-flat", level=2.0).fit(ratings)
    assert model.method == "a-flat"
    model.save(tmp_path / "flat.npz")
    again = load(tmp_path / "flat.npz")
    assert type(again) is model_class("a-flat")
    history = pa.table({"user_id": ["c"], "item_id": ["x"]})
    assert again.recommend(history).equals(model.recommend(history))


def test_nothing_is_imported_to_tell_a_name(package: Package) -> None:
    package("unasked", MODELS, "unasked = unasked:Flat")
    assert "unasked" in registry.names(MODELS)
    assert registry.name_of(MODELS, model_class("bias")) == "bias"
    assert "unasked" not in sys.modules


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("odd = broken:Flat", "ZeroDivisionError"),
        ("odd = gone:Flat", "ModuleNotFoundError"),
        ("odd = sound:Missing", "AttributeError"),
        ("odd = sound:Stranger", "derives from"),
    ],
)
def test_a_broken_package_is_named_and_harms_nobody_else(
    package: Package, line: str, why: str
) -> None:
    package("sound", MODELS, "fine = sound:Flat")
    package("broken", MODELS, line, module="1 / 0")
    with pytest.raises(InputError, match=f"package broken.*{why}"):
        model_class("odd")
    assert model_class("fine").__name__ == "Flat"
    assert model_class("bias").__name__ == "Bias"


def test_two_packages_with_one_name_are_both_named(package: Package) -> None:
    package("one", MODELS, "flat = one:Flat")
    package("two", MODELS, "flat = two:Flat", "svd = two:Flat")
    with pytest.raises(InputError, match=r"'flat'.*one \(one:Flat\) and two \(two:Flat\)"):
        model_class("flat")
    with pytest.raises(InputError, match=r"epicrec .* and two"):
        model_class("svd")
    assert model_class("bias").__name__ == "Bias"


def test_unknown_names_list_the_choices_and_the_nearest() -> None:
    with pytest.raises(InputError, match=r"did you mean 'item-knn'\? Choose from .*svd"):
        model_class("item-kn")
    with pytest.raises(InputError, match=r"choose from .*dpi"):
        perturber_class("qqq")


def test_what_is_not_registered_is_named_but_not_saved(tmp_path: Path) -> None:
    class Own(model_class("popularity")):  # type: ignore[misc]
        pass

    model = Own().fit(Ratings.from_columns([1, 1, 2], [1, 2, 1]))
    assert model.method.endswith("Own")
    with pytest.raises(InputError, match=r'entry-points."epicrec.models".*own = ".*Own"'):
        model.save(tmp_path / "own.npz")
    assert not [*tmp_path.iterdir()]


def test_a_file_makes_only_registered_classes(package: Package, tmp_path: Path) -> None:
    package("brief", MODELS, "brief = brief:Flat")
    make_model("brief").fit(Ratings.from_columns([1, 2], [1, 1])).save(tmp_path / "m.npz")
    (tmp_path / "brief-1.0.dist-info" / "entry_points.txt").unlink()
    registry.entries.cache_clear()
    with pytest.raises(InputError, match="'brief' model, which is not known here; install"):
        load(tmp_path / "m.npz")


def test_not_installed_says_what_to_run() -> None:
    source = Path(registry.__file__).parents[1]
    code = (
        "import sys, importlib.metadata as m; m.entry_points = lambda **_: ();"
        "from epicrec.errors import InputError; from epicrec import model_class\n"
        "try: model_class('bias')\nexcept InputError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=source
    )
    assert "pip install -e ." in done.stdout


def test_parameters_travel(tmp_path: Path, viewers: Ratings) -> None:
    model = make_model("item-knn", k=7, task="lists").fit(viewers)
    model.save(tmp_path / "m.npz")
    again = load(tmp_path / "m.npz")
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.item_ids_, model.item_ids_)


def test_methods_names_the_package_and_survives_a_broken_one(
    package: Package, capsys: pytest.CaptureFixture[str]
) -> None:
    package("elsewhere", MODELS, "flat = elsewhere:Flat")
    package("broken", PERTURBERS, "odd = broken:Odd", module="1 / 0")
    with pytest.raises(SystemExit) as stop:
        main(["methods", "--json"])
    shown = capsys.readouterr()
    rows = {row["method"]: row for row in json.loads(shown.out)["methods"]}
    assert not stop.value.code
    assert rows["flat"]["package"] == "elsewhere"
    assert rows["bias"]["package"] == ""
    assert "odd" not in rows
    assert "package broken" in " ".join(shown.err.split())
