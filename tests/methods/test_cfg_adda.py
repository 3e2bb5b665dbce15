"""CFG-ADDA: the domain label and its guidance in the policy, and the adversarial loss of the encoder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_runs import TINY, assert_same_runs, tiny_config, train_with_stops

from beacon.data import WindowBatch
from beacon.errors import UserError
from beacon.methods import CfgAddaOptions
from beacon.methods.auxiliary.adversarial import Adversarial, AdversarialLoss
from beacon.policy import DiffusionPolicy, DomainLabel, Encoding, ObservationSpec, load_policy
from beacon.runs import RunFolder
from beacon.training import Trainer, train

SPEC = ObservationSpec(cameras={}, proprio={"state": 3}, action_dim=2)


def labelled(dropout: float = 0.1, guidance: float = 1.0) -> ObservationSpec:
    return replace(SPEC, domain_label=DomainLabel(dropout, guidance))


def test_a_policy_without_label_is_described_as_ever() -> None:
    assert set(SPEC.to_dict()) == {"cameras", "proprio", "action_dim"}
    assert ObservationSpec.from_dict(SPEC.to_dict()) == SPEC
    assert ObservationSpec.from_dict(labelled(0.2, 3.0).to_dict()) == labelled(0.2, 3.0)


def test_labels_say_the_domain_and_are_left_out_at_random() -> None:
    policy = DiffusionPolicy(labelled(dropout=0.3), TINY)
    state = {"state": torch.randn(4000, 2, 3)}
    of_source = torch.arange(4000) % 2 == 0
    said = policy.encode({}, state, of_source=of_source).observation[:, -2:]
    assert torch.equal(said, torch.stack([of_source, ~of_source], dim=1).float())
    # Who acts is of the target's domain.
    assert torch.equal(policy.encode({}, state).observation[0, -2:], torch.tensor([0.0, 1.0]))
    draw = torch.Generator().manual_seed(0)
    drawn = policy.encode({}, state, crop_generator=draw, of_source=of_source).observation[:, -2:]
    left_out = drawn.sum(dim=1) == 0
    assert left_out.float().mean() == pytest.approx(0.3, abs=0.03)
    assert torch.equal(drawn[~left_out], said[~left_out])


def test_guidance_goes_beyond_the_label() -> None:
    """One step of DDIM that predicts actions is the prediction: without + s (with − without)."""
    config = replace(TINY, prediction="sample", sampler="ddim", sampling_steps=1, clip_sample=False)
    sampled, condition = {}, torch.randn(5, 6, generator=torch.Generator().manual_seed(1))
    for scale in (0.0, 1.0, 2.5):
        policy = DiffusionPolicy(labelled(guidance=scale), config, seed=4)
        target = torch.cat([condition, torch.tensor([[0.0, 1.0]]).expand(5, 2)], dim=1)
        sampled[scale] = policy.sample(target, torch.Generator().manual_seed(2))
        if scale == 1:
            unlabelled = torch.cat([condition, torch.zeros(5, 2)], dim=1)
            sampled["without"] = policy.sample(unlabelled, torch.Generator().manual_seed(2))
    torch.testing.assert_close(sampled[0.0], sampled["without"])
    assert not torch.allclose(sampled[1.0], sampled["without"])
    torch.testing.assert_close(sampled[2.5], sampled[0.0] + 2.5 * (sampled[1.0] - sampled[0.0]))


def test_windows_are_measured_with_their_own_label(source: Path, target: Path, tmp_path: Path) -> None:
    made = Trainer(tiny_config("cfg-adda", source, target), RunFolder(tmp_path / "run"))
    index = np.array([0, made.context.target_windows[0]])
    labels = made.context.measure(index, 1, 0).observation[:, -2:]
    assert labels.tolist() == [[1, 0], [0, 1]]


def test_the_saved_policy_acts_as_it_was_trained(source: Path, target: Path, tmp_path: Path) -> None:
    train(tiny_config("cfg-adda", source, target, options=CfgAddaOptions(guidance=3.0)), tmp_path / "run")
    trained = load_policy(tmp_path / "run")
    assert trained.spec.domain_label == DomainLabel(0.1, 3.0)
    seen = {"agentview_image": np.zeros((24, 24, 3), np.uint8), "robot0_eef_pos": np.zeros(3)}
    assert trained.act(seen).shape == (4, 3)


def batch_of(domain: list[int]) -> WindowBatch:
    count = len(domain)
    return WindowBatch(torch.arange(count), torch.tensor(domain), {}, {}, torch.zeros(count, 1, 1))


def built(**options) -> AdversarialLoss:
    return AdversarialLoss(Adversarial(**options), target=1, seed=0)


def test_the_discriminator_learns_and_the_encoder_deceives_it() -> None:
    draw = torch.Generator().manual_seed(0)
    source = torch.randn(32, 3, generator=draw)
    target = (torch.randn(32, 3, generator=draw) + 2).requires_grad_()
    batch, loss = batch_of([0] * 32 + [1] * 32), built(strength=1.0, hidden=32, learning_rate=1e-2)
    optimizer = torch.optim.SGD([target], lr=2.0)
    told = []
    for step in range(150):
        features = torch.cat([source, target])
        value = loss.loss(batch, Encoding(features, features))
        assert loss.discriminator is not None
        logits = loss.discriminator(features.detach()).squeeze(1)
        # The value is −log P(source) of the target's features.
        expected = -torch.nn.functional.logsigmoid(-logits[32:]).mean()
        torch.testing.assert_close(value, expected)
        told.append(float((logits[32:].mean() - logits[:32].mean()).detach()))
        optimizer.zero_grad()
        value.backward()
        if step >= 50:  # only then the encoder answers
            optimizer.step()
    assert told[49] > 3  # it could tell
    assert target.detach().mean(dim=0).sub(source.mean(dim=0)).norm() < 1.5 < 2 * 3**0.5


def test_only_target_features_are_moved() -> None:
    features = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    loss = built()
    loss.loss(batch_of([0, 1, 0, 1, 1, 0]), Encoding(features, features)).backward()
    assert features.grad is not None
    moved = features.grad.abs().sum(dim=1) > 0
    assert moved.tolist() == [False, True, False, True, True, False]
    # A mini-batch of one side has nothing to compare.
    assert float(loss.loss(batch_of([1] * 6), Encoding(features, features))) == 0


def test_the_loss_is_an_auxiliary_loss_of_any_method(source: Path, target: Path, tmp_path: Path) -> None:
    plain = tiny_config("cotrain", source, target)
    config = replace(plain, auxiliary=(Adversarial(strength=0.5),))
    train(config, tmp_path / "whole")
    train_with_stops(config, tmp_path / "parts", 1, 3, 5)
    assert_same_runs(tmp_path / "whole", tmp_path / "parts")
    with pytest.raises(UserError, match="the checkpoint belongs to another"):
        built().load_state_dict({"nonsense": np.zeros(3)})


def test_it_needs_cameras(source: Path, target: Path, tmp_path: Path) -> None:
    config = tiny_config("cfg-adda", source, target, data={"cameras": ()})
    with pytest.raises(UserError, match="cfg-adda aligns image features, and there are no cameras"):
        Trainer(config, RunFolder(tmp_path / "run"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label_dropout": 1.0}, "--label-dropout 1.0"),
        ({"label_dropout": 0.0}, "say --guidance 1"),
        ({"guidance": -1.0}, "--guidance -1.0"),
        ({"strength": -1.0}, "--strength -1.0"),
        ({"discriminator_rate": 0.0}, "--discriminator-rate 0.0"),
        ({"hidden": 0}, "--hidden 0"),
    ],
)
def test_bad_options_are_refused(options, message: str) -> None:
    with pytest.raises(UserError, match=message):
        CfgAddaOptions(**options)
