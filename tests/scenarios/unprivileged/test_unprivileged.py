"""`culvert run --unprivileged`: no port, no BPF; ESP in UDP by the socket that charon has under `culvert exec`."""

import os
import re
from pathlib import Path

import pytest
from lab import rootless
from lab import topology as t
from lab.base import LabError, wait_for
from lab.capture import Capture, IvRecord, assert_only_protected, kinds
from lab.traffic import Iperf, Stream, assert_perfect, assert_ping, ping


#: One case has all that is particular: user namespaces, a move, a crash.
in_full = pytest.mark.skipif(
    os.environ.get("CULVERT_SUITES") == "sample", reason="not in the sample: make scenarios-full ONLY=unprivileged"
)


@pytest.fixture
def unprivileged(monkeypatch):
    monkeypatch.setenv("CULVERT_PORTS", "unprivileged")


def sockets(daemon):
    """The sockets that it has, by address."""
    rows = [p for p in daemon.json("port") if p["kind"] == "udp"]
    return {p["interface"].removeprefix("udp "): p for p in rows}


def assert_net_admin_alone(process):
    """Of every thread, and nothing can be had back."""
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        status = (task / "status").read_text(encoding="ascii")
        sets = dict(re.findall(r"^Cap(\w+):\s*(\w+)$", status, re.M))
        assert [sets[which] for which in ("Eff", "Prm", "Bnd")] == ["0000000000001000"] * 3, (task, sets)
        assert [sets[which] for which in ("Inh", "Amb")] == ["0000000000000000"] * 2, (task, sets)


@in_full
def test_both(network, unprivileged):
    net = network(encap="yes")
    # What it has and does not need it gives up: locked memory, for one.
    net.gwa.daemon.has_all_rights = True
    net.up()
    for gateway in net.gateways():
        assert_net_admin_alone(gateway.daemon.process)
    assert set(sockets(net.gwa.daemon)) == {"0.0.0.0:4500", "[::]:4500"}
    wire = Capture(net.mid, "west", snap=256)
    assert_ping(net.client, t.SERVER4, count=3)
    assert_ping(net.client, t.SERVER6, count=3)
    # Of the gateways' own.
    assert_ping(net.server, t.LAN_A4, count=2)
    iperf = Iperf(net.server)
    tcp = iperf.run(net.client, t.SERVER4, total=4 << 20)
    net.gwa.swan.rekey(child="net")
    iperf.run(net.client, t.SERVER6, total=4 << 20)
    iperf.stop()
    assert tcp["bytes"] > 3 << 20
    frames = wire.stop()
    assert_only_protected(frames)
    assert "esp" not in kinds(frames) and kinds(frames)["esp-udp"] > 20
    IvRecord().add(frames).assert_no_repeat()
    assert not net.gwa.daemon.warnings()


@in_full
def test_beside_af_xdp(network):
    """A peer that has ports; a rekey under traffic, then a crash of each process."""
    net = network(encap="yes")
    net.gwa.daemon.is_unprivileged = True
    net.gwa.daemon.write_config()
    net.up()
    wire = Capture(net.mid, "west", snap=256)
    stream = Stream(net.client, net.server, t.SERVER4, count=300, most=400)
    net.gwa.swan.rekey(child="net")
    stream.wait()
    assert_perfect(stream.finish())
    # The daemon dies: Linux is asked, and the guard answers. charon hands its sockets over again.
    daemon = net.gwa.daemon
    daemon.kill9()
    for address in (t.SERVER4, t.SERVER6):
        assert ping(net.client, address, count=2)["received"] == 0
    daemon.start()
    wait_for("the sockets", lambda: len(sockets(daemon)) == 2)
    assert_ping(net.client, t.SERVER4, count=3)
    assert_ping(net.server, t.CLIENT6, count=3)
    # charon dies and comes again; until then nothing leaves, and the daemon says why.
    net.gwa.swan.process.kill(9)
    net.gwa.swan.process.wait()
    wait_for("no sockets", lambda: not sockets(daemon))
    assert any("no IKE daemon" in warning for warning in daemon.json("status")["warnings"])
    assert ping(net.client, t.SERVER4, count=2)["received"] == 0
    net.gwa.swan.start()
    net.gwa.swan.initiate()
    assert_ping(net.client, t.SERVER4, count=3)
    frames = wire.stop()
    assert_only_protected(frames)
    IvRecord().add(frames).assert_no_repeat()


