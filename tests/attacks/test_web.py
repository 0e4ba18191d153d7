"""What a stranger can do to `culvert web` and `culvert metrics` by HTTP alone."""

import contextlib
import socket
import time

import pytest
from lab.attack import Health, Mutator, effort
from lab.base import wait_for
from lab.planes import culvert_binary, resident_bytes
from lab.web import PORT, Web, readable

METRICS_PORT = 9633
MIB = 1 << 20
STRANGER = "evil.example"


class Metrics:
    """`culvert metrics` on a gateway's loopback."""

    token = ""

    def __init__(self, gateway):
        self.gateway = gateway
        log = gateway.host.lab.tmp / "metrics.log"
        self.process = gateway.host.spawn(
            culvert_binary(), "--name", gateway.daemon.name, "metrics", "--listen", f"127.0.0.1:{METRICS_PORT}", log=log
        )
        wait_for("metrics", lambda: _speaks(self))

    def connect(self):
        with self.gateway.host.entered():
            return socket.create_connection(("127.0.0.1", METRICS_PORT), timeout=30)


def _speaks(server):
    with contextlib.suppress(OSError):
        server.connect().close()
        return True


def raw(server, data, patience=20):
    """The whole answer to some bytes; empty where the connection ends without one."""
    with server.connect() as connection:
        connection.settimeout(patience)
        answer = b""
        with contextlib.suppress(OSError):
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while more := connection.recv(65536):
                answer += more
        return answer


def status(answer):
    return int(answer.split()[1]) if answer.startswith(b"HTTP/1.") else 0


def good(server, path, host="localhost"):
    token = f"Authorization: Bearer {server.token}\r\n" if server.token else ""
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{token}\r\n".encode()


SERVERS = {"web": (Web, PORT, "/api/status"), "metrics": (Metrics, METRICS_PORT, "/metrics")}


@pytest.fixture(params=SERVERS)
def server(request, network):
    kind, _, path = SERVERS[request.param]
    net = readable(network()).start()
    made = kind(net.gwa)
    made.path = path
    assert status(raw(made, good(made, path))) == 200
    return made


