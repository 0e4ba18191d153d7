"""`culvert web` on a gateway, and what a browser asks of it."""

import http.client
import json
import pwd
import re
import socket
from pathlib import Path

from . import topology as t
from .planes import culvert_binary
from .traffic import ping

PORT = 9634

#: Whom the page's process becomes, in place of the user that the package makes.
READER = "games"

#: An address that a policy blocks, and a peer that there is no SA with: see `prepared`.
BLOCKED = "10.2.0.77"
DOWN = "192.0.2.77"

#: Told anew with each question.
AGES = ("uptime_s", "age_s", "idle_s", "memory_kib", "until_rekey", "until_expiry")


class Web:
    """The page of a gateway, on its loopback."""

    def __init__(self, gateway, *args, token=None, name=None):
        self.gateway = gateway
        log = gateway.host.lab.tmp / f"{gateway.host.name}-web.log"
        # What an earlier one said is no news.
        log.unlink(missing_ok=True)
        name = name or gateway.daemon.name
        user = () if "--user" in args else ("--user", READER)
        self.process = gateway.host.spawn(culvert_binary(), "--name", name, "web", *user, *args, log=log)
        self.process.wait_output("culvert web: ")
        said = re.search(r"http://127\.0\.0\.1:(\d+)/#([0-9a-f]{64})\n", self.process.output())
        self.url = said[0].strip() if said else ""
        self.token = token or (said and said[2])

    def get(self, path, method="GET", host=f"127.0.0.1:{PORT}", token=None, body=None, headers=None):
        """Status, headers and body of an answer."""
        token = self.token if token is None else token
        fields = {"Host": host, **({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        with self.gateway.host.entered():
            connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=30)
            connection.request(method, path, body=body, headers={k: v for k, v in fields.items() if v})
        answer = connection.getresponse()
        with answer:
            return answer.status, answer.headers, answer.read()

    def json(self, path):
        status, headers, body = self.get(f"/api/{path}")
        assert status == 200 and headers["Content-Type"] == "application/json", (status, body)
        return json.loads(body)

    def connect(self):
        """A connection that has said nothing yet."""
        with self.gateway.host.entered():
            return socket.create_connection(("127.0.0.1", PORT), timeout=30)


def assert_gives_up(process, user):
    """What a process that serves has: no rights, no name of root's, no system call but those that serving takes."""
    uid = pwd.getpwnam(user).pw_uid
    gid = pwd.getpwnam(user).pw_gid
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        try:
            text = (task / "status").read_text()
        except (ProcessLookupError, FileNotFoundError):
            # The thread of a connection that has just ended.
            assert task.name != str(process.pid)
            continue
        status = dict(line.split(":\t", 1) for line in text.splitlines())
        assert status["Uid"].split() == [str(uid)] * 4 and status["Gid"].split() == [str(gid)] * 4, status
        assert status["Groups"].split() == [str(gid)] and status["NoNewPrivs"] == "1", status
        assert all(int(status[f"Cap{which}"], 16) == 0 for which in ("Eff", "Prm", "Inh", "Amb", "Bnd")), status
        assert status["Seccomp"] == "2", status


def readable(net, captures=False):
    """A network whose gateway A answers the page's user."""
    net.gwa.daemon.settings = f'[security]\nreader = "{READER}"\nreader_captures = {str(captures).lower()}\n'
    net.gwa.daemon.write_config()
    return net


def prepared(net):
    """A tunnel with traffic, a policy that blocks, and one to a peer that there is no SA with."""
    net.up()
    policy = net.gwa.daemon.exec
    policy("ip", "xfrm", "policy", "add", "src", "10.1.0.0/24", "dst", f"{BLOCKED}/32", "dir", "out",
           "priority", "5", "action", "block")  # fmt: skip
    policy("ip", "xfrm", "policy", "add", "src", "10.1.0.0/24", "dst", "10.7.0.0/16", "dir", "out", "priority", "9",
           "tmpl", "src", t.WAN_A4, "dst", DOWN, "proto", "esp", "reqid", "77", "mode", "tunnel")  # fmt: skip
    ping(net.client, BLOCKED, count=3, wait=0.1)


def ageless(answer):
    """An answer without what time alone changes."""
    if isinstance(answer, dict):
        return {key: ageless(value) for key, value in answer.items() if key not in AGES}
    return [ageless(value) for value in answer] if isinstance(answer, list) else answer
