"""Files of the cookbook that no other test loads, as they are for peers that need no culvert in the lab."""

import subprocess

import pytest
from lab.recipe import COOKBOOK
from lab.planes import culvert_binary, culvert_missing

FILES = sorted(str(path.relative_to(COOKBOOK)) for path in COOKBOOK.glob("*/*.culvert.toml"))


@pytest.mark.skipif(bool(culvert_missing()), reason="culvert is not built")
def test_every_configuration_is_valid():
    for file in FILES:
        done = subprocess.run(
            [culvert_binary(), "check", "--config", COOKBOOK / file], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
