"""BEACON's weights in LeRobot's training loop (0.6).

LeRobot asks a ``SampleWeighter`` for the weights of every batch and knows frames by their ``index``::

    from beacon.integrations.lerobot import FrameWeights

    weighter = FrameWeights.from_file("for_lerobot/sim/sample_weights.parquet")
    weights, stats = weighter.compute_batch_weights(batch)   # as LeRobot's loop does

From the command line, a plugin calls `install`, after which
``--sample_weighting.type=beacon --sample_weighting.extra_params='{"weights_path": "..."}'`` chooses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from beacon.errors import UserError

if TYPE_CHECKING:
    import torch

TYPE = "beacon"
TESTED = "0.6."  # versions of LeRobot whose loop is known


class FrameWeights:
    """A weight for every frame of a LeRobot dataset; it is a ``SampleWeighter`` of LeRobot.

    Args:
        index: numbers of frames, the dataset's column ``index``.
        weight: at least 0 each.
        fallback: weight of frames that are not among them.
    """

    def __init__(self, index: ArrayLike, weight: ArrayLike, fallback: float = 1.0) -> None:
        self.fallback = fallback
        self.update(index, weight)

    @classmethod
    def from_file(cls, path: str | Path, fallback: float = 1.0) -> FrameWeights:
        """Read what ``beacon weights RUN --export OUT --format lerobot`` wrote.

        Args:
            path: of ``sample_weights.parquet``.
            fallback: weight of frames that are not in it.
        """
        try:
            table = pq.read_table(Path(path).absolute(), columns=["index", "weight"])
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            raise UserError(f"{path}: not a file of sample weights ({error})") from None
        return cls(table["index"].to_numpy(), table["weight"].to_numpy(), fallback)

    def update(self, index: ArrayLike, weight: ArrayLike) -> None:
        """Take new weights, for example after a refresh of a `beacon.weighting.Reweighter`.

        Args:
            index: numbers of frames.
            weight: at least 0 each.
        """
        frames: NDArray[np.int64] = np.asarray(index, np.int64).reshape(-1)
        values: NDArray[np.float64] = np.asarray(weight, np.float64).reshape(-1)
        if len(frames) != len(values) or not len(frames):
            raise UserError(f"{len(values)} weights for {len(frames)} frames")
        if not np.isfinite(values).all() or values.min() < 0:
            raise UserError("weights must be finite and at least 0")
        if frames.min() < 0 or len(np.unique(frames)) < len(frames):
            raise UserError("numbers of frames must be at least 0, each once")
        table = np.full(int(frames.max()) + 1, np.nan)
        table[frames] = values
        self._table = table

    def weights_of(self, index: ArrayLike) -> NDArray[np.float64]:
        """Weights of frames, (B,).

        Args:
            index: their numbers.
        """
        frames = np.asarray(index, np.int64).reshape(-1)
        known = (frames >= 0) & (frames < len(self._table))
        weights = np.where(known, self._table[np.where(known, frames, 0)], np.nan)
        return np.where(np.isnan(weights), self.fallback, weights)

    def compute_batch_weights(self, batch: Mapping[str, Any]) -> tuple[torch.Tensor, dict[str, float]]:
        """Weights of a batch of LeRobot, and what it logs.

        Args:
            batch: preprocessed; it holds ``index``.
        """
        import torch

        if "index" not in batch:
            raise UserError("the batch has no 'index', by which weights are found")
        index = torch.as_tensor(batch["index"])
        weights = self.weights_of(index.cpu().numpy())
        stats = {"mean_weight": float(weights.mean()), "num_zero_weight": float((weights == 0).sum())}
        return torch.as_tensor(weights, dtype=torch.float32, device=index.device), stats

    def get_stats(self) -> dict[str, Any]:
        """Facts that LeRobot logs once."""
        known = self._table[~np.isnan(self._table)]
        effective = float(known.sum() ** 2 / max((known**2).sum(), 1e-300))
        return {
            "type": TYPE,
            "frames": len(known),
            "mean": float(known.mean()),
            "effective_frames": effective,
        }


def register() -> None:
    """Let LeRobot take `FrameWeights` for one of its own sample weighters."""
    import_module("lerobot.utils.sample_weighting").SampleWeighter.register(FrameWeights)


def install() -> None:
    """Make ``--sample_weighting.type=beacon`` known to ``lerobot-train``.

    LeRobot 0.6 has a fixed list of types, so its factory is replaced by one that knows this type and passes
    all others on. It is not a public interface: another version is refused.
    """
    version = str(import_module("lerobot").__version__)
    if not version.startswith(TESTED):
        raise UserError(f"LeRobot {version}: sample weights of BEACON are known to work with {TESTED}x only")
    register()
    module = import_module("lerobot.utils.sample_weighting")
    original = module.make_sample_weighter
    if getattr(original, "_beacon", False):
        return

    def make_sample_weighter(config: Any, *arguments: Any, **more: Any) -> Any:
        if config is None or getattr(config, "type", None) != TYPE:
            return original(config, *arguments, **more)
        extra = dict(getattr(config, "extra_params", None) or {})
        if "weights_path" not in extra:
            raise UserError('--sample_weighting.extra_params: say {"weights_path": "..."}')
        return FrameWeights.from_file(extra["weights_path"], float(extra.get("fallback_weight", 1.0)))

    make_sample_weighter._beacon = True  # type: ignore[attr-defined]
    setattr(module, "make_sample_weighter", make_sample_weighter)  # noqa: B010
