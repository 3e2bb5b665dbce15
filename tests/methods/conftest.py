"""What all runs in these tests share."""

from collections.abc import Iterator

import pytest
from tiny_runs import one_thread, other_source, source, target

__all__ = ["one_thread", "other_source", "private_cache", "source", "target"]


@pytest.fixture(autouse=True, scope="session")
def private_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing in the user's own cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield
