"""What all runs in these tests share."""

from tiny_runs import one_thread, other_source, private_cache, source, target

__all__ = ["one_thread", "other_source", "private_cache", "source", "target"]
