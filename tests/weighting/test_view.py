"""Looking at the weights: by sample, demonstration and domain."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_reweighter import DOMAINS, EPISODES, THREE, M, N, make, run


def test_indexing() -> None:
    rw = run(make(), 2)
    index = torch.tensor([3, 0, 47])
    chosen = rw[index]
    assert isinstance(chosen, torch.Tensor) and chosen.dtype == torch.float32 and not chosen.requires_grad
    np.testing.assert_allclose(chosen.numpy(), rw.weights[[3, 0, 47]], rtol=1e-6)
    np.testing.assert_array_equal(rw[np.array([3, 0, 47])], rw.weights[[3, 0, 47]])
    assert rw[5] == rw.weights[5] and rw[:4].shape == (4,)
    assert len(rw) == M + N


def test_indexing_follows_refreshes_and_loaded_states() -> None:
    rw, everyone = make(), torch.arange(M + N)
    assert rw[everyone].unique().numel() == 1
    state = run(rw, 1).state_dict()
    first = rw[everyone]
    np.testing.assert_allclose(first.numpy(), rw.weights, rtol=1e-6)
    second = run(rw, 3, first=1)[everyone]
    np.testing.assert_allclose(second.numpy(), rw.weights, rtol=1e-6)
    assert not torch.equal(first, second)
    rw.load_state_dict(state)
    assert torch.equal(rw[everyone], first)


def test_what_is_done_to_the_answer_does_not_change_the_weights() -> None:
    rw = run(make(), 2)
    before, everyone = rw.weights, torch.arange(M + N)
    rw[everyone].zero_()
    rw[torch.tensor(3)].zero_()
    rw.weights[:] = 0.0
    rw.discrepancies[:] = 0.0
    np.testing.assert_array_equal(rw.weights, before)
    np.testing.assert_allclose(rw[everyone].numpy(), before, rtol=1e-6)
    assert rw.discrepancies.max() > 0


def test_statistics() -> None:
    rw = run(make(), 3)
    q = rw.weights
    assert rw.max == q.max() and rw.weight_decay == 1e-6 * q.max()
    assert run(make(gamma=1e-3), 3).weight_decay == pytest.approx(1e-3 * q.max(), rel=1e-3)
    assert rw.effective_sample_size == pytest.approx(q.sum() ** 2 / (q**2).sum())
    assert rw.mass == {1: pytest.approx(q[DOMAINS == 1].sum()), 0: pytest.approx(q[DOMAINS == 0].sum())}
    assert list(rw.effective_sample_sizes()) == [1, 0]
    assert rw.domain_weights == {0: 1.0}
    assert rw.labels == (1, 0) and rw.source_labels == (0,)
    assert not rw.bound(np.ones(M + N)).applicable


@pytest.mark.parametrize("granularity", ["window", "demo"])
def test_weights_of_demonstrations_are_means_over_their_samples(granularity: str) -> None:
    rw = make(granularity=granularity)
    assert list(rw.episode_weights().values()) == pytest.approx([28 / 48] * 12)  # before the first refresh
    weights = run(rw, 3).episode_weights()
    assert list(weights) == list(range((M + N) // 4))
    for episode, weight in weights.items():
        assert weight == pytest.approx(rw.weights[episode == EPISODES].mean())
    assert np.std(list(weights.values())) > 0.01


@pytest.mark.parametrize("names", [lambda i: f"demo_{i:02d}", lambda i: 100 * i], ids=["words", "numbers"])
def test_weights_of_demonstrations_have_their_ids(names) -> None:
    ids = [names(episode) for episode in EPISODES.tolist()]
    weights = run(make(episodes=ids), 2).episode_weights()
    assert list(weights) == [names(i) for i in range(12)]
    assert list(weights.values()) == list(run(make(), 2).episode_weights().values())


def test_weights_of_demonstrations_need_their_ids() -> None:
    with pytest.raises(ValueError, match="episodes: the demonstration id of every sample is needed"):
        make(episodes=None).episode_weights()


def test_the_repr_says_where_the_run_is_and_where_the_mass_went() -> None:
    rw = make(domains=THREE, target="real")
    assert repr(rw) == (
        "Reweighter(48 samples, target='real', refresh 0 of 20, mass {real: 4.667, a: 11.67, b: 11.67}, "
        "largest weight 0.5833)"
    )
    run(rw, 2)
    text = repr(rw)
    assert "\n" not in text and "refresh 2 of 20" in text
    for label in ("real", "a", "b"):
        assert f"{label}: {rw.mass[label]:.4g}" in text
    assert f"largest weight {rw.max:.4g}" in text


def test_an_index_beyond_the_samples_is_an_error() -> None:
    with pytest.raises(IndexError):
        run(make(), 1)[torch.tensor([M + N])]
