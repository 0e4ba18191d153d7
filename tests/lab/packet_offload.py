"""SAs and policies with `offload packet dev`, for which `ip` has words from iproute2 6.2 on only.

In a test: `Offload(gateway)`. As a program, which is started under `culvert exec`: reads requests as JSON and answers
with what the databases said to each, an errno and a line of text.
"""

import json
import socket
import struct
import sys
from ipaddress import ip_address, ip_network
from pathlib import Path

_NETLINK_XFRM, _SOL_NETLINK, _EXT_ACK = 6, 270, 11
_NEWSA, _GETSA, _NEWPOLICY, _GETPOLICY = 0x10, 0x12, 0x13, 0x15
_ALG_AEAD, _TMPL, _REPLAY_ESN, _OFFLOAD_DEV, _IF_ID = 18, 5, 23, 28, 31
_REQUEST, _ACK, _DUMP = 0x1, 0x4, 0x300
_INBOUND, _PACKET = 2, 4
_DIRECTIONS = {"in": 0, "out": 1, "fwd": 2}
_MODES = {"transport": 0, "tunnel": 1}
_NEVER = (1 << 64) - 1
_ESN = 128


class Offload:
    """What a gateway's databases are asked for."""

    def __init__(self, gateway):
        self.gateway = gateway

    def _ask(self, **request):
        done = self.gateway.daemon.exec("/usr/bin/python3", str(Path(__file__).resolve()), json.dumps(request))
        return json.loads(done.stdout)

    def state(self, spi, src, dst, direction, dev="wan", **more):
        """Adds an SA; errno and text of the answer, 0 if it was added. `more`: mode, reqid, window, key (bytes),
        packets (soft and hard), esn, tfc, if_id, kind ("crypto" for crypto offload)."""
        return tuple(self._ask(what="state", spi=spi, src=src, dst=dst, direction=direction, dev=dev, **more))

    def policy(self, src, dst, direction, ends, dev="wan", **more):
        """Adds a policy; `more`: mode, reqid, priority, block, update."""
        return tuple(self._ask(what="policy", src=src, dst=dst, direction=direction, ends=ends, dev=dev, **more))

    def shown(self):
        """The device's index and the flags of each SA, and of each policy, that has any."""
        return self._ask(what="shown")


def _address(text):
    return ip_address(text).packed.ljust(16, b"\0")


