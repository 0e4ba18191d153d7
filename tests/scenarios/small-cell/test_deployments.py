"""What `make demo CELL=1` to `4` show, held."""

import os

import pytest
from lab.cells import deployments, picture

#: The one that is in every run: no other scenario has its two user planes behind one address.
IN_THE_SAMPLE = "4"


@pytest.mark.parametrize("name", deployments.DEPLOYMENTS)
def test_deployment(deploy, name):
    if os.environ.get("CULVERT_SUITES") == "sample" and name != IN_THE_SAMPLE:
        pytest.skip("not in the sample: make scenarios-full ONLY=small-cell")
    run = deployments.traffic(deploy(name))
    broken = [(claim.text, claim.seen) for claim in run.claims() if not claim.holds]
    assert not broken, broken
    lines = picture.draw(name, picture.Ways(run))
    assert max(map(len, lines)) <= picture.WIDTH, lines
    source, to, uplink = run.exchanges["NR uplink"]
    assert run.flows.known(source, to, uplink.begun)[1] == "protected", run.flows.first
    # Flows learnt with their first packets: of a thousand a handful asks for a decision.
    assert run.seen.counters["misses"] < run.seen.counters["hits"] / 10, run.seen.counters
