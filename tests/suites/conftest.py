"""What the tests of suites share."""

from tiny_runs import one_thread

__all__ = ["one_thread"]
