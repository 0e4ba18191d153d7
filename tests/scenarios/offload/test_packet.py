"""SAs and policies that a device has as a whole (packet offload), by the model of such a NIC."""

import errno
import json

from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, assert_only_protected
from lab.packet_offload import Offload
from lab.traffic import Stream, assert_perfect, assert_ping, ping

DEVICE = '[device.nic0]\nkind = "packet-nic-model"\nport = "wan"\n'
NETS = ("10.1.0.0/24", "10.2.0.0/24")
OUT, IN = (t.WAN_A4, t.WAN_B4), (t.WAN_B4, t.WAN_A4)
OK = (0, "")


def batch(gateway, lines):
    file = gateway.host.lab.tmp / f"{gateway.host.name}.xfrm"
    file.write_text("\n".join(lines) + "\n")
    gateway.daemon.exec("ip", "-batch", file)


def state(spi, src, dst, more):
    return (
        f"xfrm state add src {src} dst {dst} proto esp spi {spi:#x} reqid 1 mode tunnel "
        f"aead rfc4106(gcm(aes)) 0x{spi:040x} 128 {more}"
    )


def software(gateway, here):
    """The tunnel in software, as `ip xfrm` has it."""
    lines = []
    for spi, (src, dst), nets in ((0x1000, OUT, NETS), (0x2000, IN, NETS[::-1])):
        lines.append(state(spi, src, dst, "replay-window 32"))
        for direction in ("out",) if src == here else ("in", "fwd"):
            lines.append(
                f"xfrm policy add src {nets[0]} dst {nets[1]} dir {direction} priority 100 "
                f"tmpl src {src} dst {dst} proto esp reqid 1 mode tunnel"
            )
    batch(gateway, lines)


def policies(gateway):
    """Out and in in the device, those of forwarded packets in software; and an exception in software that would come first."""
    offload = Offload(gateway)
    assert offload.policy(*NETS, "out", OUT) == OK
    assert offload.policy(*NETS[::-1], "in", IN) == OK
    batch(
        gateway,
        [
            f"xfrm policy add src {NETS[1]} dst {NETS[0]} dir fwd priority 100 "
            f"tmpl src {IN[0]} dst {IN[1]} proto esp reqid 1 mode tunnel",
            f"xfrm policy add src {NETS[0]} dst {t.SERVER4}/32 dir out priority 1 action block",
        ],
    )
    return offload


def states(offload, **more):
    # In this order: a packet that waits for the one has an answer by the other.
    assert offload.state(0x2000, *IN, "in", **more) == OK
    assert offload.state(0x1000, *OUT, "out", **more) == OK


def made(network):
    """The first gateway has a device, and nothing in it; the second has the tunnel in software."""
    net = network(ts_a=NETS[0], ts_b=NETS[1])
    daemon = net.gwa.daemon
    daemon.write_config(daemon.config.read_text() + DEVICE)
    for gateway in net.gateways():
        gateway.daemon.start()
    software(net.gwb, t.WAN_B4)
    return net


def device(daemon):
    (row,) = daemon.json("device")
    return row


def tables(daemon):
    return {table["name"]: table["used"] for table in device(daemon)["tables"]}


def events(daemon, kind):
    lines = daemon.culvert("events", "--once", "--json").stdout.splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def sas(daemon):
    return {int(sa["spi"], 16): sa for sa in daemon.json("sa")}


def test_the_device_does_all_of_it(network):
    net = made(network)
    daemon, peer = net.gwa.daemon, net.gwb.daemon
    offload = policies(net.gwa)
    # No state yet: an acquire, which nobody answers; then the state.
    assert ping(net.client, t.SERVER4, count=1, wait=1)["received"] == 0
    wait_for("an acquire", lambda: events(daemon, "acquire"))
    states(offload)
    assert tables(daemon) == {"SAs out": 1, "SAs in": 1, "policies out": 1, "policies in": 1}
    wire = Capture(net.gwa.host, "wan")
    assert_ping(net.client, t.SERVER4, count=10)
    stream = Stream(net.client, net.server, t.SERVER4, rate=400, count=200)
    stream.wait()
    assert_perfect(stream.finish())
    assert_only_protected(wire.stop())
    row = device(daemon)
    assert (row["kind"], row["placement"]) == ("packet-nic-model", "packet offload"), row
    assert row["sealed"] == row["opened"] >= 210, row
    assert (row["in_software"], row["refused"], row["wrong_icv"]) == (0, 0, 0), row
    # Counters are the device's, read back, and those of the other end.
    here, there = sas(daemon), sas(peer)
    for spi in (0x1000, 0x2000):
        assert (here[spi]["engine"], here[spi]["placement"]) == ("nic0", "packet offload"), here[spi]
        assert here[spi]["packets"] == there[spi]["packets"] > 210
        assert here[spi]["bytes"] == there[spi]["bytes"]
    assert here[0x1000]["sent_seq"] == here[0x2000]["received_seq"] == here[0x1000]["packets"]
    text = daemon.exec("ip", "-s", "xfrm", "state").stdout
    assert "dev wan dir out" in text and "dev wan dir in" in text, text
    assert f"{here[0x1000]['bytes']}(bytes), {here[0x1000]['packets']}(packets)" in text, text
    # `mode packet`: flag 4; 2 is `dir in`.
    shown = offload.shown()
    assert sorted(flags for _, flags in shown["sas"]) == [4, 6]
    assert [flags for _, flags in shown["policies"]] == [4, 4]
    by = [(p["direction"], p.get("device")) for p in daemon.json("policy")]
    assert by == [("in", "nic0"), ("out", "nic0"), ("out", None), ("fwd", None)], by
    why = daemon.json("why", "--from", t.CLIENT4, "--to", t.SERVER4)
    assert why["fate"] == "offloaded", why
    # The path to the peer comes first.
    net.client.run("ip", "route", "flush", "cache")
    too_long = net.client.run("ping", "-c", "1", "-M", "do", "-s", "1450", "-W", "1", t.SERVER4, check=False)
    assert "mtu" in too_long.stdout.lower(), too_long.stdout
    assert daemon.drops().get("out-too-big"), daemon.drops()
    # Fragments of the client's own.
    net.client.run("ip", "route", "flush", "cache")
    net.client.run("ping", "-c", "1", "-M", "dont", "-s", "3000", "-W", "1", t.SERVER4, check=False)
    assert daemon.drops().get("out-device-fragment", 0) >= 3, daemon.drops()
    # The other end seals whole what it has, and cuts what comes out.
    net.server.run("ip", "route", "flush", "cache")
    net.server.run("ping", "-c", "1", "-M", "dont", "-s", "1472", "-W", "1", t.CLIENT4, check=False)
    wait_for("a fragment that the device drops", lambda: daemon.drops().get("in-device-fragment"))


