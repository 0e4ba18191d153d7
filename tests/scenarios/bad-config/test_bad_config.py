"""A table of mistakes, and what the message must name."""

import os
import signal
import socket
from pathlib import Path

import pytest
from lab import topology as t
from lab.base import wait_for
from lab.planes import culvert_binary
from lab.traffic import assert_ping

PORT = '[[port]]\ninterface = "wan"\n'

#: (text, parts that the message must have)
MISTAKES = {
    "not-toml": ("name = ", ["line 1"]),
    "unknown-key": ('name = "@NAME@"\ncolour = "red"\n', ["colour", "line 2"]),
    "unknown-mode": (PORT + 'mode = "fast"\n', ["line 3", "native", "generic"]),
    "wrong-type": ("[[port]]\ninterface = 3\n", ["line 2", "string"]),
    "name-with-slash": ('name = "../x"\n', ["name", "../x"]),
    "long-interface": ('[[port]]\ninterface = "interface-too-long"\n', ["port[0]", "15"]),
    "port-twice": (PORT + PORT, ["port[1]", "wan"]),
    "no-interface-key": ('[[port]]\nmode = "auto"\n', ["interface"]),
    "bad-prefix": ('[guard]\nprefixes = ["10.2.0.0/33"]\n', ["10.2.0.0/33"]),
    "bad-engine": ('[crypto]\nengine = "magic"\n', ["magic", "openssl"]),
    "bad-mtu": ("[tun]\nmtu = 12\n", ["tun.mtu", "1280"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake(network, mistake):
    text, parts = MISTAKES[mistake]
    net = network()
    daemon = net.gwa.daemon
    daemon.write_config(text)
    links = net.gwa.host.ip("-o", "link").stdout
    for command in ("check", "run"):
        done = net.gwa.host.run(
            culvert_binary(), command, "--config", daemon.config, check=False
        )
        message = done.stdout + done.stderr
        assert done.returncode not in (0, 101), (command, message)
        assert str(daemon.config) in message, message
        for part in parts:
            assert part in message, (command, part, message)
    assert net.gwa.host.ip("-o", "link").stdout == links
    assert net.gwa.host.ip("rule").stdout.count("lookup") == 3


def test_another_name_than_the_configurations(network):
    daemon = network().gwa.daemon
    for command in ("check", "run"):
        done = daemon.host.run(culvert_binary(), command, "--config", daemon.config, "--name", "other", check=False)
        assert done.returncode == 1 and "--name other" in done.stderr and daemon.name in done.stderr, done


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
    wait_for(
        "the port to be taken", lambda: "xdp" in net.gwa.host.ip("link", "show", "later").stdout
    )


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
