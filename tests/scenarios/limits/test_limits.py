"""Rate limits, by counts: what a bucket holds is a bound that no busy machine can break."""

import socket
import time

from lab import topology as t
from lab.base import wait_for
from lab.traffic import Iperf

PORT = 7000
#: Of a packet in the tunnel.
LEN = 1028


def limits(gateway):
    return {limit["name"]: limit for limit in gateway.daemon.json("limit", "show")}


def counted(gateway):
    """Packets that the limit has seen: those that passed, and those that did not."""
    tenant = limits(gateway)["tenant"]
    return tenant["green"]["packets"], tenant["red"]["packets"]


def send(net, ear, packets):
    """Sends packets to the server; returns how many passed the limit, and how many came."""
    before = counted(net.gwa)
    mouth = net.client.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for n in range(packets):
        mouth.sendto(n.to_bytes(2, "big") + bytes(LEN - 30), (t.SERVER4, PORT))
        # No queue of Linux's is to lose any.
        if n % 10 == 9:
            time.sleep(0.002)
    wait_for("the limit", lambda: sum(counted(net.gwa)) >= sum(before) + packets)
    passed, refused = (now - then for now, then in zip(counted(net.gwa), before, strict=True))
    assert passed + refused == packets
    come = []
    while len(come) < passed:
        come.append(ear.recv(2048))
    return passed


def test_a_tenant_gets_its_rate(network):
    net = network().up()
    gwa = net.gwa
    ear = net.server.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ear.bind((t.SERVER4, PORT))
    ear.settimeout(5)
    begin = time.monotonic()
    passed = send(net, ear, 100)
    # The burst, and a kilobyte for each second that has passed since the daemon's bucket was full.
    most = (20_000 + 1000 * (time.monotonic() - begin)) / LEN
    assert 20_000 // LEN <= passed <= most, (passed, most)
    assert gwa.daemon.drops()["rate-limit"] == 100 - passed
    total = limits(gwa)["total"]
    assert (total["green"]["packets"], total["red"]["packets"]) == (passed, 0), total

    answer = gwa.daemon.json("why", "--from", t.CLIENT4, "--to", t.SERVER4)
    assert any(step["question"] == "limit" and "tenant" in step["answer"] for step in answer["steps"])
    metrics = gwa.daemon.culvert("metrics").stdout
    assert f'culvert_limit_packets_total{{limit="tenant",colour="red"}} {100 - passed}' in metrics

    # Other rates at run time, of which nothing is lost.
    for wrong, right in [(("--rate", "0bit"), "above 0"), (("--burst", "1kB"), "at least"), (("--rate", "9Mbps"), "100Mbit")]:
        refused = gwa.daemon.culvert("limit", "set", "tenant", *wrong, check=False)
        assert refused.returncode == 1 and right in refused.stderr, refused.stderr
    gwa.daemon.culvert("limit", "set", "tenant", "--rate", "800Mbit", "--burst", "1MB")
    # Of a megabyte an eighth at most is set apart for what workers lease.
    left = lambda: limits(gwa)["tenant"]["buckets"][0]["left"]  # noqa: E731
    wait_for("a full bucket", lambda: left().endswith("kB") and float(left().removesuffix("kB")) >= 874)
    assert send(net, ear, 60) == 60
    assert "1MB" in gwa.daemon.culvert("limit", "show", "total").stdout

    # The file's again; what was counted stays, and so do the other limit's buckets.
    before = counted(gwa)
    gwa.daemon.reload()
    tenant = limits(gwa)["tenant"]["buckets"][0]
    assert (tenant["rate"], tenant["burst"]) == ("8kbit", "20kB")
    assert counted(gwa) == before
    assert send(net, ear, 30) < 30