def test_limits_are_the_devices_and_all_goes_with_its_port(network):
    net = made(network)
    daemon = net.gwa.daemon
    offload = policies(net.gwa)
    assert offload.state(0x1000, *OUT, "out", packets=(10, 20)) == OK
    assert offload.state(0x2000, *IN, "in") == OK
    assert_ping(net.client, t.SERVER4, count=12)
    wait_for("the soft limit", lambda: sas(daemon)[0x1000]["state"] == "dying")
    result = ping(net.client, t.SERVER4, count=12, interval=0.05, wait=1)
    assert result["received"] == 8, result
    wait_for("the hard limit", lambda: 0x1000 not in sas(daemon))
    limits = [event["hard"] for event in events(daemon, "sa-limit")]
    assert limits == [False, True], limits
    assert tables(daemon) == {"SAs out": 0, "SAs in": 1, "policies out": 0, "policies in": 1}
    # A successor takes the policy over, and all goes with the port.
    assert offload.state(0x1001, *OUT, "out") == OK
    assert tables(daemon)["policies out"] == 1
    net.gwa.host.run("ip", "link", "set", "wan", "down")
    wait_for("an empty device", lambda: set(tables(daemon).values()) == {0})
    assert sas(daemon) == {}
    kept = {(p["direction"], p["action"]) for p in daemon.json("policy")}
    assert kept == {("fwd", "protect"), ("out", "block")}, kept


def test_a_restart_goes_on_and_a_crash_does_not(network):
    net = made(network)
    daemon = net.gwa.daemon
    states(policies(net.gwa))
    assert_ping(net.client, t.SERVER4, count=5)
    daemon.stop()
    daemon.start()
    assert tables(daemon) == {"SAs out": 1, "SAs in": 1, "policies out": 1, "policies in": 1}
    assert sas(daemon)[0x1000]["sent_seq"] == 5
    assert_ping(net.client, t.SERVER4, count=5)
    daemon.kill9()
    daemon.start()
    # The numbers were in the device alone.
    assert sas(daemon) == {}
    assert tables(daemon)["policies in"] == 1
    assert "using it would repeat a nonce" in daemon.log()


def test_what_the_device_does_not_do_is_refused(network):
    net = made(network)
    offload = Offload(net.gwa)

    def refused(answer, number, *words):
        assert answer[0] == number and all(word in answer[1] for word in words), answer

    put = lambda direction="out", **more: offload.state(0x3000, *OUT, direction, **more)  # noqa: E731
    refused(put(dev="nowhere"), errno.EINVAL, "no packet offload device")
    refused(put(dev="lan"), errno.EINVAL, "no packet offload device")
    refused(put("in", window=1024), errno.EOPNOTSUPP, "replay window of 1024 packets")
    refused(put("in", window=0), errno.EOPNOTSUPP, "replay check")
    refused(put(key=28), errno.EOPNOTSUPP, "suite")
    refused(put(tfc=200), errno.EINVAL, "TFC")
    refused(put(if_id=5), errno.EOPNOTSUPP, "interface id")
    assert put(key=36) == OK
    refused(put(key=36), errno.EEXIST)
    assert offload.state(0x3001, *OUT, "out", esn=True, window=64) == OK
    refused(offload.policy(*NETS, "fwd", IN), errno.EOPNOTSUPP, "direction")
    refused(offload.policy(*NETS, "out", OUT, kind="crypto"), errno.EINVAL, "flags")
    refused(offload.policy(*NETS, "out", OUT, dev="lan"), errno.EINVAL, "no packet offload device")
    assert len(sas(net.gwa.daemon)) == 2
    assert net.gwa.daemon.json("policy") == []
    # Crypto offload falls back where the device does not do it, as on Linux.
    batch(net.gwa, [state(0x3002, *OUT, "offload dev wan dir out")])
    assert sas(net.gwa.daemon)[0x3002]["placement"] == "software"
    # Nor an SA of software for a policy of the device.
    batch(net.gwa, [f"xfrm state delete dst {OUT[1]} proto esp spi {spi:#x}" for spi in (0x3000, 0x3001)])
    policies(net.gwa)
    assert ping(net.client, t.SERVER4, count=2, wait=1)["received"] == 0
    assert net.gwa.daemon.drops()["out-device-mismatch"] == 2
