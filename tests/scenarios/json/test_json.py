"""All commands with --json: every one that the help names is here."""

import json
import re
import signal

import pytest
from lab import topology as t
from lab.planes import culvert_binary
from lab.traffic import assert_ping

#: The arguments of each command: what is printed has to be JSON. @FILE@ is the configuration, @DIR@ a folder of the test.
COMMANDS = {
    "status": [()],
    "sa": [(), ("--show-keys",)],
    "policy": [()],
    "port": [(), ("--queues",)],
    "device": [()],
    "nat": [()],
    "app": [(), ("--recent", "5")],
    "path": [()],
    "bfd": [()],
    "steer": [()],
    "limit show": [()],
    "limit set": [("site", "--rate", "2Mbit")],
    "route": [()],
    "stats": [(), ("--workers",), ("--xfrm",)],
    "drops": [(), ("--all",)],
    "why": [("--from", t.CLIENT4, "--to", t.SERVER4)],
    "flows": [("--interval", "0.3")],
    "top": [("--once", "--interval", "0.2")],
    "metrics": [()],
    "guard show": [()],
    "check": [("--config", "@FILE@")],
    "doctor": [("--config", "@FILE@")],
    # Objects, a line each.
    "trace": [("--duration", "1")],
    "events": [("--once",)],
}

#: Those that are told elsewhere, or print nothing of their own.
OTHERS = {
    "run": "a daemon, whose log is JSON with --log-json",
    "exec": "becomes another program",
    "extcap": "speaks Wireshark's language",
    "capture": "writes packets; its errors are tested below",
    "web": "serves; tested below",
    "guard apply": "tested below",
    "guard clear": "tested below",
    "reload": "changes the running configuration",
}

#: Words of the guard's own list that are numbers there.
WORDS = {"effect": {"block", "pass", "block by default"}, "direction": {"in", "out", "fwd"}}


def named_by_help(gateway, *command):
    """The commands that a help names, those with commands of their own opened."""
    text = gateway.host.run(culvert_binary(), *command, "--help").stdout
    part = re.search(r"^Commands:\n(.*?)\n\n", text, re.M | re.S)
    names = re.findall(r"^  ([a-z]+)(?: |$)", part[1], re.M) if part else []
    names = [name for name in names if name != "help"]
    return [" ".join((*command, name)) for name in names]


def objects(text):
    """A document, or one a line."""
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines()]


def run(gateway, command, *args, name=None, **how):
    words = (*command.split(), *args, "--json")
    return gateway.host.run(culvert_binary(), "--name", name or gateway.daemon.name, *words, **how)


@pytest.fixture
def gateway(network):
    net = network()
    net.gwa.daemon.settings = '[[limit]]\nname = "site"\nall = true\nmode = "shape"\nrate = "1Gbit"\n'
    net.gwa.daemon.write_config()
    net.up()
    assert_ping(net.client, t.SERVER4, count=2)
    return net.gwa


def test_every_command_is_known_here(gateway):
    names = named_by_help(gateway)
    groups = [name for name in names if named_by_help(gateway, name)]
    commands = {name for name in names if name not in groups}
    commands |= {name for group in groups for name in named_by_help(gateway, group)}
    assert commands == (COMMANDS.keys() | OTHERS.keys()) & commands, commands - COMMANDS.keys() - OTHERS.keys()
    assert len(commands) > 20 and COMMANDS.keys() <= commands, COMMANDS.keys() - commands


def test_answers_are_json(gateway):
    for command, lines in COMMANDS.items():
        for args in lines:
            words = [str(gateway.daemon.config) if word == "@FILE@" else word for word in args]
            done = run(gateway, command, *words, check=False)
            # doctor's status says what it has found.
            assert done.returncode == 0 or command == "doctor", (command, args, done)
            assert command == "trace" or done.stdout.strip(), (command, args, done)
            assert objects(done.stdout) is not None, (command, args)
            # A trace says that it waits.
            assert not done.stderr or command == "trace", (command, args, done.stderr)
    for barrier in json.loads(run(gateway, "guard show").stdout):
        for key, words in WORDS.items():
            assert barrier[key] in words, barrier
        assert "/" in barrier["src"] and isinstance(barrier["protocol"], str), barrier
    told = json.loads(run(gateway, "top", "--once", "--interval", "0.2").stdout)
    for row in told["policies"]:
        assert isinstance(row["index"], int) and isinstance(row["prio"], int), row
    assert all(isinstance(row["reqid"], int) for row in told["sas"]), told["sas"]


def test_errors_are_json_on_standard_error(gateway, tmp_path):
    needs_a_daemon = COMMANDS.keys() - {"check", "doctor", "guard show"} | {"capture"}
    arguments = {"capture": ("-w", tmp_path / "x.pcapng"), "check": ("--config", tmp_path / "missing.toml")}
    for command in sorted(needs_a_daemon):
        args = arguments.get(command) or COMMANDS[command][0]
        done = run(gateway, command, *args, name="nobody", check=False)
        assert done.returncode == 1 and done.stdout == "", (command, done)
        assert "no daemon answers" in json.loads(done.stderr)["error"], (command, done)
    # A command line that is not understood, and a file that cannot be written.
    done = run(gateway, "why", "--from", "lan", check=False)
    assert done.returncode == 2 and "invalid value 'lan'" in json.loads(done.stderr)["error"], done
    done = run(gateway, "capture", "--duration", "1", "-w", tmp_path / "no" / "x.pcapng", check=False)
    assert done.returncode == 1 and str(tmp_path / "no") in json.loads(done.stderr.splitlines()[-1])["error"], done
    done = run(gateway, "guard clear", name="nobody", check=False)
    assert done.returncode == 1 and "no guard of instance" in json.loads(done.stderr)["error"], done
    # For people it is text.
    done = gateway.host.run(culvert_binary(), "--name", "nobody", "sa", check=False)
    assert done.stderr.startswith("culvert: no daemon answers"), done


def test_what_is_served_says_where(gateway):
    for words, key in ((("web",), "token"), (("metrics", "--listen", "127.0.0.1:9699"), "url")):
        server = gateway.host.spawn(
            culvert_binary(), "--name", gateway.daemon.name, "--json", *words, "--user", "games"
        )
        server.wait_output("}")
        said = json.loads(server.output().splitlines()[0])
        assert said["url"].startswith("http://127.0.0.1:") and said[key], said
        server.kill(signal.SIGTERM)
        server.wait()
