"""For every test: what loading a target's files adds to sys.path goes again, or its vendored contract shadows the package."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _own_path() -> Iterator[None]:
    kept = list(sys.path)
    yield
    sys.path[:] = kept