def _attribute(kind, value):
    return struct.pack("=HH", 4 + len(value), kind) + value.ljust(-(-len(value) // 4) * 4, b"\0")


def _selector(src, dst):
    src, dst = ip_network(src), ip_network(dst)
    ends = _address(dst.network_address) + _address(src.network_address)
    return ends + bytes(8) + struct.pack("=HBBB3xiI", socket.AF_INET, dst.prefixlen, src.prefixlen, 0, 0, 0)


def _offload(r, flags):
    kind = 0 if r.get("kind") == "crypto" else _PACKET
    try:
        index = socket.if_nametoindex(r["dev"])
    except OSError:
        # One that no interface has.
        index = 9999
    return _attribute(_OFFLOAD_DEV, struct.pack("=iB3x", index, flags | kind))


def _limits(soft, hard):
    return struct.pack("=8Q", _NEVER, _NEVER, soft or _NEVER, hard or _NEVER, 0, 0, 0, 0)


def _state(r):
    esn, window = r.get("esn", False), r.get("window", 32)
    long = esn or window > 255
    soft, hard = r.get("packets", (0, 0))
    body = bytes(40) + struct.pack("=HBBB3xiI", socket.AF_INET, 0, 0, 0, 0, 0)
    body += _address(r["dst"]) + struct.pack("!I", r["spi"]) + struct.pack("=B3x", socket.IPPROTO_ESP)
    body += _address(r["src"]) + _limits(soft, hard) + bytes(32) + bytes(12)
    body += struct.pack("=IIHBBB", 0, r.get("reqid", 1), socket.AF_INET, _MODES[r.get("mode", "tunnel")],
                        0 if long else window, _ESN if esn else 0)  # fmt: skip
    body = body.ljust(224, b"\0")
    key = r["spi"].to_bytes(r.get("key", 20), "big")
    name = b"rfc4106(gcm(aes))".ljust(64, b"\0")
    body += _attribute(_ALG_AEAD, name + struct.pack("=II", 8 * len(key), 128) + key)
    if long:
        words = -(-window // 32)
        body += _attribute(_REPLAY_ESN, struct.pack("=6I", words, 0, 0, 0, 0, window) + bytes(4 * words))
    if r.get("if_id"):
        body += _attribute(_IF_ID, struct.pack("=I", r["if_id"]))
    if r.get("tfc"):
        body += _attribute(22, struct.pack("=I", r["tfc"]))
    return _NEWSA, body + _offload(r, _INBOUND if r["direction"] == "in" else 0)


def _policy(r):
    body = _selector(r["src"], r["dst"]) + _limits(0, 0) + bytes(32)
    body += struct.pack("=IIBBBB", r.get("priority", 100), 0, _DIRECTIONS[r["direction"]], int(r.get("block", False)), 0, 0)
    body = body.ljust(168, b"\0")
    if not r.get("block"):
        src, dst = r["ends"]
        template = _address(dst) + bytes(4) + struct.pack("=B3x", socket.IPPROTO_ESP)
        template += struct.pack("=H2x", socket.AF_INET) + _address(src)
        template += struct.pack("=IBBBxIII", r.get("reqid", 1), _MODES[r.get("mode", "tunnel")], 0, 0, *[0xFFFFFFFF] * 3)
        body += _attribute(_TMPL, template)
    return _NEWPOLICY if not r.get("update") else 0x19, body + _offload(r, 0)


def _answer(link):
    """Errno and text of an acknowledgement."""
    data = link.recv(1 << 16)
    length, _, flags, _, _ = struct.unpack_from("=IHHII", data)
    (error,) = struct.unpack_from("=i", data, 16)
    at = 20 + 16
    if not flags & 0x100:
        # The request stands there as a whole, unless it is capped.
        at = 20 + struct.unpack_from("=I", data, 20)[0]
    text = ""
    while at + 4 <= length:
        size, kind = struct.unpack_from("=HH", data, at)
        if kind == 1:
            text = data[at + 4 : at + size].rstrip(b"\0").decode()
        at += max(4, -(-size // 4) * 4)
    return -error, text


def _shown(link):
    found = {}
    for kind, fixed, name in ((_GETSA, 224, "sas"), (_GETPOLICY, 168, "policies")):
        link.send(struct.pack("=IHHII", 16, kind, _REQUEST | _DUMP, 2, 0))
        found[name], done = [], False
        while not done:
            data, at = link.recv(1 << 16), 0
            while at + 16 <= len(data):
                length, of = struct.unpack_from("=IH", data, at)
                done |= of == 3
                inner = at + 16 + fixed
                while of != 3 and inner + 4 <= at + length:
                    size, attribute = struct.unpack_from("=HH", data, inner)
                    if attribute == _OFFLOAD_DEV:
                        found[name].append(struct.unpack_from("=iB", data, inner + 4))
                    inner += max(4, -(-size // 4) * 4)
                at += -(-length // 4) * 4
    return found


def main():
    request = json.loads(sys.argv[1])
    link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_XFRM)
    link.setsockopt(_SOL_NETLINK, _EXT_ACK, 1)
    link.bind((0, 0))
    if request["what"] == "shown":
        return print(json.dumps(_shown(link)))
    kind, body = {"state": _state, "policy": _policy}[request["what"]](request)
    link.send(struct.pack("=IHHII", 16 + len(body), kind, _REQUEST | _ACK, 1, 0) + body)
    print(json.dumps(_answer(link)))


if __name__ == "__main__":
    main()
