"""Flows of applications, and what a gateway takes them for."""

import socket
import ssl

import pytest

from . import topology as t
from .base import wait_for


def apps(gateway):
    return {app["name"]: app for app in gateway.daemon.json("app")["applications"]}


def verdict(gateway, port, what="a verdict"):
    """The verdict on the last flow to a port of the server."""
    found = []

    def look():
        told = gateway.daemon.json("app", "--recent", "200")["recent"]
        found[:] = [flow for flow in told if flow["server_port"] == port]
        return found

    wait_for(what, look)
    flow = found[0]
    assert (flow["client"], flow["server"]) == (t.CLIENT4, t.SERVER4), flow
    return flow["application"], flow["host"], flow["known_by"]


def nameless(net, port, tos=0):
    """A flow that says nothing, to a port of the server."""
    mouth = net.client.socket(socket.AF_INET, socket.SOCK_DGRAM)
    mouth.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
    for _ in range(5):
        mouth.sendto(b"\x01\x02\x03\x04", (t.SERVER4, port))
    return mouth


def client_hello(name):
    """The ClientHello of Python's TLS, as a record."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def send_stream(net, port, data, cuts=()):
    """Sends data over TCP, in segments that end at these places."""
    ear = net.server.socket(socket.AF_INET, socket.SOCK_STREAM)
    ear.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    ear.bind((t.SERVER4, port))
    ear.listen()
    mouth = net.client.socket(socket.AF_INET, socket.SOCK_STREAM)
    mouth.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    mouth.settimeout(5)
    mouth.connect((t.SERVER4, port))
    other, _ = ear.accept()
    other.settimeout(5)
    ends = [*cuts, len(data)]
    for start, end in zip([0, *ends], ends, strict=False):
        mouth.sendall(data[start:end])
        left = end - start
        while left > 0:
            left -= len(other.recv(left))
    return mouth, other