def test_what_is_shaped_leaves_at_the_rate(network):
    net = network().up()
    iperf = Iperf(net.server)
    # Twice the rate.
    flood = ["-u", "-b", "16M", "-l", 1000, "-t", 2, "--dscp", "AF21"]
    process = net.client.spawn("iperf3", "-c", t.SERVER4, "-J", *flood)
    process.seconds, process.udp = 2, True
    result = iperf.result(process)
    # The burst and what waits at the end more than the rate; a sender that is not let run sends less.
    assert 4_000_000 < result["bits_per_second"] < 9_000_000, result
    wait_for("an empty queue", lambda: not any(of["now"] for of in limits(net.gwa)["shaped"]["waiting"]))
    shaped = limits(net.gwa)["shaped"]
    waited = {of["class"]: of for of in shaped["waiting"]}
    assured = waited["assured"]
    assert assured["gone"] > 500 and waited["usual"]["gone"] == 0, waited
    # A hundred milliseconds of the rate wait at most, and some as long as a busy machine has them.
    assert assured["longest_us"] > 50_000 and assured["mean_us"] <= assured["longest_us"], waited
    assert assured["dropped"] == shaped["red"]["packets"] == net.gwa.daemon.drops()["limit-queue-full"]
    assert "assured" in net.gwa.daemon.culvert("limit", "show", "shaped").stdout
    metrics = net.gwa.daemon.culvert("metrics").stdout
    of = '{limit="shaped",class="assured"}'
    for series in (f"limit_queue_drops_total{of} {assured['dropped']}", f"limit_delay_seconds_count{of} {assured['gone']}"):
        assert f"culvert_{series}\n" in metrics, metrics
    delay_s = float(metrics.split(f"culvert_limit_delay_seconds_sum{of} ")[1].split()[0])
    assert delay_s == assured["total_us"] / 1e6 and delay_s >= 0.05, (delay_s, assured)


def test_a_queue_gets_other_bounds_at_run_time(network):
    daemon = network().up().gwa.daemon
    bounds = lambda: [daemon.json("limit", "show", "shaped")[0][key] for key in ("queue", "queue_packets")]  # noqa: E731
    assert bounds() == ["100kB", 1000]
    assert daemon.json("limit", "set", "shaped", "--queue", "500kB", "--queue-packets", "400") == {"set": "shaped"}
    assert bounds() == ["500kB", 400]
    assert "shape 500kB 400packets" in daemon.culvert("limit", "show", "shaped").stdout
    for name, wrong, right in [
        ("shaped", ("--queue", "1kB"), "at least tun.mtu"),
        ("shaped", ("--queue-packets", "0"), "1 to 65536"),
        ("tenant", ("--queue", "500kB"), 'say mode = "shape"'),
    ]:
        refused = daemon.culvert("limit", "set", name, *wrong, check=False)
        assert refused.returncode == 1 and right in refused.stderr, refused.stderr
    assert bounds() == ["500kB", 400]
    daemon.reload()
    assert bounds() == ["100kB", 1000]


def test_one_worker_at_a_time_has_a_limit(network):
    net = network(build={"queues": 4})
    gwa = net.gwa
    text, _, _ = gwa.daemon.config.read_text().partition("[worker]")
    for line in ('burst = "1MB"', 'burst = "20kB"'):
        text = text.replace(line, f'{line}\nby = "atomic"')
    text = text.replace('dst = "10.2.0.0/24"', 'all = true\ndirection = "both"')
    gwa.daemon.write_config(f"{text}[worker]\ncpus = 2\n")
    net.up()
    ears = [net.server.socket(socket.AF_INET, socket.SOCK_DGRAM), net.client.socket(socket.AF_INET, socket.SOCK_DGRAM)]
    for ear, address in zip(ears, (t.SERVER4, t.CLIENT4), strict=True):
        ear.bind((address, PORT))
        ear.settimeout(5)
    # Flows of both directions, so that either worker meets some.
    mouths = [
        (host.socket(socket.AF_INET, socket.SOCK_DGRAM), address)
        for host, address in ((net.client, t.SERVER4), (net.server, t.CLIENT4))
        for _ in range(4)
    ]
    before, begin = counted(gwa), time.monotonic()
    for n in range(200):
        mouth, address = mouths[n % 8]
        mouth.sendto(n.to_bytes(2, "big") + bytes(LEN - 30), (address, PORT))
        if n % 10 == 9:
            time.sleep(0.002)
    wait_for("the limit", lambda: sum(counted(gwa)) >= sum(before) + 200)
    passed, refused = (now - then for now, then in zip(counted(gwa), before, strict=True))
    most = (20_000 + 1000 * (time.monotonic() - begin)) / LEN
    assert passed + refused == 200 and 20_000 // LEN - 1 <= passed <= most, (passed, refused, most)
    total, tenant = (limits(gwa)[name] for name in ("total", "tenant"))
    assert tenant["by"] == total["by"] == "atomic" and tenant["home"] == total["home"] in (0, 1), (tenant, total)
    assert "single, atomic" in gwa.daemon.culvert("limit", "show").stdout
    drops, stats = gwa.daemon.drops(), gwa.daemon.stats()
    assert drops["rate-limit"] == refused and drops["hand-over-full"] == 0, drops
    assert len(stats["by_worker"]) == 2 and stats["handed_over"] == stats["taken_over"], stats
