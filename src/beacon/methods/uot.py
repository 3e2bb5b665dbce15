"""Co-training with features aligned by unbalanced optimal transport (Cheng et al. 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from beacon.data.errors import listing
from beacon.devices import upload
from beacon.errors import UserError
from beacon.methods.balanced import check_cameras, check_ratio, check_share, check_strengths, target_count
from beacon.methods.base import Features, Indices, Method, MethodContext, choose_features

if TYPE_CHECKING:
    from torch import Tensor

    from beacon.data import WindowBatch
    from beacon.methods.alignment import AlignedSampler
    from beacon.policy import Encoding

POSITION = "robot0_eef_pos"


@dataclass(frozen=True)
class UotOptions:
    """Options of co-training with unbalanced optimal transport. Defaults are its public configuration's."""

    # Share of the source in what is cloned: the loss is ratio·L_source + (1 − ratio)·L_target.
    ratio: float = 0.9
    # Strength of the transport cost; UOT: 0.1.
    strength: float = 0.1
    # What mass off the marginals is compared with: "diag" keeps to the pairs that were drawn, as the public
    # configuration does; "outer" lets every source window pair with every target window.
    reference: Literal["diag", "outer"] = "diag"
    # Cost of squared distance between features; UOT: 0.01.
    feature_cost: float = 0.01
    # Cost of squared distance between labels; UOT: 0.05.
    label_cost: float = 0.05
    # Strength of the entropy; UOT: 0.1.
    reg: float = 0.1
    # Strength of the marginals, both sides; UOT: 0.05.
    tau: float = 0.05
    # Proprioception that is the label, and by which demonstrations are aligned; default: the end-effector's
    # position.
    label: str = POSITION
    # Features that are aligned: of the images alone, or of the whole observation.
    features: Features = "vision"
    # Draw "aligned" pairs by dynamic time warping, or source windows at random ("unpaired").
    pairs: Literal["aligned", "unpaired"] = "aligned"
    # How sharply source demonstrations far from the target demonstration are avoided; UOT: 10.
    sharpness: float = 10.0
    # Distance at which a source demonstration is half as likely as the nearest can be; UOT: 0.01.
    offset: float = 0.01
    # The source step is moved by up to so many steps at random; UOT: 10.
    jitter: int = 10
    # Share of pairs in a mini-batch: so much of it is target windows, as much again their source partners,
    # which serve the alignment alone, and the rest source windows to clone. UOT's is a third of 384.
    target_share: float = 0.25
    # Folder for alignments, computed once for the same demonstrations; default: ~/.cache/beacon/alignments.
    cache: Path | None = None

    def __post_init__(self) -> None:
        check_ratio(self.ratio)
        check_share(self.target_share)
        check_strengths(
            strength=self.strength,
            feature_cost=self.feature_cost,
            label_cost=self.label_cost,
            sharpness=self.sharpness,
            jitter=self.jitter,
        )
        for name in ("reg", "tau"):
            if not getattr(self, name) > 0:
                raise UserError(f"--{name} {getattr(self, name)}: must be above 0")


class Uot(Method):
    """Clone source and target at a fixed ratio, and move features of the same moment together."""

    Options = UotOptions

    def __init__(self, options: UotOptions, context: MethodContext) -> None:
        super().__init__(options, context)
        check_cameras(context, "uot")
        known = list(context.windows.sets[0].proprio)
        if options.label not in known:
            raise UserError(
                f"--label {options.label}: there is no such proprioception; there is {listing(known)}"
            )
        self._pairs = target_count(context, options.target_share, most=(1 - 1 / context.batch_size) / 2)
        self._aligned: AlignedSampler | None = None
        size, pairs = context.batch_size, self._pairs
        # By place in the mini-batch: targets, their partners, source windows to clone.
        self._weight = np.repeat(
            np.array([(1 - options.ratio) * size / pairs, 0.0, options.ratio * size / (size - 2 * pairs)]),
            [pairs, pairs, size - 2 * pairs],
        ).astype(np.float32)
        self._on_device: Tensor | None = None  # the same where the policy is

    def batches(self, epoch: int) -> Indices:
        """Target windows, as many partners in the same order, then source windows drawn uniformly."""
        context, pairs = self.context, self._pairs
        rng = np.random.default_rng([context.seed, epoch])
        shape = (context.steps_per_epoch, pairs)
        if self.options.pairs == "aligned":
            target, partner = self._sampler().draw(shape[0] * pairs, rng)
            target, partner = target.reshape(shape), partner.reshape(shape)
        else:
            target = rng.choice(context.target_windows, shape)
            partner = rng.choice(context.source_windows, shape)
        source = rng.choice(context.source_windows, (shape[0], context.batch_size - 2 * pairs))
        return np.concatenate([target, partner, source], axis=1)

    def weights(self, index: Tensor) -> Tensor | None:
        """Zero for partners; for the others what brings the mix to the ratio."""
        import torch

        if self._on_device is None or self._on_device.device != index.device:
            self._on_device = upload(torch.from_numpy(self._weight), index.device)
        return self._on_device

    def extra_loss(self, batch: WindowBatch, encoding: Encoding, losses: Tensor) -> Tensor | None:
        """Strength × ⟨π, M⟩ of the pairs."""
        from beacon.methods.losses import pair_costs, transport_loss

        options, pairs = self.options, self._pairs
        features = choose_features(encoding, options.features)
        # Where the window stands now; (2P, d), in the units of the data.
        labels = upload(batch.proprio[options.label], features.device)[: 2 * pairs, -1]
        costs = pair_costs(
            features[pairs : 2 * pairs].float(),
            features[:pairs].float(),
            labels[pairs:],
            labels[:pairs],
            feature_cost=options.feature_cost,
            label_cost=options.label_cost,
        )
        transported = transport_loss(costs, reg=options.reg, tau=options.tau, reference=options.reference)
        strength: float = options.strength
        return strength * transported

    def _sampler(self) -> AlignedSampler:
        """Pairs by dynamic time warping, which is computed when first needed."""
        if self._aligned is None:
            from beacon.methods.alignment import AlignedSampler, cached_alignments, label_sequences

            windows, target = self.context.windows, self.context.target
            sequences = label_sequences(windows, self.options.label)
            on_target = windows.episode_domain == target
            alignments = cached_alignments(
                [s for s, is_target in zip(sequences, on_target, strict=True) if is_target],
                [s for s, is_target in zip(sequences, on_target, strict=True) if not is_target],
                self.options.cache,
            )
            self._aligned = AlignedSampler(
                windows,
                target,
                alignments,
                sharpness=self.options.sharpness,
                offset=self.options.offset,
                jitter=self.options.jitter,
            )
        return self._aligned
