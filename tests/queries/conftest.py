"""Stores for tests that need a fresh one many times."""

import pytest
from mixed_traffic import Opened, emptied


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """``with opened() as store``: an empty one each time."""
    return emptied(tmp_path_factory.mktemp("stores"))
