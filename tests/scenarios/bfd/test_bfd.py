"""FRR's bfdd with culvert as its data plane, against a bfdd that sends its packets itself."""

import json
import os
import socket
import struct
import time

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, assert_only_protected
from lab.frr import Frr, has, learnt
from lab.traffic import assert_ping

pytestmark = pytest.mark.skipif(not has("bfdd"), reason="frr is not installed")

#: Where bfdd listens for culvert.
DATAPLANE = "ipv4:127.0.0.1:50700"

CONFIG = """
[bfd]
dataplane = "{address}"
"""

BFDD = """
hostname {name}
log stdout
bfd
 peer {far} {more}
  receive-interval {ms}
  transmit-interval {ms}
  detect-multiplier 3
"""

#: Words of a peer on the link between the gateways.
LINK = "local-address {near} interface wan"
LINK_LOCAL = ("fe80::a", "fe80::b")

TUNNEL = """
[[tunnel]]
interface = "ipsec0"
if_id = 42
"""

#: Addresses of the tunnel interfaces.
NEAR4, FAR4 = "10.9.0.1", "10.9.0.2"

BGPD = """
hostname {name}
log stdout
ip prefix-list all seq 10 permit any
router bgp {here}
 bgp router-id {near}
 neighbor {far} remote-as {there}
 neighbor {far} bfd
 neighbor {far} timers 30 90
 neighbor {far} timers connect 1
 address-family ipv4 unicast
  network {lan}
  neighbor {far} prefix-list all in
  neighbor {far} prefix-list all out
 exit-address-family
"""


def with_bfdd(net, address=DATAPLANE, more=""):
    """Has culvert of gateway A ask the bfdd at an address."""
    net.gwa.daemon.write_config(net.gwa.daemon.config.read_text() + CONFIG.format(address=address) + more)


def bfdds(net, ms, ends=(t.WAN_A4, t.WAN_B4), more=LINK, address=DATAPLANE):
    """A bfdd at both gateways, of which A's has culvert send its packets."""
    found = []
    for host, near, far, at in ((net.gwa.host, *ends, address), (net.gwb.host, *ends[::-1], None)):
        text = BFDD.format(name=host.name, far=far, ms=ms, more=more.format(near=near))
        found.append(Frr(host, bfdd=text, dataplane=at))
    return found


def rows(net):
    return {row["peer"]: row for row in net.gwa.daemon.json("bfd")["sessions"]}


def is_up(net, near, far, ends=(t.WAN_A4, t.WAN_B4)):
    """Whether all three say that the session is up: culvert, its bfdd, and the other one."""
    here, there = ends
    said = (rows(net).get(there, {}).get("state"), near.peers()[there]["status"], far.peers()[here]["status"])
    return said == ("up", "up", "up")


def changes(net):
    """Changes of sessions' states: when, in seconds since 1970, to what, and why."""
    lines = net.gwa.daemon.culvert("events", "--once", "--json").stdout.splitlines()
    found = [event for event in map(json.loads, lines) if event.get("event") == "bfd-state"]
    return [(event["time_ms"] / 1000, event["to"], event["why"]) for event in found]


