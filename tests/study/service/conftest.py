"""Small studies at work, in a folder that goes."""

from __future__ import annotations

import numpy as np
import pytest
from tests.study.service.small_studies import MODELS, coordinator, declared


@pytest.fixture
def rng():
    """Where made-up behaviour comes from."""
    return np.random.default_rng(5)


@pytest.fixture(params=MODELS)
def at_work(request, tmp_path):
    """A coordinator of a small study in each of the two models; in the local one with items, and with answers."""
    found = coordinator(declared(tmp_path, MODELS[request.param]))
    yield found
    found.stop()
