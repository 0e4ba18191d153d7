"""A path in clear between two gateways: the far end's reflector answers named senders alone, and none without a key."""

import hashlib
import hmac
import os
import socket
import struct
import time
from pathlib import Path

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture

KEY, OTHER_KEY = bytes([15]) * 32, bytes([31]) * 32
#: A second address of gateway A, which the far end does not name.
UNNAMED = {4: "192.0.2.11", 6: "2001:db8:f::11"}
ENDS = {4: (t.WAN_A4, t.WAN_B4), 6: (t.WAN_A6, t.WAN_B6)}
PORT = 862


@pytest.fixture(name="key")
def fixture_key():
    """A file with a key."""
    path = Path("/run/culvert") / f"clear-{os.getpid()}.key"
    path.parent.mkdir(exist_ok=True)
    path.write_text(KEY.hex())
    path.chmod(0o600)
    yield path
    path.unlink()


def reflector(key, senders, per_second=1000, at=(t.WAN_B4, t.WAN_B6)):
    words = [", ".join(f'"{word}"' for word in words) for words in (at, senders)]
    return f'[paths.clear]\nat = [{words[0]}]\nfrom = [{words[1]}]\nkey_files = ["{key}"]\nper_second = {per_second}\n'


def path(key, family, name="direct"):
    source, to = ENDS[family]
    return (
        f'[[path]]\nname = "{name}"\nuplink = "wan"\nsource = "{source}"\nto = "{to}"\nkey_file = "{key}"\n'
        "interval_ms = 50\nwindow = 60\nhold_s = 1\n"
    )


def started(gateway, more):
    gateway.daemon.write_config(gateway.daemon.config.read_text() + more)
    gateway.daemon.start()


def far_end(network, key, **how):
    """Gateways whose far end answers A's addresses in clear."""
    net = network()
    started(net.gwb, reflector(key, (f"{t.WAN_A4}/32", f"{t.WAN_A6}/128"), **how))
    return net


def counts(net):
    return net.gwb.daemon.json("path")["clear_reflector"]


def no_ports(host):
    """UDP datagrams that Linux of a host had no socket for."""
    lines = [line.split() for line in host.run("cat", "/proc/net/snmp").stdout.splitlines() if line.startswith("Udp:")]
    return int(dict(zip(*lines, strict=True))["NoPorts"])


@pytest.mark.parametrize("family", [4, 6])
def test_a_path_in_clear_is_measured_by_a_far_end(network, key, family):
    net = far_end(network, key)
    started(net.gwa, path(key, family))
    before = no_ports(net.gwb.host)
    wire = Capture(net.mid, "west", f"udp port {PORT}")
    (row,) = net.gwa.daemon.json("path")["paths"]
    assert row["keyed"] and row["uplink"] == "wan", row

    def measured():
        (row,) = net.gwa.daemon.json("path")["paths"]
        return (row["state"], row["window"], row["lost"]) == ("good", 60, 0) and row

    wait_for("a good path", measured, timeout=20)
    row = measured()
    assert row["refused"] == {} and 0 < row["delay_ms"] < 100, row
    seen = counts(net)
    assert seen["reflected"] >= 60 and seen["refused"] == {}, seen
    assert net.gwb.daemon.json("path")["reflector"] is None, "none through tunnels"
    assert no_ports(net.gwb.host) == before, "Linux has seen none of them"
    asked, answered = [], []
    for frame in wire.stop():
        (asked if str(frame.dst) == ENDS[family][1] else answered).append(len(frame.data))
    assert len(asked) >= 60 and set(asked) == set(answered) and len(set(asked)) == 1, (set(asked), set(answered))
    assert f"reflector in clear: port {PORT}" in net.gwb.daemon.culvert("path").stdout
    assert 'culvert_path_reflected_total{way="clear"}' in net.gwb.daemon.culvert("metrics").stdout


