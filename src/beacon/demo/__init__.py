"""The whole story on one task: demonstrations, three methods, their success, and a report."""

from beacon.demo.plan import DemoPlan
from beacon.demo.run import DemoResult, run_demo

__all__ = ["DemoPlan", "DemoResult", "run_demo"]
