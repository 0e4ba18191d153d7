"""A table of mistakes, and what the message must name."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.planes import culvert_binary
from lab.traffic import assert_ping

sys.path.insert(0, str(Path(__file__).parent))
from mistakes import ACCEPTED, OF_THE_FILE, OF_THE_MACHINE  # noqa: E402


def check(run, path, *options):
    """`culvert check --json`: its status, and what it says."""
    done = run(culvert_binary(), "check", "--json", "--config", path, *options)
    assert not done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)


def alone(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60)


def place(problem):
    return (problem["line"], problem["column"]) if "line" in problem else None


def assert_answers(said, wanted):
    """As many problems as are wanted, in order, each at its place and with its words."""
    assert [(place(p), p["key"]) for p in said] == [(at, key) for at, key, _ in wanted], said
    for problem, (_, key, words) in zip(said, wanted, strict=True):
        assert problem["wrong"] and problem["remedy"], problem
        text = " ".join((key, problem["value"], problem["wrong"], problem["remedy"]))
        for word in words:
            assert word in text, (word, problem)


@pytest.mark.parametrize("mistake", OF_THE_FILE)
def test_mistake(tmp_path, mistake):
    text, wanted = OF_THE_FILE[mistake]
    path = tmp_path / "culvert.toml"
    path.write_text(text)
    status, said = check(alone, path, "--offline")
    assert status == 1 and said["valid"] is False, said
    assert_answers(said["problems"], wanted)
    # For people: a line for each that begins as a compiler's, and the remedy below it.
    done = alone(culvert_binary(), "check", "--offline", "--config", path)
    assert done.returncode == 1 and not done.stdout, done
    for problem in said["problems"]:
        assert f"\n{path}:{problem['line']}:{problem['column']}: " in done.stderr, done.stderr
        assert problem["remedy"] in done.stderr, done.stderr


def test_run_and_check_say_the_same(network):
    """What one of them refuses the other refuses, with the same problems, and nothing is left half set up."""
    net = network()
    host, daemon = net.gwa.host, net.gwa.daemon
    run = lambda *command: host.run(*command, check=False)  # noqa: E731
    links, rules = host.ip("-o", "link").stdout, host.ip("rule").stdout
    for mistake, (text, wanted) in {**OF_THE_FILE, **OF_THE_MACHINE}.items():
        daemon.write_config(text)
        status, said = check(run, daemon.config)
        assert status == 1, (mistake, said)
        if mistake in OF_THE_MACHINE:
            assert_answers(said["problems"], wanted)
            # Another machine may have it.
            alone_status, _ = check(run, daemon.config, "--offline")
            assert alone_status == int(mistake == "of-the-file-too"), mistake
        started = run("timeout", "20", culvert_binary(), "run", "--config", daemon.config)
        assert started.returncode == 1, (mistake, started)
        told = [line for line in started.stderr.splitlines() if line.startswith(f"{daemon.config}:")]
        assert len(told) == len(said["problems"]), (mistake, started.stderr)
        for problem, line in zip(said["problems"], told, strict=True):
            assert problem["wrong"] in line, (mistake, line)
            assert problem["key"] in line, (mistake, line)
    assert host.ip("-o", "link").stdout == links
    assert host.ip("rule").stdout == rules


@pytest.mark.parametrize("case", ACCEPTED)
def test_run_takes_what_check_accepts(network, case):
    text, wanted = ACCEPTED[case]
    net = network()
    daemon = net.gwa.daemon
    daemon.write_config('name = "@NAME@"\n' + text)
    run = lambda *command: daemon.host.run(*command, check=False)  # noqa: E731
    status, said = check(run, daemon.config)
    assert status == 0 and said["valid"], said
    assert [w["key"] for w in said["warnings"]] == [key for key, _ in wanted], said
    for warning, (_, words) in zip(said["warnings"], wanted, strict=True):
        for word in words:
            assert word in warning["wrong"] + " " + warning["remedy"], warning
    daemon.start()
    for _, words in wanted:
        assert words[0] in daemon.log(), daemon.log()


def test_another_name_than_the_configurations(network):
    daemon = network().gwa.daemon
    for command in ("check", "run"):
        done = daemon.host.run(culvert_binary(), command, "--config", daemon.config, "--name", "other", check=False)
        assert done.returncode == 1 and "--name other" in done.stderr and daemon.name in done.stderr, done
        assert f"{daemon.config}:2:8: name = " in done.stderr, done


def test_missing_file(network):
    net = network()
    done = net.gwa.host.run(
        culvert_binary(), "run", "--config", "/nonexistent/culvert.toml", check=False
    )
    assert done.returncode not in (0, 101)
    assert "/nonexistent/culvert.toml" in done.stderr + done.stdout


def test_missing_privilege(network):
    net = network()
    net.gwa.daemon.config.chmod(0o644)
    os.chmod(net.lab.tmp, 0o755)
    done = net.gwa.host.run(
        "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all",
        culvert_binary(), "run", "--config", net.gwa.daemon.config, check=False,
    )  # fmt: skip
    message = (done.stdout + done.stderr).lower()
    if "permission denied" in message and str(culvert_binary()).lower() in message:
        pytest.skip("the build folder is not readable for others")
    assert done.returncode not in (0, 101), message
    assert "root" in message or "cap_" in message or "privilege" in message, message


def test_missing_interface_comes_later(network):
    """A port that is not there is said aloud; the daemon runs and takes it when it comes."""
    net = network()
    daemon = net.gwa.daemon
    text = 'name = "@NAME@"\n' + "".join(
        f'[[port]]\ninterface = "{i}"\n' for i in ("wan", "lan", "later")
    )
    daemon.write_config(text)
    daemon.start()
    assert "later" in daemon.log()
    net.gwa.host.ip("link", "add", "later", "type", "veth", "peer", "name", "later-peer")
    net.gwa.host.ip("link", "set", "dev", "later", "up")
    net.gwa.host.ip("link", "set", "dev", "later-peer", "up")
    wait_for("the port to be taken", lambda: {p["interface"]: p["state"] for p in daemon.json("port")}["later"] == "up")


def test_an_algorithm_that_is_not_supported(network):
    """The SA is refused with a reason that names the algorithm; the daemon stays up."""
    net = network(esp="3des-sha1").start()
    done = net.gwa.swan.swanctl("--initiate", "--child", "net", "--timeout", 30, check=False)
    assert done.returncode != 0 or not net.gwa.swan.children("net")
    assert net.gwa.daemon.alive() and net.gwb.daemon.alive()
    logs = net.gwa.daemon.log() + net.gwb.daemon.log()
    assert "des3_ede" in logs or "3des" in logs.lower(), logs[-2000:]
    for gateway in net.gateways():
        assert "des3" not in gateway.daemon.exec("ip", "xfrm", "state").stdout


def test_a_runtime_directory_in_which_others_have_been(network):
    """One that others can write to is refused; a link that they have left in it is replaced, not followed."""
    daemon = network().gwa.daemon
    folder, precious = Path(f"/run/culvert/{daemon.name}"), daemon.host.lab.tmp / "precious"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    precious.write_text("precious")
    (folder / "interface").symlink_to(precious)
    assert daemon.spawn().wait() != 0
    said = daemon.log()
    assert all(part in said for part in (f"{folder}: ", "mode 0777", f"chmod 700 {folder}")), said
    folder.chmod(0o700)
    daemon.start()
    assert precious.read_text() == "precious"
    made = folder / "interface"
    assert not made.is_symlink() and made.stat().st_mode & 0o777 == 0o600


def test_malformed_netlink_on_the_socket(network):
    """Noise on the XFRM socket disturbs nobody."""
    import random

    net = network().up()
    rng = random.Random(1)
    path = f"/run/culvert/{net.gwa.daemon.name}/xfrm.sock"
    for _ in range(200):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        client.connect(path)
        for _ in range(rng.randrange(1, 4)):
            length = rng.randrange(1, 400)
            data = bytearray(rng.randbytes(length))
            if rng.random() < 0.7 and length >= 16:
                # A plausible header around the noise: length, one of XFRM's message types.
                data[0:4] = length.to_bytes(4, "little")
                data[4:6] = rng.randrange(0x10, 0x28).to_bytes(2, "little")
                data[6:8] = (1 | rng.choice((0, 4, 0x300))).to_bytes(2, "little")
            try:
                client.send(data)
            except OSError:
                break
        client.close()
    assert net.gwa.daemon.alive()
    # Random flushes are possible; the socket is root's own. The daemon must go on all the same.
    net.gwa.daemon.exec("ip", "xfrm", "state")
    net.gwa.swan.terminate(ike="gw")
    net.gwa.swan.initiate()
    assert_ping(net.client, t.SERVER4)


def test_two_daemons_of_one_name(network):
    net = network()
    net.gwa.daemon.start()
    done = net.gwa.host.run(
        culvert_binary(), "run", "--config", net.gwa.daemon.config, check=False
    )
    assert done.returncode not in (0, 101)
    assert net.gwa.daemon.name in done.stdout + done.stderr
    assert net.gwa.daemon.alive()
    net.gwa.daemon.process.kill(signal.SIGHUP)
    net.gwa.daemon.culvert("status")
