"""Which demonstrations can I trust? An audit without training: scores, p-values and reasons.

`run_audit` judges every demonstration of the source sets; each check is a file of its own.
"""

from __future__ import annotations

from beacon.audit.evidence import Evidence, Repair
from beacon.audit.run import AuditOptions, AuditResult, DemoVerdict, SetVerdict, run_audit

__all__ = [
    "AuditOptions",
    "AuditResult",
    "DemoVerdict",
    "Evidence",
    "Repair",
    "SetVerdict",
    "run_audit",
]
