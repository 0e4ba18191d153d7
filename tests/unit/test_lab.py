"""The lab judges culvert: it must itself be able to see what is wrong."""

import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lab import CommandFailed, Lab, LabError
from lab import topology as t
from lab.base import ETC_NETNS, INTERRUPTS, NETNS, PATIENCE_S, STATE, sweep, wait_for
from lab.capture import Capture, IvRecord, assert_only_protected, kinds, leaks, parse
from lab.inject import Injector, ether, fix_ipv4, ipv4_checksum, xfrm_states
from lab.planes import PLANES, planes_of
from lab.stream import GIVEN_UP_S, MARK, Counter, UnderWay
from lab.suites import COVERING, SUITES, open_esp, sample, seal
from lab.swan import parse_raw
from lab.traffic import Stream, assert_perfect, assert_ping, ping

TESTS = Path(__file__).resolve().parents[1]


def frame_of(packet):
    return parse(0.0, ether("02:00:00:00:00:01", "02:00:00:00:00:02", packet))


# The stream counter


def test_counter_sees_loss_doubles_and_order():
    counter = Counter()
    for number in (0, 1, 3, 2, 2, 7):
        counter.add(number)
    report = counter.report(sent=10)
    assert report["received"] == 5
    assert report["lost"] == 5
    assert report["first_lost"] == [4, 5, 6, 8, 9]
    assert report["longest_gap"] == 3
    assert report["duplicated"] == 1
    assert report["reordered"] == 2


def test_counter_of_a_perfect_stream():
    counter = Counter()
    for number in range(100):
        counter.add(number)
    report = counter.report(sent=100)
    assert (report["lost"], report["duplicated"], report["reordered"]) == (0, 0, 0)


def test_a_limited_stream_waits_for_answers_and_gives_up():
    counter = Counter()
    under_way = UnderWay(4, counter.seen)
    for _ in range(4):
        assert under_way.room() > 0
        under_way.send()
    assert under_way.room() == 0
    counter.add(2)
    assert under_way.room() == 1
    # What is not answered for long is lost, and no longer waited for.
    under_way.sent_at = [at - GIVEN_UP_S - 1 for at in under_way.sent_at]
    assert under_way.room() == 4
    assert UnderWay(0, counter.seen).room() > 0


# The classifier


def test_kinds_of_frames():
    from scapy.layers.inet import ICMP, IP, UDP
    from scapy.layers.inet6 import ICMPv6ND_NS, IPv6, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop

    ip = IP(src=t.WAN_A4, dst=t.WAN_B4)
    ip6 = IPv6(src=t.WAN_A6, dst=t.WAN_B6)
    esp = b"\x12\x34\x56\x78" + b"\0\0\0\x09" + b"iviviviv" + b"x" * 40
    nat_t = UDP(sport=4500, dport=4500)
    cases = {
        "esp": [ip.copy() / esp, ip6.copy() / esp],
        "esp-udp": [ip / nat_t / esp, ip6 / nat_t / esp],
        "ike": [ip / UDP(sport=500, dport=500) / b"x", ip / nat_t / b"\0\0\0\0ike"],
        "keepalive": [ip / nat_t / b"\xff"],
        "icmp": [ip / ICMP()],
        "nd": [ip6 / ICMPv6ND_NS(tgt="::1")],
        "ip": [ip / UDP(sport=1, dport=2) / b"x"],
    }
    cases["esp"][0].proto = 50
    cases["esp"][1].nh = 50
    cases["esp"].append(IPv6(src=t.WAN_A6, dst=t.WAN_B6) / IPv6ExtHdrHopByHop(nh=50) / esp)
    for kind, packets in cases.items():
        for packet in packets:
            frame = frame_of(packet)
            assert frame.kind == kind, (kind, packet.summary())
            if frame.is_esp:
                assert (frame.spi, frame.sequence, frame.iv(8)) == (0x12345678, 9, b"iviviviv")
    later = IPv6(src=t.WAN_A6, dst=t.WAN_B6) / IPv6ExtHdrFragment(nh=50, offset=5) / esp
    assert frame_of(later).kind == "esp-fragment"


