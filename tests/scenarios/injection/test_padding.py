"""The padding length of ESP's footer beyond the packet, which VPP took off the packet's length unseen (`ef5a3e9ea`, 2026):
by every kind of port, frame by frame, and in one super-packet of UDP datagrams as GRO makes it."""

import os
import struct
from ipaddress import ip_address

import pytest

from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture
from lab.inject import Injector, fix_ipv4, xfrm_states
from lab.traffic import assert_ping

pytestmark = pytest.mark.skipif(
    os.environ.get("CULVERT_SUITES") == "sample", reason="not in the sample: make scenarios-full ONLY=injection"
)

ETH, IPV4, UDP = 14, 20, 8
#: linux/if_packet.h; linux/virtio_net.h.
SOL_PACKET, PACKET_VNET_HDR = 263, 15
NEEDS_CSUM, GSO_UDP_L4 = 1, 5
#: Packets of a kind, each with another padding length.
COUNT = 30


def forged(state, number, pad_len):
    """ESP of an SA of AES-GCM with 62 bytes in front of a footer that says `pad_len`."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    head = struct.pack("!II", state.spi, number)
    key, salt, iv = state.aead[:-4], state.aead[-4:], struct.pack("!Q", 0x5A5A << 32 | number)
    text = bytes((pad_len - 61 + n) % 256 for n in range(62)) + bytes([pad_len, 4])
    return head + iv + AESGCM(key).encrypt(salt + iv, text, head)


def in_frame(frame, payload):
    """A captured frame's headers in front of another UDP payload."""
    data = bytearray(frame[: ETH + IPV4 + UDP]) + payload
    struct.pack_into("!HH", data, ETH + IPV4 + 4, UDP + len(payload), 0)
    return fix_ipv4(bytes(data))


def as_super(frame, size):
    """The same as a super-packet of datagrams of `size` bytes, with the header that packet sockets take in front."""
    udp_len = len(frame) - ETH - IPV4
    words = struct.unpack("!4H", ip_address(t.WAN_A4).packed + ip_address(t.WAN_B4).packed)
    total = sum(words) + 17 + udp_len
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    data = bytearray(frame)
    struct.pack_into("!H", data, ETH + IPV4 + 6, total)
    vnet = struct.pack("=BBHHHH", NEEDS_CSUM, GSO_UDP_L4, ETH + IPV4 + UDP, size, ETH + IPV4, 6)
    return vnet + bytes(data)


@pytest.mark.parametrize("ports", ["xdp", "packet", "unprivileged"])
def test_the_padding_length_of_the_footer_beyond_the_packet(network, monkeypatch, ports):
    monkeypatch.setenv("CULVERT_PORTS", ports)
    net = network(encap="yes", ts_a="10.1.0.0/24", ts_b="10.2.0.0/24").up()
    daemon = net.gwb.daemon
    wire = Capture(net.mid, "west", f"udp port 4500 and dst {t.WAN_B4}")
    assert_ping(net.client, t.SERVER4, count=2)
    frame = next(f.data for f in wire.stop() if f.is_esp)
    states = xfrm_states(daemon.exec("ip", "xfrm", "state").stdout)
    state = next(s for s in states if s.dst == t.WAN_B4)
    quiet = Capture(net.server, "eth0", "ip")
    # From one byte beyond the packet to the most that a footer can say.
    wrong = [63 + n * 192 // (COUNT - 1) for n in range(COUNT)]
    payloads = [forged(state, 1000 + n, pad_len) for n, pad_len in enumerate(2 * wrong)]
    single, joined = payloads[:COUNT], payloads[COUNT:]

    def dropped(count):
        return lambda: daemon.drops()["in-padding"] == count

    Injector(net.mid, "east").send(*(in_frame(frame, payload) for payload in single))
    wait_for("the counter", dropped(COUNT))
    kernel = Injector(net.mid, "east")
    kernel.sock.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    kernel.sock.send(as_super(in_frame(frame, b"".join(joined)), len(joined[0])))
    wait_for("the counter again", dropped(2 * COUNT))
    # None came out, and nothing else was dropped; the right length is right.
    assert not [f for f in quiet.stop() if f.kind not in ("arp", "nd")]
    assert {name: n for name, n in daemon.drops().items() if n} == {"in-padding": 2 * COUNT}
    Injector(net.mid, "east").send(in_frame(frame, forged(state, 2000, 61)))
    wait_for("the byte that is left", lambda: daemon.drops()["in-next-header"] == 1)
