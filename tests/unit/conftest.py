"""What several tests of packaging compare with."""

import configparser
from pathlib import Path

import pytest

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"


@pytest.fixture(name="unit")
def fixture_unit():
    """What [Service] of culvert.service says."""
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    # One key may come again; the last one counts here, and none of those that are asked for does.
    parser.read(PACKAGING / "culvert.service")
    return parser["Service"]