def probe(seq, key=KEY, *, received=0, more=b""):
    """An authenticated test packet; with a time of receipt it looks like a reflection."""
    packet = struct.pack("!I12xQHH4xQ", seq, (seq << 32) + 5, 0x0101, 77, received).ljust(96, b"\0")
    return packet + hmac.digest(key, packet, hashlib.sha256)[:16] + more


class Sender:
    """A socket of gateway A's, with an address of its own."""

    def __init__(self, host, family, source):
        self.host, self.to = host, ENDS[family][1]
        self.socket = host.socket(socket.AF_INET if family == 4 else socket.AF_INET6, socket.SOCK_DGRAM)
        with host.entered():
            self.socket.bind((source, 0))
        self.socket.settimeout(0.3)

    def ask(self, packet):
        """The answer to a packet, if there is one."""
        self.socket.sendto(packet, (self.to, PORT))
        try:
            return self.socket.recv(2000)
        except (TimeoutError, ConnectionRefusedError):
            return None


@pytest.mark.parametrize("family", [4, 6])
def test_others_are_refused_and_counted_by_kind(network, key, family):
    net = far_end(network, key)
    net.gwa.host.address("wan", f"{UNNAMED[family]}/{24 if family == 4 else 64}")
    time.sleep(2 if family == 6 else 0)  # Duplicate address detection.
    named, unnamed = (Sender(net.gwa.host, family, source) for source in (ENDS[family][0], UNNAMED[family]))
    padding = bytes([0x80, 1, 0, 60]) + bytes(60)
    for packet in (probe(1), probe(2, more=padding)):
        answer = named.ask(packet)
        assert answer is not None and len(answer) == len(packet)
        assert hmac.digest(KEY, answer[:96], hashlib.sha256)[:16] == answer[96:112], "with the key"
        assert answer[64:72] == packet[16:24], "the sender's timestamp comes back"
    wanted = {}
    for kind, sender, packet in (
        ("unnamed", unnamed, probe(3)),
        ("unauthentic", named, probe(4, OTHER_KEY)),
        ("malformed", named, probe(5)[:44]),
        ("malformed", named, b""),
        ("reflection", named, answer[:112]),
        ("reflection", named, probe(6, received=1)),
    ):
        assert sender.ask(packet) is None, kind
        wanted[kind] = wanted.get(kind, 0) + 1
        assert counts(net)["refused"] == {"bad-extensions": 1, **wanted}, kind
    assert counts(net)["reflected"] == 2
    assert net.gwb.daemon.drops()["probe-refused"] == sum(wanted.values())
    # Where the reflector is not, Linux answers as ever.
    assert named.ask(probe(7)) is not None


def test_no_more_answers_a_second_than_allowed(network, key):
    net = far_end(network, key, per_second=5)
    sender = Sender(net.gwa.host, 4, t.WAN_A4)
    begun = time.time()
    for seq in range(200):
        sender.socket.sendto(probe(seq), (t.WAN_B4, PORT))
    took = time.time() - begun
    wait_for("all of them", lambda: counts(net)["reflected"] + counts(net)["refused"].get("limited", 0) == 200)
    assert 5 <= counts(net)["reflected"] <= 5 * (took + 2), counts(net)


def test_without_a_key_or_senders_it_is_refused(network, key):
    net = network()
    whole = reflector(key, (f"{t.WAN_A4}/32",))
    text = net.gwb.daemon.config.read_text()
    net.gwb.daemon.start()
    for without, said in ((f'key_files = ["{key}"]\n', "authenticated mode alone"), (f'from = ["{t.WAN_A4}/32"]\n', "no others are answered")):
        net.gwb.daemon.write_config(text + whole.replace(without, ""))
        answer = net.gwb.daemon.reload()
        assert "paths.clear" in answer and said in answer, answer
    assert counts(net) is None
    sender = Sender(net.gwa.host, 4, t.WAN_A4)
    assert sender.ask(probe(1)) is None, "Linux has no socket"
    net.gwb.daemon.write_config(text + whole)
    net.gwb.daemon.reload()
    wait_for("an answer", lambda: sender.ask(probe(2)))