@in_full
def test_what_is_not_in_udp_is_refused(network, unprivileged):
    net = network().start()
    with pytest.raises(LabError):
        net.gwa.swan.initiate()
    said = net.gwb.daemon.log()
    assert "set encap = yes in swanctl.conf" in said, said
    assert any("encap = yes" in warning for warning in net.gwb.daemon.json("status")["warnings"])
    assert not net.gwa.daemon.json("sa")


#: Hands over, by the library's protocol, what it should not; prints the answers.
HANDS = """\
import socket, struct, sys
def record(kind, value=0): return struct.pack("=II", kind, value)
def answer(*descriptors):
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.settimeout(20)
    link.connect(sys.argv[1])
    link.send(b"CVSHIM01" + record(1, 4711))
    socket.send_fds(link, [b"CVSHIM01" + record(9)], [d.fileno() for d in descriptors])
    return struct.unpack("=8sII", link.recv(64))[1:]
tcp = socket.socket()
other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
other.bind(("127.0.0.1", 4501))
second = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
second.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
second.bind(("0.0.0.0", 4500))
print(answer(tcp), answer(other), answer(second), answer())
"""


@in_full
def test_wrong_sockets_are_refused(network, unprivileged):
    net = network(encap="yes").up()
    daemon = net.gwa.daemon
    path = f"/run/culvert/{daemon.name}/xfrm.sock"
    said = net.gwa.host.run("/usr/bin/python3", "-c", HANDS, path).stdout
    # EPROTOTYPE, EADDRNOTAVAIL, EADDRINUSE, EBADF: each as a record of kind 9.
    assert said.split("\n")[0] == "(9, 91) (9, 99) (9, 98) (9, 9)", said
    assert "it is bound to port 4501" in daemon.log() and "one IKE daemon at a time" in daemon.log()
    assert_ping(net.client, t.SERVER4, count=2)


def has_moved(daemon):
    """Whether both SAs are there, and neither has gateway A's first address."""
    ends = [(sa["src"], sa["dst"]) for sa in daemon.json("sa")]
    return len(ends) == 2 and not any(t.WAN_A4 in pair for pair in ends)


def test_nobody_can(network, lab):
    """Both gateways in user namespaces of nobody's: root there, and nothing outside."""
    if why := rootless.missing():
        pytest.skip(why)
    lab.rootless = ("gwa", "gwb")
    net = network(encap="yes")
    for gateway in net.gateways():
        gateway.daemon.is_unprivileged = True
        gateway.daemon.write_config()
    net.up()
    wire = Capture(net.mid, "west", snap=256)
    assert_ping(net.client, t.SERVER4, count=3)
    assert_ping(net.server, t.CLIENT6, count=3)
    # Another address: MOBIKE has the SAs move.
    net.gwa.host.ip("addr", "del", f"{t.WAN_A4}/24", "dev", "wan")
    net.gwa.host.address("wan", "192.0.2.77/24")
    net.gwa.host.route("10.2.0.0/24", "via", t.WAN_B4)
    wait_for("MOBIKE", lambda: all(has_moved(gateway.daemon) for gateway in net.gateways()))
    assert_ping(net.client, t.SERVER4, count=3)
    net.gwa.daemon.kill9()
    for address in (t.SERVER4, t.SERVER6):
        assert ping(net.client, address, count=2)["received"] == 0
    frames = wire.stop()
    assert_only_protected(frames)
    IvRecord().add(frames).assert_no_repeat()
