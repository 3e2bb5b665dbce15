"""Do the same actions move the robot of the target as they move the robot of the source?

Known before training, from proprioception and actions alone: a model of the source's motion is asked about
the target's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beacon.audit.dynamics_model import DynamicsModel, DynamicsOptions, beside, fit_model
from beacon.audit.recordings import Recording
from beacon.data.episodes import EpisodeSet

SOUND_SHARE = 0.4  # of a source that is taken to be sound, at least: the best by the target's model


def dynamics_gap(
    sources: Sequence[EpisodeSet], target: EpisodeSet, options: DynamicsOptions | None = None
) -> float | None:
    """How badly the target's motion fits the source's model, in units of the source's own misfit.

    1 is as well as the source's own demonstrations fit. Of several sources, the one that fits worst. None
    where proprioception or demonstrations are too few to tell. The model is that of the demonstrations that
    fit the target best, so a corrupted part of the source does not change the answer.

    Args:
        sources: demonstrations of the sources.
        target: those of the target.
        options: of the model.
    """
    chosen = options or DynamicsOptions()
    demos = [_motion(target, number) for number in range(len(target))]
    trusted = fit_model(demos, chosen)
    if trusted is None:
        return None
    gaps = []
    for source in sources:
        candidates = [_motion(source, number) for number in range(len(source))]
        if not candidates or candidates[0].state.shape[1] != demos[0].state.shape[1]:
            return None
        misfits = np.array([_misfit(recording, trusted[0]) for recording in candidates])
        best = np.argsort(misfits, kind="stable")[: max(2, round(SOUND_SHARE * len(candidates)))]
        sound = [candidates[number] for number in best]
        own = fit_model(sound, chosen)
        if own is None:
            return None
        model, predicted = own  # every one by a model of the others
        usual = [
            model.misfit(recording.actions[: len(actions)].astype(np.float64), actions)
            for recording, actions in zip(sound, predicted, strict=True)
        ]
        of_target = np.median([_misfit(recording, model) for recording in demos])
        gaps.append(float(of_target / np.median(usual)))
    return max(gaps, default=None)


def _misfit(recording: Recording, model: DynamicsModel) -> float:
    return model.misfit(*beside(recording, model))


def _motion(episodes: EpisodeSet, number: int) -> Recording:
    """A demonstration without its pictures."""
    start, length = int(episodes.starts[number]), int(episodes.lengths[number])
    rows = slice(start, start + length)
    nothing = np.zeros((length, 0), np.float32)
    state = [episodes.proprio[key][rows] for key in sorted(episodes.proprio)]
    return Recording(
        episodes.episode_names[number],
        np.concatenate([nothing, *state], axis=1),
        episodes.actions[rows],
        nothing,
        np.zeros(0, np.float32),
        np.zeros(length, np.float32),
        None,
    )
