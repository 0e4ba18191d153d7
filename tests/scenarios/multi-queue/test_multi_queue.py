"""Two queues at each end of each link: veth hands a flow to the queue that its sender chose."""

from lab import topology as t
from lab.capture import Capture, assert_only_protected
from lab.traffic import Iperf, assert_ping


def received_by_queue(host, dev):
    """Packets that XDP saw, by receive queue (`ethtool -S`)."""
    lines = host.run("ethtool", "-S", dev).stdout.splitlines()
    wanted = [line.split(":") for line in lines if "rx_queue_" in line and "xdp_packets" in line]
    return {name.strip(): int(count) for name, count in wanted}


def test_flows_on_every_queue(network, monkeypatch):
    # What XDP counts.
    monkeypatch.setenv("CULVERT_PORTS", "xdp")
    net = network(build={"queues": 2}).up()
    ports = {p["interface"]: p for p in net.gwa.daemon.json("port")}
    assert ports["lan"]["queues"] == 2 and ports["wan"]["queues"] == 2, ports
    wire = Capture(net.mid, "west")
    for to in (t.SERVER4, t.SERVER6):
        assert_ping(net.client, to, count=5)
    # Before the flood, which no capture keeps up with.
    assert_only_protected(wire.stop())
    # So many that all on one queue, by their hashes, does not happen.
    result = Iperf(net.server).run(net.client, t.SERVER4, total=32_000_000, streams=32)
    assert result["bytes"] > 16_000_000, result
    seen = received_by_queue(net.gwa.host, "lan")
    assert len(seen) == 2 and all(count > 0 for count in seen.values()), seen
