"""QoQ: gradients of single windows, their projection, and the demonstrations that help the target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_runs import TINY, assert_same_runs, metrics, tiny_config, train_with_stops

from beacon.errors import UserError
from beacon.methods import QoqOptions
from beacon.methods.qoq import Qoq, last_layer_gradients, project
from beacon.policy import DiffusionPolicy, ObservationSpec
from beacon.runs import RunFolder
from beacon.training import Trainer, train


@pytest.mark.parametrize("denoiser", ["unet", "mlp"])
def test_gradients_are_those_of_every_window_alone(denoiser) -> None:
    spec = ObservationSpec(cameras={}, proprio={"state": 3}, action_dim=2)
    policy = DiffusionPolicy(spec, replace(TINY, denoiser=denoiser, mlp_width=16), seed=3)
    draw = torch.Generator().manual_seed(0)
    conditions, actions = torch.randn(5, 6, generator=draw), torch.randn(5, 8, 2, generator=draw)
    noise, timesteps = policy.draw_noise(5, 3, draw, shared=True)
    found = last_layer_gradients(policy, conditions, actions, noise, timesteps)

    kept = [p for name, p in policy.denoiser.named_parameters() if name.startswith(("last.conv", "output"))]
    assert len(kept) == (4 if denoiser == "unet" else 2)
    for row in range(5):
        one = slice(row, row + 1)
        loss = policy.per_sample_loss(conditions[one], actions[one], noise[:, one], timesteps[:, one]).mean()
        gradients = torch.autograd.grad(loss, kept)
        # Convolution weights are (out, in, kernel), as the unfolded inputs are.
        torch.testing.assert_close(found[row], torch.cat([g.flatten() for g in gradients]))


def test_projection_keeps_products() -> None:
    rng = torch.Generator().manual_seed(0)
    shared = torch.randn(1, 20_000, generator=rng)
    gradients = shared + 0.5 * torch.randn(6, 20_000, generator=rng)
    gradients[3:] *= -1
    small = project(gradients, 2000, 0, 0)
    assert small.shape == (6, 2000)
    exact, projected = gradients @ gradients.T, small @ small.T
    assert (projected - exact).abs().max() < 0.15 * exact.max()
    assert project(gradients, 30_000, 0, 0) is gradients


def make(options: QoqOptions, source, target: Path, folder: Path, **optimization) -> Trainer:
    config = tiny_config("qoq", source, target, options=options, **optimization)
    made = Trainer(config, RunFolder(folder))
    made.folder.path.mkdir()
    return made


def test_scores_are_the_largest_product(source: Path, target: Path, tmp_path: Path) -> None:
    options = QoqOptions(gradients_of="present", share=0.5, draws=4)
    method = make(options, source, target, tmp_path / "run").method
    assert isinstance(method, Qoq)
    policy = method.context.present_policy()
    sides = [
        torch.cat(list(method._gradients(policy, index)))
        for index in (method.context.source_windows, method.context.target_windows)
    ]
    products = (sides[0] @ sides[1].T).double().numpy()
    np.testing.assert_allclose(method.score(1), products.max(axis=1), rtol=1e-5)
    method.options = replace(options, over_target="mean")
    np.testing.assert_allclose(method.score(1), products.mean(axis=1), rtol=1e-4, atol=1e-9)


def test_a_product_is_what_a_gradient_step_takes_from_the_loss(
    source: Path, target: Path, tmp_path: Path
) -> None:
    """ℓ(v) after a small step on z is ℓ(v) − η⟨∇ℓ(v), ∇ℓ(z)⟩, by the parameters of the last layers."""
    made = make(QoqOptions(), source, target, tmp_path / "run")
    view, rate = made.context.present_policy(), 1e-4
    index = np.array([0, 3, 20, *made.context.target_windows[:3]])
    conditions, actions = view.measure(index, 1, 0).observation, view.actions(index)
    noise, timesteps = made.policy.draw_noise(6, 8, torch.Generator().manual_seed(1), shared=True)

    def losses() -> torch.Tensor:
        with torch.no_grad():
            return made.policy.per_sample_loss(conditions, actions, noise, timesteps).mean(dim=0).double()

    gradients = last_layer_gradients(made.policy, conditions, actions, noise, timesteps)
    products, before = gradients @ gradients.T, losses()
    output = made.policy.denoiser.last_layers[-1]
    last, block = list(output.parameters()), made.policy.denoiser.last_layers[0].conv
    for row in range(3):
        start, saved = 0, []
        for parameter in (block.weight, block.bias, *last):
            saved.append(parameter.detach().clone())
            part = gradients[row, start : start + parameter.numel()]
            parameter.data -= rate * part.reshape(parameter.shape)
            start += parameter.numel()
        change = losses() - before
        for parameter, value in zip((block.weight, block.bias, *last), saved, strict=True):
            parameter.data.copy_(value)
        torch.testing.assert_close(change, -rate * products[row].double(), rtol=0.05, atol=3e-7)


def test_the_present_policy_is_asked_once_and_resumed(source: Path, target: Path, tmp_path: Path) -> None:
    config = tiny_config(
        "qoq", source, target, options=QoqOptions(gradients_of="present", share=0.5, draws=2)
    )
    train(config, tmp_path / "whole")
    train_with_stops(config, tmp_path / "parts", 1, 3, 5)
    assert_same_runs(tmp_path / "whole", tmp_path / "parts")
    (line,) = metrics(tmp_path / "whole", "refresh")
    assert line["epoch"] == 2 and line["kept/sim"] == pytest.approx(2 / 5)
    assert not (tmp_path / "whole" / "references").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep_share": -1.0}, "--keep-share -1.0"),
        ({"share": 0.0}, "--share 0.0"),
        ({"share": 1.0, "gradients_of": "present"}, "--share 1.0"),
        ({"draws": 0}, "--draws 0"),
        ({"projection": 0}, "--projection 0"),
    ],
)
def test_bad_options_are_refused(options, message: str) -> None:
    with pytest.raises(UserError, match=message):
        QoqOptions(**options)


def test_a_run_that_is_too_short_is_refused(source: Path, target: Path) -> None:
    options = QoqOptions(gradients_of="present")
    with pytest.raises(UserError, match="no epoch of 1 is left after scoring"):
        tiny_config("qoq", source, target, options=options, steps=2)
