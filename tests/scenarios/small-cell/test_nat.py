"""NAT in the fast path (`[nat]`), where Linux's rules translate what the LTE modem sends."""

import os

import pytest
from lab.cells import deployments, network as n

pytestmark = pytest.mark.skipif(
    os.environ.get("CULVERT_SUITES") == "sample", reason="not in the sample: make scenarios-full ONLY=small-cell"
)


@pytest.mark.parametrize("name", ["1", "4", "4-backhaul"])
def test_what_linux_translates_goes_past_it(deploy, name):
    """All that holds without it, and Linux has no more of the LTE modem's packets than the first ones."""
    run = deploy(name, '\n[nat]\nlearn = "conntrack"\n')
    before = passed(run)
    deployments.traffic(run)
    broken = [(claim.text, claim.seen) for claim in run.claims() if not claim.holds]
    assert not broken, broken
    # What comes for the shared address is told by its TEID, and so goes to Linux, packet by packet.
    uplink = {n.TEID_LTE | n.user_plane.UPLINK}
    by_linux = run.seen.count("linux", "gtpu", teids=uplink)
    assert by_linux < deployments.COUNT / 4, by_linux
    # Neither does Linux have those that are in UDP.
    assert passed(run) - before < deployments.COUNT / 4


def passed(run):
    """Frames that the XDP programs of backhaul and LTE modem have left to Linux."""
    ports = run.net.nr.daemon.json("port")
    return sum(port["passed_to_linux"] for port in ports if port["interface"] in ("wan", "lte"))