def test_who_is_let_in(server, rng):
    """Attacker: a page in the operator's browser, a name that now points here (DNS rebinding), or a program without the token.
    Foreign hosts, tokens that are nearly right, paths that climb, absolute and coded paths, methods that change something.

    No answer has status 200 or a byte of the daemon's; other ways to write an allowed host are answered.
    """
    strangers = (
        STRANGER, f"localhost.{STRANGER}", f"127.0.0.1.{STRANGER}", f"{STRANGER}:80", f"localhost@{STRANGER}", "192.0.2.1",
        "[2001:db8::1]", "", "0",
    )  # fmt: skip
    for host in strangers:
        answer = raw(server, good(server, server.path, host))
        assert status(answer) in (400, 421) and b"culvert_" not in answer, (host, answer[:300])
    for target in (f"http://{STRANGER}{server.path}", f"//{STRANGER}{server.path}", "*", STRANGER + ":80"):
        request = good(server, "@").replace(b"@", target.encode()).replace(b"Host: localhost", f"Host: {STRANGER}".encode())
        assert status(raw(server, request)) != 200, target
    paths = (
        "/../../etc/shadow", "/%2e%2e/%2e%2e/etc/shadow", "/..%2f..%2fetc/shadow", "/api/../../../etc/shadow", "/....//etc/shadow",
        "/\0", "/api/status\0.js", "/%00",
    )  # fmt: skip
    for path in paths:
        answer = raw(server, good(server, path))
        assert b"root:" not in answer and status(answer) != 200, (path, answer[:300])
    for method in (b"POST", b"PUT", b"DELETE", b"CONNECT", b"TRACE", b"PATCH", b"get", b"G\0T"):
        assert status(raw(server, good(server, server.path).replace(b"GET", method, 1))) not in (200, 204), method
    if server.token:
        wrong = ["", "x", server.token[:-1], server.token + "0", server.token.upper() + "x", "0" * 64, server.token[::-1]]
        wrong += ["".join(rng.choice("0123456789abcdef") for _ in range(64)) for _ in range(effort(50, 5000))]
        for token in wrong:
            request = good(server, server.path).replace(server.token.encode(), token.encode())
            answer = raw(server, request)
            assert status(answer) == 401 and server.token.encode() not in answer, (token, answer[:300])
        for place in (f"{server.path}?token={server.token}", f"{server.path}?access_token={server.token}"):
            assert status(raw(server, f"GET {place} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())) == 401


def test_requests_in_requests(server, rng):
    """Attacker: one behind a proxy, who hides a second request in the body or the heading of his own: two lengths, a length and
    chunks, chunks that are none, bare line ends, folded and blank headings; then changed requests at random.

    One connection gets one answer at most, and none of the hidden ones is carried out.
    """
    hidden = good(server, server.path)
    lines = [
        b"Content-Length: 0\r\nContent-Length: 900", b"Content-Length: 5\r\nTransfer-Encoding: chunked", b"Transfer-Encoding: chunked",
        b"Transfer-Encoding : chunked", b"Transfer-Encoding:\tchunked", b"Content-Length: +0", b"Content-Length: 0x10", b"Content-Length: -1",
        b"Content-Length: 99999999999999999999", b"X: a\n\nGET / HTTP/1.1", b"X: a\rY: b", b" folded: x", b"\tHost: localhost", b"Host : localhost",
        b"Expect: 100-continue", b"Connection: keep-alive", b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__", b"X" * 300, b": x", b"",
    ]  # fmt: skip
    for line in lines:
        request = good(server, "/nothing")[:-2] + line + b"\r\n\r\n"
        for body in (b"", b"0\r\n\r\n", b"5\r\nhello\r\n0\r\n\r\n"):
            answer = raw(server, request + body + hidden)
            assert answer.count(b"HTTP/1.") <= 1 and status(answer) != 200, (line, answer[:300])
    base = good(server, server.path)
    mutator = Mutator(rng)
    health = steady(server)
    for _ in range(effort(300, 20_000)):
        answer = raw(server, mutator.changed(base, [hidden], longest=20_000, most=3))
        assert answer.count(b"HTTP/1.") <= 1, answer[:500]
    assert status(raw(server, base)) == 200
    health()


def steady(server):
    """A check that the server has grown by little since now."""
    before = resident_bytes(server.process.pid)

    def check():
        assert server.process.alive(), server.process.output()[-3000:]
        wait_for("memory to come back", lambda: resident_bytes(server.process.pid) - before < 24 * MIB, timeout=20)

    return check


def test_who_holds_it_up(server):
    """Attacker: one who may connect. Hundreds of connections that say nothing, say a byte now and then, ask and do not read, or
    send headings without end.

    Who asks meanwhile is answered, if not at the first attempt, and the server keeps neither memory nor descriptors.
    """
    health = steady(server)
    held = []
    for number in range(effort(150, 3000)):
        with contextlib.suppress(OSError):
            link = server.connect()
            link.settimeout(0.2)
            held.append(link)
            if number % 3 == 1:
                link.sendall(b"GET / HTTP/1.1\r\nX: ")
            elif number % 3 == 2:
                link.sendall(good(server, server.path))
        # A file that this process may still open.
        if len(held) > 400:
            held.pop(0).close()
    begun, asked = time.monotonic(), 0
    while status(raw(server, good(server, server.path))) != 200:
        asked += 1
        for link in held[::3]:
            with contextlib.suppress(OSError):
                link.send(b"x")
        assert time.monotonic() - begun < 60, f"{asked} attempts, and no answer"
        time.sleep(0.2)
    for link in held:
        link.close()
    for head in (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 100_000, b"GET /" + b"a" * (4 * MIB), b"\r\n" * 200_000):
        assert status(raw(server, head)) in (0, 400, 414, 431)
    assert status(raw(server, good(server, server.path))) == 200
    health()


def test_the_daemon_is_not_held_up(network):
    """Attacker: as before, at the page that speaks to the daemon; the daemon's own sockets and memory stay as they were."""
    net = readable(network()).start()
    web = Web(net.gwa)
    health = Health(net.gwa.daemon)
    for _ in range(effort(100, 1000)):
        raw(web, good(web, "/api/sa"))
    health.check(16 * MIB)
