"""The small cells' pictures: in the documentation as they are drawn, and no wider than a terminal."""

import pytest
from lab.base import ROOT
from lab.cells import deployments, network, picture

DOCUMENT = (ROOT / "docs" / "guides" / "small-cell.md").read_text()


@pytest.mark.parametrize("name", deployments.DEPLOYMENTS)
def test_picture(name):
    ways = picture.Unknown()
    lines = picture.draw(name, ways)
    assert max(map(len, lines)) <= picture.WIDTH
    assert (network.FILES / name).is_dir()
    # The variant is the same picture with another address.
    if "-" not in name:
        assert "\n".join(lines) in DOCUMENT
