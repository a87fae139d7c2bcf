import numpy as np

from epicrec.perturb.epicrec.gs import gs_totals


def test_with_little_noise_nothing_is_smoothed():
    rng = np.random.default_rng(0)
    member = (rng.random((200, 5)) < [0.9, 0.7, 0.5, 0.3, 0.1]).astype(np.uint8)
    found = gs_totals(member, 400.0, 5, rng, 1)
    np.testing.assert_allclose(found, member.sum(axis=0), atol=1)


def test_with_much_noise_everything_is_one_group():
    rng = np.random.default_rng(0)
    member = (rng.random((200, 5)) < 0.3).astype(np.uint8)
    found = [gs_totals(member, 0.01, 5, rng, seed) for seed in range(40)]
    assert np.mean([len(np.unique(f)) for f in found]) < 3
    spread = np.abs(np.array(found) - member.sum(axis=0)).mean()
    assert spread < 0.8 * 5 / 0.01, "smoothing lowers the noise below that of global sensitivity"


def test_an_empty_history():
    found = gs_totals(np.zeros((0, 4), np.uint8), 1.0, 3, np.random.default_rng(0), 2)
    assert found.shape == (4,)
