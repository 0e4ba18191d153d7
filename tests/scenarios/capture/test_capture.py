"""`culvert capture`, as tshark reads it, against what is sent meanwhile."""

import json
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path

from lab import topology as t
from lab.base import wait_for
from lab.planes import culvert_binary
from lab.traffic import assert_ping, ping

#: What tshark is asked of each packet.
FIELDS = ("frame.interface_name", "frame.packet_flags_direction", "ip.src", "ip.dst", "esp.spi", "frame.comment")

#: pcapng's directions.
IN, OUT = "0x00000001", "0x00000002"

BLOCKED = "10.2.0.77"


class Captured:
    """`culvert capture`, running, to a file."""

    def __init__(self, gateway, *args, name="capture.pcapng"):
        self.gateway = gateway
        self.path = gateway.host.lab.tmp / name
        self.process = gateway.host.spawn(
            culvert_binary(), "--name", gateway.daemon.name, "capture", "-w", self.path, *args
        )
        # The file's head is written when the workers record.
        wait_for("the capture", lambda: self.process.alive() and self.files())

    def files(self):
        return sorted(self.path.parent.glob(f"{self.path.stem}*{self.path.suffix}"))

    def stop(self):
        """Ends it as Ctrl-C does, and returns what it says."""
        self.process.kill(signal.SIGINT)
        assert self.process.wait() == 0, self.process.output()
        return self.process.output()

    def packets(self):
        """Stops it; what each packet has for FIELDS."""
        said = self.stop()
        packets = tshark_fields(self.path)
        assert f"{len(packets)} packets captured, 0 lost" in said, said
        return packets


