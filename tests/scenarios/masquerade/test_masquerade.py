"""A gateway that translates what its LAN sends, by rules of nftables: no tunnel is needed for that."""

import os
import re
import signal
import socket
import struct
import time

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture
from lab.masquerade import build, carries, entries, stream
from lab.traffic import Iperf, Stream, assert_ping

#: What known connections do not meet: Linux has decided about them before.
CLOSED = """
table ip filter {
  chain forward {
    type filter hook forward priority filter; policy drop;
  }
}
"""

#: SPI, sequence number, and what would be encrypted.
ESP = struct.pack("!II", 0x1234_5678, 1) + bytes(60)


#: What the daemon is told beside its configuration, and the queues of each interface.
WAYS = {
    "workers": ({"CULVERT_WORKERS": "2"}, 2),
    "packet": ({"CULVERT_PORTS": "packet"}, 1),
    "workers-packet": ({"CULVERT_WORKERS": "2", "CULVERT_PORTS": "packet"}, 2),
}


def ends(frames):
    """Of UDP."""
    return {(str(f.src), str(f.dst)) for f in frames if f.protocol == 17}


def test_connections_go_past_linux_translated(network):
    net = build(network)
    # UDP, both families.
    for to, own in ((t.SERVER4, t.WAN_A4), (t.SERVER6, t.WAN_A6)):
        wire = Capture(net.mid, "west")
        with carries(net, 350):
            stream(net, net.client, net.server, to)
        frames = wire.stop()
        assert ends(frames) == {(own, to), (to, own)}, [str(f) for f in frames[:4]]
    # From outside, to a host inside.
    with carries(net, 350):
        stream(net, net.server, net.client, t.WAN_A4, port=8000)
    # ICMP queries.
    for to in (t.SERVER4, t.SERVER6):
        with carries(net, 30):
            assert_ping(net.client, to, count=20)
    # TCP between its beginning and its end, which Linux sees.
    iperf = Iperf(net.server)
    for reverse in (False, True):
        with carries(net, 500):
            assert iperf.run(net.client, t.SERVER4, total=2_000_000, reverse=reverse)["bytes"]
    iperf.stop()

    def has_ended():
        states = [line.split()[3] for line in entries(net, "-p", "tcp")]
        return "ESTABLISHED" not in states

    wait_for("Linux to see the ends of connections", has_ended)
    reset(net)
    wait_for("Linux to see the reset", has_ended)
    error_comes_back(net)
    esp_of_a_box_behind(net)
    drops = net.gwa.daemon.drops()
    assert not any(drops.values()), drops


def reset(net):
    """A TCP connection that ends with a reset."""
    with net.server.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("", 7070))
        listener.listen()
        with net.client.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
            client.connect((t.SERVER4, 7070))
            peer, _ = listener.accept()
            for _ in range(20):
                client.sendall(b"x")
                assert peer.recv(1) == b"x"
            assert any("ESTABLISHED" in line for line in entries(net, "-p", "tcp"))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()


def error_comes_back(net):
    """Nobody listens: the server's ICMP error finds the client's socket."""
    net.server.sysctl("net.ipv4.icmp_ratelimit", 0)
    with net.client.socket(socket.AF_INET, socket.SOCK_DGRAM) as client, carries(net, 5):
        client.connect((t.SERVER4, 9))
        client.settimeout(5)
        for _ in range(20):
            time.sleep(0.01)
            client.send(b"anybody")
            try:
                client.recv(1)
                raise AssertionError("an answer")
            except ConnectionRefusedError:
                pass


def esp_of_a_box_behind(net):
    """NAT traversal of somebody behind this gateway, which has an IKE daemon at the same port."""
    with (
        net.client.socket(socket.AF_INET, socket.SOCK_DGRAM) as box,
        net.server.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer,
        carries(net, 30),
    ):
        for end in (box, peer):
            end.bind(("", 4500))
            end.settimeout(5)
        # Key exchange comes first, behind its marker.
        box.sendto(bytes(60), (t.SERVER4, 4500))
        peer.sendto(bytes(60), peer.recvfrom(2000)[1])
        assert box.recv(2000) == bytes(60)
        wait_for("the connection", lambda: entries(net, "-p", "udp", "--orig-port-dst", "4500"))
        time.sleep(0.1)
        for _ in range(20):
            box.sendto(ESP, (t.SERVER4, 4500))
            data, source = peer.recvfrom(2000)
            assert (data, source[0]) == (ESP, t.WAN_A4)
            peer.sendto(ESP, source)
            assert box.recv(2000) == ESP


