"""One key for both directions, as many instructions for `ip xfrm` have it, set again after each reboot."""

import re
import shutil

import pytest
from lab import topology as t
from lab.capture import Capture, assert_only_protected
from lab.traffic import assert_ping
from lab.xfrm import A, B, Tunnel, key

OUT, BACK = 0x1000, 0x1001
#: Keys with their salts behind them.
ALGORITHMS = {
    "gcm": f'aead "rfc4106(gcm(aes))" {key(20, "gcm")} 128',
    "ccm": f'aead "rfc4309(ccm(aes))" {key(19, "ccm")} 128',
    "chacha": f'aead "rfc7539esp(chacha20,poly1305)" {key(36, "chacha")} 128',
    "ctr": f'enc "rfc3686(ctr(aes))" {key(20, "ctr")} auth-trunc "hmac(sha256)" {key(32, "ctr")} 128',
}


def install(gateway, side, algorithms):
    """A boot script's work."""
    tunnel = Tunnel(spi=OUT)
    ends = (t.WAN_A4, t.WAN_B4), (t.WAN_B4, t.WAN_A4)
    lines = [
        f"xfrm state add src {src} dst {dst} proto esp spi {spi:#x} reqid 1 mode tunnel replay-window 32 {algorithms}"
        for spi, (src, dst) in zip((OUT, BACK), ends, strict=True)
    ]
    lines += tunnel.policies(side)
    file = gateway.host.lab.tmp / f"{gateway.host.name}.xfrm"
    file.write_text("\n".join(lines) + "\n")
    gateway.daemon.exec("ip", "-batch", file)


def reboot(gateway, side, algorithms):
    """The machine begins anew: /run is empty, and the same script sets the same keys."""
    gateway.daemon.stop()
    gateway.daemon.culvert("guard", "clear", "--yes")
    shutil.rmtree(f"/run/culvert/{gateway.daemon.name}", ignore_errors=True)
    gateway.daemon.start()
    install(gateway, side, algorithms)


class Nonces:
    """The IVs under one key, whichever SA they are of, and the salts that they show."""

    def __init__(self):
        self.seen = {}
        self.numbers = {OUT: [], BACK: []}

    def add(self, frames):
        """Takes what a capture saw; returns the salt of each SA in it."""
        assert_only_protected(frames)
        salts = {OUT: set(), BACK: set()}
        for frame in frames:
            if not frame.is_esp:
                continue
            iv = int.from_bytes(frame.iv(8), "big")
            assert iv not in self.seen, f"IV {iv:#x}: SPI and number {self.seen[iv]} and {frame.spi, frame.sequence}"
            self.seen[iv] = frame.spi, frame.sequence
            self.numbers[frame.spi].append(frame.sequence)
            salts[frame.spi].add(iv ^ frame.sequence)
        assert all(len(of_sa) == 1 for of_sa in salts.values()), f"an SA has one salt: {salts}"
        return {spi: of_sa.pop() for spi, of_sa in salts.items()}


def traffic(net, nonces):
    wire = Capture(net.mid, "west")
    assert_ping(net.client, t.SERVER4, count=10)
    return nonces.add(wire.stop())


@pytest.mark.sample_of_cases("gcm")
@pytest.mark.parametrize("suite", ALGORITHMS)
def test_no_nonce_twice(network, suite):
    net, nonces = network(), Nonces()
    sides = list(zip(net.gateways(), (A, B), strict=True))
    for gateway, side in sides:
        gateway.daemon.start()
        install(gateway, side, ALGORITHMS[suite])
    first = traffic(net, nonces)
    assert first[OUT] != first[BACK]
    for gateway, _ in sides:
        gateway.daemon.kill9()
        gateway.daemon.start()
    assert traffic(net, nonces) == first, "numbers go on under the salt that they had"
    assert all(numbers == list(range(1, 21)) for numbers in nonces.numbers.values()), nonces.numbers
    for gateway, side in sides:
        reboot(gateway, side, ALGORITHMS[suite])
    second = traffic(net, nonces)
    assert len({*first.values(), *second.values()}) == 4, (first, second)
    assert all(numbers[-10:] == list(range(1, 11)) for numbers in nonces.numbers.values()), "the numbers came again"
    assert len(nonces.seen) == 60


def test_the_operator_is_told(network):
    net = network()
    daemon = net.gwa.daemon
    daemon.start()
    install(net.gwa, A, ALGORITHMS["gcm"])
    names = f"SAs {OUT:#010x} ({t.WAN_A4} > {t.WAN_B4}) and {BACK:#010x} ({t.WAN_B4} > {t.WAN_A4}) have one key"

    def warnings():
        return [text for text in daemon.json("status")["warnings"] if "have one key" in text]

    (warning,) = warnings()
    assert warning.startswith(names) and "key of its own" in warning
    doctor = daemon.culvert("doctor", "--config", daemon.config, check=False).stdout
    assert names in re.sub(r"\s+", " ", doctor) and "openssl rand" in doctor, doctor
    (line,) = [line for line in daemon.log().splitlines() if "has the key of another one" in line]
    assert f"{OUT:#010x}" in line and f"{BACK:#010x}" in line, line
    # With a key of its own nothing is said.
    daemon.exec("ip", "xfrm", "state", "delete", "src", t.WAN_B4, "dst", t.WAN_A4, "proto", "esp", "spi", hex(BACK))
    assert warnings() == []
    own = f'aead rfc4106(gcm(aes)) {key(20, "own")} 128'.split()
    daemon.exec(
        "ip", "xfrm", "state", "add", "src", t.WAN_B4, "dst", t.WAN_A4, "proto", "esp", "spi", hex(BACK),
        "reqid", "1", "mode", "tunnel", "replay-window", "32", *own,
    )  # fmt: skip
    assert warnings() == []
