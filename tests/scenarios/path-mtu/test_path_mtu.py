"""Path MTUs that only routers know: learnt from their ICMP errors, and told to senders of too much."""

import errno
import re
import socket
import struct
import time

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, leaks
from lab.inject import Injector, ether
from lab.stream import SO_RCVBUFFORCE
from lab.traffic import Iperf, assert_ping, ping

NARROW = 1380
PORT = 7777
#: Server, header length in front of a UDP payload, and option for DF as asked (linux/in.h).
FAMILIES = {4: (t.SERVER4, 28, 10), 6: (t.SERVER6, 48, 23)}
PMTUDISC_PROBE = 3


def made(network, outer=4, narrow=NARROW, lifetime_s=600, clamp_mss="false", **values):
    return network(
        build={"narrow": narrow}, lifetime_s=lifetime_s, clamp_mss=clamp_mss,
        **t.FAR[outer], **values,
    ).up()  # fmt: skip


def outbound(gateway):
    """What a gateway shows of the SA that it sends by."""
    return next(sa for sa in gateway.daemon.json("sa") if sa["inner_mtu"])


def udp(host, family):
    sock = host.socket(socket.AF_INET if family == 4 else socket.AF_INET6, socket.SOCK_DGRAM)
    level = socket.IPPROTO_IP if family == 4 else socket.IPPROTO_IPV6
    sock.setsockopt(level, FAMILIES[family][2], PMTUDISC_PROBE)
    return sock


def send(sock, to, size):
    for _ in range(10):
        try:
            sock.sendto((struct.pack("!H", size) + b"\xa5" * size)[:size], (to, PORT))
            return
        except OSError as error:
            # The ICMP error of an earlier packet is reported by the next call.
            if error.errno not in (errno.EMSGSIZE, errno.ECONNREFUSED):
                raise


def learn(net, family):
    """Sends what is too long for the middle until the gateway knows, and returns what fits then."""
    with udp(net.client, family) as sock:

        def told():
            # Fits the first link in every combination of families, and the middle in none.
            send(sock, FAMILIES[family][0], 1340)
            return outbound(net.gwa)["is_path_mtu_learnt"]

        wait_for("the path's MTU", told, step=0.2)
    shown = outbound(net.gwa)
    assert shown["path_mtu"] == NARROW, shown
    return shown["inner_mtu"]


@pytest.mark.sample_of_cases("6-4-yes", "4-4-no", "6-6-no")
@pytest.mark.parametrize("outer,encap", [(4, "no"), (4, "yes"), (6, "no")])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_size(network, family, outer, encap):
    """Once the MTU is known each size passes, or draws an error that names what passes."""
    net = made(network, outer, encap=encap)
    to, header, _ = FAMILIES[family]
    assert_ping(net.client, to)
    before = outbound(net.gwa)
    assert before["path_mtu"] == 1500 and not before["is_path_mtu_learnt"], before
    inner = learn(net, family)
    assert NARROW - 110 < inner < before["inner_mtu"]
    # An IPv6 packet of 1280 bytes has to pass: what does not fit is cut behind encryption.
    limit = inner if family == 4 else max(inner, 1280)
    wire = Capture(net.mid, "west")
    errors = Capture(net.client, "eth0", "icmp" if family == 4 else "icmp6")
    with udp(net.client, family) as sock, udp(net.server, family) as sink:
        sink.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
        sink.bind(("", PORT))
        sink.setblocking(False)
        sizes = range(1100 - header, 1400 - header)
        got = set()
        for size in sizes:
            send(sock, to, size)
            time.sleep(0.003)

        def arrived():
            while True:
                try:
                    got.add(len(sink.recv(65535)))
                except BlockingIOError:
                    return got >= {size for size in sizes if size + header <= limit}

        wait_for("all that fit", arrived)
    assert max(got) + header == limit, (max(got) + header, limit)
    named = {
        struct.unpack_from("!H" if family == 4 else "!I", f.data, f.payload + (6 if family == 4 else 4))
        for f in errors.stop()
        if f.data[f.payload] == (3 if family == 4 else 2)
    }  # fmt: skip
    assert named == {(limit,)}, (named, limit)
    assert not leaks(wire.stop())


def test_what_was_learnt_is_forgotten(network):
    net = made(network, lifetime_s=4)
    assert_ping(net.client, t.SERVER4)
    learn(net, 4)
    wait_for("the end of it", lambda: not outbound(net.gwa)["is_path_mtu_learnt"], step=0.2)
    assert outbound(net.gwa)["path_mtu"] == 1500


def test_a_rekeyed_sa_inherits_it(network):
    net = made(network)
    assert_ping(net.client, t.SERVER4)
    inner = learn(net, 4)
    spi = outbound(net.gwa)["spi"]
    net.gwa.swan.rekey(child="net")

    def renewed():
        found = [sa for sa in net.gwa.daemon.json("sa") if sa["inner_mtu"] and sa["spi"] != spi]
        return found and found[0]

    new = wait_for("another SA", renewed)
    assert new["is_path_mtu_learnt"] and new["inner_mtu"] == inner, new


_TUNNEL = """
[[tunnel]]
interface = "ipsec0"
if_id = 42
"""


