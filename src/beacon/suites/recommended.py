"""BEACON as we recommend it: what differs from the paper's options."""

from __future__ import annotations

from typing import Any

RECOMMENDED: dict[str, Any] = {
    "weighting": {"granularity": "demo", "discrepancy": "knn-relative", "lambda_d": 0.4},
}

# For sources with bad demonstrations: asks of each whether its actions are the target's where it looks alike.
LABEL_AWARE: dict[str, Any] = {
    "weighting": {"granularity": "demo", "discrepancy": "knn-joint", "lambda_d": 0.4},
    "features": "obs",
    "k": 20,
}
