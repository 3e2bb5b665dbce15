"""The whole story on one task: demonstrations, three methods, their success, and a report."""

from beacon.demo.plan import DemoPlan
from beacon.demo.telling import DemoResult, tell

__all__ = ["DemoPlan", "DemoResult", "tell"]
