"""A sweep over sizes, by raw sockets: one packet per size, judged at the other end.

A packet that is too big for the tunnel and must not be fragmented draws an ICMP error that names
an MTU; a packet of exactly that size then passes.
"""

import errno
import socket
import struct
import time
from functools import partial

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, leaks
from lab.stream import SO_RCVBUFFORCE
from lab.traffic import Iperf, assert_ping

LINK_MTU = 1500
PORT = 7777
FAMILIES = {4: (t.SERVER4, 28), 6: (t.SERVER6, 48)}
IP_MTU_DISCOVER, IPV6_MTU_DISCOVER = 10, 23
#: Obey no learned MTU: DF as asked, and each packet judged by the gateway (linux/in.h).
PMTUDISC_DONT, PMTUDISC_PROBE = 0, 3
#: Packets that may draw errors under way at a time: a gateway makes 50 errors at once, and then 1000 a second.
ERRORS_AT_ONCE = 40


def sender(net, family, df):
    inet = socket.AF_INET if family == 4 else socket.AF_INET6
    sock = net.client.socket(inet, socket.SOCK_DGRAM)
    mode = PMTUDISC_PROBE if df else PMTUDISC_DONT
    if family == 4:
        sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, mode)
    else:
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, mode)
    sock.connect((FAMILIES[family][0], PORT))
    return sock


def receiver(net, family):
    inet = socket.AF_INET if family == 4 else socket.AF_INET6
    sock = net.server.socket(inet, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
    sock.bind(("", PORT))
    sock.setblocking(False)
    return sock


def arrived(sock, sizes):
    """Adds the sizes that have arrived by now."""
    while True:
        try:
            data = sock.recv(65535)
        except BlockingIOError:
            return sizes
        assert len(data) < 2 or data[:2] == struct.pack("!H", len(data)), "content changed"
        assert data[2:] == b"\xa5" * (len(data) - 2) or len(data) < 3, "content changed"
        assert len(data) not in sizes, f"size {len(data)} arrived twice"
        sizes.add(len(data))


def send(sock, size):
    data = (struct.pack("!H", size) + b"\xa5" * size)[:size] if size else b""
    for _ in range(10):
        try:
            sock.send(data)
            return
        except OSError as error:
            # The ICMP error of an earlier packet is reported by the next call.
            if error.errno not in (errno.EMSGSIZE, errno.ECONNREFUSED):
                raise


def too_big_mtus(frames, family):
    """(length of the offending packet, MTU that was named) of each ICMP error in a capture."""
    found = []
    for frame in frames:
        data, at = frame.data, frame.payload
        if family == 4 and frame.protocol == 1 and data[at : at + 2] == b"\x03\x04":
            mtu = struct.unpack_from("!H", data, at + 6)[0]
            found.append((struct.unpack_from("!H", data, at + 8 + 2)[0], mtu))
        elif family == 6 and frame.protocol == 58 and data[at] == 2:
            mtu = struct.unpack_from("!I", data, at + 4)[0]
            found.append((struct.unpack_from("!H", data, at + 8 + 4)[0] + 40, mtu))
    return found


@pytest.mark.sample_of_cases("4-aes128gcm16-no", "4-aes256-sha512-yes", "6-aes128gcm16-yes", "6-aes256-sha512-no")
@pytest.mark.parametrize("encap", ["no", "yes"])
@pytest.mark.parametrize("esp", ["aes128gcm16", "aes256-sha512"])
@pytest.mark.parametrize("family", FAMILIES)
def test_df_set(network, family, esp, encap):
    """Up to the tunnel's MTU everything passes; above it, each packet draws the right error."""
    net = network(esp=esp, encap=encap).up()
    header = FAMILIES[family][1]
    # What waits for a neighbour's address is limited: that is not what this is about.
    assert_ping(net.client, FAMILIES[family][0])
    sock, sink = sender(net, family, df=True), receiver(net, family)
    errors = Capture(net.client, "eth0", "icmp" if family == 4 else "icmp6")
    limit = LINK_MTU - header
    sizes = list(range(0, limit + 1))
    got = set()

    def have_ended(count):
        """Each arrives or draws an error."""
        refused = too_big_mtus(errors.frames(), family)
        return len(arrived(sink, got)) + len(refused) >= count

    for size in sizes:
        send(sock, size)
        # Not in one flood; and ICMP errors are rationed: not faster than 500 a second, nor many at once to a
        # gateway that had to wait for a processor.
        is_large = size + header > LINK_MTU - 110
        if size % 8 == 0 or is_large:
            time.sleep(0.002)
        if is_large and size % ERRORS_AT_ONCE == 0:
            wait_for("an end of each so far", partial(have_ended, size + 1))
    wait_for("an end of each", partial(have_ended, len(sizes)))
    refused = too_big_mtus(errors.stop(), family)
    passed_up_to = max(got)
    mtu = passed_up_to + header
    assert got == set(range(passed_up_to + 1)), "holes: " + str(
        sorted(set(range(passed_up_to + 1)) - got)[:10]
    )
    # The outer packet holds 1500 bytes; no suite needs more than 110 bytes around the inner one.
    assert LINK_MTU - 110 <= mtu < LINK_MTU, mtu
    wanted = {size + header for size in range(passed_up_to + 1, limit + 1)}
    assert {length for length, _ in refused} == wanted, "not each got an answer"
    assert {named for _, named in refused} == {mtu}, (mtu, {named for _, named in refused})
    drops = net.gwa.daemon.drops()
    assert drops.get("out-too-big", 0) == len(wanted), drops


@pytest.mark.parametrize("encap", ["no", "yes"])
def test_df_not_set(network, encap):
    """Without DF an IPv4 packet is fragmented where it must be, and arrives whole."""
    net = network(encap=encap).up()
    assert_ping(net.client, t.SERVER4)
    sock, sink = sender(net, 4, df=False), receiver(net, 4)
    wire = Capture(net.mid, "west")
    sizes = [*range(1473), 2000, 4000, 8000, 16000]
    for size in sizes:
        send(sock, size)
        time.sleep(0.001)
    got = set()
    wait_for("every size", lambda: arrived(sink, got) >= set(sizes))
    assert got == set(sizes), sorted(got - set(sizes))
    frames = wire.stop()
    assert not leaks(frames)
    # Fragments are made before encryption: no ESP packet itself is a fragment.
    assert not any(f.fragment for f in frames)


def test_tcp_learns_the_mtu(network):
    """A TCP connection of hosts with a full MTU works: the segments shrink to what fits."""
    net = network().up()
    iperf = Iperf(net.server)
    for to in (t.SERVER4, t.SERVER6):
        assert iperf.run(net.client, to, total=8_000_000)["bytes"] > 4_000_000
