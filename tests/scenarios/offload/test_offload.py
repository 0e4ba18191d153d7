"""SAs in an offload device, the model of a NIC: by `ip xfrm state add ... offload dev`, by strongSwan's
`hw_offload`, and by being the busiest."""

import re
import threading
import time

from lab import topology as t
from lab.base import wait_for
from lab.capture import Capture, IvRecord, assert_only_protected
from lab.traffic import Iperf, Stream, assert_perfect, assert_ping, ping

DEVICE = '[device.nic0]\nkind = "nic-model"\nport = "wan"\n'

#: SPIs of the tunnel, and its ends.
SAS = ((0x1000, t.WAN_A4, t.WAN_B4), (0x2000, t.WAN_B4, t.WAN_A4))


def batch(gateway, lines):
    file = gateway.host.lab.tmp / f"{gateway.host.name}.xfrm"
    file.write_text("\n".join(lines) + "\n")
    gateway.daemon.exec("ip", "-batch", file)


def state(spi, src, dst, more, key=20):
    return (
        f"xfrm state add src {src} dst {dst} proto esp spi {spi:#x} reqid 1 mode tunnel "
        f"aead rfc4106(gcm(aes)) 0x{spi:0{2 * key}x} 128 {more}"
    )


def tunnel(gateway, here, offload, add=0, proto="", reqid=1):
    """A tunnel between the two networks; `offload` on both of its SAs. Another one has `add` in its SPIs, a protocol
    of its own and a `reqid`."""
    lines = []
    for spi, src, dst in SAS:
        is_out = src == here
        device = f" offload dev wan dir {'out' if is_out else 'in'}" if offload else ""
        line = state(spi + add, src, dst, f"replay-window 32{device}")
        lines.append(line.replace("reqid 1", f"reqid {reqid}"))
        nets = ("10.1.0.0/24", "10.2.0.0/24")[:: 1 if spi == 0x1000 else -1]
        for direction in ("out",) if is_out else ("in", "fwd"):
            lines.append(
                f"xfrm policy add src {nets[0]} dst {nets[1]} {proto} dir {direction} priority 100 "
                f"tmpl src {src} dst {dst} proto esp reqid {reqid} mode tunnel"
            )
    batch(gateway, lines)


def made(network, device=DEVICE):
    """The first gateway has a device and its SAs in it; the second has all in software."""
    net = network(ts_a="10.1.0.0/24", ts_b="10.2.0.0/24")
    daemon = net.gwa.daemon
    daemon.write_config(daemon.config.read_text() + device)
    for gateway in net.gateways():
        gateway.daemon.start()
    if device != DEVICE:
        return net
    tunnel(net.gwa, t.WAN_A4, True)
    tunnel(net.gwb, t.WAN_B4, False)
    return net


def device(daemon):
    (row,) = daemon.json("device")
    return row


def tables(daemon):
    return {table["name"]: table["used"] for table in device(daemon)["tables"]}


def engines(daemon):
    return {int(sa["spi"], 16): (sa["engine"], sa["placement"]) for sa in daemon.json("sa")}


def test_the_device_does_the_work(network):
    net = made(network)
    wire = Capture(net.gwa.host, "wan")
    assert_ping(net.client, t.SERVER4, count=20)
    stream = Stream(net.client, net.server, t.SERVER4, rate=200, count=400)
    stream.wait()
    assert_perfect(stream.finish())
    assert_only_protected(wire.stop())
    row = device(net.gwa.daemon)
    # Requests and answers are as many.
    assert row["sealed"] == row["opened"] >= 420, row
    assert (row["in_software"], row["refused"], row["wrong_icv"]) == (0, 0, 0), row
    assert (row["kind"], row["port"], row["placement"]) == ("nic-model", "wan", "crypto offload")
    assert set(engines(net.gwa.daemon).values()) == {("nic0", "crypto offload")}
    assert tables(net.gwa.daemon) == {"transmit SAs": 1, "receive SAs": 1, "receive addresses": 1}
    shown = net.gwa.daemon.exec("ip", "xfrm", "state").stdout
    assert "dev wan dir out" in shown and "dev wan dir in" in shown, shown
    assert "nic0" in net.gwa.daemon.culvert("device").stdout
    metrics = net.gwa.daemon.culvert("metrics").stdout
    (sealed,) = re.findall(r'^culvert_device_sealed_packets_total\{device="nic0",.*\} (\d+)$', metrics, re.M)
    assert int(sealed) >= row["sealed"], metrics
    # The other gateway has none.
    assert net.gwb.daemon.json("device") == []
    assert "offload" not in net.gwb.daemon.exec("ip", "xfrm", "state").stdout
    assert all(placement == "software" for _, placement in engines(net.gwb.daemon).values())
    # The gateway's own TCP comes in large segments with partial checksums.
    iperf = Iperf(net.server)
    # What is in buffers at the end is not waited for: they are kept small.
    command = ("iperf3", "-c", t.SERVER4, "-B", t.LAN_A4, "-J", "-n", 3_000_000, "-w", "64K")
    process = net.gwa.host.spawn(*command)
    process.seconds, process.udp = 5, False
    assert iperf.result(process)["bytes"] > 1_500_000
    after = device(net.gwa.daemon)
    assert after["sealed"] > row["sealed"] + 1000 and after["in_software"] == 0, after


