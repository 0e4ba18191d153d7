"""Records what real programs send to servers on this machine, for scripts/apps-judge: a capture for each.

    scripts/apps_own_traffic.py FOLDER

It runs in a network namespace of its own, whose loopback interface is all that there is. Programs: curl (HTTP and TLS), curl as Chrome
sends, by TCP and as HTTP/3 (curl_cffi), QUIC of versions 1 and 2 (aioquic), OpenSSL for DNS over TLS, Chromium if it is installed,
by TCP and by QUIC.
"""

import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from aioquic.asyncio import connect, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.packet import QuicProtocolVersion
from curl_cffi import CurlHttpVersion
from curl_cffi import requests as chrome

#: Where all servers listen.
HERE = "127.0.0.1"
#: Names of the servers; they lead nowhere but here.
PLAIN, SECURE, THIRD, RESOLVER = "plain.example", "www.secure.example", "third.example", "dns.example"


@contextlib.contextmanager
def recorded(folder, name):
    """Packets of the loopback interface meanwhile, in a file of that name."""
    done = subprocess.Popen(
        ["tcpdump", "--immediate-mode", "-q", "-U", "-i", "lo", "-w", folder / f"{name}.pcap"], stderr=subprocess.PIPE, text=True
    )
    for line in done.stderr:
        if "listening" in line:
            break
    try:
        yield
    finally:
        time.sleep(0.5)
        done.terminate()
        done.wait(10)


@contextlib.contextmanager
def running(*argv):
    """A program for as long as it is needed."""
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def run(*argv, patience=60):
    """A program that may fail: what it has sent counts."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=patience)


async def quic(version, certificate):
    """A handshake in a version of QUIC, with a server that has the certificate."""
    server = QuicConfiguration(is_client=False, alpn_protocols=["h3"], supported_versions=[version])
    server.load_cert_chain(*certificate)
    listening = await serve(HERE, 4433, configuration=server)
    client = QuicConfiguration(alpn_protocols=["h3"], server_name=THIRD, verify_mode=0, supported_versions=[version])
    client.original_version = version
    try:
        async with asyncio.timeout(20), connect(HERE, 4433, configuration=client) as connection:
            await connection.ping()
    finally:
        listening.close()


def chromium(folder, certificate):
    """Pages by TCP and by QUIC."""
    with tempfile.TemporaryDirectory() as home:
        argv = [
            "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={home}", "--ignore-certificate-errors",
            "--disable-background-networking", "--disable-component-update", "--no-first-run",
            f"--host-resolver-rules=MAP * {HERE}", "--virtual-time-budget=2000", "--timeout=5000", "--dump-dom",
        ]  # fmt: skip
        with recorded(folder, "chromium-tls"), https(certificate):
            run(*argv, f"https://{SECURE}/", patience=40)
        with recorded(folder, "chromium-quic"), silent_server():
            run(*argv, f"--origin-to-force-quic-on={THIRD}:443", "--enable-quic", f"https://{THIRD}/", patience=40)


@contextlib.contextmanager
def silent_server():
    """A server of QUIC that answers nothing: the first packets are what counts, and they come again."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
        ear.bind((HERE, 443))
        yield


@contextlib.contextmanager
def https(certificate, port=443):
    chain, key = certificate
    with running("openssl", "s_server", "-accept", f"{HERE}:{port}", "-cert", chain, "-key", key, "-www"):
        time.sleep(1)
        yield


def record(folder):
    scratch = Path(tempfile.mkdtemp())
    certificate = scratch / "cert.pem", scratch / "key.pem"
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", f"/CN={SECURE}",
        "-keyout", certificate[1], "-out", certificate[0])  # fmt: skip
    with recorded(folder, "curl-http"), running("python3", "-m", "http.server", "80", "--bind", HERE):
        time.sleep(1)
        run("curl", "-s", "--connect-to", f"::{HERE}:80", f"http://{PLAIN}/")
    with recorded(folder, "curl-tls"), https(certificate):
        run("curl", "-sk", "--connect-to", f"::{HERE}:443", f"https://{SECURE}/")
    resolve = {"verify": False, "timeout": 5}
    for kind, version in (("tls", CurlHttpVersion.V1_1), ("http3", CurlHttpVersion.V3ONLY)):
        with recorded(folder, f"curl-as-chrome-{kind}"), https(certificate), silent_server():
            name = THIRD if kind == "http3" else SECURE
            with contextlib.suppress(Exception):
                chrome.get(f"https://{name}/", impersonate="chrome", http_version=version,
                           curl_options={10203: [f"{name}:443:{HERE}"]}, **resolve)  # fmt: skip
    for name, version in (("quic-v1", QuicProtocolVersion.VERSION_1), ("quic-v2", QuicProtocolVersion.VERSION_2)):
        with recorded(folder, f"aioquic-{name}"):
            asyncio.run(quic(version, certificate))
    with recorded(folder, "dns-over-tls"), https(certificate, 853):
        run("openssl", "s_client", "-connect", f"{HERE}:853", "-servername", RESOLVER, "-alpn", "dot")
    if shutil.which("chromium"):
        chromium(folder, certificate)
    shutil.rmtree(scratch)
    names = {"curl-http": PLAIN, "curl-tls": SECURE, "dns-over-tls": RESOLVER, "curl-as-chrome-tls": SECURE, "chromium-tls": SECURE}
    recordings = [path.stem for path in folder.glob("*.pcap")]
    (folder / "hosts.json").write_text(json.dumps({stem: names.get(stem, THIRD) for stem in recordings}))


def main():
    folder = Path(sys.argv[1])
    if os.environ.get("CULVERT_OWN_TRAFFIC") != "in":
        folder.mkdir(parents=True, exist_ok=True)
        inside = ["unshare", "--net", "env", "CULVERT_OWN_TRAFFIC=in", sys.executable, __file__, str(folder)]
        return subprocess.run(inside).returncode
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    record(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
