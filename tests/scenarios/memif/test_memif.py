"""Applications at a memif port of gateway A: another culvert, and DPDK's testpmd."""

import ctypes
import os
import shutil
import signal
import socket
import threading
import time

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.memif import MemifClient, Refused
from lab.planes import Daemon
from lab.traffic import Stream, assert_perfect, assert_ping

#: Behind gateway A's port, and in the tunnel.
APP4, GATE4 = "10.1.5.2", "10.1.5.1"
APP_MAC = "02:00:00:00:05:02"

_CLIENT = """
name = "@NAME@"
[[port]]
interface = "eth0"
kind = "memif"
role = "client"
socket = "{path}"
id = 5
secret = "between us"
mac = "{mac}"
"""


def row(gateway):
    """The port's row of `culvert port`."""
    return next(port for port in gateway.daemon.json("port") if port["interface"] == "app0")


def wait_for_state(gateway, state):
    wait_for(f"app0 to be {state}", lambda: row(gateway)["state"].startswith(state))


def scene(network, lab, memif=""):
    """net4 with a tunnel that is for the application's network too."""
    path = lab.tmp / "app0.sock"
    net = network(ts_a="10.1.0.0/24,10.1.5.0/24,2001:db8:1::/64", socket=path, memif=memif)
    net.gwb.host.route("10.1.5.0/24", "via", t.WAN_A4)
    net.up()
    net.gwa.host.sysctl("net.ipv6.conf.app0.disable_ipv6", 1)
    net.gwa.host.address("app0", f"{GATE4}/24")
    return net, path


def test_another_culvert_as_the_application(network, lab):
    """Our client at our server: ARP, Linux's own packets past the workers, and a crash."""
    net, path = scene(network, lab, 'secret = "between us"')
    assert row(net.gwa)["state"].startswith("no client yet")
    app = lab.host("app")
    daemon = Daemon(app, [])
    daemon.write_config(_CLIENT.format(path=path, mac=APP_MAC))
    daemon.start()
    app.address("eth0", f"{APP4}/24")
    app.route("default", "via", GATE4)
    wait_for_state(net.gwa, "up")
    # Linux's own, by the interface that stands for the port; then what is decrypted.
    assert_ping(net.gwa.host, APP4, count=3)
    assert_ping(net.server, APP4, count=10)
    stream = Stream(net.server, app, APP4, count=500, most=100)
    stream.wait()
    assert_perfect(stream.finish())
    port = row(net.gwa)
    assert port["tx_packets"] >= 510 and port["rx_packets"] >= 510, port
    # ARP, and nothing that the application sent to others.
    assert 0 < port["passed_to_linux"] < 50 and "faults" not in port, port
    # Known for good: the test is not about neighbours.
    net.gwa.host.ip("neigh", "replace", APP4, "lladdr", APP_MAC, "dev", "app0")
    daemon.kill9()
    wait_for_state(net.gwa, "no client yet")
    before = net.gwa.daemon.drops().get("transmit-down", 0)
    net.server.run("ping", "-c", "2", "-i", "0.2", "-W", "1", APP4, check=False)
    assert net.gwa.daemon.drops()["transmit-down"] == before + 2
    daemon.start()
    wait_for_state(net.gwa, "up")
    assert_ping(net.server, APP4, count=3)
    # Taken out of the configuration, and put back: the client comes again by itself.
    text = net.gwa.daemon.config.read_text()
    net.gwa.daemon.write_config(text[: text.rindex("[[port]]")])
    net.gwa.daemon.reload()
    assert net.gwa.host.ip("link", "show", "app0", check=False).returncode
    net.gwa.daemon.write_config(text)
    net.gwa.daemon.reload()
    net.gwa.host.address("app0", f"{GATE4}/24")
    wait_for_state(net.gwa, "up")
    assert_ping(net.server, APP4, count=3)


MIB = 1 << 20

#: ``fallocate``: the pages of a range become holes again.
_PUNCH_HOLE = 2 | 1


def _punch(file, length):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.fallocate(file, _PUNCH_HOLE, ctypes.c_int64(0), ctypes.c_int64(length)):
        raise OSError(ctypes.get_errno(), "fallocate")


def test_an_application_that_would_have_the_daemon_fill_holes(network, lab):
    """Its regions are bounded in all, and so is what descriptors into them and holes in them bring; others go on."""
    net, path = scene(network, lab)

    def memory():
        return net.gwa.daemon.json("status")["memory_kib"] >> 10

    with pytest.raises(Refused, match="region 1: .* bytes in all; 16777216 at most"):
        MemifClient(path, 5, holes=[4 << 30] * 63)
    wait_for_state(net.gwa, "no client yet")
    net.gwa.host.ip("neigh", "replace", APP4, "lladdr", APP_MAC, "dev", "app0")
    # The ports' own buffers come into being with the first packets.
    first = Stream(net.client, net.server, t.SERVER4, count=100, most=100)
    first.wait()
    assert_perfect(first.finish())
    before = memory()
    app = MemifClient(path, 5, holes=[7 * MIB, 7 * MIB])
    wait_for_state(net.gwa, "up")
    is_over = threading.Event()

    def punch():
        while not is_over.is_set():
            for file in app.holes:
                _punch(file, 7 * MIB)
            time.sleep(0.001)

    puncher = threading.Thread(target=punch)
    stream = Stream(net.client, net.server, t.SERVER4, count=300, most=100)
    touched = 0
    try:
        for is_punched in (False, True):
            if is_punched:
                puncher.start()
            for _ in range(2):
                for offset in range(0, 14 * MIB, 4096):
                    region, at = divmod(offset, 7 * MIB)
                    give_up = time.monotonic() + 20
                    while not app.send_from(region + 1, at, 60):
                        assert time.monotonic() < give_up, row(net.gwa)
                        time.sleep(0.0005)
                    touched += 1
            # The regions' 14 MiB, and what the daemon may need besides meanwhile.
            assert memory() - before <= 20, "more than the regions have"
        stream.wait()
    finally:
        is_over.set()
        puncher.join()
    assert_perfect(stream.finish())
    # Every one of them was read: none is a frame that Linux or a policy wants.
    wait_for("all to be taken", lambda: row(net.gwa)["rx_packets"] + row(net.gwa)["passed_to_linux"] >= touched)
    assert row(net.gwa)["state"] == "up" and "faults" not in row(net.gwa)
    app.close()
    wait_for_state(net.gwa, "no client yet")


