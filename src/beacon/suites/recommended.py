"""BEACON as we recommend it: what differs from the paper's options."""

from __future__ import annotations

from typing import Any

RECOMMENDED: dict[str, Any] = {
    # One weight per demonstration, so that weights do not follow the phase of the episode, and a discrepancy
    # that does not punish what the few target demonstrations happen not to cover.
    "weighting": {"granularity": "demo", "discrepancy": "knn-relative", "lambda_d": 0.4},
    "action_check": "motion",
    "sampling": "proportional",
    "refresh": "amortized",
}

# Asks of each demonstration, too, whether its actions are the target's where it looks alike.
LABEL_AWARE: dict[str, Any] = {
    "weighting": {"granularity": "demo", "discrepancy": "knn-joint", "lambda_d": 0.4},
    "features": "obs",
    "k": 20,
}