def test_policies_come_first(network, key):
    """What a policy wants protected is no probe in clear, and no answer goes in clear that a policy does not let pass."""
    net = far_end(network, key)
    sender = Sender(net.gwa.host, 4, t.WAN_A4)
    assert sender.ask(probe(1)) is not None
    out = ("ip", "xfrm", "policy", "add", "src", t.WAN_B4, "dst", t.WAN_A4, "dir", "out", "action", "block")
    net.gwb.daemon.exec(*out)
    wire = Capture(net.mid, "east", f"udp src port {PORT}")
    assert sender.ask(probe(2)) is None
    wait_for("a drop", lambda: net.gwb.daemon.drops().get("out-policy-block"))
    assert not wire.stop()
    net.gwb.daemon.exec(*[{"add": "del"}.get(word, word) for word in out[:-2]])
    assert sender.ask(probe(3)) is not None
    into = ("ip", "xfrm", "policy", "add", "src", t.WAN_A4, "dst", t.WAN_B4, "dir", "in")
    net.gwb.daemon.exec(*into, "tmpl", "proto", "esp", "mode", "transport")
    before = counts(net)["reflected"]
    assert sender.ask(probe(4)) is None
    assert counts(net)["reflected"] == before


#: Of an overlay: outer addresses, and the inner one, by gateway.
OVERLAY = {"gwa": (t.WAN_A4, t.WAN_B4, "10.9.0.1"), "gwb": (t.WAN_B4, t.WAN_A4, "10.9.0.2")}
KINDS = {"gre": ("gre", "key", "7"), "vxlan": ("vxlan", "id", "7", "dstport", "4789")}


@pytest.mark.parametrize("mode", ["stamp", "icmp"])
@pytest.mark.parametrize("kind", ["gre", "vxlan"])
def test_an_overlay_in_clear_is_measured(network, key, kind, mode):
    net = network()
    for gateway in (net.gwa, net.gwb):
        near, far, inner = OVERLAY[gateway.host.name]
        name, *more = KINDS[kind]
        made = gateway.host.ip("link", "add", "over", "type", name, "local", near, "remote", far, *more, check=False)
        if made.returncode != 0:
            pytest.skip(f"this kernel has no {kind}: {made.stderr.strip()}")
        gateway.host.address("over", f"{inner}/30")
        gateway.host.ip("link", "set", "over", "up")
    overlay = '[overlay]\ninterfaces = ["over"]\n'
    started(net.gwb, overlay + reflector(key, ("10.9.0.1/32",), at=("10.9.0.2",)))
    of = path(key, 4).replace('"wan"', '"over"').replace(t.WAN_A4, "10.9.0.1").replace(t.WAN_B4, "10.9.0.2")
    if mode == "icmp":
        of = of.replace(f'key_file = "{key}"\n', 'mode = "icmp"\n')
    started(net.gwa, overlay + of)
    wire = Capture(net.mid, "west")

    def measured():
        (row,) = net.gwa.daemon.json("path")["paths"]
        return (row["state"], row["window"], row["lost"]) == ("good", 60, 0) and row

    wait_for("a good path", measured, timeout=20)
    assert measured()["refused"] == {}
    inner = [frame for frame in wire.stop() if str(frame.src).startswith("10.9.0.")]
    assert not inner, "without the overlay's headers"
    if mode == "stamp":
        assert counts(net)["reflected"] >= 60 and counts(net)["refused"] == {}, counts(net)
    # Linux of both sends and answers as before.
    ping = net.gwa.host.run("ping", "-c", "3", "-i", "0.2", "10.9.0.2", check=False)
    assert " 0% packet loss" in ping.stdout, ping.stdout
