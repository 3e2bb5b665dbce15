"""Crops, pooling, ResNet-18 and torchvision's weights."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from policy_inputs import random_batch
from safetensors.torch import save_file

from beacon.errors import UserError
from beacon.policy import DiffusionPolicy, EncoderConfig, ObservationSpec, PolicyConfig, load_resnet_weights
from beacon.policy import resnet as resnet_module
from beacon.policy.encoder import ImageEncoder, SpatialSoftmax, colour_whitening
from beacon.policy.images import crop, crop_at, resize
from beacon.policy.resnet import ResNet18


def test_random_crop_is_the_slow_one() -> None:
    g = torch.Generator().manual_seed(0)
    images = torch.randint(256, (6, 2, 11, 13, 3), generator=g, dtype=torch.uint8)
    tops, lefts = torch.tensor([0, 3, 1, 2, 3, 0]), torch.tensor([4, 4, 0, 1, 3, 0])
    got = crop_at(images, tops, lefts, (8, 9))
    for b in range(6):
        y, x = int(tops[b]), int(lefts[b])
        assert torch.equal(got[b], images[b, :, y : y + 8, x : x + 9])
    every_other = images[::2]  # not contiguous
    assert torch.equal(crop_at(every_other, tops[::2], lefts[::2], (8, 9)), got[::2])


def test_random_crop_reaches_every_position_and_repeats_with_its_generator() -> None:
    where = torch.arange(6 * 7, dtype=torch.uint8).view(1, 1, 6, 7, 1).expand(400, 2, 6, 7, 1)
    got = crop(where, (4, 5), torch.Generator().manual_seed(1))
    corners = got[:, :, 0, 0, 0]
    assert torch.equal(corners[:, 0], corners[:, 1])  # one crop for all steps of a sample
    assert set(corners[:, 0].tolist()) == {7 * y + x for y in range(3) for x in range(3)}
    assert torch.equal(got, crop(where, (4, 5), torch.Generator().manual_seed(1)))


def test_centre_crop() -> None:
    images = torch.randint(256, (2, 1, 10, 10, 3), dtype=torch.uint8)
    assert torch.equal(crop(images, (6, 8), None), images[:, :, 2:8, 1:9])
    assert torch.equal(crop(images, (10, 10), torch.Generator()), images)


def test_crop_sizes_are_in_proportion() -> None:
    assert EncoderConfig().crop_size(96, 96) == (86, 86)
    assert EncoderConfig().crop_size(84, 84) == (75, 75)
    assert EncoderConfig(crop=1.0).crop_size(48, 64) == (48, 64)


def test_resize_is_pillows() -> None:
    frame = np.random.default_rng(0).integers(0, 256, (2, 31, 40, 3), dtype=np.uint8)
    for size in [(16, 16), (48, 50)]:
        got = resize(torch.from_numpy(frame), size).numpy()
        for picture, small in zip(frame, got, strict=True):
            want = Image.fromarray(picture).resize(size[::-1], Image.Resampling.BILINEAR)
            assert np.abs(small.astype(int) - np.asarray(want).astype(int)).max() <= 1


def test_spatial_softmax_finds_a_peak() -> None:
    pool = SpatialSoftmax(channels=2, keypoints=2)
    with torch.no_grad():
        pool.keypoints.weight.copy_(torch.eye(2))
        pool.keypoints.bias.zero_()
    maps = torch.zeros(1, 2, 5, 9)
    maps[0, 0, 1, 6] = 100  # keypoint 0: row 1 of 5, column 6 of 9
    maps[0, 1, 4, 0] = 100
    torch.testing.assert_close(pool(maps), torch.tensor([[0.5, -0.5, -1.0, 1.0]]))


def test_temperature_sharpens() -> None:
    pool = SpatialSoftmax(channels=1, keypoints=1, learn_temperature=True)
    maps = torch.rand(1, 1, 5, 5)
    logits = maps.flatten() * pool.keypoints.weight.detach().flatten() + pool.keypoints.bias.detach()
    assert pool.log_temperature is not None
    with torch.no_grad():
        pool.log_temperature.fill_(-2.0)
    attention = torch.softmax(logits * np.exp(2.0), 0).view(5, 5)
    grid = torch.linspace(-1, 1, 5)
    want = torch.stack([(attention.sum(0) * grid).sum(), (attention.sum(1) * grid).sum()])
    torch.testing.assert_close(pool(maps)[0], want, rtol=1e-4, atol=1e-5)
    pool(maps).sum().backward()
    assert pool.log_temperature.grad is not None and pool.log_temperature.grad.abs() > 0


def test_whitening_makes_the_colours_of_photographs_uncorrelated() -> None:
    config = EncoderConfig()
    mean, std = torch.tensor(config.image_mean), torch.tensor(config.image_std)
    # Colours as ImageNet's vary: a lot in brightness, little in hue.
    axes = torch.tensor([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])
    spread = torch.tensor([0.2175, 0.0188, 0.0045]).mul(std.square().sum() / 0.2408).sqrt()
    noise = torch.randn(100_000, 3, generator=torch.Generator().manual_seed(0))
    colours = mean + noise * spread @ axes.T
    white = ((colours - mean) / std) @ colour_whitening(std)
    torch.testing.assert_close(white.T.cov(), torch.eye(3), rtol=0, atol=0.02)


def test_whitening_tells_equally_bright_colours_apart() -> None:
    red, brown = torch.tensor([150, 40, 50]), torch.tensor([125, 70, 40])
    images = torch.stack([colour.expand(32, 32, 3) for colour in (red, brown)]).to(torch.uint8)

    def distance(whiten: bool) -> float:
        encoder = ImageEncoder(EncoderConfig(widths=(8, 8, 8, 8), whiten=whiten), channels=3)
        seen: list[torch.Tensor] = []
        encoder.resnet.conv1.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        encoder(images)
        return (seen[0][0] - seen[0][1]).square().mean().sqrt().item()

    assert distance(whiten=True) > 2 * distance(whiten=False)


def test_only_colours_are_whitened() -> None:
    config = EncoderConfig(widths=(8, 8, 8, 8), group_channels=8, whiten=True)
    assert ImageEncoder(config, channels=1).whitening is None
    assert ImageEncoder(dataclasses.replace(config, whiten=False), channels=3).whitening is None


def test_average_pooling_and_image_normalisation() -> None:
    config = EncoderConfig(widths=(8, 8, 8, 8), pooling="average", feature_dim=None)
    encoder = ImageEncoder(config, channels=3)
    images = torch.randint(256, (2, 32, 32, 3), dtype=torch.uint8)
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    pixels = ((images / 255 - mean) / std).permute(0, 3, 1, 2)
    want = encoder.resnet(pixels.contiguous()).mean(dim=(2, 3))
    torch.testing.assert_close(encoder(images), want, rtol=1e-4, atol=1e-5)
    assert ImageEncoder(config, channels=1)(images[..., :1]).shape == (2, 8)


@pytest.mark.parametrize("stride, side", [(4, 22), (8, 11), (16, 6), (32, 3)])
def test_output_stride(stride: int, side: int) -> None:
    assert ResNet18((8, 8, 8, 8), output_stride=stride)(torch.zeros(1, 3, 86, 86)).shape == (1, 8, side, side)


def plain_resnet(w: dict[str, torch.Tensor], x: torch.Tensor, groups: int) -> torch.Tensor:
    """The resnet18 of torchvision up to its last feature map, with GroupNorm, written out."""

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return F.group_norm(x, groups, w[f"{name}.weight"], w[f"{name}.bias"])

    x = F.relu(norm(F.conv2d(x, w["conv1.weight"], stride=2, padding=3), "bn1"))
    x = F.max_pool2d(x, 3, 2, 1)
    for layer in range(1, 5):
        for block in range(2):
            name, stride = f"layer{layer}.{block}", 2 if layer > 1 and block == 0 else 1
            y = F.relu(norm(F.conv2d(x, w[f"{name}.conv1.weight"], stride=stride, padding=1), f"{name}.bn1"))
            y = norm(F.conv2d(y, w[f"{name}.conv2.weight"], padding=1), f"{name}.bn2")
            if f"{name}.downsample.0.weight" in w:
                x = norm(F.conv2d(x, w[f"{name}.downsample.0.weight"], stride=stride), f"{name}.downsample.1")
            x = F.relu(x + y)
    return x


def test_resnet_is_the_plain_one_in_parts_or_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    network = ResNet18((16, 32, 32, 32), group_channels=100)
    x = torch.randn(5, 3, 40, 40)
    weights = dict(network.named_parameters())
    want = plain_resnet(weights, x, groups=1)
    expected = torch.autograd.grad(want.square().sum(), list(weights.values()))
    for limit in (2**22, 16 * 20 * 20 * 2):  # all five images at once, or two at a time
        monkeypatch.setattr(resnet_module, "_STEM_ELEMENTS", limit)
        got = network(x.to(memory_format=torch.channels_last))
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
        for a, b in zip(
            torch.autograd.grad(got.square().sum(), list(weights.values())), expected, strict=True
        ):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4 * b.abs().max().item())


def torchvision_resnet18() -> dict[str, torch.Tensor]:
    """A file with the names and shapes of torchvision's resnet18, by rule."""
    weights: dict[str, torch.Tensor] = {"fc.weight": torch.randn(1000, 512), "fc.bias": torch.randn(1000)}

    def batch_norm(name: str, width: int) -> None:
        for entry in ("weight", "bias", "running_mean", "running_var"):
            weights[f"{name}.{entry}"] = torch.rand(width)
        weights[f"{name}.num_batches_tracked"] = torch.tensor(7)

    weights["conv1.weight"] = torch.randn(64, 3, 7, 7)
    batch_norm("bn1", 64)
    inputs = 64
    for layer, width in enumerate((64, 128, 256, 512), start=1):
        for block in range(2):
            name = f"layer{layer}.{block}"
            weights[f"{name}.conv1.weight"] = torch.randn(width, inputs, 3, 3)
            weights[f"{name}.conv2.weight"] = torch.randn(width, width, 3, 3)
            batch_norm(f"{name}.bn1", width)
            batch_norm(f"{name}.bn2", width)
            if block == 0 and layer > 1:
                weights[f"{name}.downsample.0.weight"] = torch.randn(width, inputs, 1, 1)
                batch_norm(f"{name}.downsample.1", width)
            inputs = width
    return weights