def test_a_reset_under_traffic_loses_nothing(network):
    net = made(network)
    daemon = net.gwa.daemon
    stream = Stream(net.client, net.server, t.SERVER4, rate=400)
    for _ in range(20):
        assert "loaded again" in daemon.culvert("device", "--reset", "nic0").stdout
        time.sleep(0.1)
    assert_perfect(stream.finish())
    row = device(daemon)
    assert row["resets"] == 20, row
    assert row["sealed"] + row["opened"] + row["in_software"] >= 1000, row
    assert tables(daemon) == {"transmit SAs": 1, "receive SAs": 1, "receive addresses": 1}
    refused = daemon.culvert("device", "--reset", "nic1", check=False)
    assert refused.returncode != 0 and "no device nic1" in refused.stderr, refused


def test_a_restart_puts_the_sas_in_again(network):
    net = made(network)
    daemon = net.gwa.daemon
    assert_ping(net.client, t.SERVER4, count=5)
    daemon.stop()
    daemon.start()
    assert set(engines(daemon).values()) == {("nic0", "crypto offload")}
    assert_ping(net.client, t.SERVER4, count=5)
    row = device(daemon)
    assert row["sealed"] == row["opened"] >= 5, row


def test_what_the_device_does_not_take_stays_in_software(network):
    net = made(network)
    daemon = net.gwa.daemon
    src, dst = t.WAN_A4, t.WAN_B4
    out = "offload dev wan dir out"
    batch(
        net.gwa,
        [
            state(0x3001, src, dst, f"replay-window 32 flag esn {out}"),
            state(0x3002, src, dst, out, key=36),
            state(0x3003, src, dst, f"encap espinudp 4500 4500 0.0.0.0 {out}"),
            # Of an interface without a device.
            state(0x3004, src, dst, "offload dev lan dir out"),
            state(0x3005, src, dst, out),
        ],
    )
    found = engines(daemon)
    placements = {spi: found[spi][1] for spi in range(0x3001, 0x3006)}
    assert placements == {
        0x3001: "software", 0x3002: "software", 0x3003: "software", 0x3004: "software",
        0x3005: "crypto offload",
    }  # fmt: skip
    assert tables(daemon)["transmit SAs"] == 2
    shown = daemon.exec("ip", "xfrm", "state").stdout
    assert shown.count("dev wan dir out") == 2, shown
    log = daemon.log()
    for why in ("extended sequence numbers", "aes256gcm", "UDP encapsulation"):
        assert why in log, why
    # Out of the device again, one by one and all at once.
    daemon.exec("ip", "xfrm", "state", "delete", "dst", dst, "proto", "esp", "spi", "0x3005")
    assert tables(daemon)["transmit SAs"] == 1
    daemon.exec("ip", "xfrm", "state", "flush")
    assert set(tables(daemon).values()) == {0}


def moves(daemon):
    """Where SAs have gone, by SPI, the oldest first."""
    return [(int(step["spi"], 16), step["to"]) for step in device(daemon)["moves"] if step["spi"]]


