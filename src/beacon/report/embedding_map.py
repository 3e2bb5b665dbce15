"""The map of embeddings: windows of all domains, before and after training, in the plane."""

from __future__ import annotations

import hashlib
import json
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from beacon.data import Windows
from beacon.errors import RunError, UserError
from beacon.files import replacing
from beacon.policy import DiffusionPolicy, load_policy
from beacon.policy.trained import TrainedPolicy
from beacon.report.alignment import measure_alignment
from beacon.report.demonstration_pool import DemonstrationPool
from beacon.report.run_record import RunRecord, first_line
from beacon.runs.layout import REPORT

Projection = Literal["umap", "pca", "none"]
SPACES = ("vision", "observation")
TIMES = ("before", "after")
FORMAT = 2
BATCH = 128
EPOCHS = 200  # of UMAP's layout: its own choice for large sets, enough for small ones
FEWEST = 15  # points that UMAP needs to have neighbourhoods at all

Plane = NDArray[np.float32]  # (P, 2)


@dataclass
class EmbeddingMap:
    """Where the sampled windows lie, and how well the domains mix."""

    projection: str  # what was used, for the caption
    planes: dict[str, dict[str, Plane]] = field(default_factory=dict)  # space -> before, after
    alignment: dict[str, dict[str, dict[str, float | None]]] = field(default_factory=dict)


class Mapper:
    """Makes maps, and remembers projections that several runs share, as those before training."""

    def __init__(self, projection: Projection, *, cached_only: bool = False) -> None:
        self.projection, self.cached_only = projection, cached_only
        self._planes: dict[str, Plane] = {}
        self._features: dict[str, dict[str, NDArray[np.float32]]] = {}

    def __call__(
        self, record: RunRecord, pool: DemonstrationPool, demos: NDArray[np.int64], times: NDArray[np.int64]
    ) -> EmbeddingMap | None:
        """The map of a run's newest checkpoint, from its cache where it is there. Says what is missing."""
        if self.projection == "none" or record.checkpoint is None:
            return None
        try:
            file = self._cache_file(record, pool, demos, times)
        except OSError as error:
            record.note("map", f"The embeddings could not be computed: {first_line(error)}")
            return None
        stored = _load(file)
        if stored is not None:
            return stored
        if self.cached_only:
            record.note(
                "map",
                "The map is not drawn while training goes on; for it run:",
                f"beacon report {record.path}",
            )
            return None
        try:
            made = self._make(record, pool, demos, times)
        except (UserError, RunError, OSError, ValueError, RuntimeError) as error:
            record.note("map", f"The embeddings could not be computed: {first_line(error)}")
            return None
        with suppress(RunError):  # a run folder that cannot be written to is no reason to have no report
            _save(file, made)
        return made

    def _make(
        self, record: RunRecord, pool: DemonstrationPool, demos: NDArray[np.int64], times: NDArray[np.int64]
    ) -> EmbeddingMap:
        assert record.checkpoint is not None
        trained = load_policy(record.checkpoint)
        seed = record.option("optimization", "seed")
        fresh = DiffusionPolicy(trained.spec, trained.policy.config, seed=int(seed or 0))
        windows = Windows(pool.sets, trained.obs_steps, trained.horizon)
        first = np.cumsum(windows.episode_length) - windows.episode_length
        index = first[demos] + times
        on_target = pool.domain[demos] == pool.target
        # A policy of one domain has learned no difference between the cameras of two.
        one_sided = len({domain.is_target for domain in record.domains}) < 2
        of_source = np.zeros_like(on_target) if one_sided else ~on_target
        features = {
            "before": _features(TrainedPolicy(fresh, trained.normalization), windows, index, of_source),
            "after": _features(trained, windows, index, of_source),
        }
        result = EmbeddingMap("PCA" if self._plain(len(index)) else "UMAP")
        for space in SPACES:
            if not features["after"][space].shape[1]:
                continue  # a policy without cameras
            result.planes[space] = {when: self._project(features[when][space]) for when in TIMES}
            result.alignment[space] = {
                when: measure_alignment(features[when][space], on_target, demos).to_dict() for when in TIMES
            }
        return result

    def _plain(self, points: int) -> bool:
        return self.projection == "pca" or points < FEWEST

    def _project(self, features: NDArray[np.float32]) -> Plane:
        key = hashlib.sha256(features.tobytes()).hexdigest()
        if key not in self._planes:
            self._planes[key] = pca(features) if self._plain(len(features)) else umap(features)
        return self._planes[key]

    def _cache_file(
        self, record: RunRecord, pool: DemonstrationPool, demos: NDArray[np.int64], times: NDArray[np.int64]
    ) -> Path:
        """Named by everything that decides the map."""
        assert record.checkpoint is not None
        newest = max(file.stat().st_mtime_ns for file in record.checkpoint.iterdir())
        digest = hashlib.sha256(
            json.dumps(
                [
                    FORMAT,
                    self.projection,
                    newest,
                    record.option("optimization", "seed"),
                    [[str(s.path.resolve()), s.path.stat().st_mtime_ns, len(s)] for s in pool.sets],
                ],
                default=str,
            ).encode()
        )
        digest.update(demos.tobytes() + times.tobytes())
        return record.path / REPORT / f"map-{record.checkpoint.name}-{digest.hexdigest()[:16]}.npz"


