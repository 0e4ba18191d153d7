#!/usr/bin/python3
"""The suite's web server: /var/www on port 80, and its OCSP responders on 8880 to 8882.

The responders are the suite's own CGI programs (/etc/ca/ocsp/ocsp.cgi and those of its two other
authorities), started for each request as Apache would. `web start` puts it in the background,
`web stop` ends it.
"""

import http.server
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

ROOT = "/var/www"
PID = Path("/run/web.pid")
OCSP = {8880: "/etc/ca/ocsp", 8881: "/etc/ca/research/ocsp", 8882: "/etc/ca/sales/ocsp"}


class Server(http.server.ThreadingHTTPServer):
    """IPv4 and IPv6 at once."""

    address_family = socket.AF_INET6
    daemon_threads = True

    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def finish_request(self, request, client_address):
        # No name look-up: there is no name server.
        self.RequestHandlerClass(request, client_address, self)


class Files(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *args):
        super().__init__(*args, directory=ROOT)

    def address_string(self):
        return self.client_address[0]


class Responder(http.server.BaseHTTPRequestHandler):
    def address_string(self):
        return self.client_address[0]

    def do_POST(self):  # noqa: N802 - the base class's name
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        folder = OCSP[self.server.server_port]
        done = subprocess.run(
            [f"{folder}/ocsp.cgi"], input=body, capture_output=True, cwd=folder, check=False
        )
        head, _, answer = done.stdout.partition(b"\n\n")
        self.send_response(200 if answer else 500)
        kind = head.partition(b":")[2].strip().decode() or "text/plain"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


def serve():
    servers = [Server(("::", 80), Files)]
    servers += [Server(("::", port), Responder) for port, at in OCSP.items() if Path(at).exists()]
    if os.fork():
        os._exit(0)
    os.setsid()
    PID.write_text(str(os.getpid()))
    with open("/var/log/web.log", "a", encoding="utf-8") as log:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(log.fileno(), stream.fileno())
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    for server in servers[1:]:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    servers[0].serve_forever()


def stop():
    if PID.exists():
        try:
            os.kill(int(PID.read_text()), signal.SIGTERM)
        except ProcessLookupError:
            pass
        PID.unlink()


if __name__ == "__main__":
    {"start": serve, "stop": stop}[sys.argv[1]]()
