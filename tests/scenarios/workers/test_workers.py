"""Several workers, on links with four queues: what one SA and many need, and other numbers under traffic."""

import time

import pytest
from lab import topology as t
from lab.capture import Capture, IvRecord, assert_only_protected
from lab.planes import culvert_binary
from lab.traffic import Stream, assert_perfect, assert_ping

QUEUES = 4


def set_workers(daemon, line):
    """The lab's configuration with other workers."""
    head, _, _ = daemon.config.read_text().partition("[worker]")
    daemon.write_config(f"{head}[worker]\n{line}\n")


def with_workers(network, line, **values):
    net = network(build={"queues": QUEUES}, **values)
    for gateway in net.gateways():
        set_workers(gateway.daemon, line)
    return net


def streams(net, rate=150, count=0):
    """Flows in both directions; different ports, so that they come by different queues."""
    made = [
        Stream(net.client, net.server, t.SERVER4, rate=rate, port=7000 + 10 * n, count=count)
        for n in range(4)
    ]
    made += [
        Stream(net.server, net.client, t.CLIENT6, rate=rate, port=7100 + 10 * n, count=count)
        for n in range(2)
    ]
    return made


def assert_in_order(report):
    assert_perfect(report)
    assert report["there"]["reordered"] == report["back"]["reordered"] == 0, report


def assert_nothing_late(daemon):
    """No number came too late, or twice, and no queue between workers was full."""
    drops = daemon.drops()
    for reason in ("in-replay-old", "in-replay-duplicate", "hand-over-full"):
        assert drops.get(reason, 0) == 0, drops


def assert_shared(daemon, what):
    """More than one worker did it, and what was handed over has arrived."""
    stats = daemon.stats()
    by_worker = [what(worker) for worker in stats["by_worker"]]
    assert sum(n > 0 for n in by_worker) > 1, by_worker
    assert stats["handed_over"] == stats["taken_over"], stats
    return stats


def test_one_sa_over_four_workers(network):
    net = with_workers(network, f"cpus = {QUEUES}").up()
    status = net.gwa.daemon.json("status")
    assert [w["worker"] for w in status["workers"]] == [0, 1, 2, 3], status["workers"]
    ports = {port["interface"]: port for port in net.gwa.daemon.json("port")}
    for name in ("wan", "lan", "culvert0"):
        queues = [(q["queue"], q["worker"]) for q in ports[name]["by_queue"]]
        assert queues == [(n, n) for n in range(QUEUES)], ports[name]
    under_way = streams(net, count=400)
    # Linux moves a flow of this host's to the queue on which its answers come, whatever lies in the old one.
    local = Stream(net.gwa.host, net.server, t.SERVER4, rate=150, port=7200, count=400, alone=True)
    for stream in (*under_way, local):
        stream.wait()
        assert_in_order(stream.finish())
    for gateway in net.gateways():
        assert_nothing_late(gateway.daemon)
        # Frames of one SA come by one queue of the uplink; those of the LAN by all.
        stats = assert_shared(gateway.daemon, lambda worker: worker["received"])
        assert stats["handed_over"] > 0, stats
        # One SA, one home, in each direction.
        sealing = [w["work"]["encrypted"] for w in stats["by_worker"]]
        assert sum(n > 0 for n in sealing) == 1, sealing
        table = gateway.daemon.culvert("stats", "--workers").stdout
        assert "WORKER 3" in table, table


def add_tunnels(net, tunnels):
    """SAs and policies by hand: a pair for each port of the server."""
    sides = ((net.gwa, t.WAN_A4, t.WAN_B4, 0), (net.gwb, t.WAN_B4, t.WAN_A4, 1))
    for gateway, here, there, side in sides:
        lines = []
        for n in range(tunnels):
            for spi, src, dst in ((0x1000 + n, t.WAN_A4, t.WAN_B4), (0x2000 + n, t.WAN_B4, t.WAN_A4)):
                lines.append(
                    f"xfrm state add src {src} dst {dst} proto esp spi {spi:#x} reqid {n + 1} mode tunnel "
                    f"aead rfc4106(gcm(aes)) 0x{spi:040x} 128 replay-window 64"
                )
            for out in (True, False):
                to_server = out == (side == 0)
                nets = "src 10.1.0.0/24 dst 10.2.0.0/24" if to_server else "src 10.2.0.0/24 dst 10.1.0.0/24"
                port = f"dport {7000 + 10 * n}" if to_server else f"sport {7000 + 10 * n}"
                ends = f"src {here} dst {there}" if out else f"src {there} dst {here}"
                for direction in ("out",) if out else ("in", "fwd"):
                    lines.append(
                        f"xfrm policy add {nets} proto udp {port} dir {direction} priority 100 "
                        f"tmpl {ends} proto esp reqid {n + 1} mode tunnel"
                    )
        batch = net.lab.tmp / f"{gateway.host.name}.xfrm"
        batch.write_text("\n".join(lines) + "\n")
        gateway.daemon.exec("ip", "-batch", batch)


