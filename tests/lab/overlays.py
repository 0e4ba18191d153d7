"""Overlays between the two sites: interfaces of Linux's at both gateways, and what goes through them."""

from . import topology as t
from .traffic import Iperf, Stream, assert_perfect, assert_ping

#: How `ip link add` says them, of which the local and remote ends follow.
KINDS = {
    "gre": ("gre",),
    "gre-key": ("gre", "key", "7", "csum"),
    "gre-asymmetric": ("gre", "ikey", "{side}", "okey", "{other}"),
    "gretap": ("gretap", "key", "7"),
    "ip6gre": ("ip6gre", "key", "7"),
    "ip6gre-plain": ("ip6gre", "encaplimit", "none"),
    "vxlan": ("vxlan", "id", "42", "dstport", "4789"),
    "vxlan-dev": ("vxlan", "id", "42", "dstport", "4789", "dev", "wan"),
    "vxlan6": ("vxlan", "id", "42", "dstport", "4789"),
    "geneve": ("geneve", "id", "43"),
}

#: Interfaces without an end of their own.
WITHOUT_LOCAL = ("geneve",)


#: What a sender and a receiver with 64 KiB for each keep at most, which Linux doubles.
BUFFERED = 2 * 2 * 65536


def is_v6(kind):
    return kind.startswith("ip6") or kind.endswith("6")


def ends(kind):
    return (t.WAN_A6, t.WAN_B6) if is_v6(kind) else (t.WAN_A4, t.WAN_B4)


def overlay(gw, side, kind, *more, is_named=True):
    """Makes the interface `ov` of gateway number `side`, to which the other site's networks lead. culvert carries it out
    if its file names it."""
    host, other = gw.host, 3 - side
    local, remote = ends(kind)[:: 1 if side == 1 else -1]
    words = [word.format(side=side, other=other) for word in KINDS[kind]]
    own = [] if kind in WITHOUT_LOCAL else ["local", local]
    host.ip("link", "add", "ov", "type", *words, *own, "remote", remote, *more)
    host.ip("address", "add", f"10.9.0.{side}/24", "dev", "ov")
    host.ip("address", "add", f"2001:db8:9::{side}/64", "dev", "ov", "nodad")
    host.ip("link", "set", "ov", "up")
    host.ip("route", "replace", f"10.{other}.0.0/24", "via", f"10.9.0.{other}", "dev", "ov")
    host.ip("-6", "route", "replace", f"2001:db8:{other}::/64", "via", f"2001:db8:9::{other}", "dev", "ov")
    if gw.daemon and is_named:
        gw.daemon.write_config(gw.daemon.config.read_text() + '\n[overlay]\ninterfaces = ["ov"]\n')


def work(gw, name):
    return gw.daemon.stats()["work"][name]


def both_ways(net):
    """Pings of both families; the first ones may find no neighbour yet."""
    for near, to in ((net.client, t.SERVER4), (net.server, t.CLIENT4), (net.client, t.SERVER6), (net.server, t.CLIENT6)):
        assert_ping(near, to, count=5, wait=5)


def carried(net, gateways, count):
    """A stream of which nothing is lost, whose packets the fast path of these gateways has carried."""
    before = {gw: (work(gw, "overlay-encapsulated"), work(gw, "overlay-decapsulated")) for gw in gateways}
    stream = Stream(net.client, net.server, t.SERVER4, count=count)
    stream.wait()
    assert_perfect(stream.finish())
    for gw in gateways:
        put, taken = before[gw]
        # It goes there and back.
        assert work(gw, "overlay-encapsulated") - put >= count, gw.daemon.stats()
        assert work(gw, "overlay-decapsulated") - taken >= count, gw.daemon.stats()
        drops = {reason: n for reason, n in gw.daemon.drops().items() if n}
        assert not drops, drops


def tcp(net, gw):
    """TCP both ways. Linux's own comes in super-packets with the overlay's headers once, and none is refused."""
    server = Iperf(net.server)
    total = 1 << 20
    for reverse in (False, True):
        done = server.run(net.client, t.SERVER4, total=total, reverse=reverse)
        # It ends when the sender's system has taken all; that much may still be in the buffers of both.
        assert done["bytes"] >= total - BUFFERED, done
    drops = {reason: n for reason, n in gw.daemon.drops().items() if n}
    # Senders learn the path's MTU by these.
    assert not set(drops) - {"out-too-big"}, drops
    server.stop()
    faults = {port["interface"]: port.get("faults") for port in gw.daemon.json("port")}
    assert not any(faults.values()), faults


def row(gw):
    (found,) = gw.daemon.json("route")["overlays"]
    return found