def test_parser_survives_every_truncation():
    from scapy.layers.inet6 import IPv6, IPv6ExtHdrHopByHop

    data = ether("02:00:00:00:00:01", "02:00:00:00:00:02", IPv6() / IPv6ExtHdrHopByHop() / b"x")
    for length in range(len(data)):
        parse(0.0, data[:length])


def test_leaks_are_seen_by_address_and_by_content():
    from scapy.layers.inet import IP, UDP

    clear = frame_of(IP(src=t.CLIENT4, dst="8.8.8.8") / UDP() / b"x")
    marked = frame_of(IP(src=t.WAN_A4, dst=t.WAN_B4) / UDP() / MARK)
    fine = frame_of(IP(src=t.WAN_A4, dst=t.WAN_B4) / UDP(sport=500, dport=500) / b"x")
    assert leaks([clear, marked, fine]) == [clear, marked]
    with pytest.raises(AssertionError):
        assert_only_protected([clear])
    other = frame_of(IP(src=t.WAN_A4, dst=t.WAN_B4) / UDP(sport=9, dport=9) / b"x")
    with pytest.raises(AssertionError):
        assert_only_protected([other])
    assert_only_protected([fine])


def esp_frame(spi, sequence, iv):
    from scapy.layers.inet import IP

    body = struct.pack("!II", spi, sequence) + iv + b"x" * 32
    return frame_of(IP(src=t.WAN_A4, dst=t.WAN_B4, proto=50) / body)


def test_iv_record_sees_repeats():
    one, two = b"\0" * 7 + b"\1", b"\0" * 7 + b"\2"
    good = [esp_frame(1, 1, one), esp_frame(1, 2, two), esp_frame(2, 1, one)]
    IvRecord().add(good).assert_no_repeat()
    with pytest.raises(AssertionError, match="IV repeated"):
        IvRecord().add([*good, esp_frame(1, 3, one)]).assert_no_repeat()
    with pytest.raises(AssertionError, match="sequence number repeated"):
        IvRecord().add([*good, esp_frame(1, 2, b"\xff" * 8)]).assert_no_repeat()
    with pytest.raises(AssertionError, match="nothing was tested"):
        IvRecord().assert_no_repeat()


# Small parsers


def test_raw_vici_output():
    text = (
        "{gw {uniqueid=1 state=ESTABLISHED remote-vips=[10.3.0.1] tasks-active=[CHILD_REKEY] "
        "child-sas {net-3 {name=net state=INSTALLED local-ts=[10.1.0.0/24 fe80::/10] x=} "
        "net-4 {name=net state=REKEYED}}}}"
    )
    gw = parse_raw(text)["gw"]
    assert gw["uniqueid"] == "1" and gw["remote-vips"] == ["10.3.0.1"]
    assert gw["child-sas"]["net-3"]["local-ts"] == ["10.1.0.0/24", "fe80::/10"]
    assert gw["child-sas"]["net-4"] == {"name": "net", "state": "REKEYED"}


STATES = """\
src 192.0.2.1 dst 192.0.2.2
\tproto esp spi 0xc1a2b3d4 reqid 1 mode tunnel
\treplay-window 0 flag af-unspec
\taead rfc4106(gcm(aes)) 0x00112233445566778899aabbccddeeff01020304 128
\tanti-replay context: seq 0x0, oseq 0x0, bitmap 0x00000000
src 192.0.2.2 dst 192.0.2.1
\tproto esp spi 0x000000ff reqid 1 mode transport
\treplay-window 32
\tauth-trunc hmac(sha256) 0xaabb 128
\tenc cbc(aes) 0xccdd
\tencap type espinudp sport 4500 dport 4500 addr 0.0.0.0
"""


def test_xfrm_states():
    one, two = xfrm_states(STATES)
    assert (one.dst, one.spi, one.mode, one.icv_bits) == (t.WAN_B4, 0xC1A2B3D4, "tunnel", 128)
    assert len(one.aead) == 20 and not one.encap
    assert (two.spi, two.mode, two.encap) == (255, "transport", True)
    assert (two.auth, two.enc, two.auth_name) == (b"\xaa\xbb", b"\xcc\xdd", "hmac(sha256)")