def test_through_a_tunnel_interface(network):
    """Hosts behind it and programs of the gateway's own learn what fits, as behind a policy: what Linux's
    selftest pmtu.sh asks of VTI."""
    net = network(
        build={"narrow": NARROW}, lifetime_s=600, clamp_mss="false", **t.FAR[4],
        ts_a="0.0.0.0/0", ts_b="0.0.0.0/0", extra_child="if_id_in = 42\n if_id_out = 42",
    )  # fmt: skip
    for gateway in net.gateways():
        gateway.daemon.write_config(gateway.daemon.config.read_text() + _TUNNEL)
    net.up()
    for gateway, far in ((net.gwa, "10.2.0.0/24"), (net.gwb, "10.1.0.0/24")):
        gateway.host.ip("route", "replace", far, "dev", "ipsec0")
    inner = learn(net, 4)
    for host in (net.client, net.gwa.host):
        with udp(host, 4) as sock:

            def told(host=host, sock=sock):
                send(sock, t.SERVER4, inner + 1 - 28)
                return f"mtu {inner} " in host.ip("route", "get", t.SERVER4).stdout + " "

            wait_for(f"the route's MTU at {host.name}", told, step=0.2)
        assert_ping(host, t.SERVER4, size=inner - 28)


def test_forged_errors_change_nothing(network):
    """From somebody who knows addresses and SPI, and did not see a packet."""
    net = made(network, narrow=1500)
    assert_ping(net.client, t.SERVER4)
    from scapy.layers.inet import ICMP, IP

    spi = int(outbound(net.gwa)["spi"], 16)
    r1 = net.lab.hosts["r1"]
    injector = Injector(r1, "site")

    def forged(spi, number):
        quoted = IP(src=t.FAR_A4, dst=t.FAR_B4, proto=50, len=1500, flags="DF")
        esp = struct.pack("!II", spi, number) + b"\x00" * 20
        error = IP(src="192.168.1.2", dst=t.FAR_A4) / ICMP(type=3, code=4, nexthopmtu=600)
        return ether(r1.mac("site"), net.gwa.host.mac("wan"), error / quoted / esp)

    injector.send(forged(spi ^ 1, 1), forged(spi, 0), forged(spi, 1_000_000), forged(7, 7))
    assert_ping(net.client, t.SERVER4, size=1400)
    shown = outbound(net.gwa)
    assert not shown["is_path_mtu_learnt"] and shown["path_mtu"] == 1500, shown
    # One who saw a packet is believed, though not below the least.
    injector.send(forged(spi, 1))
    wait_for("the report", lambda: outbound(net.gwa)["is_path_mtu_learnt"])
    assert outbound(net.gwa)["path_mtu"] == 600


_NO_ERRORS = """
table inet deaf {
  chain in {
    type filter hook input priority filter
    icmp type destination-unreachable drop
    icmpv6 type packet-too-big drop
  }
}
"""


@pytest.mark.parametrize("clamp_mss", ["true", "false"])
def test_tcp_of_hosts_that_hear_no_errors(network, clamp_mss):
    """Hosts that drop ICMP errors get stuck, unless their connections are told what fits."""
    net = made(network, narrow=1500, clamp_mss=clamp_mss)
    for host in (net.client, net.server):
        host.run("nft", "-f", "-", stdin=_NO_ERRORS)
    assert ping(net.client, t.SERVER4, count=1)["received"] == 1
    iperf = Iperf(net.server)
    if clamp_mss == "true":
        for to in (t.SERVER4, t.SERVER6):
            assert iperf.run(net.client, to, total=2_000_000)["bytes"] > 1_000_000
        for gateway in net.gateways():
            assert gateway.daemon.stats()["work"]["mss-clamped"] >= 2
    else:
        with net.client.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
            with net.server.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
                listener.bind(("", PORT))
                listener.listen()
                sock.connect((t.SERVER4, PORT))
                peer, _ = listener.accept()
                # Into the buffer, without waiting for room that never comes.
                sock.setblocking(False)
                sock.send(b"x" * 100_000)
                peer.settimeout(3)
                with pytest.raises(TimeoutError):
                    while peer.recv(65536):
                        pass
                peer.close()


def local_mtu(gateway, to):
    """The MTU of the route that a gateway's own programs take."""
    found = re.search(r"mtu (\d+)", gateway.host.ip("route", "get", to).stdout)
    return int(found[1]) if found else None


@pytest.mark.parametrize("family", FAMILIES)
def test_programs_of_the_gateway_need_no_errors(network, family):
    """Linux knows what fits before the first packet: its own long packets go in pieces that fit, and its
    connections with segments that do, where a packet filter drops ICMP errors."""
    net = made(network, narrow=1500)
    net.gwa.host.run("nft", "-f", "-", stdin=_NO_ERRORS)
    to = FAMILIES[family][0]
    assert_ping(net.gwa.host, to)
    assert local_mtu(net.gwa, to) == outbound(net.gwa)["inner_mtu"] < 1500
    # The server's own answers are too long at first, of which it is told.
    ping(net.gwa.host, to, size=8000, count=1, wait=0.5)
    assert_ping(net.gwa.host, to, size=8000)
    # The server is told by what the gateway announces.
    net.server.run("nft", "-f", "-", stdin=_NO_ERRORS)
    assert Iperf(net.server).run(net.gwa.host, to, total=2_000_000)["bytes"] > 1_000_000
    assert net.gwa.daemon.stats()["work"]["icmp-errors"] == 0


def test_programs_of_the_gateway_follow_the_path(network):
    """What a router says about the path, and that it is forgotten, changes the routes' MTU."""
    net = made(network, lifetime_s=8)
    assert_ping(net.client, t.SERVER4)
    wide = outbound(net.gwa)["inner_mtu"]
    assert local_mtu(net.gwa, t.SERVER4) == wide
    inner = learn(net, 4)
    wait_for("the narrow path", lambda: local_mtu(net.gwa, t.SERVER4) == inner, step=0.2)
    wait_for("its end", lambda: local_mtu(net.gwa, t.SERVER4) == wide, step=0.2)
