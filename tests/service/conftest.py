"""Small studies at work, in a folder that goes."""

from __future__ import annotations

import numpy as np
import pytest
from tests.service.small_studies import CENTRAL, coordinator, declared


@pytest.fixture
def rng():
    """Where made-up behaviour comes from."""
    return np.random.default_rng(5)


@pytest.fixture(params=["local", "central"])
def at_work(request, tmp_path):
    """A coordinator of a small study in each of the two models."""
    found = coordinator(declared(tmp_path, CENTRAL if request.param == "central" else {}))
    yield found
    found.stop()
