"""Route-based set-ups: SAs with an if_id, and Linux's own XFRM interfaces."""

import time

import pytest
from lab import topology as t
from lab.routed import routed


@pytest.mark.parametrize(
    "plane", [pytest.param("beside+kernel", marks=pytest.mark.sample), "beside+beside"], indirect=True
)
def test_start_and_stop_under_traffic(bed):
    """The SAs of an XFRM interface are taken over in use and given back, and no packet is lost either time."""
    routed(bed)
    streams = bed.stream(), bed.stream(t.CLIENT6, rate=100, port=7100)
    time.sleep(0.5)
    for _ in range(2):
        bed.start()
        before = bed.transmitted()
        time.sleep(1)
        assert bed.transmitted() - before > 400 or not bed.beside()
        bed.assert_ahead()
        bed.stop()
        time.sleep(0.5)
    bed.perfect(*streams)
