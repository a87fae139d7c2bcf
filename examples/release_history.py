"""What a device sends instead of a history, entered in a ledger before anyone sees it."""

from pathlib import Path
from tempfile import TemporaryDirectory

from epicrec.data.datasets import load_catalogue
from epicrec.perturb import MEpicRec, release_through
from epicrec.privacy import Ledger

films = load_catalogue("films")
history = films.item_ids[:60:2]
device = MEpicRec(films, epsilon=1.0)
levels = {"Horror": "no release"}  # as if never watched; every other category is noised

with TemporaryDirectory() as folder:
    ledger = Ledger(Path(folder) / "ledger.jsonl", limit_epsilon=1.0)
    release = release_through(ledger, device, history, levels)
    print(f"{len(release.items)} films leave in the place of {len(history)}:")
    for item in release.items[:5]:
        print("  ", films.title_of(item), "(watched)" if item in history else "(made up)")
    print(release.guarantee)
    print("Spent so far:", ledger.total()["item"])

sent = release.public()  # what may leave: nothing in it names the level of a category
assert not sent.kept
