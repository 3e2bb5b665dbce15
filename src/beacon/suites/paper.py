"""The numbers that the paper reports (Zhang, Qi and Yang, 2026), as success rates.

Success is R and S for stack, the score with half points for mug cleanup. Rollouts: 100 in simulation, 20 on
the robot; training seeds and intervals are not reported. The numbers of BEACON stand beside "BEACON (paper)",
those of MS-BEACON beside "MS-BEACON (paper)"; ours are other methods.
"""

from __future__ import annotations

from beacon.suites.definitions.comparisons import OUTSIDE, WHOLE_REGION

Column = tuple[str, str, str]  # task, gap, detail
TEXTURE, VIEW, REAL = "texture", "texture-view", "real-proxy"

_METHODS = ("source-only", "target-only", "cotrain", "mmd", "uot", "beacon-paper")
_SIM2SIM: dict[tuple[str, str], dict[str, tuple[float, ...]]] = {
    ("stack", TEXTURE): {
        "R": (0.0, 0.16, 0.33, 0.87, 0.68, 0.89),
        "S": (0.0, 0.10, 0.25, 0.72, 0.48, 0.77),
    },
    ("stack", VIEW): {
        "R": (0.0, 0.23, 0.26, 0.67, 0.52, 0.73),
        "S": (0.0, 0.20, 0.16, 0.54, 0.38, 0.60),
    },
    ("mug-cleanup", TEXTURE): {"paper_score": (0.0, 0.16, 0.29, 0.47, 0.46, 0.51)},
    ("mug-cleanup", VIEW): {"paper_score": (0.0, 0.12, 0.15, 0.29, 0.23, 0.29)},
    ("threading", TEXTURE): {"success": (0.0, 0.15, 0.33, 0.47, 0.41, 0.53)},
    ("threading", VIEW): {"success": (0.0, 0.16, 0.14, 0.28, 0.22, 0.33)},
}
_REAL_METHODS = (*_METHODS, "ms-beacon-paper")
# The paper's P: target demonstrations and rollouts over the whole region. Its OOD: rollouts elsewhere.
_SIM2REAL: dict[tuple[str, str], dict[str, tuple[float, ...]]] = {
    ("stack", WHOLE_REGION): {
        "R": (0.0, 0.05, 0.40, 0.55, 0.45, 0.75, 0.85),
        "S": (0.0, 0.0, 0.25, 0.40, 0.30, 0.55, 0.55),
    },
    ("stack", OUTSIDE): {
        "R": (0.0, 0.0, 0.15, 0.15, 0.25, 0.45, 0.45),
        "S": (0.0, 0.0, 0.15, 0.05, 0.20, 0.35, 0.45),
    },
    ("mug-cleanup", WHOLE_REGION): {"paper_score": (0.0, 0.15, 0.58, 0.68, 0.70, 0.78, 0.80)},
    ("mug-cleanup", OUTSIDE): {"paper_score": (0.0, 0.0, 0.18, 0.20, 0.33, 0.53, 0.60)},
}
# Stack, T+V, S.
_ABLATION = {
    "convex-localized": 0.58,
    "convex-knn": 0.52,
    "convex-classifier": 0.54,
    "stochastic-localized": 0.58,
    "stochastic-knn": 0.60,
    "stochastic-classifier": 0.58,
}
# BEACON on stack, by the number of target demonstrations: from the authors' public figure, the text has no
# numbers.
_SCALING_DEMOS = (20, 40, 60, 80)
_SCALING: dict[str, dict[str, tuple[float, ...]]] = {
    TEXTURE: {"R": (0.89, 0.88, 0.92, 0.90), "S": (0.77, 0.80, 0.87, 0.86)},
    VIEW: {"R": (0.73, 0.76, 0.84, 0.89), "S": (0.60, 0.56, 0.69, 0.80)},
}


def _numbers() -> dict[tuple[str, str, Column, str], float]:
    numbers: dict[tuple[str, str, Column, str], float] = {}
    for (task, gap), criteria in _SIM2SIM.items():
        for criterion, values in criteria.items():
            for row, value in zip(_METHODS, values, strict=True):
                numbers["sim2sim", row, (task, gap, ""), criterion] = value
    for (task, region), criteria in _SIM2REAL.items():
        for criterion, values in criteria.items():
            for row, value in zip(_REAL_METHODS, values, strict=True):
                numbers["sim2real", row, (task, REAL, region), criterion] = value
    for row, value in _ABLATION.items():
        numbers["ablation", row, ("stack", VIEW, ""), "S"] = value
    for gap, criteria in _SCALING.items():
        for criterion, values in criteria.items():
            for count, value in zip(_SCALING_DEMOS, values, strict=True):
                numbers["scaling", "beacon-paper", ("stack", gap, f"n={count}"), criterion] = value
    return numbers


NUMBERS = _numbers()


def reported(suite: str, row: str, column: Column, criterion: str) -> float | None:
    """What the paper has in this place; None where it has nothing."""
    return NUMBERS.get((suite, row, column, criterion))