class Testpmd:
    """DPDK's testpmd as the application: sends each packet back to where it came from."""

    __test__ = False

    def __init__(self, host, path, queues, **options):
        self.host, self.path, self.queues = host, path, queues
        self.options = {"role": "client", "id": 5, "socket": path, "socket-abstract": "no", "mac": APP_MAC, **options}
        self.prefix = f"culvert-{host.lab.run_id}"
        host.lab.owns(f"/run/dpdk/{self.prefix}")
        self.process = None

    def start(self):
        vdev = ",".join(f"{key}={value}" for key, value in self.options.items())
        self.process = self.host.spawn(
            "dpdk-testpmd", "-l", "0-1", "--main-lcore", "0", "--no-huge", "-m", "128", "--no-pci", "--no-telemetry",
            "--single-file-segments", f"--file-prefix={self.prefix}", f"--vdev=net_memif0,{vdev}", "--",
            f"--rxq={self.queues}", f"--txq={self.queues}", "--forward-mode=5tswap", "--total-num-mbufs=8192", "--no-lsc-interrupt", "--stats-period=60",
        )  # fmt: skip
        return self

    def stop(self):
        """Ends it, and returns how many packets it says that it has received and sent."""
        self.process.stop()
        words = self.process.output().split("Forward statistics for port 0")[-1].split()
        return int(words[words.index("RX-packets:") + 1]), int(words[words.index("TX-packets:") + 1])


def exchange(host, sizes, patience=2):
    """Sends datagrams to the application, and returns those that came back, in their order."""
    with host.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind((t.SERVER4, 7001))
        sender.settimeout(patience)
        came = []
        for number, size in enumerate(sizes):
            sender.sendto(number.to_bytes(4, "big") + bytes(size - 4), (APP4, 7000))
            # A few at a time: a socket's buffer is small.
            if number % 16 == 15 or number == len(sizes) - 1:
                while len(came) <= number:
                    try:
                        came.append(sender.recv(2048))
                    except TimeoutError:
                        return came
    return came


@pytest.mark.parametrize("copies", ["sealed", "zero-copy"])
def test_dpdk_as_the_application(network, lab, copies):
    """Every packet goes there and back, and all count the same; the application is killed between two rounds."""
    if not shutil.which("dpdk-testpmd"):
        pytest.skip("dpdk-testpmd is missing (apt install dpdk-dev)")
    if (os.cpu_count() or 1) < 2:
        pytest.skip("testpmd wants two cores")
    if copies == "zero-copy" and os.environ.get("CULVERT_SUITES") == "sample":
        pytest.skip("not in the sample: the rings are those of the other one")
    options = {"zero-copy": "yes"} if copies == "zero-copy" else {}
    net, path = scene(network, lab, "unsealed = true" if options else "queues = 2")
    queues = 1 if options else 2
    net.gwa.host.ip("neigh", "replace", APP4, "lladdr", APP_MAC, "dev", "app0")
    app = lab.host("app")
    sizes = [8 + 53 * n % 1350 for n in range(400)]
    for is_last in (False, True):
        start = row(net.gwa)
        pmd = Testpmd(app, path, queues, **options).start()
        wait_for_state(net.gwa, "up")
        assert row(net.gwa)["queues"] == queues
        # It is connected before it looks at its rings, and gives us buffers.
        wait_for("an answer", lambda: exchange(net.server, [64], patience=0.2))
        before = row(net.gwa)
        came = exchange(net.server, sizes)
        assert [int.from_bytes(data[:4], "big") for data in came] == list(range(len(sizes)))
        assert [len(data) for data in came] == sizes
        now = row(net.gwa)
        assert now["tx_packets"] - before["tx_packets"] == len(sizes), now
        assert now["rx_packets"] - before["rx_packets"] == len(sizes), now
        if is_last:
            # All that it was given it has got, but for what it empties its rings of before it begins,
            # which it does not count; and all that it has sent was taken.
            got, sent = pmd.stop()
            assert len(sizes) < got <= now["tx_packets"] - start["tx_packets"]
            assert sent == now["rx_packets"] - start["rx_packets"]
        else:
            pmd.process.kill(signal.SIGKILL)
        wait_for_state(net.gwa, "no client yet")
    assert "faults" not in row(net.gwa)