def test_ipv4_checksum_of_rfc_1071_example():
    assert ipv4_checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0x220D


def test_fix_ipv4():
    from scapy.layers.inet import IP, UDP

    good = ether("02:00:00:00:00:01", "02:00:00:00:00:02", IP(src="1.2.3.4", dst="5.6.7.8") / UDP())
    bad = bytearray(good)
    bad[16:18] = b"\xff\xff"
    bad[24:26] = b"\0\0"
    assert fix_ipv4(bytes(bad)) == good


def test_a_sample_of_suites_lacks_nothing_that_they_are_made_of():
    chosen = sample(COVERING)
    assert chosen.items() < COVERING.items() and len(chosen) <= len(COVERING) / 2
    for facet in (
        lambda suite: (suite.crypt, suite.key_len),
        lambda suite: suite.integrity,
        lambda suite: suite.integrity or (suite.crypt, suite.icv_len),
    ):
        assert {facet(suite) for suite in chosen.values()} == set(map(facet, COVERING.values()))


@pytest.mark.parametrize("name", SUITES)
def test_scapy_seals_and_opens_every_suite(name):
    from lab.inject import SaKeys
    from scapy.layers.inet import ICMP, IP

    suite = SUITES[name]
    state = SaKeys(t.WAN_A4, t.WAN_B4, 0x1000, "tunnel")
    if suite.integrity:
        state.auth, state.enc = os.urandom(suite.auth_key_len), os.urandom(suite.key_len)
    else:
        state.aead = os.urandom(suite.key_len)
    inner = IP(src=t.CLIENT4, dst=t.SERVER4) / ICMP() / b"hello"
    outer = seal(suite, state, inner, 7)
    assert open_esp(suite, state, outer) == bytes(inner)
    broken = bytearray(outer)
    broken[-1] ^= 1
    with pytest.raises(Exception):  # noqa: B017 - scapy's and cryptography's differ
        open_esp(suite, state, bytes(broken))


def test_plane_names():
    assert planes_of("culvert") == (PLANES["culvert"], PLANES["culvert"])
    assert planes_of("culvert+libipsec") == (PLANES["culvert"], PLANES["libipsec"])
    with pytest.raises(LabError):
        planes_of("magic")


# Live


@pytest.fixture
def lab():
    with Lab("unit") as lab:
        yield lab


def test_the_kernel_alone_leaks_and_that_is_seen(lab):
    net = t.net4(lab, "plain").configure(None).start()
    wire = Capture(net.mid, "west")
    assert_ping(net.client, t.SERVER4)
    assert_ping(net.client, t.SERVER6)
    frames = wire.stop()
    assert len(leaks(frames)) == 12, kinds(frames)


def test_stream_sees_a_lossy_wire(lab):
    net = t.net4(lab, "plain").configure(None).start()
    stream = Stream(net.client, net.server, t.SERVER4, count=500)
    stream.wait()
    assert_perfect(stream.finish())
    rules = "table bridge f {\nchain c {\ntype filter hook forward priority 0\n%s\n}\n}\n"
    net.mid.run("nft", "-f", "-", stdin=rules % "ip protocol udp numgen random mod 7 0 drop")
    stream = Stream(net.client, net.server, t.SERVER4, count=500, port=7200)
    stream.wait()
    report = stream.finish()
    assert report["there"]["lost"] > 0 and report["back"]["lost"] > report["there"]["lost"]
    with pytest.raises(AssertionError):
        assert_perfect(report)


def test_duplicates_are_seen(lab):
    # Without offload: what is captured has its checksums and can be sent again.
    net = t.net4(lab, "plain", offload=False).configure(None).start()
    stream = Stream(net.client, net.server, t.SERVER4, rate=100)
    wire = Capture(net.mid, "west", f"udp and src {t.CLIENT4}")
    wait_for("some of it", lambda: len(wire.frames()) >= 10)
    again = [f.data for f in wire.stop()]
    Injector(net.mid, "east").send(*again)
    report = stream.finish()
    assert report["there"]["duplicated"] == len(again), report