def test_torchvision_weights_load(tmp_path: Path) -> None:
    weights = torchvision_resnet18()
    assert len(weights) == 122  # as torchvision.models.resnet18().state_dict()
    save_file(weights, tmp_path / "resnet18.safetensors")
    network = ResNet18()
    load_resnet_weights(network, tmp_path / "resnet18.safetensors")
    for name, parameter in network.named_parameters():
        assert torch.equal(parameter, weights[name]), name
    assert sum(p.numel() for p in network.parameters()) == 11_176_512  # resnet18 without its classifier


def test_wrong_resnet_weights_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    with pytest.raises(UserError, match="no such file"):
        load_resnet_weights(ResNet18(), file)
    file.write_bytes(b"not safetensors at all")
    with pytest.raises(UserError, match="not a readable safetensors file"):
        load_resnet_weights(ResNet18(), file)
    weights = torchvision_resnet18()
    save_file(weights, file)
    with pytest.raises(UserError, match="64/128/256/512"):
        load_resnet_weights(ResNet18((32, 128, 256, 512)), file)
    del weights["layer3.1.conv2.weight"]
    save_file(weights, file)
    with pytest.raises(UserError, match=r"1 are missing, such as layer3\.1\.conv2\.weight"):
        load_resnet_weights(ResNet18(), file)


