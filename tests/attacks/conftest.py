"""Attacks: each test says in its description who the attacker is, what he tries, and what must hold."""

import random

import pytest
from lab.attack import SEED, new_seed


@pytest.fixture
def rng():
    """Random numbers of the test's seed, which a failure shows."""
    seed = new_seed()
    print(f"{SEED}={seed}")
    return random.Random(seed)
