"""Changed XFRM messages of all kinds against a daemon whose tunnel goes on."""

import json
import socket
import struct
from pathlib import Path

from lab import topology as t
from lab.attack import Health, effort
from lab.traffic import ping
from lab.xfrm import A, B, Tunnel

HURL = Path(__file__).resolve().parents[1] / "lab" / "hurl_xfrm.py"
MIB = 1 << 20
CLIENTS = effort(2, 4)
SECONDS = effort(3, 60)
TUNNEL = Tunnel(priority=10)


def install(net, *gateways):
    """The tunnel by hand, in the daemons' databases."""
    for gateway in gateways or net.gateways():
        side = A if gateway is net.gwa else B
        batch = net.lab.tmp / f"{gateway.host.name}.batch"
        batch.write_text("\n".join((*TUNNEL.states(side), *TUNNEL.policies(side))) + "\n")
        gateway.daemon.exec("ip", "-batch", batch)


def flush(gateway):
    for what in ("state", "policy"):
        gateway.daemon.exec("ip", "xfrm", what, "flush")


def hurl(net, rng, how, seconds):
    """Several clients at a time, with pings meanwhile where these have to pass; returns what the clients say."""
    path = Path(f"/run/culvert/{net.gwa.daemon.name}/xfrm.sock")
    clients = [
        net.gwa.host.spawn("/usr/bin/python3", HURL, path, rng.getrandbits(32), seconds, how) for _ in range(CLIENTS)
    ]
    pings = []
    while any(client.alive() for client in clients):
        pings.append(ping(net.client, t.SERVER4, count=25, interval=0.02, wait=30 if how == "aware" else 0))
    said = [json.loads(client.output().splitlines()[-1]) for client in clients]
    return said, sum(p["sent"] for p in pings), sum(p["received"] for p in pings)


def deaf(net, count):
    """Clients that ask for all notifications and read none."""
    found = []
    for _ in range(count):
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        link.connect(f"/run/culvert/{net.gwa.daemon.name}/xfrm.sock")
        link.send(b"CVSHIM01" + struct.pack("=IIII", 1, 7, 2, 0xFFFFFFFF))
        found.append(link)
    return found


def test_messages_of_all_kinds(network, rng):
    """Attacker: several clients of the socket at a time, which send messages of all kinds with good and bad fields, changed in
    some places; others ask for every notification and read none, or connect and say nothing. Then anything at all.

    Each message is answered; the tunnel beside loses no ping; with what they made flushed, the daemon has the descriptors
    that it had, no more memory than before a second time the same, and nothing is left of their policies in the kernel.
    """
    net = network()
    for gateway in net.gateways():
        gateway.daemon.start()
    install(net)
    assert ping(net.client, t.SERVER4, count=3, wait=30)["received"] == 3
    daemon = net.gwa.daemon
    # What is allocated once is there after the first time.
    before = Health(daemon)
    ears = [*deaf(net, 8)]
    halves = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(effort(100, 500))]
    for half in halves:
        half.connect(f"/run/culvert/{daemon.name}/xfrm.sock")
    said, sent, received = hurl(net, rng, "aware", SECONDS)
    assert received == sent >= 25, (sent, received)
    for one in said:
        assert one["answered"] == one["sent"] > 100 and not one["lost"], one
        assert one["kinds"] == 23, one
    wild, _, _ = hurl(net, rng, "free", SECONDS)
    assert all(one["sent"] > 50 for one in wild), wild
    for link in (*ears, *halves):
        link.close()
    flush(net.gwa)
    # Default actions may have been set, and stand in the kernel when everything else is flushed.
    daemon.exec("ip", "xfrm", "policy", "setdefault", "in", "accept", "fwd", "accept", "out", "accept")
    assert not daemon.json("sa") and not daemon.json("policy")
    left = net.gwa.host.run("ip", "xfrm", "policy", check=False).stdout
    assert not left, f"left in the kernel: {left[:1000]}"
    install(net, net.gwa)
    flush(net.gwb)
    install(net, net.gwb)
    assert ping(net.client, t.SERVER4, count=3, wait=30)["received"] == 3
    # A second time as the first: what has grown then was kept.
    before.check(96 * MIB)
    after = Health(daemon)
    hurl(net, rng, "aware", SECONDS)
    hurl(net, rng, "free", SECONDS)
    flush(net.gwa)
    after.check(16 * MIB)
    print(f"{said + wild}; {sent} pings; {before.growth() // 1024} KiB more, of which {after.growth() // 1024} the second time")