def pca(features: NDArray[np.float32]) -> Plane:
    """The two directions of the largest variance."""
    centred = features - features.mean(axis=0)
    left, singular, _ = np.linalg.svd(centred.astype(np.float64), full_matrices=False)
    plane = np.zeros((len(features), 2), np.float32)
    count = min(2, left.shape[1])
    plane[:, :count] = (left * singular)[:, :count]
    return plane


def umap(features: NDArray[np.float32]) -> Plane:
    """UMAP with its usual neighbourhoods and a fixed seed."""
    try:
        from umap import UMAP
    except ImportError:
        raise UserError("umap-learn is not installed; pip install 'beacon-cotraining[report]'") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        neighbours = min(15, len(features) - 1)
        # Small sets are started from PCA: the spectral start fails where everything is connected.
        start: Any = "spectral" if len(features) >= 100 else pca(features)
        model = UMAP(
            n_neighbors=neighbours, min_dist=0.15, n_epochs=EPOCHS, random_state=0, n_jobs=1, init=start
        )
        return np.asarray(model.fit_transform(features), dtype=np.float32)


def _features(
    policy: TrainedPolicy, windows: Windows, index: NDArray[np.int64], of_source: NDArray[np.bool_]
) -> dict[str, NDArray[np.float32]]:
    """Embeddings of windows by what the policy sees, centre crop: (P, V) and (P, C).

    of_source: (P,), which of them were seen as the source's in training.
    """
    parts: dict[str, list[NDArray[np.float32]]] = {space: [] for space in SPACES}
    with torch.inference_mode():
        for start in range(0, len(index), BATCH):
            part = slice(start, start + BATCH)
            batch = windows.gather(index[part])
            proprio = {
                name: policy.normalization.proprio[name].normalise(value.double()).float()
                for name, value in batch.proprio.items()
            }
            source = torch.from_numpy(of_source[part])
            encoding = policy.policy.encode(batch.images, proprio, of_source=source)
            parts["vision"].append(encoding.vision.float().numpy())
            parts["observation"].append(encoding.observation.float().numpy())
    return {space: np.concatenate(part) for space, part in parts.items()}


def _save(file: Path, made: EmbeddingMap) -> None:
    arrays = {f"{space}/{when}": p for space, planes in made.planes.items() for when, p in planes.items()}
    about = json.dumps({"projection": made.projection, "alignment": made.alignment})
    with replacing(file) as temporary, temporary.open("wb") as stream:
        np.savez(stream, about=np.array(about), **arrays)


def _load(file: Path) -> EmbeddingMap | None:
    try:
        with np.load(file, allow_pickle=False) as stored:
            about = json.loads(str(stored["about"]))
            result = EmbeddingMap(about["projection"], {}, about["alignment"])
            for key in stored.files:
                space, _, when = key.partition("/")
                if when:
                    result.planes.setdefault(space, {})[when] = stored[key]
            return result
    except Exception:  # absent, or of another version: it is made again
        return None