def test_a_faulty_device_is_left_and_comes_back(network):
    net = made(network)
    daemon = net.gwa.daemon
    wire = Capture(net.mid, "west", "ip")
    stream = Stream(net.client, net.server, t.SERVER4, rate=400)

    def in_device():
        return set(engines(daemon).values()) == {("nic0", "crypto offload")}

    def in_software():
        return all(placement == "software" for _, placement in engines(daemon).values())

    # What it holds goes by software; a reset ends it.
    daemon.culvert("device", "--fault", "nic0", "hang")
    wait_for("software after a hang", in_software, step=0.05)
    wait_for("the device again", in_device, step=0.05)
    # It goes on to be so after a reset: the known answer is wrong.
    daemon.culvert("device", "--fault", "nic0", "in-clear")
    wait_for("software after cleartext", in_software, step=0.05)
    assert_perfect(stream.finish())
    frames = wire.stop()
    assert_only_protected(frames)
    IvRecord().add(frames).assert_no_repeat()
    row = device(daemon)
    assert row["state"].startswith("down: "), row
    assert set(moves(daemon)[-2:]) == {(spi, "software") for spi, _, _ in SAS}, row
    shown = daemon.culvert("device").stdout
    assert "its packets do not come back" in shown and "the known answer is right" in shown, shown
    assert "dev wan dir out" in daemon.exec("ip", "xfrm", "state").stdout, "its owner's wish is kept"
    refused = daemon.culvert("device", "--fault", "nic0", "smoke", check=False)
    assert refused.returncode != 0 and "wrong-icv" in refused.stderr, refused


def test_the_busiest_sas_are_in_the_device(network):
    auto = 'placement = "auto"\nmost_auto = 1\ninterval_ms = 200\n'
    net = made(network, DEVICE + auto)
    for gateway, here in ((net.gwa, t.WAN_A4), (net.gwb, t.WAN_B4)):
        tunnel(gateway, here, False, proto="proto icmp")
        tunnel(gateway, here, False, add=1, proto="proto udp", reqid=2)
    daemon = net.gwa.daemon
    icmp, udp = SAS[0][0], SAS[0][0] + 1
    wire = Capture(net.mid, "west", "ip")
    is_over = threading.Event()
    pings = {}

    def keep_asking():
        pings.update(ping(net.client, t.SERVER4, count=10_000, interval=0.01, until=is_over.is_set))

    asking = threading.Thread(target=keep_asking)
    asking.start()

    def has(spi, other):
        found = engines(daemon)
        return found[spi][0] == "nic0" and found[other][1] == "software"

    wait_for("the first", lambda: has(icmp, udp), step=0.05)
    stream = Stream(net.client, net.server, t.SERVER4, rate=600)
    wait_for("the busier one", lambda: has(udp, icmp), step=0.05)
    assert_perfect(stream.finish())
    wait_for("the first again", lambda: has(icmp, udp), step=0.05)
    is_over.set()
    asking.join()
    assert pings["received"] == pings["sent"] and not pings["duplicates"], pings["text"]
    frames = wire.stop()
    assert_only_protected(frames)
    IvRecord().add(frames).assert_no_repeat()
    row = device(daemon)
    assert (row["has"], row["wrong_icv"]) == ("auto", 0), row
    steps = [step for step in moves(daemon) if step[0] in (icmp, udp)]
    assert steps == [
        (icmp, "nic0"), (icmp, "software"), (udp, "nic0"), (udp, "software"), (icmp, "nic0"),
    ]  # fmt: skip
    # Nobody has asked for it.
    assert "dev wan" not in daemon.exec("ip", "xfrm", "state").stdout


def test_hw_offload_of_strongswan(network):
    net = network(ts_a="10.1.0.0/24", ts_b="10.2.0.0/24", extra_child="@WISH@")
    # `yes` fails where the interface cannot; `auto` goes without.
    for gateway, wish in ((net.gwa, "yes"), (net.gwb, "auto")):
        conf = gateway.swan.etc / "swanctl.conf"
        conf.write_text(conf.read_text().replace("@WISH@", f"hw_offload = {wish}"))
    daemon = net.gwa.daemon
    daemon.write_config(daemon.config.read_text() + DEVICE)
    net.up()
    assert set(engines(daemon).values()) == {("nic0", "crypto offload")}
    assert all(placement == "software" for _, placement in engines(net.gwb.daemon).values())
    assert_ping(net.client, t.SERVER4, count=5)
    row = device(daemon)
    assert row["sealed"] == row["opened"] >= 5, row
    assert "dev wan dir out" in daemon.exec("ip", "xfrm", "state").stdout
    assert "not supported by device" in net.gwb.swan.output()