def test_many_sas_over_four_workers(network):
    net = with_workers(network, f"cpus = {QUEUES}")
    for gateway in net.gateways():
        gateway.daemon.start()
    tunnels = 12
    add_tunnels(net, tunnels)
    under_way = [
        Stream(net.client, net.server, t.SERVER4, rate=60, port=7000 + 10 * n, count=120)
        for n in range(tunnels)
    ]
    for stream in under_way:
        stream.wait()
        assert_in_order(stream.finish())
    for gateway in net.gateways():
        assert_nothing_late(gateway.daemon)
        assert_shared(gateway.daemon, lambda worker: worker["work"]["encrypted"])
        used = [sa["packets"] for sa in gateway.daemon.json("sa")]
        assert len(used) == 2 * tunnels and all(n == 120 for n in used), used


def test_crash_of_four_workers(network):
    net = with_workers(network, f"cpus = {QUEUES}").start()
    wire = Capture(net.mid, "west", snap=256)
    net.gwa.swan.initiate()
    under_way = streams(net, rate=200)
    for gateway in (net.gwa, net.gwb):
        time.sleep(0.5)
        gateway.daemon.kill9()
        gateway.daemon.start()
        assert_ping(net.client, t.SERVER4, count=5)
    time.sleep(0.5)
    reports = [stream.finish() for stream in under_way]
    for report in reports:
        assert report["there"]["duplicated"] == report["back"]["duplicated"] == 0, report
        assert report["back"]["received"] > 0, report
    frames = wire.stop()
    assert_only_protected(frames)
    IvRecord().add(frames).assert_no_repeat()


def test_other_numbers_under_traffic(network):
    net = with_workers(network, "cpus = 4").up()
    daemon = net.gwa.daemon
    under_way = streams(net)
    local = Stream(net.gwa.host, net.server, t.SERVER4, rate=150, port=7200)
    received = 0
    for line, workers in (
        ("cpus = 2", [None] * 2),
        ("cpus = 1\ncrypto_cpus = [0]", [None]),
        ("cpus = [0, 0, 0]\ncrypto_cpus = [1]", [0, 0, 0]),
        ("cpus = 6", [None] * 6),
        ("cpu = 1", [1]),
    ):
        time.sleep(0.7)
        set_workers(daemon, line)
        log = daemon.reload()
        assert "other workers" in log, log
        status = daemon.json("status")
        assert [w["cpu"] for w in status["workers"]] == workers, status["workers"]
        stats = daemon.stats()
        # Counters of workers that went stay.
        assert stats["received"] > received, stats
        received = stats["received"]
    time.sleep(0.7)
    for stream in under_way:
        assert_in_order(stream.finish())
    # With other workers its answers come on another queue.
    assert_perfect(local.finish())
    assert_nothing_late(daemon)
    assert_ping(net.client, t.SERVER4, count=5)
    stats = daemon.stats()
    assert stats["balance"] == 0 and stats["handed_over"] == stats["taken_over"], stats
    assert len(stats["by_worker"]) == 6, stats["by_worker"]


#: (lines of [worker], parts that the message must have)
MISTAKES = {
    "core-not-there": ("cpus = [0, 999]", ["worker.cpus", "core 999", "it may use 0"]),
    "crypto-core-not-there": ("crypto_cpus = [998]", ["worker.crypto_cpus", "core 998"]),
    "older-key": ("cpu = 997", ["worker.cpu ", "core 997"]),
    "none": ("cpus = 0", ["worker.cpus", "1 to 64"]),
    "too-many": ("cpus = 65", ["worker.cpus", "65", "1 to 64"]),
    "too-few-frames": ("cpus = 8\nframes = 1024", ["worker.frames = 1024", "8 workers", "8192"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_cannot_be(network, mistake):
    line, parts = MISTAKES[mistake]
    net = network()
    daemon = net.gwa.daemon
    set_workers(daemon, line)
    done = net.gwa.host.run(culvert_binary(), "run", "--config", daemon.config, check=False)
    message = done.stdout + done.stderr
    assert done.returncode not in (0, 101), message
    for part in parts:
        assert part in message, (part, message)


def test_a_reload_that_cannot_be_changes_nothing(network, monkeypatch):
    # A packet socket has as many queues as there are workers.
    monkeypatch.setenv("CULVERT_PORTS", "xdp")
    net = with_workers(network, "cpus = 2").up()
    daemon = net.gwa.daemon
    for line, part in (("cpus = [0, 999]", "core 999"), ("cpus = 65", "1 to 64"), ("cpus = 64", "frames")):
        set_workers(daemon, line)
        log = daemon.reload()
        assert part in log, log
        assert len(daemon.json("status")["workers"]) == 2
    assert_ping(net.client, t.SERVER4, count=3)
    # More than there are queues: works, and is spoken of.
    set_workers(daemon, "cpus = 5")
    assert "no port has more than 4" in daemon.reload()
    assert any("5 workers" in w for w in daemon.json("status")["warnings"])
    assert_ping(net.client, t.SERVER4, count=3)
