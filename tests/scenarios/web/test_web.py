"""`culvert web`, asked as a browser asks, and held against the other commands."""

import json
import socket
import stat
import time

from lab import topology as t
from lab.base import wait_for
from lab.planes import culvert_binary
from lab.traffic import assert_ping
from lab.web import PORT, READER, Web, ageless, assert_gives_up, readable

#: In every answer, whatever it is.
FIELDS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Connection": "close",
}


def test_answers_are_those_of_the_command_line(network):
    net = readable(network()).up()
    gwa = net.gwa
    assert_ping(net.client, t.SERVER4, count=20)
    web = Web(gwa)
    # Neighbour discovery may go on between two questions.
    for what in ("status", "sa", "policy", "port", "drops", "stats"):
        wait_for(
            f"the same {what}",
            lambda: ageless(web.json(what)) == ageless(gwa.daemon.json(what)),
            step=0.6,
        )
    [out] = [sa for sa in web.json("sa") if sa["src"] == t.WAN_A4]
    assert out["packets"] == 20 and "keys" not in out
    assert [sa["spi"] for sa in web.json(f"sa?spi={out['spi']}")] == [out["spi"]]
    why = gwa.daemon.json("why", "--from", t.CLIENT4, "--to", t.SERVER4, "--proto", "tcp", "--dport", "443", "--df")
    asked = f"why?from={t.CLIENT4}&to={t.SERVER4}&proto=tcp&sport=&dport=443&df=on"
    assert ageless(web.json(asked)) == ageless(why) and why["fate"] == "protected"

    def same_events():
        events = web.json("events")
        lines = gwa.daemon.culvert("events", "--once", "--json").stdout.splitlines()
        since = web.json(f"events?after={events['last']}&run={events['run']}")["events"]
        return events["events"] == [json.loads(line) for line in lines] != [] == since

    wait_for("the same events", same_events, step=0.6)
    reasons = {about["reason"]: about["meaning"] for about in web.json("about")["reasons"]}
    assert reasons.keys() == gwa.daemon.drops().keys() and all(reasons.values())


#: Says something at a Unix socket, where that is heard, and prints what comes.
ASKER = """
import socket, sys
asker = socket.socket(socket.AF_UNIX)
asker.connect(sys.argv[1])
try:
    asker.sendall(sys.argv[2].encode())
except BrokenPipeError:
    pass
print(asker.makefile().read())
"""


def test_its_process_may_next_to_nothing(network):
    """It is nobody's root, and an intruder in it may ask what the page asks."""
    net = readable(network()).up()
    web = Web(net.gwa)
    assert web.json("status")["sas"] == 2
    assert_gives_up(web.process, READER)
    assert not web.process.output().count("root")
    name = net.gwa.daemon.name

    def asks(user, request, path=f"/run/culvert-read/{name}.sock"):
        line = json.dumps(request) + "\n"
        command = ("setpriv", "--reuid", user, "--clear-groups", "/usr/bin/python3", "-c", ASKER, path, line)
        return net.gwa.host.run(*command, check=False)

    keys = {"request": "sa", "show_keys": True, "spi": None}
    assert len(json.loads(asks(READER, {**keys, "show_keys": False}).stdout)) == 2
    for request in (
        keys, {"request": "route"}, {"request": "device-reset", "device": "x"},
        {"request": "limit-set", "name": "x"}, {"request": "trace", "step": "begin"},
        {"request": "flows", "spi": None}, {"request": "nat", "most": 1, "all": True},
        {"request": "capture", "filter": {}, "snap_len": 64, "count": 1, "seconds": 1},
    ):  # fmt: skip
        told = json.loads(asks(READER, request).stdout)
        assert told.keys() <= {"not_allowed", "error"} and len(told) == 1, (request, told)
    assert asks(READER, keys).stdout == '{"not_allowed":"only root may ask this"}\n'
    # It is not waited for what they say: who says it late hears of a reset.
    wait_for("a refusal", lambda: "may ask (security.reader)" in asks("daemon", {"request": "status"}).stdout)
    # Nor by the socket of root's.
    done = asks(READER, keys, f"/run/culvert/{name}/control.sock")
    assert done.returncode and "PermissionError" in done.stderr, done
    assert len(json.loads(asks("root", keys, f"/run/culvert/{name}/control.sock").stdout)[0]["keys"]) > 0
    # A user who is not there is said, and the page is served all the same; so is one whose daemon has no such socket.
    web.process.stop()
    again = Web(net.gwa, "--user", "no-such-user")
    assert "there is no user no-such-user" in again.process.output() and again.json("status")["sas"] == 2
    again.process.stop()
    net.gwa.daemon.stop()
    net.gwa.daemon.settings = '[security]\nreader = ""\n'
    net.gwa.daemon.write_config()
    net.gwa.daemon.start()
    assert Web(net.gwa, "--user", "root").json("status")["sas"] == 2


