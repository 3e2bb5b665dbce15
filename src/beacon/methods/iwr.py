"""Source windows by the ratio of densities of target and source, as in Importance Weighted Retrieval.

Each source window weighs p_target(z)/p_source(z), both Gaussian kernel density estimates of embeddings z; the
windows of largest weight are kept and co-trained with the target (Xie et al. 2025, arXiv 2509.01657). Nearest
neighbours are the limit of vanishing bandwidth without the denominator: of higher variance, and blind to how
dense the source itself is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.methods.base import Indices, MethodContext
from beacon.methods.beacon.measurement import RecentMeasurements, ReuseGradientSteps
from beacon.methods.option_checks import require_at_least, require_positive
from beacon.methods.selection import SelectedCoTraining, Vector, check_selection
from beacon.methods.vae import VaeTraining

if TYPE_CHECKING:
    from torch import Tensor

    from beacon.policy import Encoding

POINTS = 1024  # whose densities are computed at a time
RIDGE = 1e-6  # of a covariance, as a share of its mean variance: what never varies must not divide by zero
MEASURED = "measurement/"  # before the names of what was measured, in a checkpoint


@dataclass(frozen=True)
class IwrOptions:
    """Options of Importance Weighted Retrieval; numbers that are not the paper's idea are ours."""

    # Share of the source that is kept; paper: a threshold for each data set.
    keep_share: float = 0.5
    # Share of the source in a mini-batch; ours, as co-training.
    ratio: float = 0.9
    # Keep single "window"s, as the paper, or whole "demo"nstrations by the mean logarithm of their weights.
    granularity: Literal["window", "demo"] = "window"
    # Latents of an autoencoder of observation and action, computed before training ("vae", as the paper), or
    # embeddings of the policy's own encoder: of the images ("vision"), of the whole observation ("obs").
    embeddings: Literal["vae", "vision", "obs"] = "vae"
    # Bandwidth in standard deviations of the embeddings, for both densities; None: Scott's rule for each.
    bandwidth: float | None = None
    # Latents of the autoencoder, and their β.
    latents: int = 16
    beta: float = 0.01
    # Actions of a window that the autoencoder sees beside the observation, from the first on.
    actions: int = 1
    # Training of the autoencoder.
    vae: VaeTraining = field(default_factory=VaeTraining)
    # Epochs between two refreshes with embeddings of the policy, and after which a measurement is too old.
    refresh_every: int = 1
    max_age: int = 4

    def __post_init__(self) -> None:
        check_selection(self.keep_share, self.ratio)
        require_at_least(1, latents=self.latents, refresh_every=self.refresh_every, max_age=self.max_age)
        require_at_least(0, beta=self.beta, actions=self.actions)
        if self.bandwidth is not None:
            require_positive(bandwidth=self.bandwidth)


class Iwr(SelectedCoTraining):
    """Keep the source windows where the target is dense and the source is not."""

    Options = IwrOptions

    def __init__(self, options: IwrOptions, context: MethodContext) -> None:
        super().__init__(options, context)
        if options.embeddings == "vision" and not context.windows.sets[0].images:
            raise UserError("there are no cameras, so no embeddings of images; say --embeddings obs")
        if len(context.target_windows) < 2:
            raise UserError("--method iwr: a single target window has no density; take more demonstrations")
        self._measurement: RecentMeasurements | None = None
        if options.embeddings != "vae":
            recent = ReuseGradientSteps(max_age=options.max_age)
            self._measurement = RecentMeasurements(recent, context, options.embeddings)
        self._epoch = 0

    @property
    def by_demo(self) -> bool:
        """Whether whole demonstrations are kept or left out."""
        return bool(self.options.granularity == "demo")

    def is_due(self, epoch: int) -> bool:
        """Once before training; with embeddings of the policy every few epochs, the first left out."""
        self._epoch = epoch
        if self._measurement is None:
            return super().is_due(epoch)
        return epoch > 0 and epoch % int(self.options.refresh_every) == 0

    def score(self, epoch: int) -> Vector:
        """Log p_target(z) − log p_source(z) of every source window, (m,)."""
        embeddings = self._embeddings(epoch).double()
        source, target = (
            embeddings[index] for index in (self.context.source_windows, self.context.target_windows)
        )
        bandwidth = self.options.bandwidth
        return log_density(source, target, bandwidth) - log_density(source, source, bandwidth)

    def _embeddings(self, epoch: int) -> Tensor:
        """Of all windows, (N, F)."""
        if self._measurement is not None:
            return self._measurement.at(epoch).embeddings
        import torch

        from beacon.data.image_features import ImageFeatures
        from beacon.methods.vae import standardised, vae_latents

        windows, options = self.context.windows, self.options
        chunks = windows.gather(np.arange(len(windows)), images=False).actions[:, : options.actions]
        inputs = torch.cat([ImageFeatures().of(windows), standardised(chunks.flatten(1))], dim=1)
        return vae_latents(inputs, options.latents, options.beta, options.vae, self.context.seed)

    def observe(self, index: Indices, encoding: Encoding, losses: Tensor) -> None:
        """Remember the embeddings that a gradient step has computed, where they are the policy's."""
        if self._measurement is not None:
            self._measurement.observe(index, encoding, losses, self._epoch)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """The scores, and what was measured of the policy's embeddings."""
        measured = {} if self._measurement is None else self._measurement.state_dict()
        return super().state_dict() | {f"{MEASURED}{name}": value for name, value in measured.items()}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state of `state_dict`, to the bit."""
        measured = {
            name.removeprefix(MEASURED): value for name, value in state.items() if name.startswith(MEASURED)
        }
        super().load_state_dict({name: v for name, v in state.items() if not name.startswith(MEASURED)})
        if self._measurement is not None:
            self._measurement.load_state_dict(measured)


def log_density(points: Tensor, data: Tensor, bandwidth: float | None = None) -> Vector:
    """The logarithm of a Gaussian kernel density estimate at some points, (P,).

    p(x) = mean over the data of N(x; z_j, h² Σ) with Σ the covariance of the data and Scott's bandwidth
    h = n^(−1/(d + 4)), unless one is given.

    Args:
        points: where, (P, d).
        data: z, (n, d).
        bandwidth: h.
    """
    import torch

    count, dims = data.shape
    width = count ** (-1 / (dims + 4)) if bandwidth is None else bandwidth
    centred = data - data.mean(dim=0)
    covariance = centred.T @ centred / max(count - 1, 1)
    ridge = RIDGE * covariance.diagonal().mean() + 1e-12
    root = torch.linalg.cholesky(covariance + ridge * torch.eye(dims, dtype=data.dtype, device=data.device))

    def whiten(values: Tensor) -> Tensor:
        white: Tensor = torch.linalg.solve_triangular(root, values.T, upper=False).T
        return white / width

    kernels = whiten(data)
    parts = [
        torch.logsumexp(-0.5 * torch.cdist(part, kernels).square(), dim=1)
        for part in whiten(points).split(POINTS)
    ]
    scale = np.log(count) + dims * np.log(width * np.sqrt(2 * np.pi)) + float(root.diagonal().log().sum())
    return np.asarray(torch.cat(parts).cpu().numpy() - scale)
