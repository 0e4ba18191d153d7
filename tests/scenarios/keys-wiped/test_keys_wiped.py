"""Key bytes of SAs that have ended, looked for in all that the daemon has."""

import contextlib
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab import topology as t
from lab.base import LabError, wait_for
from lab.planes import culvert_binary
from lab.traffic import assert_ping

sys.path.insert(0, str(Path(__file__).parent))
import memory

#: Two addresses that no packet goes between.
ENDS = ("198.51.100.1", "198.51.100.2")


@dataclass
class Sa:
    """An SA of `ip xfrm`, with keys of chance."""

    spi: int
    #: Words of `ip xfrm state add`, with @CIPHER@, @SALT@ and @AUTH@.
    words: str
    cipher: bytes = b""
    salt: bytes = b""
    auth: bytes = b""
    is_aes: bool = True
    block: int = 0

    @property
    def id(self):
        return f"src {ENDS[0]} dst {ENDS[1]} proto esp spi {self.spi:#x}"

    @property
    def line(self):
        words = self.words.replace("@CIPHER@", self.cipher.hex()).replace("@SALT@", self.salt.hex())
        return f"{self.id} mode tunnel reqid {self.spi} {words.replace('@AUTH@', self.auth.hex())}"

    def needles(self):
        named = f"SA {self.spi:#x}"
        found = memory.forms(f"{named} cipher", self.cipher, is_aes=self.is_aes) if self.cipher else {}
        return found | (memory.forms(f"{named} auth", self.auth, hmac_block=self.block) if self.auth else {})


def association(kind, spi):
    rand = os.urandom
    gcm = "aead rfc4106(gcm(aes)) 0x@CIPHER@@SALT@ 128"
    cbc = "enc cbc(aes) 0x@CIPHER@ auth-trunc hmac(sha256) 0x@AUTH@ 128"
    ctr = "enc rfc3686(ctr(aes)) 0x@CIPHER@@SALT@ auth-trunc hmac(sha1) 0x@AUTH@ 96"
    return {
        "gcm128": lambda: Sa(spi, gcm, rand(16), rand(4)),
        "gcm256": lambda: Sa(spi, gcm, rand(32), rand(4)),
        "cbc-sha256": lambda: Sa(spi, cbc, rand(16), auth=rand(32), block=64),
        "ctr-sha1": lambda: Sa(spi, ctr, rand(32), rand(4), auth=rand(20), block=64),
        "chacha": lambda: Sa(spi, "aead rfc7539esp(chacha20,poly1305) 0x@CIPHER@@SALT@ 128", rand(32), rand(4), is_aes=False),
        "sm4-sm3": lambda: Sa(spi, cbc.replace("aes", "sm4").replace("sha256", "sm3"), rand(16), auth=rand(32), is_aes=False, block=64),
    }[kind]()


def add(daemon, sas, more=""):
    path = daemon.host.lab.tmp / "batch"
    path.write_text("".join(f"xfrm state add {sa.line} {more}\n" for sa in sas))
    daemon.exec("ip", "-batch", path)
    path.unlink()


def needles_of(shown):
    """Of SAs as `culvert sa --show-keys` shows them."""
    needles = {}
    for sa in shown:
        for part, key in sa["keys"].items():
            key = bytes.fromhex(key)
            if len(key) >= memory.LEAST:
                is_cipher = part == "cipher" and "chacha" not in sa["suite"]
                block = 64 if part == "auth" else 0
                needles |= memory.forms(f"SA {sa['spi']} {part}", key, is_aes=is_cipher, hmac_block=block)
    return needles


def vault_of(daemon):
    return Path(f"/run/culvert/{daemon.name}/vault")


def assert_nowhere(daemon, needles):
    """What a worker that is under way has of an SA it has to the end of its round, so this is tried for a while."""
    left = []

    def is_gone():
        left[:] = memory.found(daemon.process.pid, needles)
        return not left

    with contextlib.suppress(LabError):
        wait_for("keys to be gone", is_gone, timeout=6)
    files = [(path.name, *hit) for path in vault_of(daemon).iterdir() for hit in memory.found_in(path.read_bytes(), needles)]
    assert not left and not files, (len(left), left[:40], files[:20])


def assert_in_memory(daemon, needles):
    """That they can be found: what is not found later is gone."""
    assert memory.found(daemon.process.pid, needles)
    journal = (vault_of(daemon) / "journal").read_bytes()
    assert any(memory.found_in(journal, needles))


