"""L2TPv3 with Ethernet inside: culvert at gateway A, Linux's own sessions at gateway B. culvert has the databases of IPsec
itself here: there are no SAs."""

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.traffic import Stream, assert_perfect, assert_ping

#: Encapsulation, family, cookies of gateways A and B, and the sublayer.
SESSIONS = {
    "UDP": ("udp", 4, "", "", "default"),
    "IP, cookies of 4 and 8 bytes": ("ip", 4, "11223344", "5566778899aabbcc", "default"),
    "IPv6 and UDP, no sublayer": ("udp", 6, "0102030405060708", "0a0b0c0d", "none"),
    "IPv6, no sublayer": ("ip", 6, "01020304", "", "none"),
}


def add(gateway, side, case, *more, number=0):
    """A tunnel with one session, whose interface has addresses and the routes to the other site."""
    encap, family, cookie_a, cookie_b, sublayer = SESSIONS[case]
    host, other = gateway.host, 3 - side
    near, far = ((t.WAN_A4, t.WAN_B4) if family == 4 else (t.WAN_A6, t.WAN_B6))[:: 1 if side == 1 else -1]
    own, peer = (cookie_a, cookie_b)[:: 1 if side == 1 else -1]
    ports = ("udp_sport", 1700 + side, "udp_dport", 1700 + other) if encap == "udp" else ()
    cookies = [*(("cookie", own) if own else ()), *(("peer_cookie", peer) if peer else ())]
    ids = ("tunnel_id", side, "peer_tunnel_id", other)
    host.ip("l2tp", "add", "tunnel", *ids, "encap", encap, "local", near, "remote", far, *ports)
    sessions = ("session_id", 10 * side, "peer_session_id", 10 * other)
    host.ip("l2tp", "add", "session", "name", "ov", "tunnel_id", side, *sessions, *cookies, "l2spec_type", sublayer, *more)
    host.ip("address", "add", f"10.9.0.{side}/24", "dev", "ov")
    host.ip("address", "add", f"2001:db8:9::{side}/64", "dev", "ov", "nodad")
    host.ip("link", "set", "ov", "up")
    host.ip("route", "replace", f"10.{other}.0.0/24", "via", f"10.9.0.{other}", "dev", "ov")
    host.ip("-6", "route", "replace", f"2001:db8:{other}::/64", "via", f"2001:db8:9::{other}", "dev", "ov")


def make(bed):
    net = bed.make()
    bed.is_judged = False
    if net.gwa.daemon:
        net.gwa.daemon.source = ""
        net.gwa.daemon.settings = '[overlay]\ninterfaces = ["ov"]\n'
        net.gwa.daemon.write_config()
        net.gwa.daemon.start()
    return net


def rows(daemon):
    return {row["interface"]: row for row in daemon.json("route")["overlays"]}


def talk(net):
    """Both families, both ways."""
    for near, to in ((net.client, t.SERVER4), (net.server, t.CLIENT6)):
        assert_ping(near, to, count=4, wait=5)


@pytest.mark.parametrize("case", SESSIONS)
def test_sessions(bed, case):
    """A session of L2TPv3 that is made while culvert runs goes by the fast path, with Linux's own session at the far end."""
    net = make(bed)
    add(net.gwa, 1, case)
    add(net.gwb, 2, case)
    daemon = net.gwa.daemon
    if daemon:
        wait_for("the session", lambda: rows(daemon).get("ov", {}).get("carried"))
        assert rows(daemon)["ov"]["id"].startswith("session 10 in, 20 out"), rows(daemon)
    talk(net)
    before = daemon.stats()["work"] if daemon else {}
    stream = Stream(net.client, net.server, t.SERVER4, count=100)
    stream.wait()
    assert_perfect(stream.finish())
    if daemon:
        assert not any(daemon.drops().values()), daemon.drops()
    # What does not fit is told to its sender, and then comes in pieces.
    told = net.client.run("ping", "-c", "2", "-W", "5", "-s", "1472", t.SERVER4, check=False).stdout
    assert " 0% packet loss" in told or "1 received" in told, told
    if not daemon:
        return
    work = daemon.stats()["work"]
    for name in ("overlay-encapsulated", "overlay-decapsulated"):
        assert work[name] - before[name] >= 100, (name, work)
    # A tunnel that ends takes its session along, of which Linux says nothing.
    net.gwa.host.ip("l2tp", "del", "tunnel", "tunnel_id", 1)
    wait_for("its end", lambda: "ov" not in rows(daemon))
    add(net.gwa, 1, case)
    # The new interface has another Ethernet address.
    net.gwb.host.ip("neighbour", "flush", "dev", "ov")
    wait_for("the session again", lambda: rows(daemon).get("ov", {}).get("carried"))
    talk(net)


def test_sequence_numbers(bed):
    """Sessions with sequence numbers are Linux's, before and after a change of them."""
    net = make(bed)
    add(net.gwa, 1, "UDP", "seq", "both")
    add(net.gwb, 2, "UDP", "seq", "both")
    talk(net)
    daemon = net.gwa.daemon
    if daemon:
        wait_for("the session", lambda: "ov" in rows(daemon))
        found = rows(daemon)["ov"]
        assert not found["carried"], found
        assert "seq" in found["why"], found
        assert daemon.stats()["work"]["overlay-encapsulated"] == 0
