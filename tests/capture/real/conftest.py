"""Families of models: a real tokenizer, a chat template in their shape, and their tool parser."""

from __future__ import annotations

import pytest
from real_families import FAMILIES, Family, family_of


@pytest.fixture(scope="session", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> Family:
    return family_of(request.param)
