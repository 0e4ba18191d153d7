"""The guest, and what judges culvert against its kernel: both must see what is wrong."""

import contextlib
import itertools
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from interop import cases, table
from interop.cases import CULVERT, KERNEL, batch
from lab import CommandFailed, Lab, LabError
from lab.base import sweep, wait_for
from lab.guest import Guest, kernel_missing
from lab.traffic import assert_ping, ping

needs_kernel = pytest.mark.skipif(bool(kernel_missing()), reason=kernel_missing() or "no reason")


@pytest.fixture(scope="module")
def lab():
    with Lab("guest") as lab:
        yield lab


@pytest.fixture(scope="module")
def guest(lab):
    guest = Guest(lab, "peer")
    host = lab.host("host")
    lab.link(host, "eth0", guest.box, "wan", offload=False)
    host.address("eth0", "192.0.2.1/24")
    guest.start("wan")
    guest.ip("link", "set", "wan", "up")
    guest.address("wan", "192.0.2.2/24")
    return guest


@needs_kernel
def test_a_guest_is_another_kernel_on_the_same_files(guest):
    assert "/bin/sh" in guest.run("ls", "/bin/sh").stdout
    assert guest.run("uname", "-n").stdout == "guest\n"
    guest.run("touch", "/etc/of-the-guest")
    assert not Path("/etc/of-the-guest").exists()


@needs_kernel
def test_its_interface_is_on_the_host_s_wire(lab, guest):
    assert_ping(lab.hosts["host"], "192.0.2.2", count=5, size=1400)
    guest.ip("link", "set", "wan", "down")
    assert ping(lab.hosts["host"], "192.0.2.2", count=1, wait=0.5)["received"] == 0
    guest.ip("link", "set", "wan", "up")


@needs_kernel
def test_commands_and_their_failures(guest):
    assert guest.run("cat", stdin="of the lab").stdout == "of the lab"
    assert guest.run("exit 3", check=False).returncode == 3
    with pytest.raises(CommandFailed, match="no-such-device"):
        guest.ip("link", "show", "no-such-device")
    with pytest.raises(LabError, match="not within"):
        guest.run("sleep", "20", timeout=0.3)


@needs_kernel
def test_processes_run_beside_each_other_and_end_when_told(guest):
    sleeps = [guest.spawn("sh", "-c", "echo up; sleep 60 & wait") for _ in range(2)]
    for process in sleeps:
        process.wait_output("up")
        assert process.alive()
    assert sleeps[0].stop() == 128 + signal.SIGTERM
    assert sleeps[1].alive()
    sleeps[1].stop(signal.SIGKILL)
    left = guest.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout
    assert "sleep 60" not in left


@needs_kernel
def test_files_of_etc_are_renewed(guest):
    for text in ("one", "two and more"):
        (guest.etc / "culvert-test.conf").write_text(text)
        guest.refresh_etc()
        assert guest.run("cat", "/etc/culvert-test.conf").stdout == text


@needs_kernel
def test_a_dead_guest_is_an_error_and_not_a_wait(lab):
    guest = Guest(lab, "mortal").start()
    guest.process.stop(signal.SIGKILL)
    start = time.monotonic()
    with pytest.raises(LabError, match="the guest ended"):
        guest.run("true")
    assert time.monotonic() - start < 5


ORPHAN = """
import os, signal
from lab import Lab
from lab.guest import Guest
lab = Lab("orphan")
Guest(lab, "peer").start().run("sleep 60 &")
print(lab.tmp, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@needs_kernel
def test_a_guest_dies_with_its_maker():
    tests = Path(__file__).resolve().parents[1]
    made = subprocess.run([sys.executable, "-c", ORPHAN], cwd=tests, capture_output=True, text=True)
    folder = made.stdout.strip()
    assert folder, made.stderr

    def gone():
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if folder.encode() in file.read_bytes():
                    return False
        return True

    wait_for("the end of its processes", gone, timeout=10)
    sweep()
    assert not Path(folder).exists()


@needs_kernel
def test_a_stopped_guest_boots_again(lab):
    guest = Guest(lab, "again").start()
    guest.run("touch", "/run/here")
    guest.stop()
    wait_for("its end", lambda: not guest.alive())
    guest.start()
    assert guest.run("test -e /run/here", check=False).returncode == 1
    guest.stop()


# The cases


def test_no_name_spi_or_key_serves_twice():
    all_cases = list(cases.static_cases())
    assert len({case.name for case in all_cases}) == len(all_cases)
    seen = set()
    for serial, case in enumerate(all_cases):
        for word in batch(case, serial, CULVERT, KERNEL).split():
            # The mask of a mark is neither.
            if word.startswith("0x") and word != "0xffffffff":
                assert word not in seen, case.name
                seen.add(word)


def test_both_sides_of_a_case_have_the_same_states():
    for serial, case in enumerate(cases.static_cases()):
        one, other = (
            [line for line in batch(case, serial, *sides).splitlines() if "state add" in line]
            for sides in ((CULVERT, KERNEL), (KERNEL, CULVERT))
        )
        # Those that are sent by come first.
        half = len(one) // 2
        pairs = [*zip(one[:half], other[half:]), *zip(other[:half], one[half:])]
        for out, inbound in pairs:
            # What one asks for on the way out the other sets on the way in.
            out = out.replace("replay-oseq", "replay-seq").replace(" mark ", " output-mark ")
            assert inbound == out.replace(f"tfcpad {case.tfc_bytes} ", "")


def test_the_sample_is_of_cases_that_there_are():
    from interop.ike import ike_cases

    names = {case.name for case in itertools.chain(cases.static_cases(), ike_cases())}
    assert set(cases.SAMPLE) <= names


def test_the_table_tells_what_failed_and_where():
    def report(kernel, verdict):
        case = {"name": "aes128gcm16 tunnel 4in4", "column": "tunnel 4in4", "verdict": verdict}
        other = {"name": "big", "column": "", "verdict": "skipped", "excuse": "Why."}
        return {"culvert": "culvert 1", "kernel": kernel, "cases": [case | {"excuse": ""}, other]}

    text = table.markdown([report("6.12.1-x", "passed"), report("7.2.0-x", "failed")])
    assert "| aes128gcm16 | 6.12.1: yes, 7.2.0: **no** |" in text
    assert "| big | no, see below | no, see below |" in text
    assert text.endswith("- Why.")