def tshark(*args):
    done = subprocess.run(("tshark", *map(str, args)), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tshark_fields(path, *args, fields=FIELDS):
    options = [word for name in fields for word in ("-e", name)]
    lines = tshark("-r", path, "-n", *args, "-T", "fields", "-E", "separator=;", "-E", "aggregator=|", *options)
    return [dict(zip(fields, line.split(";"), strict=True)) for line in lines.splitlines()]


def spis(gateway):
    """SPIs of the SAs out and in."""
    shown = {sa["src"]: sa["spi"] for sa in gateway.daemon.json("sa")}
    return shown[t.WAN_A4], shown[t.WAN_B4]


def test_each_packet_on_both_sides(network):
    net = network().up()
    gwa = net.gwa
    assert_ping(net.client, t.SERVER4, count=1)
    out, back = spis(gwa)
    captured = Captured(gwa)
    assert_ping(net.client, t.SERVER4, count=3)
    packets = captured.packets()

    def of(tap, direction):
        return [p for p in packets if (p["frame.interface_name"], p["frame.packet_flags_direction"]) == (tap, direction)]

    pings = {(t.CLIENT4, t.SERVER4): "plain", (t.SERVER4, t.CLIENT4): "plain"}
    plain_out = [p for p in of("plain", OUT) if (p["ip.src"], p["ip.dst"]) in pings]
    plain_in = [p for p in of("plain", IN) if (p["ip.src"], p["ip.dst"]) in pings]
    wire_out, wire_in = of("wire", OUT), of("wire", IN)
    assert [len(some) for some in (plain_out, plain_in, wire_out, wire_in)] == [3, 3, 3, 3], packets
    for packet in plain_out:
        assert (packet["ip.src"], packet["ip.dst"]) == (t.CLIENT4, t.SERVER4)
        comments = packet["frame.comment"].split("|")
        assert comments[0].startswith(f"protected by SA {out} to {t.WAN_B4}, reqid"), packet
        assert "interface lan" in comments and any(c.startswith("policy ") for c in comments), packet
    for packet in wire_out:
        assert packet["esp.spi"] == out, packet
        assert packet["frame.comment"].split("|")[0] == "sent by wan", packet
    for packet in wire_in:
        assert packet["esp.spi"] == back, packet
        comments = packet["frame.comment"].split("|")
        assert comments[0] == "decrypted and accepted" and f"SA {back} to {t.WAN_A4}" in comments[1], packet
    for packet in plain_in:
        assert (packet["ip.src"], packet["ip.dst"]) == (t.SERVER4, t.CLIENT4)
        assert packet["frame.comment"].split("|")[0] == "sent by lan", packet


def test_files_that_others_can_read_are_refused(network, tmp_path):
    """Neither packets nor keys go into a file that somebody else has made or can read, nor where a link leads."""
    net = network().up()
    daemon = net.gwa.daemon
    theirs, link = tmp_path / "theirs", tmp_path / "link"
    theirs.write_text("")
    os.chmod(theirs, 0o644)
    link.symlink_to(tmp_path / "elsewhere")
    for path, what in ((theirs, "mode 0644"), (link, "symbolic link")):
        for files in (("-w", path), ("-w", tmp_path / "new", "--show-keys", path)):
            done = daemon.culvert("capture", "--duration", "1", *files, check=False)
            assert done.returncode != 0 and what in done.stderr and "remove it" in done.stderr, done
    assert theirs.read_text() == "" and not (tmp_path / "elsewhere").exists()


def test_tshark_decrypts_what_the_inner_tap_has(network, tmp_path):
    net = network().up()
    gwa = net.gwa
    keys = tmp_path / "esp_sa"
    # A packet that waits for a neighbour is recorded as it waits and as it goes on.
    assert_ping(net.client, t.SERVER4, count=1)
    captured = Captured(gwa, "--show-keys", keys)
    assert_ping(net.client, t.SERVER4, count=3)
    # SAs that come meanwhile are in the table too.
    before = set(spis(gwa))
    gwa.swan.rekey(child="net")
    wait_for("the new SAs' keys", lambda: all(spi in keys.read_text() for spi in set(spis(gwa)) - before))
    assert_ping(net.client, t.SERVER4, count=3)
    captured.stop()
    assert keys.stat().st_mode & 0o777 == 0o600 and captured.path.stat().st_mode & 0o777 == 0o600
    for spi in before | set(spis(gwa)):
        assert f'"{spi}"' in keys.read_text()

    def payloads(tap, *options):
        fields = ("ip.src", "ip.dst", "ip.ttl", "ip.id", "icmp.type", "icmp.seq", "data.data")
        shown = tshark_fields(
            captured.path, *options, "-Y", f'icmp && frame.interface_name == "{tap}"', fields=fields
        )
        # Of what is inside the last occurrence is the inner one.
        return [{name: value.split("|")[-1] for name, value in packet.items()} for packet in shown]

    assert payloads("wire") == [], "without keys it cannot be read"
    decrypted = payloads("wire", "-o", "esp.enable_encryption_decode:TRUE", *uat(keys))
    plain = payloads("plain")
    assert len(plain) == 12 and plain[0]["data.data"], [(p["icmp.type"], p["icmp.seq"], p["ip.ttl"]) for p in plain]
    key = lambda packet: sorted(packet.items())  # noqa: E731
    assert sorted(decrypted, key=key) == sorted(plain, key=key)
    # As a profile's table it is taken as well, whole.
    done = subprocess.run(
        ("tshark", "-r", captured.path, "-o", "esp.enable_encryption_decode:TRUE"), capture_output=True, text=True,
        env={**os.environ, "WIRESHARK_CONFIG_DIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0 and "esp_sa" not in done.stderr, done.stderr
    assert done.stdout.count("Echo (ping)") == 24, done.stdout


def uat(keys):
    """tshark's options for a table of keys."""
    lines = [line for line in keys.read_text().splitlines() if not line.startswith("#")]
    return [word for line in lines for word in ("-o", f"uat:esp_sa:{line}")]


def test_filters(network):
    net = network().up()
    gwa = net.gwa
    assert_ping(net.client, t.SERVER4, count=1)
    out, back = spis(gwa)
    index = json.loads(gwa.daemon.culvert(
        "why", "--from", t.CLIENT4, "--to", t.SERVER4, "--json").stdout)  # fmt: skip
    index = next(step["policy"] for step in index["steps"] if step["question"] == "policy out")

    def captured(*args, name):
        return Captured(gwa, *args, name=f"{name}.pcapng")

    # As many as there may be at a time.
    spi = captured("--spi", out, name="spi")
    flow = captured("--from", t.SERVER4, "--tap", "wire", name="flow")
    policy = captured("--policy", index, "--direction", "out", name="policy")
    drops = captured("--drops", name="drops")
    refused = gwa.daemon.culvert("capture", "-w", "-", check=False)
    assert refused.returncode == 1 and "run already" in refused.stderr, refused
    assert_ping(net.client, t.SERVER4, count=4)
    gwa.daemon.exec(
        "ip", "xfrm", "policy", "add", "src", "10.1.0.0/24", "dst", f"{BLOCKED}/32", "dir", "out",
        "priority", "5", "action", "block",
    )  # fmt: skip
    assert ping(net.client, BLOCKED, count=2)["received"] == 0
    # Both sides of what goes out.
    shown = spi.packets()
    assert len(shown) == 8 and {p["frame.packet_flags_direction"] for p in shown} == {OUT}, shown
    # Found by what is inside.
    assert [p["esp.spi"] for p in flow.packets()] == [back] * 4
    shown = policy.packets()
    assert {p["frame.interface_name"] for p in shown} == {"plain", "wire"} and len(shown) == 8, shown
    shown = drops.packets()
    assert [p["ip.dst"] for p in shown] == [BLOCKED] * 2, shown
    assert all(p["frame.comment"].startswith("dropped (out-policy-block): ") for p in shown), shown

    def error(*args):
        done = gwa.daemon.culvert("capture", "-w", "-", *args, check=False)
        assert done.returncode != 0 and not done.stdout, done
        return done.stderr

    assert "there is no such interface" in error("-i", "eth9")
    assert "there is no such policy" in error("--policy", "999999")
    assert "culvert drops --all" in error("--reason", "bad-luck")
    assert "10.1.0.5 or 2001:db8::/32" in error("--host", "lan")


def test_files_follow_one_another(network):
    net = network().up()
    gwa = net.gwa
    captured = Captured(gwa, "--rotate-size", "2k", "--files", "3", name="ring.pcapng")
    assert_ping(net.client, t.SERVER4, count=12)
    said = captured.stop()
    files = captured.files()
    assert len(files) == 3 and files[-1].name > "ring-00003.pcapng", files
    numbers = [sum(1 for _ in tshark_fields(file)) for file in files]
    assert all(numbers) and all(file.stat().st_size <= 2048 + 512 for file in files), (numbers, said)


def test_to_a_pipe_until_there_are_enough(network):
    net = network().up()
    gwa = net.gwa
    name = gwa.daemon.name
    shell = f"{culvert_binary()} --name {name} capture -w - -c 6 --host {t.SERVER4} | tshark -l -n -r - -T fields -e frame.interface_name"
    pipe = gwa.host.spawn("sh", "-c", shell)
    wait_for("six packets", lambda: ping(net.client, t.SERVER4, count=1) and not pipe.alive())
    lines = [line for line in pipe.output().splitlines() if line in ("wire", "plain")]
    assert len(lines) == 6, pipe.output()
    # Nobody reads any more: the capture ends, and another one can begin.
    gone = gwa.host.spawn("sh", "-c", f"{culvert_binary()} --name {name} capture -w - | head -c 10 >/dev/null")
    wait_for("its end", lambda: ping(net.client, t.SERVER4, count=1) and not gone.alive())


def test_as_an_interface_of_wireshark(network, tmp_path):
    net = network().up()
    gwa = net.gwa
    script = tmp_path / "extcap" / "culvert"
    script.parent.mkdir()
    text = (Path(__file__).parents[3] / "packaging/wireshark/culvert").read_text()
    script.write_text(text.replace("exec culvert ", f"exec {culvert_binary()} "))
    script.chmod(0o755)
    env = {"WIRESHARK_EXTCAP_DIR": str(script.parent), "WIRESHARK_CONFIG_DIR": str(tmp_path)}
    interface = f"culvert-{gwa.daemon.name}"
    listed = subprocess.run(("tshark", "-D"), capture_output=True, text=True, env={**os.environ, **env})
    assert f"{interface} (culvert {gwa.daemon.name}: before and after IPsec)" in listed.stdout, listed
    dlts = tshark_output(env, "-i", interface, "-L")
    assert "RAW" in dlts, dlts

    words = interface.replace("-", "_").lower()
    wireshark = gwa.host.spawn(
        "tshark", "-l", "-n", "-i", interface, "-o", f"extcap.{words}.host:{t.SERVER4}", "-o", f"extcap.{words}.tap:wire",
        "-c", "4", "-T", "fields", "-e", "frame.interface_name", "-e", "frame.comment", env=env,
    )  # fmt: skip
    wait_for("four packets", lambda: ping(net.client, t.SERVER4, count=1) and not wireshark.alive())
    lines = [line for line in wireshark.output().splitlines() if "\t" in line]
    assert len(lines) == 4 and all(line.startswith("wire\t") for line in lines), wireshark.output()
    assert any("sent by wan" in line for line in lines), lines
    # Wireshark shows what an extcap says on standard error as an error.
    assert "culvert:" not in wireshark.output() and "lost" not in wireshark.output(), wireshark.output()

    def extcap(*args):
        return gwa.daemon.culvert("extcap", *args, check=False)

    options = extcap("--extcap-interface", interface, "--extcap-config").stdout
    assert "{call=--host}" in options and "{type=boolflag}" in options, options
    refused = extcap("--extcap-interface", interface, "--extcap-capture-filter", "tcp")
    assert refused.returncode == 1 and "options" in refused.stderr, refused
    assert "docs/guides/capture.md" in extcap().stderr


def tshark_output(env, *args):
    done = subprocess.run(("tshark", *args), capture_output=True, text=True, env={**os.environ, **env}, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_with_crypto_threads_and_several_workers(network):
    net = network()
    config = net.gwa.daemon.config.read_text() + "[worker]\ncpus = 2\ncrypto_cpus = [0, 1]\n"
    net.gwa.daemon.write_config(config)
    net.up()
    assert_ping(net.client, t.SERVER6, count=1)
    captured = Captured(net.gwa, "--host", t.SERVER6)
    assert_ping(net.client, t.SERVER6, count=100, interval=0.002)
    said = captured.stop()
    shown = tshark_fields(captured.path, fields=("frame.interface_name", "frame.packet_flags_direction", "frame.comment"))
    count = Counter((p["frame.interface_name"], p["frame.packet_flags_direction"]) for p in shown)
    # Neighbour discovery is of no SA.
    wanted = {("wire", OUT): 100, ("wire", IN): 100}
    assert {key: count[key] for key in wanted} == wanted, (count, said)
    of_sa = [p for p in shown if p["frame.interface_name"] == "plain" and "SA 0x" in p["frame.comment"]]
    assert len(of_sa) == 200, (count, said)
    # Afterwards the threads work again, and nothing was lost to anybody.
    assert_ping(net.client, t.SERVER6, count=100, interval=0.002)
    assert not net.gwa.daemon.drops().get("in-replay-old"), net.gwa.daemon.drops()


def test_other_workers_end_a_capture_and_it_says_so(network):
    net = network().up()
    gwa = net.gwa
    captured = Captured(gwa)
    assert_ping(net.client, t.SERVER4, count=2)
    gwa.daemon.write_config(gwa.daemon.config.read_text() + "[worker]\ncpus = 3\n")
    gwa.daemon.reload()
    wait_for("its end", lambda: not captured.process.alive())
    said = captured.process.output()
    assert captured.process.wait() == 0 and "(the workers changed or ended" in said, said
    assert {p["frame.interface_name"] for p in tshark_fields(captured.path)} >= {"wire", "plain"}
    # A new one has the new workers.
    again = Captured(gwa, "--host", t.SERVER4, name="again.pcapng")
    assert_ping(net.client, t.SERVER4, count=2)
    assert len(again.packets()) == 8


def test_a_daemon_that_ends_ends_the_file(network):
    net = network().up()
    captured = Captured(net.gwa)
    assert_ping(net.client, t.SERVER4, count=2)
    net.gwa.daemon.stop()
    wait_for("its end", lambda: not captured.process.alive())
    assert tshark_fields(captured.path), captured.process.output()
    net.gwa.daemon.start()


def test_it_says_when_nothing_comes(network, tmp_path):
    """A filter that fits nothing is told of, once; a packet that comes in time is no silence. The file is named in errors."""
    net = network().up()
    silent = Captured(net.gwa, "--host", "203.0.113.77")
    silent.process.wait_output("no packet has matched for 5 s")
    said = silent.process.output()
    assert "Ctrl-C" in said and "culvert flows" in said, said
    assert silent.stop().count("no packet has matched") == 1
    missing = tmp_path / "nowhere" / "x.pcapng"
    done = net.gwa.daemon.culvert("capture", "--duration", "1", "-w", missing, check=False)
    assert done.returncode == 1 and str(missing) in done.stderr, done
    full = net.gwa.daemon.culvert("capture", "--duration", "1", "-w", "/dev/full", check=False)
    assert full.returncode == 1 and "/dev/full" in full.stderr and "No space" in full.stderr, full
