"""SAs in devices of DPDK's, whose drivers are software here: `make cryptodev-test` builds what this needs."""

import subprocess
import time

import pytest

from lab import LabError
from lab import topology as t
from lab.capture import Capture, assert_only_protected
from lab.planes import culvert_binary
from lab.traffic import Stream, assert_perfect, assert_ping

GCM = "aead rfc4106(gcm(aes)) 0x{key:040x} 128"
CBC = "auth-trunc hmac(sha256) 0x{key:064x} 128 enc cbc(aes) 0x{key:032x}"

#: Configuration of one device, and algorithms that it has.
DEVICES = {
    "openssl": ('driver = "crypto_openssl"', GCM),
    "openssl-chain": ('driver = "crypto_openssl"\nargs = ["max_nb_queue_pairs=4"]', CBC),
    "aesni-mb": ('driver = "crypto_aesni_mb"', GCM),
    "aesni-mb-chain": ('driver = "crypto_aesni_mb"', CBC),
    "scheduler": (
        'driver = "crypto_scheduler"\n'
        'args = ["worker=crypto_openssl_w0", "worker=crypto_openssl_w1", "mode=round-robin"]\n'
        'eal = ["--no-huge", "-m", "256", "--vdev=crypto_openssl_w0", "--vdev=crypto_openssl_w1"]',
        GCM,
    ),
}


@pytest.fixture(autouse=True)
def is_built_in(tmp_path):
    """Skips where the build has no devices of DPDK's."""
    file = tmp_path / "culvert.toml"
    file.write_text('[[port]]\ninterface = "wan"\n' + device(DEVICES["openssl"][0]))
    found = subprocess.run(
        [culvert_binary(), "check", "--offline", "--config", file], capture_output=True, text=True, timeout=20
    )
    if "Cargo feature cryptodev" in found.stdout + found.stderr:
        pytest.skip("built without the feature cryptodev")


def device(lines):
    return f'[device.dpdk0]\nkind = "cryptodev"\nport = "wan"\n{lines}\n'


def tunnel(gateway, here, algorithms, offload):
    """A tunnel between the two networks; `offload` on both of its SAs."""
    lines = []
    for spi, src, dst in ((0x1000, t.WAN_A4, t.WAN_B4), (0x2000, t.WAN_B4, t.WAN_A4)):
        is_out = src == here
        way = f" offload dev wan dir {'out' if is_out else 'in'}" if offload else ""
        lines.append(
            f"xfrm state add src {src} dst {dst} proto esp spi {spi:#x} reqid 1 mode tunnel "
            f"{algorithms.format(key=spi)} replay-window 32{way}"
        )
        nets = ("10.1.0.0/24", "10.2.0.0/24")[:: 1 if spi == 0x1000 else -1]
        for direction in ("out",) if is_out else ("in", "fwd"):
            lines.append(
                f"xfrm policy add src {nets[0]} dst {nets[1]} dir {direction} priority 100 "
                f"tmpl src {src} dst {dst} proto esp reqid 1 mode tunnel"
            )
    file = gateway.host.lab.tmp / f"{gateway.host.name}.xfrm"
    file.write_text("\n".join(lines) + "\n")
    gateway.daemon.exec("ip", "-batch", file)


def row(daemon):
    (found,) = daemon.json("device")
    return found


@pytest.mark.parametrize("name", DEVICES)
def test_the_driver_does_the_work(network, name):
    lines, algorithms = DEVICES[name]
    net = network(ts_a="10.1.0.0/24", ts_b="10.2.0.0/24")
    daemon = net.gwa.daemon
    daemon.write_config(daemon.config.read_text() + device(lines))
    for gateway in net.gateways():
        gateway.daemon.start()
    tunnel(net.gwa, t.WAN_A4, algorithms, True)
    tunnel(net.gwb, t.WAN_B4, algorithms, False)
    wire = Capture(net.gwa.host, "wan")
    assert_ping(net.client, t.SERVER4, count=5)
    stream = Stream(net.client, net.server, t.SERVER4, rate=400)
    for _ in range(3):
        time.sleep(0.3)
        assert "loaded again" in daemon.culvert("device", "--reset", "dpdk0").stdout
    assert_perfect(stream.finish())
    assert_only_protected(wire.stop())
    found = row(daemon)
    assert found["sealed"] + found["opened"] + found["in_software"] >= 300, found
    assert found["sealed"] > 100 and found["opened"] > 100, found
    assert (found["wrong_icv"], found["resets"], found["kind"]) == (0, 3, "cryptodev"), found
    assert {sa["engine"] for sa in daemon.json("sa")} == {"dpdk0"}
    # In the device again after a restart.
    daemon.stop()
    daemon.start()
    assert_ping(net.client, t.SERVER4, count=5)
    found = row(daemon)
    assert found["sealed"] >= 5 and found["opened"] >= 5, found
    assert found["refused"] == 0, found
    daemon.exec("ip", "xfrm", "state", "flush")
    used = {table["name"]: table["used"] for table in row(daemon)["tables"]}
    assert (used["outbound SAs"], used["inbound SAs"]) == (0, 0), used


def started(network, lines):
    """The first gateway with a device, and the tunnel's SAs asked to be in it."""
    net = network(ts_a="10.1.0.0/24", ts_b="10.2.0.0/24")
    daemon = net.gwa.daemon
    daemon.write_config(daemon.config.read_text() + device(lines))
    for gateway in net.gateways():
        gateway.daemon.start()
    tunnel(net.gwa, t.WAN_A4, GCM, True)
    tunnel(net.gwb, t.WAN_B4, GCM, False)
    return net


@pytest.mark.parametrize(
    "lines, why",
    [
        ('driver = "crypto_absent"', "DPDK does not start"),
        ('driver = "crypto_null"', "none of the algorithm suites"),
        ('driver = "crypto_qat"\naddress = "0000:ff:1f.7"\neal = ["--no-huge"]', "no free crypto device"),
        ('driver = "crypto_openssl"\neal = ["--no-such-word"]', "DPDK does not start"),
    ],
)
def test_a_device_that_cannot_be_had_leaves_its_sas_in_software(network, lines, why):
    net = started(network, lines)
    assert_ping(net.client, t.SERVER4, count=5)
    assert net.gwa.daemon.json("device") == []
    assert "dpdk0" not in {sa["engine"] for sa in net.gwa.daemon.json("sa")}
    log = net.gwa.daemon.log()
    assert why in log and "no offload by this device" in log, log


def test_fewer_queue_pairs_than_workers_are_told(network):
    net = network()
    daemon = net.gwa.daemon
    text = daemon.config.read_text() + "[worker]\ncpus = 2\n"
    for pairs in (1, 2):
        args = f'driver = "crypto_openssl"\nargs = ["max_nb_queue_pairs={pairs}"]'
        daemon.write_config(text + device(args))
        if pairs == 2:
            daemon.start()
            continue
        with pytest.raises(LabError, match="room for 1 queue pairs"):
            daemon.start()