def test_what_is_wrong_is_said(network):
    net = readable(network()).up()
    web = Web(net.gwa, "--max-sas", "1")

    def fault(path, **how):
        status, _, body = web.get(path, **how)
        return status, json.loads(body)["error"]

    status, error = fault("/api/why?from=lan&to=10.2.0.9")
    assert status == 400 and error == "from=lan: invalid IP address syntax", error
    # The parameter is named for a form that marks it.
    for path, field in (
        ("why?from=lan&to=10.2.0.9", "from"), (f"why?from={t.CLIENT4}&to={t.SERVER4}&dport=53", "proto"),
        (f"why?from={t.CLIENT4}&to={t.SERVER4}&len=20", "len"), (f"why?from={t.CLIENT4}&to={t.SERVER4}&in=nope", "in"),
    ):  # fmt: skip
        assert json.loads(web.get(f"/api/{path}")[2])["field"] == field, path
    status, error = fault(f"/api/why?from={t.CLIENT4}&to={t.SERVER6}")
    assert status == 422 and "different families" in error, error
    status, error = fault("/api/sa")
    assert status == 422 and "2 SAs are more than 1" in error, error
    # Keys cannot be asked for, and captures only where they are offered.
    assert fault("/api/sa?show-keys=on")[0] == 400
    status, error = fault("/api/capture")
    assert status == 403 and "culvert web --capture" in error, error
    assert web.json("about")["capture"] is None
    # Nor there, while the daemon's configuration does not allow it.
    web.process.stop()
    web = Web(net.gwa, "--capture", "--max-sas", "1")
    status, error = fault("/api/capture?duration=1")
    assert status == 403 and "security.reader_captures" in error, error
    assert fault("/api/other")[0] == fault("/other")[0] == fault("/../etc/passwd")[0] == 404
    # The daemon goes and comes.
    net.gwa.daemon.stop()
    wait_for("a fault", lambda: web.get("/api/port")[0] == 503)
    assert "no daemon answers" in fault("/api/port")[1]
    net.gwa.daemon.start()
    assert web.json("status")["sas"] == 2


def test_only_who_has_the_token_and_comes_by_a_known_name(network):
    web = Web(readable(network()).start().gwa, "--host", "gw.example")
    for path in ("/", "/style.css", "/page.js"):
        status, headers, body = web.get(path, token="")
        assert status == 200 and body and {key: headers[key] for key in FIELDS} == FIELDS, (path, headers)
    wrong = ("", "x", web.token[:-1], web.token + "0", "0" * 64)
    for what in ("status", "sa", "capture", "about", "other"):
        for token in wrong:
            status, headers, body = web.get(f"/api/{what}", token=token)
            assert status == 401 and headers["WWW-Authenticate"] == "Bearer", (what, token, body)
            assert {key: headers[key] for key in FIELDS} == FIELDS
    # Not as a part of the URL, which is written down in many places.
    assert web.get(f"/api/status?token={web.token}", token="")[0] == 401
    for host in ("localhost:9634", "127.0.0.1:1", "[::1]:9634", "gw.example"):
        assert web.get("/api/status", host=host)[0] == 200, host
    for host in ("evil.example", f"evil.example:{PORT}", "192.0.2.1", f"localhost.evil.example:{PORT}"):
        for path in ("/", "/api/status"):
            assert web.get(path, host=host)[0] == 421, host


