"""Threads that encrypt and decrypt for the worker: packets pass, in order, and rekeying costs none."""

from pathlib import Path

from lab import topology as t
from lab.traffic import assert_ping


def threads(daemon):
    tasks = Path(f"/proc/{daemon.process.pid}/task").iterdir()
    return sorted((task / "comm").read_text().strip() for task in tasks)


def test_packets_pass_by_way_of_crypto_threads(network):
    net = network()
    for gateway in (net.gwa, net.gwb):
        config = gateway.daemon.config.read_text() + "[worker]\ncrypto_cpus = [0, 1]\n"
        gateway.daemon.write_config(config)
    net.up()
    names = threads(net.gwa.daemon)
    assert [name for name in names if name.startswith("culvert-crypto")] == [
        "culvert-crypto0", "culvert-crypto1",
    ]  # fmt: skip
    assert_ping(net.client, t.SERVER4, count=300, interval=0.002)
    assert_ping(net.server, t.CLIENT6, count=100, interval=0.002)
    # Nothing is left with the threads, and no number came too late for the window.
    drops = net.gwb.daemon.drops()
    assert drops.get("in-replay-old", 0) == drops.get("in-replay-duplicate", 0) == 0