def test_shared_encoder_in_one_pass_or_camera_by_camera(config: PolicyConfig) -> None:
    config = dataclasses.replace(config, encoder=dataclasses.replace(config.encoder, share=True))
    same = ObservationSpec({"a": (24, 24, 3), "b": (24, 24, 3)}, {"p": 2}, 4)
    policy = DiffusionPolicy(same, config)
    images, proprio, _ = random_batch(same, config, 3)
    vision = policy.encode(images, proprio).vision.view(3, 2, 2, 6)  # sample, step, camera, feature
    encoder = policy.encoder.cameras[0]
    for number, name in enumerate(("a", "b")):
        cropped = crop(images[name], config.encoder.crop_size(24, 24), None)
        alone = encoder(cropped.flatten(0, 1)).view(3, 2, 6)
        torch.testing.assert_close(vision[:, :, number], alone, rtol=1e-4, atol=1e-5)
    different = ObservationSpec({"a": (24, 24, 3), "b": (20, 28, 3)}, {}, 4)
    images, proprio, _ = random_batch(different, config, 3)
    assert DiffusionPolicy(different, config).encode(images, proprio).vision.shape == (3, 24)
    with pytest.raises(UserError, match="channels differ"):
        DiffusionPolicy(ObservationSpec({"a": (24, 24, 3), "b": (24, 24, 1)}, {}, 4), config)


def test_the_two_outputs(spec: ObservationSpec, config: PolicyConfig) -> None:
    policy = DiffusionPolicy(spec, config)
    images, proprio, _ = random_batch(spec, config, 3)
    encoding = policy.encode(images, proprio)
    assert encoding.vision.shape == (3, policy.vision_dim) == (3, 2 * 2 * 6)
    assert encoding.observation.shape == (3, policy.condition_dim) == (3, 24 + 2 * 4)
    assert torch.equal(encoding.observation[:, :24], encoding.vision)
    assert torch.equal(encoding.observation[:, 24:26].reshape(3, 2), proprio["gripper"].reshape(3, 2))
    assert torch.equal(encoding.observation[:, 26:].reshape(3, 2, 3), proprio["pose"])
    reordered = {name: images[name] for name in reversed(list(images))}
    assert torch.equal(policy.encode(reordered, proprio).observation, encoding.observation)


def test_without_cameras_or_without_proprioception(config: PolicyConfig) -> None:
    for spec in (ObservationSpec({}, {"p": 3}, 2), ObservationSpec({"c": (24, 24, 3)}, {}, 2)):
        policy = DiffusionPolicy(spec, config)
        images, proprio, actions = random_batch(spec, config, 3)
        encoding = policy.encode(images, proprio)
        assert encoding.vision.shape == (3, policy.vision_dim)
        noise, timesteps = policy.draw_noise(3, 1, torch.Generator())
        assert policy.per_sample_loss(encoding.observation, actions, noise, timesteps).shape == (1, 3)
