"""A gateway that translates, between hosts of its site and strangers outside."""

import socket
import time

from lab import topology as t
from lab.attack import Health, effort, narrow
from lab.base import wait_for
from lab.capture import Capture
from lab.hostile import frames, from_the_site
from lab.inject import Injector, ether
from lab.masquerade import RULES, build, known
from lab.traffic import assert_ping
from scapy.layers.inet import ICMP, IP, UDP
from scapy.packet import Raw

from .test_hostile_frames import sender, storm

MIB = 1 << 20
#: Linux lets what belongs to no connection pass untranslated; a firewall drops it.
STRICT = RULES + """
table inet strict {
  chain forward {
    type filter hook forward priority filter
    ct state invalid drop
  }
}
"""


def talk(near, far, count=1):
    """Datagrams there and back over a connection that stays."""
    for number in range(count):
        near.send(b"there %d" % number)
        data, peer = far.recvfrom(100)
        far.sendto(b"back " + data, peer)
        assert near.recv(100) == b"back " + data
    return peer


def connection(net, port=7001):
    near = net.client.socket(socket.AF_INET, socket.SOCK_DGRAM)
    far = net.server.socket(socket.AF_INET, socket.SOCK_DGRAM)
    far.bind(("", port))
    near.connect((t.SERVER4, port))
    for end in (near, far):
        end.settimeout(20)
    peer = talk(near, far, 4)
    wait_for("the connection", lambda: known(net, port, 17))
    return near, far, peer


def test_strangers(network, rng):
    """Attacker: outside, who knows the gateway's address. He sends to every port of it, as other hosts and from other ports, sends
    ICMP errors that quote connections as they are and as they are not, and packets for inner addresses.

    The client's site sees nothing of it but errors about what it really sent, the connection goes on and keeps its port.
    """
    net = build(network, STRICT)
    near, far, peer = connection(net)
    port = peer[1]
    # All that comes to the site but the connection's own.
    site = Capture(net.client, "eth0", "ip and not (udp and src 10.2.0.10 and src port 7001) and not src 10.1.0.10", snap=128)
    macs = net.gwb.host.mac("wan"), net.gwa.host.mac("wan")
    template = IP(src="198.51.100.7", dst=t.WAN_A4) / UDP(sport=7001, dport=port) / Raw(b"stranger")
    bad = []
    for number in rng.sample(range(1, 65536), effort(200, 3000)):
        # One port leads inside, by a rule.
        if number in (port, 8000):
            continue
        packet = template.copy()
        packet[UDP].dport = number
        bad.append(ether(*macs, packet))
    for src, sport, dport in (("198.51.100.7", 7001, port), (t.SERVER4, 7002, port), (t.WAN_B4, 7001, port), (t.SERVER4, 7001, port ^ 1)):
        bad.append(ether(*macs, IP(src=src, dst=t.WAN_A4) / UDP(sport=sport, dport=dport) / Raw(b"stranger")))
        bad.append(ether(*macs, IP(src=src, dst=t.CLIENT4) / UDP(sport=sport, dport=dport) / Raw(b"past NAT")))
    for quoted_port, kind, code in ((port ^ 1, 3, 3), (port ^ 2, 3, 4), (1, 11, 0), (port ^ 1, 5, 1), (port ^ 1, 12, 0)):
        quoted = IP(src=t.WAN_A4, dst=t.SERVER4) / UDP(sport=quoted_port, dport=7001) / Raw(b"x" * 8)
        bad.append(ether(*macs, IP(src=t.WAN_B4, dst=t.WAN_A4) / ICMP(type=kind, code=code) / quoted))
        wrong = IP(src=t.CLIENT4, dst=t.SERVER4) / UDP(sport=quoted_port, dport=7001) / Raw(b"x" * 8)
        bad.append(ether(*macs, IP(src=t.WAN_B4, dst=t.WAN_A4) / ICMP(type=kind, code=code) / wrong))
    injector = Injector(net.mid, "west")
    for at in range(0, len(bad), 64):
        injector.send(*bad[at : at + 64])
        assert talk(near, far) == peer
    # What is for the inner address itself, past NAT, a firewall of Linux's would have to refuse: here there is none.
    came = [f for f in site.stop() if f.protocol == 1 or b"stranger" in f.data]
    assert not came, "; ".join(map(str, came[:5]))
    assert talk(near, far, 5) == peer
    near.close()
    far.close()


def test_a_site_that_opens_all(network, rng):
    """Attacker: a host of the site, which opens more connections than the fast path has room for, and sends malformed packets of
    every kind through it.

    The connection of another goes on through it; nothing leaves with an inner address; the daemon's memory is bounded, and
    each packet is accounted for.
    """
    net = network()
    net.gwa.host.sysctl("net.netfilter.nf_conntrack_udp_timeout", 10)
    net.gwa.daemon.settings = '[nat]\nlearn = "conntrack"\nflows = 1024\n'
    net.gwa.daemon.write_config()
    net.gwa.host.run("nft", "-f", "-", stdin=STRICT)
    narrow(net)
    for address in (t.WAN_B4, t.WAN_B6):
        net.gwa.host.ip("neigh", "replace", address, "lladdr", net.gwb.host.mac("wan"), "dev", "wan")
    # What ARP and neighbour discovery can be made to say is another test's.
    for address in (t.CLIENT4, t.CLIENT6):
        net.gwa.host.ip("neigh", "replace", address, "lladdr", net.client.mac("eth0"), "dev", "lan")
    net.start()
    near, far, peer = connection(net)
    health = Health(net.gwa.daemon)
    bare = Capture(net.mid, "west", "src net 10.1.0.0/24 or (ip6 and src net 2001:db8:1::/64)", snap=128)
    mac, to_mac = net.client.mac("eth0"), net.gwa.host.mac("lan")
    injector = Injector(net.client, "eth0")
    opened = 0
    with net.server.socket(socket.AF_INET, socket.SOCK_DGRAM) as echo:
        echo.bind(("", 9009))
        echo.setblocking(False)
        template = bytes(ether(mac, to_mac, IP(src=t.CLIENT4, dst=t.SERVER4, id=0) / UDP(sport=1, dport=9009, chksum=0) / Raw(b"open")))
        for _ in range(effort(15, 200)):
            for _ in range(128):
                opened += 1
                sport = 1024 + opened % 60_000
                injector.send(template[:34] + sport.to_bytes(2, "big") + template[36:])
                try:
                    while True:
                        echo.sendto(b"back", echo.recvfrom(64)[1])
                except BlockingIOError:
                    pass
            assert talk(near, far) == peer
    good = frames(from_the_site(t.CLIENT4, t.CLIENT6, t.SERVER4, t.SERVER6), mac, to_mac)
    sent, _ = storm(sender(injector), good, rng, lambda: talk(near, far), effort(2, 30))
    time.sleep(0.2)
    # A frame that claims the server's address has the gateway answer it by its own inner one, which Linux does not translate.
    own = (t.LAN_A4, t.LAN_A6)
    leaked = [f for f in bare.stop() if f.kind not in ("nd", "arp") and str(f.src) not in own]
    assert not leaked, f"{len(leaked)} untranslated: " + "; ".join(map(str, leaked[:5]))
    assert talk(near, far, 5) == peer
    near.close()
    far.close()
    health.check(48 * MIB)
    print(f"{opened} connections, {sent} frames")