@pytest.mark.parametrize("ms", [50, 10])
def test_a_session_comes_up_counts_and_goes_down_in_time(network, ms):
    net = network()
    near, far = bfdds(net, ms)
    with_bfdd(net)
    net.gwa.daemon.start()
    wait_for("the session", lambda: is_up(net, near, far))
    # Its packets go by their interval less a quarter at most, and bfdd counts what culvert does.
    begun, before = time.monotonic(), rows(net)[t.WAN_B4]["sent"]
    time.sleep(3)
    row, seconds = rows(net)[t.WAN_B4], time.monotonic() - begun
    sent = row["sent"] - before
    assert seconds * 1000 / ms * 0.5 < sent <= seconds * 1000 / ms / 0.75 + 20, (sent, seconds)
    assert (row["local"], row["interface"], row["multi_hop"]) == (t.WAN_A4, "wan", False), row
    assert (row["transmit_ms"], row["detection_ms"]) == (ms, 3 * ms), row
    counters = near.peers("counters")[t.WAN_B4]
    now = rows(net)[t.WAN_B4]
    for theirs, ours in (("control-packet-input", "received"), ("control-packet-output", "sent")):
        assert row[ours] <= counters[theirs] <= now[ours], (row, counters, now)
    peer = near.peers()[t.WAN_B4]
    assert (peer["remote-receive-interval"], peer["remote-detect-multiplier"]) == (ms, 3), peer
    metrics = net.gwa.daemon.culvert("metrics").stdout
    assert f'culvert_bfd_session_up{{peer="{t.WAN_B4}",interface="wan",hops="one"}} 1' in metrics, metrics
    # Linux has seen none of them, and nothing was dropped.
    stats = net.gwa.daemon.stats()
    assert stats["work"]["bfd-received"] > 0 and stats["outcomes"]["dropped"] == 0, stats
    # The far end is silent; a busy machine may have stopped it for a moment before.
    wait_for("the session", lambda: is_up(net, near, far))
    cut = time.time()
    net.mid.ip("link", "set", "east", "down")
    wait_for("silence", lambda: rows(net)[t.WAN_B4]["state"] == "down")
    found = [(at - cut, why) for at, to, why in changes(net) if to == "down" and at > cut]
    after, why = found[0]
    print(f"down {after * 1000:.0f} ms after the cut, detection time {3 * ms} ms")
    assert why == "control detection time expired", found
    assert after < 3 * ms / 1000 + 0.5, found
    wait_for("bfdd", lambda: near.peers()[t.WAN_B4]["status"] == "down")
    assert "BFD sessions down: 192.0.2.2" in net.gwa.daemon.culvert("status").stdout
    net.mid.ip("link", "set", "east", "up")
    wait_for("the session again", lambda: is_up(net, near, far))


def test_several_hops_over_ipv6(network):
    net = network()
    ends = (t.WAN_A6, t.WAN_B6)
    near, far = bfdds(net, 50, ends=ends, more="multihop local-address {near}")
    with_bfdd(net)
    net.gwa.daemon.start()
    wait_for("the session", lambda: is_up(net, near, far, ends))
    row = rows(net)[t.WAN_B6]
    assert (row["multi_hop"], row["interface"], row["local"]) == (True, None, t.WAN_A6), row


@pytest.mark.parametrize("family", [4, 6])
def test_echoes_of_the_peer_go_back_and_none_are_sent(network, family):
    net = network()
    ends = (t.WAN_A4, t.WAN_B4) if family == 4 else (t.WAN_A6, t.WAN_B6)
    near, far = bfdds(net, 300, ends, more=LINK + "\n  echo-mode\n  echo transmit-interval 50\n  echo receive-interval 50")
    with_bfdd(net)
    net.gwa.daemon.start()
    wait_for("the session", lambda: is_up(net, near, far, ends))
    assert rows(net)[ends[1]]["without"] == "the echo function"
    for command in ("status", "bfd"):
        assert "goes without the echo function" in net.gwa.daemon.culvert(command).stdout
    # Those of IPv4 have their sender's address at both ends: Linux's to forward.
    heard = lambda: far.peers("counters")[ends[0]]["echo-packet-input"]
    wait_for("echoes", lambda: heard() > 20)
    if family == 6:
        assert net.gwa.daemon.stats()["work"]["bfd-echoed"] > 20
    assert near.peers("counters")[ends[1]]["echo-packet-output"] == 0
    assert is_up(net, near, far, ends) and not net.gwa.daemon.json("bfd")["refused"]


def test_link_local_peers_of_a_link(network):
    net = network()
    for gateway, addr in ((net.gwa, LINK_LOCAL[0]), (net.gwb, LINK_LOCAL[1])):
        gateway.host.ip("address", "add", f"{addr}/64", "dev", "wan", "nodad")
    near, far = bfdds(net, 50, LINK_LOCAL)
    with_bfdd(net)
    net.gwa.daemon.start()
    wait_for("the session", lambda: is_up(net, near, far, LINK_LOCAL))
    row = rows(net)[LINK_LOCAL[1]]
    assert (row["interface"], row["local"]) == ("wan", LINK_LOCAL[0]), row
    net.mid.ip("link", "set", "east", "down")
    wait_for("silence", lambda: rows(net)[LINK_LOCAL[1]]["state"] == "down")
    net.mid.ip("link", "set", "east", "up")
    wait_for("the session again", lambda: is_up(net, near, far, LINK_LOCAL))


