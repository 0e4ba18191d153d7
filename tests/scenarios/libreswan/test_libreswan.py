"""pluto speaks XFRM netlink in ways of its own: write() on the socket, many GETSAs, other flags."""

import json

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, assert_only_protected, kinds
from lab.inject import xfrm_states
from lab.pluto import Pluto, missing
from lab.traffic import Stream, assert_perfect, assert_ping


#: Host to host: mode, addresses, and ESP proposal.
HOSTS = {
    "transport-v4": ("transport", t.WAN_A4, t.WAN_B4, "aes_gcm128-null"),
    "transport-v6": ("transport", t.WAN_A6, t.WAN_B6, "aes_gcm256-null"),
    "tunnel-v4": ("tunnel", t.WAN_A4, t.WAN_B4, "aes256-sha2_512"),
    "tunnel-v6": ("tunnel", t.WAN_A6, t.WAN_B6, "chacha20_poly1305"),
}


def before_the_sa(daemon, frames, b=t.WAN_B4):
    """How many packets B sent under an SA before A, whose daemon this is, had it. pluto installs what it sends with
    before what it receives with, so what A sends tells nothing of that."""
    events = map(json.loads, daemon.culvert("events", "--once", "--json").stdout.splitlines())
    # Told in whole milliseconds.
    there = {
        int(event["spi"], 16): (event["time_ms"] + 1) / 1000
        for event in events
        if event["event"] in ("sa-up", "sa-rekeyed")
    }
    return sum(f.is_esp and str(f.src) == b and f.time < there[f.spi] for f in frames)


def assert_lost_early_alone(report, daemon, frames, b=t.WAN_B4):
    """pluto uses the new SA as soon as it has sent its answer, which its peer has to read first. RFC
    7296 section 2.8 allows that, and says what it costs; so nothing else may be missing."""
    early = daemon.drops().get("in-no-state", 0)
    most = before_the_sa(daemon, frames, b)
    assert report["back"]["lost"] == early <= most, (early, most, report)
    report["back"]["lost"] = 0
    assert_perfect(report)


@pytest.mark.parametrize("initiator", ["gwa", "gwb"])
def test_pluto(network, request, initiator):
    if missing():
        pytest.fail(missing())
    folder = request.path.parent
    net = network(ts_a="10.1.0.0/24", ts_b="10.2.0.0/24", remote_b=t.WAN_A4)
    net.gwa.start()
    net.gwb.plane.start(net.gwb)
    pluto = Pluto(net.gwb.host, wrap=net.gwb.swan.wrap)
    pluto.configure(
        (folder / "gwb.ipsec.conf").read_text(), (folder / "gwb.ipsec.secrets").read_text()
    )
    pluto.start("net")
    wire = Capture(net.mid, "west")
    if initiator == "gwa":
        net.gwa.swan.initiate()
    else:
        pluto.initiate("net")
    assert_ping(net.client, t.SERVER4, count=10)
    assert_ping(net.server, t.CLIENT4, count=10)
    first = net.gwa.swan.children("net")[0]["spi-in"]
    stream = Stream(net.client, net.server, t.SERVER4, rate=200)
    net.gwa.swan.rekey(child="net")
    wait_for(
        "a new CHILD_SA",
        lambda: any(c["spi-in"] != first for c in net.gwa.swan.children("net")),
    )
    assert_ping(net.client, t.SERVER4, count=10)
    report = stream.finish()
    frames = wire.stop()
    assert_lost_early_alone(report, net.gwa.daemon, frames)
    assert_only_protected(frames)
    states = net.gwb.daemon.exec("ip", "xfrm", "state").stdout
    assert "proto esp" in states


@pytest.mark.parametrize("case", HOSTS)
def test_pluto_on_both_hosts(network, request, case):
    """No strongSwan anywhere, and no network behind either host."""
    if missing():
        pytest.fail(missing())
    net = network(kind="host2host")
    mode, a, b, esp = HOSTS[case]
    conf = (request.path.parent / "host2host.ipsec.conf").read_text()
    for word, value in {"type": mode, "left": a, "right": b, "esp": esp}.items():
        conf = conf.replace(f"@{word}@", value)
    secrets = (request.path.parent / "gwb.ipsec.secrets").read_text()
    plutos = []
    for gateway in net.gateways():
        gateway.plane.start(gateway)
        plutos.append(Pluto(gateway.host, wrap=gateway.swan.wrap))
        plutos[-1].configure(conf, secrets)
        plutos[-1].start("net")

    def states(gateway):
        return xfrm_states(gateway.daemon.exec("ip", "xfrm", "state").stdout)

    wire = Capture(net.mid, "west")
    plutos[0].initiate("net")
    wait_for("the SAs of both", lambda: len(states(net.gwa)) == len(states(net.gwb)) == 2)
    assert {state.mode for state in states(net.gwa)} == {mode}
    assert_ping(net.gwa.host, b, count=10)
    assert_ping(net.gwb.host, a, count=10)
    first = {state.spi for state in states(net.gwa)}
    stream = Stream(net.gwa.host, net.gwb.host, b, rate=200)
    plutos[0].whack("--rekey-ipsec", "--name", "net", "--asynchronous")
    wait_for("new SAs alone", lambda: len({s.spi for s in states(net.gwa)} - first) == 2)
    assert_ping(net.gwa.host, b, count=10)
    report = stream.finish()
    frames = wire.stop()
    assert_lost_early_alone(report, net.gwa.daemon, frames, b)
    # The end points' addresses are on the wire; their content is not.
    assert_only_protected(frames, protected=(), allow=())
    assert kinds(frames)["esp"] > 100
    # By the one that initiated: it would do so again if the other deleted.
    plutos[0].whack("--terminate", "--name", "net")
    wait_for("no SAs", lambda: not states(net.gwa) and not states(net.gwb))
