"""The recipe for a gateway whose tunnels are the kernel's. Runs in a guest (see conftest.py)."""

from lab import topology as t
from lab.base import wait_for
from lab.beside import is_fast
from lab.recipe import Cooked, recipe
from lab.traffic import Stream, assert_perfect


@recipe("beside-the-kernel", "beside+kernel")
def test_beside_the_kernel(network, name):
    cooked = Cooked(network, name)
    net = cooked.follow()
    cooked.reach((net.client, t.SERVER4), (net.server, t.CLIENT4))
    stream = Stream(net.client, net.server, t.SERVER4, rate=250, most=48)
    daemon = net.gwa.daemon
    daemon.start()
    wait_for("SAs to be taken", lambda: (sas := daemon.json("sa")) and all(map(is_fast, sas)))
    wait_for("the fast path to have the packets", lambda: daemon.stats()["outcomes"]["transmitted"] > 100)
    cooked.reach((net.client, t.SERVER4), (net.server, t.CLIENT4))
    cooked.well(f"--from {t.CLIENT4} --to {t.SERVER4}")
    assert daemon.stop() == 0
    cooked.reach((net.client, t.SERVER4), (net.server, t.CLIENT4))
    assert_perfect(stream.finish())