@pytest.mark.parametrize("engine, esp", [("auto", "aes128gcm16"), ("auto", "aes256-sha256"), ("openssl", "aes128-sha256")])
def test_keys_end_with_their_sa(network, engine, esp):
    net = network(esp=esp)
    gateway = net.gwa
    daemon = gateway.daemon
    threads = "cpus = 1\ncrypto_cpus = [0]" if "gcm" in esp else "cpus = 2"
    base = daemon.config.read_text() + f'\n[crypto]\nengine = "{engine}"\n'
    daemon.write_config(base + f"\n[worker]\n{threads}\n")
    net.up()
    assert_ping(net.client, t.SERVER4, count=3)

    # 1. Keys that were shown, captured, dumped and told to listeners.
    first = daemon.json("sa", "--show-keys")
    assert needles_of(first)
    table = gateway.host.lab.tmp / "esp_sa"
    capture = gateway.host.spawn(
        culvert_binary(), "--name", daemon.name, "capture", "-w", gateway.host.lab.tmp / "capture.pcapng",
        "--show-keys", table,
    )
    wait_for("the capture", lambda: capture.alive() and table.exists())
    monitor = gateway.host.spawn(culvert_binary(), "exec", "--name", daemon.name, "--", "ip", "xfrm", "monitor")
    kinds = ("gcm128", "gcm256", "cbc-sha256", "ctr-sha1", "chacha", "sm4-sm3")
    sas = [association(kind, 0x1000 + n) for n, kind in enumerate(kinds)]
    wait_for("the monitor", lambda: monitor.alive() and daemon.json("status")["clients"] > 1)
    add(daemon, sas)
    deleted = {text: needle for sa in sas for text, needle in sa.needles().items()}
    assert_in_memory(daemon, deleted)
    if engine == "auto":
        # An HMAC's key is kept as states: they are looked for in the form that they have.
        assert any("SHA-256 behind" in text for text, *_ in memory.found(daemon.process.pid, deleted))
    assert daemon.exec("ip", "xfrm", "state").stdout.count(f"dst {ENDS[1]}") == len(sas)
    assert daemon.culvert("sa", "--show-keys").stdout.count("0x0000100") >= len(sas)
    daemon.json("sa", "--show-keys")
    assert_ping(net.client, t.SERVER4, count=3)

    # 2. Deleted one by one, by time, and by an IKE daemon's rekey.
    for sa in sas:
        daemon.exec("ip", "xfrm", "state", "delete", *sa.id.split())
    expiring = [association(kind, 0x2000 + n) for n, kind in enumerate(kinds)]
    add(daemon, expiring, "limit time-hard 1")
    deleted |= {text: needle for sa in expiring for text, needle in sa.needles().items()}
    gateway.swan.rekey(child="net")
    assert_ping(net.client, t.SERVER4, count=3)
    before = {sa["spi"] for sa in first}
    wait_for("the old SAs to go", lambda: not before & {sa["spi"] for sa in daemon.json("sa")})
    wait_for("expiry", lambda: ENDS[1] not in daemon.exec("ip", "xfrm", "state").stdout)
    deleted |= needles_of(first)
    capture.kill(signal.SIGINT)
    assert capture.wait() == 0, capture.output()
    monitor.stop()
    assert_nowhere(daemon, deleted)

    # 3. A reload.
    more = [association(kind, 0x3000 + n) for n, kind in enumerate(kinds)]
    add(daemon, more)
    daemon.write_config(base + "\n[worker]\ncpus = 2\n")
    daemon.reload()
    for sa in more:
        daemon.exec("ip", "xfrm", "state", "delete", *sa.id.split())
    deleted |= {text: needle for sa in more for text, needle in sa.needles().items()}
    assert_nowhere(daemon, deleted)

    # 4. A restart, and a crash: SAs that were taken up end like others.
    kept = [association(kind, 0x4000 + n) for n, kind in enumerate(kinds)]
    add(daemon, kept)
    daemon.stop()
    daemon.start()
    assert_nowhere(daemon, deleted)
    ended = {text: needle for sa in kept for text, needle in sa.needles().items()}
    assert_in_memory(daemon, ended)
    for sa in kept[:3]:
        daemon.exec("ip", "xfrm", "state", "delete", *sa.id.split())
    daemon.kill9()
    daemon.start()
    assert_ping(net.client, t.SERVER4, count=3)
    last = daemon.json("sa", "--show-keys")
    daemon.exec("ip", "xfrm", "state", "flush")
    assert_nowhere(daemon, deleted | ended | needles_of(last))


def test_the_vaults_pages_are_locked(network):
    """What the kernel may swap out it may write to a disk."""
    net = network().up()
    daemon = net.gwa.daemon
    sas = [association("gcm256", 0x1000 + n) for n in range(200)]
    add(daemon, sas)
    for file in ("journal", "cells"):
        path = vault_of(daemon) / file
        flags = memory.page_flags(daemon.process.pid, path)
        pages = range(-(-path.stat().st_size // memory.PAGE)) if file == "journal" else flags
        loose = [n for n in pages if not flags.get(n, 0) & (memory.UNEVICTABLE | memory.MLOCKED)]
        assert flags and not loose, (file, len(pages), loose[:20])


def test_a_vault_of_another_boot_is_discarded(network):
    """As a disk could have kept it: the SAs' numbers in it may be too old."""
    net = network().up()
    daemon = net.gwa.daemon
    sas = [association("gcm128", 0x1000)]
    add(daemon, sas)
    shown = daemon.json("sa", "--show-keys")
    assert len(shown) == 3
    daemon.kill9()
    boot = vault_of(daemon) / "boot"
    assert boot.read_text() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    boot.write_text("00000000-0000-4000-8000-000000000000")
    daemon.start()
    assert "the vault was of another boot" in daemon.log()
    assert daemon.json("sa") == [] and daemon.json("policy") == []
    assert_nowhere(daemon, needles_of(shown))
    # From now on it is of this boot.
    add(daemon, sas)
    daemon.kill9()
    daemon.start()
    assert [sa["spi"] for sa in daemon.json("sa")] == ["0x00001000"]