def test_ping_reports_errors(lab):
    net = t.net4(lab, "plain").configure(None).start()
    net.gwa.host.ip("route", "replace", "prohibit", "10.2.0.0/24")
    result = ping(net.client, t.SERVER4, count=2)
    assert result["received"] == 0 and any("code 13" in e for e in result["errors"]), result


def test_a_failing_command_says_where_and_why(lab):
    host = lab.host("one")
    with pytest.raises(CommandFailed, match=r"\[one\] ls /nonexistent: exit status 2.*No such"):
        host.run("ls", "/nonexistent")
    process = host.spawn("sh", "-c", "echo early death; exit 3")
    with pytest.raises(LabError, match="ended with 3"):
        process.wait_output("never")


def test_sysctls_are_the_hosts_own(lab):
    before = Path("/proc/sys/net/ipv4/ip_forward").read_text()
    lab.host("router", forward=True)
    assert Path("/proc/sys/net/ipv4/ip_forward").read_text() == before
    out = lab.hosts["router"].run("cat", "/proc/sys/net/ipv4/ip_forward").stdout
    assert out.strip() == "1"


_CHILD = """
import signal, sys, time
sys.path.insert(0, {tests!r})
from lab import Lab
from lab.base import interruptible
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup
interruptible()
with Lab("child") as lab:
    host = lab.host("one")
    process = host.spawn("sleep", "1000")
    print(host.ns, process.pid, lab.tmp, flush=True)
    time.sleep(1000)
"""


@pytest.mark.parametrize("how", [*INTERRUPTS, signal.SIGKILL])
def test_nothing_stays_behind(how):
    """Ended in any way, a lab is removed: by itself, or by the next run if it was killed."""
    code = _CHILD.format(tests=str(TESTS))
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    ns, pid, tmp = child.stdout.readline().split()
    try:
        assert (NETNS / ns).exists() and (ETC_NETNS / ns).exists()
        # It removes labs of others that were killed; a living one is not touched.
        sweep()
        assert (NETNS / ns).exists() and Path(tmp).exists() and not _gone(pid)
    finally:
        child.send_signal(how)
        child.wait(90)
        child.stdout.close()
    if how == signal.SIGKILL:
        sweep()
    wait_for("the process to go", lambda: not Path(f"/proc/{pid}/ns/net").exists() or _gone(pid))
    # Another run may be sweeping.
    wait_for("its files to go", lambda: not any(path.exists() for path in (NETNS / ns, ETC_NETNS / ns, Path(tmp))))
    wait_for("its state to go", lambda: not list(STATE.glob(f"{ns.split('-')[1]}*")))


def test_a_hangup_that_is_ignored_stays_so():
    """As under nohup; the other interrupts count all the same."""
    code = f"""
import signal, sys
sys.path.insert(0, {str(TESTS)!r})
from lab.base import interruptible
signal.signal(signal.SIGHUP, signal.SIG_IGN)
interruptible()
signal.raise_signal(signal.SIGHUP)
print("goes on", flush=True)
signal.raise_signal(signal.SIGTERM)
print("not this far")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "goes on\n" and "KeyboardInterrupt" in done.stderr


def test_a_process_of_a_lab_that_died_at_once_does_not_run(tmp_path):
    """A lab killed while a process of it is being started leaves that process nothing to outlive."""
    slow, go = tmp_path / "setpriv", tmp_path / "go"
    slow.write_text(
        f"#!/bin/sh\nfor _ in $(seq {PATIENCE_S * 10}); do [ -e {go} ] && break; sleep 0.1; done\n"
        f'exec {shutil.which("setpriv")} "$@"\n'
    )
    slow.chmod(0o755)
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD.format(tests=str(TESTS))],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    ns, pid, _ = child.stdout.readline().split()
    # Empty for a moment while a program takes the place of another.
    wait_for("its program", lambda: b"setpriv" in Path(f"/proc/{pid}/cmdline").read_bytes())
    child.kill()
    child.wait(90)
    child.stdout.close()
    go.touch()
    wait_for("the process to go", lambda: _gone(pid))
    sweep()
    wait_for("the namespace to go", lambda: not (NETNS / ns).exists())


def _gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
