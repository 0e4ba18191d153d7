"""Packets that were seen once, sent again across crashes, and numbers that nobody has sent."""

import struct

import pytest
from lab import topology as t
from lab.attack import effort
from lab.base import wait_for
from lab.capture import Capture, IvRecord, assert_only_protected, one_by_one
from lab.inject import Injector, fix_ipv4
from lab.traffic import assert_ping

ETH, IPV4 = 14, 20
KILLS = effort(2, 6)
PINGS = effort(100, 1000)


def refused(daemon):
    """Packets that were refused for their number or their ICV."""
    names = ("in-replay-duplicate", "in-replay-old", "in-sequence-zero", "in-integrity")
    return sum(daemon.drops().get(name, 0) for name in names)


def thrown(injector, daemon, frames):
    """Sends frames, some at a time, and waits until each was refused."""
    for at in range(0, len(frames), 256):
        some = frames[at : at + 256]
        before = refused(daemon)
        injector.send(*some)
        wait_for("all to be refused", lambda n=before + len(some): refused(daemon) >= n)
        assert refused(daemon) == before + len(some)


@pytest.mark.parametrize("encap", ["no", "yes"] if effort(0, 1) else ["no"])
def test_across_kills(network, rng, encap):
    """Attacker: on the wire; he records all ESP to gateway B, and sends all of it again after each crash, in the order that
    it came in, backwards, and at random. Gateway A is killed too, so that it might send a number again.

    Not one is accepted: each is counted as refused, the server gets the pings alone; no number and no IV is sent twice.
    """
    net = network(encap=encap)
    one_by_one(net.gwa.host)
    net.up()
    whole = Capture(net.mid, "west")
    arrived = Capture(net.server, "eth0", f"icmp and src {t.CLIENT4}", snap=96)
    injector = Injector(net.mid, "east")
    recorded, sent, replayed = [], 0, 0
    for turn in range(KILLS):
        wire = Capture(net.mid, "west", f"ip and dst {t.WAN_B4}")
        assert_ping(net.client, t.SERVER4, count=PINGS, interval=0.003)
        sent += PINGS
        recorded += [f.data for f in wire.stop() if f.is_esp]
        for gateway in (net.gwb, net.gwa)[: 1 + turn % 2]:
            gateway.daemon.kill9()
            gateway.daemon.start()
        for frames in (recorded, recorded[::-1], rng.sample(recorded, len(recorded))):
            thrown(injector, net.gwb.daemon, frames)
            replayed += len(frames)
        assert_ping(net.client, t.SERVER4, count=5)
        sent += 5
    assert len(recorded) >= PINGS * KILLS and replayed >= 3 * len(recorded)
    came = arrived.stop()
    assert len(came) == sent, (len(came), sent)
    frames = whole.stop()
    assert_only_protected(frames)
    IvRecord().add(frames).assert_no_repeat()
    print(f"{replayed} replays across {KILLS} crashes, {len(came)} pings")


@pytest.mark.parametrize("esn", ["", "-esn"])
def test_numbers_far_ahead(network, rng, esn):
    """Attacker: on the wire, without keys; he writes other sequence numbers into packets that he has seen, from the next one
    to the last there is, also with ESN around the places where its upper half would change.

    None moves the window: all fail, and the sender's next packets are accepted, also after a crash.
    """
    net = network(esp=f"aes128gcm16{esn}").up()
    wire = Capture(net.mid, "west", f"ip and dst {t.WAN_B4}")
    assert_ping(net.client, t.SERVER4, count=20)
    seen = [f.data for f in wire.stop() if f.is_esp]
    daemon = net.gwb.daemon
    numbers = [1 << bit for bit in range(5, 32)] + [0xFFFFFFFF, 0xFFFFFFE0, 0x80000001]
    numbers += [21 + rng.randrange(1 << rng.randrange(1, 32)) & 0xFFFFFFFF for _ in range(effort(200, 5000))]
    frames = []
    for number in numbers:
        data = bytearray(rng.choice(seen))
        struct.pack_into("!I", data, ETH + IPV4 + 4, number)
        frames.append(fix_ipv4(bytes(data)))
    thrown(Injector(net.mid, "east"), daemon, frames)
    assert_ping(net.client, t.SERVER4, count=5)
    daemon.kill9()
    daemon.start()
    thrown(Injector(net.mid, "east"), daemon, frames)
    assert_ping(net.client, t.SERVER4, count=5)
    shown = next(sa for sa in daemon.json("sa") if sa["dst"] == t.WAN_B4)
    assert shown["received_seq"] == shown["packets"] == 30, shown
