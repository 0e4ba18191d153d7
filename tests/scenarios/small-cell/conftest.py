"""Deployments in a test's lab."""

import pytest
from lab.base import wait_for
from lab.cells import deployments


@pytest.fixture
def deploy(request, lab, plane):
    """Brings a deployment up. At the end each culvert daemon that still runs must account for every packet."""
    made = request.node.networks = []

    def make(name, settings=""):
        run = deployments.bring_up(lab, name, settings)
        made.append(run.net)
        return run

    yield make
    for gateway in (gateway for net in made for gateway in net.gateways() if gateway.daemon and gateway.daemon.alive()):
        wait_for(f"balance of {gateway.host.name}", lambda g=gateway: g.daemon.stats()["balance"] == 0)