#: The stream's connection, as `conntrack` is asked for it.
OURS = ("-p", "udp", "--orig-port-dst", "7000")


def idents(net):
    """Linux's number of it: another one is another connection."""
    return [re.search(r"id=(\d+)", line).group(1) for line in entries(net, *OURS)]


def test_they_live_while_they_have_traffic_and_go_back_when_forgotten(network):
    net = build(network, udp_timeout=2, udp_timeout_stream=2)
    run = Stream(net.client, net.server, t.SERVER4, rate=200)
    wait_for("the connection", lambda: idents(net))
    before = idents(net)
    with carries(net, 500):
        time.sleep(4)
    assert idents(net) == before, entries(net, *OURS)
    # Forgotten, it is Linux's again, which has another mind by now.
    wire = Capture(net.mid, "west", "udp port 7000")
    net.gwa.host.run("nft", "-f", "-", stdin=CLOSED)
    time.sleep(0.3)
    net.gwa.host.run("conntrack", "-F")
    flushed = time.time()
    time.sleep(0.5)
    times = [frame.time for frame in wire.stop()]
    assert any(time < flushed for time in times)
    late = [time - flushed for time in times if time > flushed + 0.1]
    assert not late, late
    for end in (run.probe, run.echo):
        end.kill(signal.SIGKILL)


def test_a_connection_carried_from_its_first_answer_on_stays(network):
    """Linux, which has seen two packets of it, keeps it for its shortest time."""
    net = build(network, udp_timeout=3, udp_timeout_stream=60)
    run = Stream(net.client, net.server, t.SERVER4, rate=200)
    wait_for("the connection", lambda: idents(net))
    before = idents(net)
    time.sleep(6)
    assert idents(net) == before, entries(net, *OURS)
    for end in (run.probe, run.echo):
        end.kill(signal.SIGKILL)


def told(net):
    """What the command says of the stream's connection, and `why` of its packets."""
    told = net.gwa.daemon.json("nat")
    assert told["learns"] and told["rules"] == [True, True], told
    [ours] = [one for one in told["connections"] if one["original"]["dst_port"] == 7000]
    assert ours["original"]["src"] == t.CLIENT4 and ours["translated"]["src"] == t.WAN_A4, ours
    assert ours["is_translated"] and ours["both"] and sum(ours["packets"]) >= 150, ours
    text = net.gwa.daemon.culvert("nat").stdout
    assert f"{t.WAN_A4}:{ours['translated']['src_port']}" in text, text
    port = ours["original"]["src_port"]
    why = net.gwa.daemon.culvert(
        "why", "--from", t.CLIENT4, "--to", t.SERVER4, "--proto", "udp", "--in", "lan",
        "--sport", port, "--dport", "7000",
    ).stdout  # fmt: skip
    assert "translates it" in why and t.WAN_A4 in why, why


def test_without_traffic_they_end_in_their_time(network):
    net = build(network, udp_timeout=2, udp_timeout_stream=2)
    with carries(net, 150):
        stream(net, net.client, net.server, t.SERVER4, count=100)
    assert entries(net, *OURS)
    told(net)
    wait_for("the end", lambda: not entries(net, *OURS), timeout=5)


@pytest.mark.skipif(os.environ.get("CULVERT_SUITES") == "sample", reason="not in the sample: ways of the ports' own scenarios")
@pytest.mark.parametrize("case", WAYS)
def test_with_several_workers_and_on_packet_ports(network, monkeypatch, case):
    """Whichever worker a direction's packets come to, and however they come."""
    settings, queues = WAYS[case]
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    net = build(network, queues=queues)
    # So many that all of them on one queue, by their hashes, is rare.
    for port in range(7001, 7009):
        with carries(net, 80):
            stream(net, net.client, net.server, t.SERVER6 if port % 4 == 0 else t.SERVER4, port=port, count=50)
    with carries(net, 350):
        stream(net, net.server, net.client, t.WAN_A4, port=8000)
    iperf = Iperf(net.server)
    for reverse in (False, True):
        # Ports of packets have many segments in one.
        with carries(net, 50):
            assert iperf.run(net.client, t.SERVER4, total=2_000_000, reverse=reverse, streams=8)["bytes"]
    iperf.stop()
    drops = net.gwa.daemon.drops()
    assert not any(drops.values()), drops
