"""ICMP errors about what the fast path translates: Linux translates them, and they find the socket that they are about."""

import contextlib
import os
import socket
import time

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.masquerade import build, carries, known

pytestmark = pytest.mark.skipif(
    os.environ.get("CULVERT_SUITES") == "sample", reason="not in the sample: make scenarios-full ONLY=masquerade"
)

#: Not in Python's module: linux/in.h, linux/in6.h.
IP_MTU_DISCOVER, IP_PMTUDISC_DO, IP_MTU = 10, 2, 14
IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO, IPV6_MTU = 23, 2, 24

FAMILIES = {
    4: (socket.AF_INET, t.SERVER4, (socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO, IP_MTU)),
    6: (socket.AF_INET6, t.SERVER6, (socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO, IPV6_MTU)),
}


@contextlib.contextmanager
def connection(net, near, far, to, port, family):
    """A connection of UDP that the fast path carries both ways, as both sockets."""
    with near.socket(family, socket.SOCK_DGRAM) as ours, far.socket(family, socket.SOCK_DGRAM) as theirs:
        theirs.bind(("", port))
        ours.connect((to, port))
        for end in (ours, theirs):
            end.settimeout(5)
        # Also three packets that Linux takes: it says then that the connection is assured.
        for _ in range(3):
            ours.send(b"to")
            theirs.sendto(b"fro", theirs.recvfrom(100)[1])
            assert ours.recv(100) == b"fro"
        wait_for("the connection", lambda: known(net, port, 17))
        yield ours, theirs


def refused(ours, attempts=20):
    """Sends until an error comes back."""
    for _ in range(attempts):
        try:
            ours.send(b"anybody")
            time.sleep(0.05)
        except ConnectionRefusedError:
            return True
    return False


@pytest.mark.parametrize("version", FAMILIES)
def test_a_closed_port_is_told_to_who_asked(network, version):
    family, server, _ = FAMILIES[version]
    net = build(network)
    for host in (net.server, net.client):
        host.sysctl("net.ipv4.icmp_ratelimit", 0)
        host.sysctl("net.ipv6.icmp.ratelimit", 0)
    with connection(net, net.client, net.server, server, 7001, family) as (ours, theirs), carries(net, 1):
        theirs.close()
        assert refused(ours)
    if version == 4:
        # The other way round: who asked from outside hears it from the address that it asked.
        with connection(net, net.server, net.client, t.WAN_A4, 8000, family) as (ours, theirs), carries(net, 1):
            theirs.close()
            assert refused(ours)
    assert not any(net.gwa.daemon.drops().values())


@pytest.mark.parametrize("version", FAMILIES)
def test_a_narrow_link_beyond_is_told_to_who_sent(network, version):
    """Path MTU discovery through NAT, of a connection whose packets Linux does not see."""
    family, server, (level, discover, do, mtu) = FAMILIES[version]
    net = build(network)
    # Without `lock` a route's MTU is that of what the router itself sends.
    net.gwb.host.ip("link", "set", "lan", "mtu", "1300")
    with connection(net, net.client, net.server, server, 7001, family) as (ours, theirs), carries(net, 1):
        ours.setsockopt(level, discover, do)
        assert ours.getsockopt(level, mtu) == 1500
        ours.send(bytes(1400))

        def has_learnt():
            with contextlib.suppress(OSError):
                ours.send(bytes(1400))
            return ours.getsockopt(level, mtu) == 1300

        wait_for("the error", has_learnt)
        # The error that the socket has not told yet.
        with contextlib.suppress(OSError):
            ours.send(bytes(1))
        ours.send(bytes(1200))
        while len(came := theirs.recv(2000)) == 1:
            pass
        assert len(came) == 1200
