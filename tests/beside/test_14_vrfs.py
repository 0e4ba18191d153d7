"""VRFs: what is in one stays with the kernel, which says its name; what is beside it is taken as ever."""

import re

from lab import topology as t
from lab.base import wait_for
from lab.beside import is_fast, stay
from lab.routed import ENDS4, ENDS6, NAME, SITES, routed
from lab.traffic import assert_ping
from lab.xfrm import Tunnel, algorithms, batch, errors

VRF, TABLE = "red", "100"

#: The gateway's end in the VRF, and the peer's; the SAs between them.
NEAR, FAR, SPI = "198.51.100.1", "198.51.100.2", 0x7000


def add_vrf(host):
    """Makes the VRF."""
    host.ip("link", "add", VRF, "type", "vrf", "table", TABLE)
    host.ip("link", "set", VRF, "up")


def add_peer(net):
    """A host in the VRF of gateway A, which has the server's address as well."""
    add_vrf(net.gwa.host)
    peer = net.lab.host("peer")
    net.lab.link(net.gwa.host, "wan2", peer, "eth0")
    net.gwa.host.ip("link", "set", "wan2", "master", VRF)
    net.gwa.host.address("wan2", f"{NEAR}/24")
    peer.address("eth0", f"{FAR}/24")
    peer.ip("addr", "add", f"{t.SERVER4}/32", "dev", "lo")
    net.gwa.host.ip("route", "add", f"{t.SERVER4}/32", "via", FAR, "dev", "wan2", "vrf", VRF)
    return peer


def protect(host, near, far, out="", back=""):
    """SAs and policies between the two, at the end that has `near`. For Linux, what a socket in a VRF sends leaves by the
    interface, and what comes in is the VRF's."""
    for number, (src, dst) in enumerate(((NEAR, FAR), (FAR, NEAR))):
        dev = out if number == 0 else back
        selector = f"sel src {src} dst {dst} {dev}" if dev else ""
        batch(
            host,
            f"xfrm state add src {src} dst {dst} proto esp spi {SPI + number:#x} reqid 77 mode tunnel replay-window 32 "
            f"{algorithms('gcm', SPI + number)} {selector}",
        )
    for direction, src, dst, dev in (("out", near, far, out), ("in", far, near, back), ("fwd", far, near, back)):
        batch(
            host,
            f"xfrm policy add src {src} dst {dst} {dev} dir {direction} tmpl src {src} dst {dst} proto esp reqid 77 "
            "mode tunnel",
        )


def in_vrf(host, to, count=5):
    """How many of some pings of a socket in the VRF are answered."""
    done = host.run("ping", "-n", "-I", VRF, "-c", count, "-i", "0.2", "-W", "2", to, check=False)
    match = re.search(r"(\d+) received", done.stdout)
    return int(match[1]) if match else done.stdout + done.stderr


def test_what_is_in_a_vrf_stays(bed):
    """SAs and policies of a VRF stay with the kernel and say its name, its traffic is Linux's with culvert as without,
    also to an address that a tunnel beside it leads to, and that tunnel is taken."""
    net = bed.make()
    tunnel = Tunnel().install(net)
    peer = add_peer(net)
    protect(peer, FAR, NEAR)
    protect(net.gwa.host, NEAR, FAR, "dev wan2", f"dev {VRF}")
    stream = bed.stream()

    def speak():
        for to in (FAR, t.SERVER4):
            assert in_vrf(net.gwa.host, to) == 5, (to, errors(net.gwa.host), errors(peer))
        assert_ping(net.client, t.SERVER4, count=3)

    speak()
    for gateway in [g for g in (net.gwa,) if g.daemon]:
        bed.start(taken=False)
        stay(gateway, f"in the VRF {VRF}", spis=(SPI, SPI + 1))
        for spi in (tunnel.spi, tunnel.spi + 1):
            wait_for(f"{spi:#x} to be taken", lambda s=spi: is_fast(bed.placement(gateway, s)))
        speak()
        shown = gateway.daemon.json("policy")
        whys = [p.get("why", "") for p in shown if p["dev"] == "wan2" and p["direction"] == "out"]
        assert len(whys) == 1 and f"VRF {VRF}" in whys[0], shown
        said = gateway.daemon.culvert("doctor", "--config", gateway.daemon.config, check=False).stdout
        assert f"in the kernel: it is in the VRF {VRF}" in said, said
        assert re.search(r"^209:.*l3mdev", net.gwa.host.ip("rule").stdout, re.M)
        bed.stop()
        speak()
        assert not re.search(r"^209:", net.gwa.host.ip("rule").stdout, re.M)
    bed.perfect(stream)


def test_a_port_in_a_vrf(bed):
    """A port that is put into a VRF is Linux's, and says so, and is taken again when it is out of it."""
    net = bed.up()
    a = net.gwa.host
    add_vrf(a)
    bed.start()
    daemons = [g.daemon for g in bed.beside() if g is net.gwa]

    def state(daemon):
        return next(p["state"] for p in daemon.json("port") if p["interface"] == "lan")

    a.ip("link", "set", "lan", "master", VRF)
    for daemon in daemons:
        wait_for("the port to be left", lambda d=daemon: f"in the VRF {VRF}" in state(d), timeout=5)
        assert f"in the VRF {VRF}" in " ".join(daemon.json("status")["warnings"])
    # A host's own IPv6 addresses go as an interface changes its master.
    a.ip("link", "set", "lan", "nomaster")
    a.ip("addr", "replace", f"{t.LAN_A6}/64", "dev", "lan", "nodad")
    for daemon in daemons:
        wait_for("the port to be taken", lambda d=daemon: state(d) == "up", timeout=5)
    bed.pings(count=3)
    stream = bed.stream(count=200)
    stream.wait()
    bed.perfect(stream)


def test_an_xfrm_interface_in_a_vrf(bed):
    """The SAs of an XFRM interface that is put into a VRF go back to the kernel, which says which VRF it is, and are
    taken again when it is out of it."""
    net = routed(bed)
    a = net.gwa.host
    bed.excused |= {"XfrmInNoPols", "XfrmInTmplMismatch"}
    add_vrf(a)
    bed.start()
    a.ip("link", "set", NAME, "master", VRF)
    for gateway in bed.beside():
        if gateway is net.gwa:
            stay(gateway, f"in the VRF {VRF}")
    a.ip("link", "set", NAME, "nomaster")
    a.ip("addr", "replace", f"{ENDS6['gwa']}/64", "dev", NAME, "nodad")
    a.ip("addr", "replace", f"{ENDS4['gwa']}/24", "dev", NAME)
    for prefix in SITES["gwb"]:
        a.ip("route", "replace", prefix, "dev", NAME)
    bed.wait_taken()
    bed.pings(count=3)
    stream = bed.stream(count=200)
    stream.wait()
    bed.perfect(stream)