def test_counters_asked_for_again_and_again_keep_the_connection(network):
    """FRR's `bfd_dplane_counters_topo1`, which is newer than any package, has a data plane without peers. Here it has one.

    160 answers are more than `bfdd` has room for at once."""
    net = network()
    near, far = bfdds(net, 300)
    with_bfdd(net)
    net.gwa.daemon.start()
    wait_for("the session", lambda: is_up(net, near, far))
    heard = [near.peers("counters")[t.WAN_B4]["control-packet-input"] for _ in range(160)]
    assert 0 < heard[0] < heard[-1] and heard == sorted(heard), heard
    assert is_up(net, near, far)
    assert "bfdd has closed" not in net.gwa.daemon.log()


def by_hand(gateway, ends):
    """A pair of SAs for everything, between two gateways, and their policies."""
    lines = []
    (here, there), spis = ends, {t.WAN_A4: 0x1042, t.WAN_B4: 0x2042}
    for src, dst in ((here, there), (there, here)):
        lines.append(
            f"xfrm state add src {src} dst {dst} proto esp spi {spis[src]:#x} reqid 42 mode tunnel "
            f"if_id 42 aead rfc4106(gcm(aes)) 0x{spis[src]:040x} 128 replay-window 64"
        )
    for direction, src, dst in (("out", here, there), ("in", there, here), ("fwd", there, here)):
        lines.append(
            f"xfrm policy add src 0.0.0.0/0 dst 0.0.0.0/0 dir {direction} priority 100 if_id 42 "
            f"tmpl src {src} dst {dst} proto esp reqid 42 mode tunnel"
        )
    batch = gateway.host.lab.tmp / f"{gateway.host.name}.xfrm"
    batch.write_text("\n".join(lines) + "\n")
    gateway.daemon.exec("ip", "-batch", batch)


def test_bgp_over_a_tunnel_follows(network):
    net = network()
    with_bfdd(net, more=TUNNEL)
    net.gwb.daemon.write_config(net.gwb.daemon.config.read_text() + TUNNEL)
    speakers = []
    for gateway, near, far, here, there, other, lan in (
        (net.gwa, NEAR4, FAR4, 65001, 65002, t.WAN_B4, "10.1.0.0/24"),
        (net.gwb, FAR4, NEAR4, 65002, 65001, t.WAN_A4, "10.2.0.0/24"),
    ):
        host = gateway.host
        gateway.daemon.start()
        by_hand(gateway, (t.WAN_A4 if gateway is net.gwa else t.WAN_B4, other))
        host.address("ipsec0", f"{near}/30")
        host.ip("route", "del", "10.2.0.0/24" if gateway is net.gwa else "10.1.0.0/24")
        bgpd = BGPD.format(name=host.name, here=here, there=there, near=near, far=far, lan=lan)
        bfdd = f"hostname {host.name}\nlog stdout\nbfd\n"
        at = DATAPLANE if gateway is net.gwa else None
        speakers.append(Frr(host, "bgpd", bgpd, bfdd=bfdd, dataplane=at))
    near, far = speakers
    wait_for("a route at A", lambda: learnt(net.gwa.host, "10.2.0.0/24"))
    wait_for("the session", lambda: is_up(net, near, far, (NEAR4, FAR4)))
    wire = Capture(net.mid, "west")
    assert_ping(net.client, t.SERVER4, count=5)
    time.sleep(2)
    frames = wire.stop()
    # All of it is inside ESP: BFD in the class of network control.
    assert_only_protected(frames, protected=(*t.PROTECTED, "10.9.0.0/30"))
    assert {48} <= {frame.data[15] >> 2 for frame in frames if frame.is_esp}
    # 300 ms each three times is what BGP's peers have by default; its own timers would take 90 s.
    cut = time.monotonic()
    net.mid.ip("link", "set", "east", "down")
    wait_for("the loss", lambda: not learnt(net.gwa.host, "10.2.0.0/24"), timeout=30)
    after = time.monotonic() - cut
    print(f"BGP's route is gone {after:.2f} s after the cut")
    assert after < 10
    assert rows(net)[FAR4]["state"] == "down"
    net.mid.ip("link", "set", "east", "up")
    wait_for("the route again", lambda: learnt(net.gwa.host, "10.2.0.0/24"))


def packet(your, my=7, first=0x20, bits=0xC0, mult=3, length=24, tail=b""):
    """A control packet that says it is up."""
    return struct.pack("!BBBBIIIII", first, bits, mult, length, my, your, 50000, 50000, 0) + tail


