"""The guard is kernel state: it stands without any process of ours."""

import json
import time

from lab import topology as t
from lab.capture import Capture, assert_only_protected
from lab.planes import culvert_binary
from lab.traffic import assert_ping, ping


def assert_blocked(net):
    wire = Capture(net.mid, "west")
    tries = [
        (net.client, t.SERVER4, None),
        (net.client, t.SERVER6, None),
        (net.server, t.CLIENT4, None),
        (net.gwa.host, t.SERVER4, t.LAN_A4),
        (net.gwa.host, t.SERVER6, t.LAN_A6),
    ]
    for host, to, source in tries:
        assert ping(host, to, count=2, source=source)["received"] == 0, (host, to)
    assert_only_protected(wire.stop())


def apply(gateway):
    gateway.host.run(culvert_binary(), "--name", gateway.daemon.name, "guard", "apply", "--config",
                     gateway.daemon.config)  # fmt: skip


def test_from_boot_to_the_end(network):
    net = network()
    # Without the guard this network leaks: what follows is not true by accident.
    assert_ping(net.client, t.SERVER4)
    for gateway in net.gateways():
        apply(gateway)
    assert_blocked(net)
    # The daemon runs, charon does not yet: no policies, and still nothing leaves.
    for gateway in net.gateways():
        gateway.daemon.start()
    assert_blocked(net)
    # Nothing of that comes to culvert, and yet it is told.
    told = json.loads(net.gwa.daemon.culvert("why", "--from", t.CLIENT4, "--to", t.SERVER4, "--json").stdout)
    assert told["fate"] == "dropped" and "by the guard" in told["verdict"] and not told["hints"], told
    assert told["steps"][-1]["question"] == "guard" and "10.2.0.0/24" in told["steps"][-1]["answer"], told
    told = net.gwa.daemon.culvert("why", "--from", t.LAN_A4, "--to", t.SERVER4).stdout
    assert "=> dropped by the guard" in told and "hint" not in told and "delete it" not in told, told
    assert "[guard] prefixes block 10.2.0.0/24" in net.gwa.daemon.culvert("policy").stdout
    if net.gwa.host.run("cat", "/proc/net/xfrm_stat", check=False).returncode == 0:
        assert "the guard in the kernel has blocked" in net.gwa.daemon.culvert("drops").stdout
    for gateway in net.gateways():
        gateway.swan.start()
    assert_blocked(net)
    net.gwa.swan.initiate()
    assert_ping(net.client, t.SERVER4)
    assert_ping(net.client, t.SERVER6)
    # Stopped in order, both: the guard stays.
    for gateway in net.gateways():
        gateway.stop()
    assert_blocked(net)
    shown = net.gwa.host.run(
        culvert_binary(), "--name", net.gwa.daemon.name, "guard", "show"
    ).stdout
    assert "10.2.0.0/24" in shown and "SELECTOR" in shown, shown
    # Asked about another instance, it names the one whose barriers are here.
    other = net.gwa.host.run(culvert_binary(), "--name", "nobody", "guard", "show").stdout
    assert f"barriers of: {net.gwa.daemon.name} (" in other and net.gwb.daemon.name not in other, other
    cleared = net.gwa.host.run(culvert_binary(), "--name", "nobody", "guard", "clear", check=False)
    assert cleared.returncode == 1 and net.gwa.daemon.name in cleared.stderr, cleared
    for gateway in net.gateways():
        gateway.host.run(culvert_binary(), "--name", gateway.daemon.name, "guard", "clear", "--yes")
    assert_ping(net.client, t.SERVER4)


def test_sigterm_under_traffic(network):
    """An orderly stop while packets flow leaks none of them and leaves no interface behind."""
    net = network().up()
    wire = Capture(net.mid, "west")
    pings = net.client.spawn("ping", "-n", "-i", "0.002", t.SERVER4)
    assert net.gwa.daemon.stop() == 0
    time.sleep(1)
    assert pings.alive()
    pings.stop()
    assert_only_protected(wire.stop())
    links = net.gwa.host.ip("link").stdout
    assert "culvert0" not in links and "xdp" not in links, links
    rules = net.gwa.host.ip("rule").stdout
    assert "219" not in rules, rules