def test_it_is_only_read_and_nobody_holds_it_up(network):
    web = Web(readable(network()).start().gwa)
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        status, headers, _ = web.get("/api/status", method=method, body=b"x" if method != "OPTIONS" else None)
        assert status == 405 and headers["Allow"] == "GET, HEAD", method
    status, headers, body = web.get("/api/status", method="HEAD")
    assert status == 200 and int(headers["Content-Length"]) > 0 and body == b""
    assert web.get("/api/status", body=b"x" * 1000)[0] == 413
    assert web.get("/" + "x" * 9000)[0] == 431
    assert web.get("/", headers={"X": "y" * 9000})[0] == 431

    def raw(data):
        with web.connect() as connection:
            connection.sendall(data)
            return connection.makefile("rb").readline()

    assert raw(b"GET / HTTP/1.1\r\n\r\n").split()[1] == b"400"
    assert raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n").split()[1] == b"400"
    assert raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n").split()[1] == b"400"
    # Clients that say nothing, or little: others are answered meanwhile, and they are told off.
    silent = [web.connect() for _ in range(60)]
    drips = silent[0]
    start = time.monotonic()
    drips.sendall(b"GET / HTTP/1.1\r\n")
    assert web.get("/api/status")[0] == 200 and time.monotonic() - start < 5
    # More of them than it serves at a time: the oldest that has not asked makes room, and others are answered still.
    more = []
    for _ in range(200):
        more.append(web.connect())
        if len(more) % 20 == 0:
            assert web.get("/api/status")[0] == 200, f"{len(more)} more"
    silent[1].settimeout(5)
    assert silent[1].recv(1) == b""
    drips = web.connect()
    drips.sendall(b"GET / HTTP/1.1\r\n")
    start = time.monotonic()
    while time.monotonic() - start < 20:
        try:
            drips.sendall(b"X: y\r\n")
        except OSError:
            break
        time.sleep(0.5)
    assert time.monotonic() - start < 10, "a slow request has five seconds, however often it says something"
    for connection in silent + more:
        connection.close()
    wait_for("a free place", lambda: web.get("/api/status")[0] == 200)


def test_packets_are_downloaded_and_bounded(network):
    net = readable(network(), captures=True).up()
    web = Web(net.gwa, "--capture")
    assert web.json("about")["capture"] == {"seconds": 60, "packets": 100000}
    for wrong in ("duration=61", "count=100001", "duration=0", "tap=none", "host=lan"):
        assert web.get(f"/api/capture?{wrong}")[0] == 400, wrong
    stream = net.client.spawn("ping", "-i", "0.2", t.SERVER4)
    begun = time.monotonic()
    status, headers, body = web.get(f"/api/capture?duration=20&count=6&host={t.SERVER4}&tap=plain")
    assert status == 200 and headers["Content-Type"] == "application/x-pcapng", headers
    assert headers["Content-Disposition"] == 'attachment; filename="culvert.pcapng"'
    assert body[:4] == b"\n\r\r\n" and body.count(b"\x06\x00\x00\x00") >= 6 and time.monotonic() - begun < 15
    # One at a time; the end comes by time too, and then the next is free to begin.
    with web.connect() as first:
        first.sendall(
            f"GET /api/capture?duration=2 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {web.token}\r\n\r\n".encode()
        )
        assert b"200" in first.makefile("rb").readline()
        status, _, body = web.get("/api/capture?duration=1")
        assert status == 429 and b"one at a time" in body
        first.shutdown(socket.SHUT_WR)
        while first.recv(65536):
            pass
    wait_for("the next one", lambda: web.get("/api/capture?duration=1&count=1")[0] == 200)
    stream.stop()


def test_where_it_listens(network):
    gwa = readable(network()).start().gwa
    done = gwa.daemon.culvert("web", "--listen", f"0.0.0.0:{PORT}", check=False)
    assert done.returncode == 1 and "--expose" in done.stderr and "ssh -L" in done.stderr, done
    # A Unix socket of root's alone, with a token that a file keeps.
    path, token = gwa.host.lab.tmp / "web.sock", gwa.host.lab.tmp / "token"
    web = Web(gwa, "--listen", path, "--token-file", token)
    secret = token.read_text().strip()
    assert stat.S_IMODE(token.stat().st_mode) == stat.S_IMODE(path.stat().st_mode) == 0o600
    assert secret not in web.process.output() and len(secret) == 64
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        request = f"GET /api/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {secret}\r\n\r\n"
        connection.sendall(request.encode())
        head, _, body = connection.makefile("rb").read().partition(b"\r\n\r\n")
    assert b" 200 " in head and json.loads(body)["name"] == gwa.daemon.name
    web.process.stop()
    # What a dead one has left is taken over, and the token is the same.
    again = Web(gwa, "--listen", path, "--token-file", token)
    assert token.read_text().strip() == secret
    token.chmod(0o644)
    name = gwa.daemon.name
    done = gwa.host.run(culvert_binary(), "--name", name, "web", "--token-file", token, check=False)
    assert done.returncode == 1 and "chmod 600" in done.stderr, done
    again.process.stop()
