"""What charon deletes is gone at once."""

from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture
from lab.inject import Injector
from lab.traffic import assert_ping, ping


def test_terminate(network):
    net = network().up()
    before = Capture(net.mid, "west")
    assert_ping(net.client, t.SERVER4)
    old = [f for f in before.stop() if f.is_esp and str(f.dst) == t.WAN_B4]
    wire = Capture(net.mid, "west")
    net.gwa.swan.terminate(child="net")
    for gateway in net.gateways():
        wait_for("no CHILD_SA", lambda g=gateway: not g.swan.children(state=None))
    ping(net.client, t.SERVER4, count=3)
    assert not any(f.is_esp for f in wire.stop())
    for gateway in net.gateways():
        if not gateway.daemon:
            continue
        # charon forgets the SA first, and has it deleted then.
        wait_for("no SA left", lambda g=gateway: g.daemon.json("sa") == [])
        assert gateway.daemon.exec("ip", "xfrm", "state").stdout.strip() == ""
        wait_for(
            "no policy left",
            lambda g=gateway: "tmpl" not in g.daemon.exec("ip", "xfrm", "policy").stdout,
        )
    if net.gwb.daemon:
        # What was good ESP a moment ago belongs to no SA now.
        count = net.gwb.daemon.drops().get("in-no-state", 0)
        injector = Injector(net.mid, "east")
        injector.send(*[f.data for f in old])
        wait_for(
            "in-no-state",
            lambda: net.gwb.daemon.drops().get("in-no-state", 0) == count + len(old),
        )
