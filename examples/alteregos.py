"""D2P: each device replaces its films at random; a server learns from these AlterEgos alone."""

from epicrec import load_dataset
from epicrec.models.d2p.recommenders import D2PSvd
from epicrec.perturb.d2p.mechanism import D2P, collected

films = load_dataset("films")
people = films.ratings
device = D2P(films.catalogue, epsilon=3.0)  # its law is public: groups, p and λ

alteregos = {
    user: device.release(people.item_ids[people.items[people.row(at)]])
    for at, user in enumerate(people.user_ids.tolist())
}
one = people.user_ids[0]
true = {*people.item_ids[people.items[people.row(0)]].tolist()}
sent = {*alteregos[one].items}
print(f"{one} has {len(true)} films; {len(sent & true)} of the {len(sent)} sent are among them")
print(alteregos[one].guarantee)

# The server sees AlterEgos, undoes the law on average, and publishes a model of items ...
model = D2PSvd(catalogue=films.catalogue).fit_alteregos(collected(device, alteregos))

# ... and each device ranks with its true history, which stays at home.
for row in model.recommend(people.users_at([0]), n=5).to_pylist():
    print(row["rank"], films.catalogue.title_of(row["item_id"]))