def test_lies_change_nothing(network):
    net = network()
    near, far = bfdds(net, 50)
    with_bfdd(net)
    net.gwa.daemon.start()
    wait_for("the session", lambda: is_up(net, near, far))
    mine = rows(net)[t.WAN_B4]["discriminator"]
    downs = len(changes(net))
    liar = net.gwb.host.socket(socket.AF_INET, socket.SOCK_DGRAM)
    liar.bind((t.WAN_B4, 50000))

    def lies(payload, ttl=255):
        liar.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, ttl)
        liar.sendto(payload, (t.WAN_A4, 3784))

    down = packet(mine, bits=0x40)
    lies(down, ttl=254)
    lies(packet(mine ^ 1, bits=0x40))
    lies(packet(mine, bits=0x40, first=0x40))
    lies(packet(mine, bits=0x40, length=200))
    lies(down[:20])
    lies(packet(mine, bits=0x40, mult=0))
    lies(packet(mine, bits=0x41))
    lies(packet(mine, my=0, bits=0x40))
    lies(packet(0, bits=0xC0))
    lies(packet(mine, bits=0x44, length=28, tail=b"\x01\x04\x01\x00"))
    wanted = {
        "ttl": 1, "session": 1, "version": 1, "length": 2, "detect-mult": 1, "multipoint": 1,
        "my-discriminator": 1, "your-discriminator": 1, "authentication": 1,
    }  # fmt: skip
    wait_for("refusals", lambda: net.gwa.daemon.json("bfd")["refused"] == wanted, timeout=20)
    drops = net.gwa.daemon.json("drops")["drops"]
    assert drops.get("bfd-refused") == sum(wanted.values()), drops
    assert len(changes(net)) == downs and is_up(net, near, far)
    # A stranger is Linux's, which has no such socket.
    liar.close()
    assert "packets refused: " in net.gwa.daemon.culvert("bfd").stdout


def test_each_survives_the_other(network):
    net = network()
    near, far = bfdds(net, 50)
    with_bfdd(net)
    daemon = net.gwa.daemon
    daemon.start()
    wait_for("the session", lambda: is_up(net, near, far))
    # bfdd dies: culvert has no sessions, says so, and has them again with the next one.
    near.processes["bfdd"].stop()
    wait_for("no bfdd", lambda: not daemon.json("bfd")["dataplane"]["connected"])
    assert daemon.json("bfd")["sessions"] == []
    assert "bfdd is not connected" in daemon.culvert("status").stdout
    wait_for("the far end", lambda: far.peers()[t.WAN_A4]["status"] != "up")
    near.start("bfdd")
    wait_for("the session again", lambda: is_up(net, near, far))
    # culvert is killed: bfdd does not go on believing in the session.
    daemon.kill9()
    wait_for("bfdd", lambda: near.peers()[t.WAN_B4]["status"] != "up")
    daemon.start()
    wait_for("the session once more", lambda: is_up(net, near, far))
    # Another address, by a reload: nobody is there.
    config = daemon.config.read_text()
    daemon.write_config(config.replace("50700", "50701"))
    daemon.culvert("reload")
    wait_for("nobody", lambda: "refused" in (daemon.json("bfd")["dataplane"]["why"] or ""))
    daemon.write_config(config)
    daemon.culvert("reload")
    wait_for("the session after all", lambda: is_up(net, near, far))
    # Told to end, it leaves nothing behind that keeps bfdd waiting.
    daemon.stop()
    wait_for("bfdd alone", lambda: near.peers()[t.WAN_B4]["status"] != "up")


def test_a_unix_socket_that_may_not_be_asked_is_named(network):
    net = network()
    folder = net.gwa.host.lab.tmp
    folder.chmod(0o755)
    path = folder / "bfdd" / "dplane.sock"
    path.parent.mkdir()
    path.parent.chmod(0o777)
    address = f"unix:{path}"
    with_bfdd(net, address)
    # Nobody has made it yet.
    checked = net.gwa.daemon.culvert("check", "--config", net.gwa.daemon.config).stdout
    assert "bfd.dataplane" in checked and "no such socket" in checked, checked
    near, far = bfdds(net, 50, address=address)
    net.gwa.daemon.start()
    # It is bfdd's user's alone, and root without CAP_DAC_OVERRIDE is another one.
    wait_for("a reason", lambda: "Permission denied" in (net.gwa.daemon.json("bfd")["dataplane"]["why"] or ""))
    os.chmod(path, 0o777)
    wait_for("the session", lambda: is_up(net, near, far))
