"""The examples of weights in somebody else's training loop do what they say."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from process_files import group_threads
from small_reweighter import M, N, make, run
from torch.utils.data import TensorDataset

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch):
    """Imports an example by name; processes that it starts can do so, too."""

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    monkeypatch.syspath_prepend(EXAMPLES)
    return load


def test_a_sampler_draws_as_often_as_samples_weigh(example) -> None:
    weighted_loader = example("weighted_sampling").weighted_loader
    rw = run(make(p0="budget"), 20)
    assert rw.weights.max() > 3 * rw.weights.min()
    counts, epochs = torch.zeros(M + N), 400
    generator = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        loader = weighted_loader(rw, TensorDataset(torch.arange(M + N)), 16, generator)
        batches = [batch for (batch,) in loader]
        assert sum(map(len, batches)) == len(rw)
        counts += torch.bincount(torch.cat(batches), minlength=M + N)
    expected = epochs * len(rw) * rw.weights / rw.weights.sum()
    deviations = (counts.numpy() - expected) / np.sqrt(expected)
    assert np.abs(deviations).max() < 5.0  # standard deviations of a Poisson count


def test_a_sampler_leaves_out_what_weighs_nothing(example) -> None:
    weighted_loader = example("weighted_sampling").weighted_loader
    rw = run(make(), 1)
    state = rw.state_dict()
    state["q"][:M] = 0.0
    rw.load_state_dict(state)
    loader = weighted_loader(rw, TensorDataset(torch.arange(M + N)), 16, torch.Generator().manual_seed(0))
    assert torch.cat([batch for (batch,) in loader]).min() >= M


def test_the_sampling_example_learns_the_target(example) -> None:
    module = example("weighted_sampling")
    model, rw = module.train(seed=0)
    wrong = slice(module.SOURCE // 2)
    assert rw.refresh_count == module.EPOCHS
    assert rw[wrong].mean() < 0.2 * rw[module.SOURCE // 2 : module.SOURCE].mean()
    assert model.weight.item() > 0.5  # with equal weights it is about 0.1


def work(rank: int, world: int, meeting: str, results: str) -> None:
    """A process of the distributed example, which says what is left of the group before the process ends."""
    importlib.import_module("distributed_training").work(rank, world, meeting, results)
    Path(f"{results}.{rank}.threads").write_text(" ".join(group_threads()))


def results_of(example, world: int, folder: Path) -> list[dict[str, dict[str, torch.Tensor]]]:
    """What every process of a real group of so many ends with."""
    module = example("distributed_training")
    folder.mkdir()
    arguments = (world, str(folder / "meeting"), str(folder / "result"))
    if world == 1:
        module.work(0, *arguments)
    else:
        torch.multiprocessing.spawn(work, arguments, nprocs=world)
        assert [(folder / f"result.{rank}.threads").read_text() for rank in range(world)] == [""] * world
    return [torch.load(folder / f"result.{rank}", weights_only=True) for rank in range(world)]


def test_two_processes_get_the_weights_of_one(example, tmp_path: Path) -> None:
    (alone,) = results_of(example, 1, tmp_path / "one")
    first, second = results_of(example, 2, tmp_path / "two")
    for name, tensor in first["weights"].items():
        assert torch.equal(tensor, second["weights"][name]), name  # the same without sending any
        torch.testing.assert_close(tensor, alone["weights"][name], rtol=1e-4, atol=1e-6)
    for name, tensor in first["model"].items():
        assert torch.equal(tensor, second["model"][name])
        torch.testing.assert_close(tensor, alone["model"][name], rtol=1e-4, atol=1e-6)
    assert alone["weights"]["q"].std() > 0.01 and int(alone["weights"]["refresh_count"]) == 4
