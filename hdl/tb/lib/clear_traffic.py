"""Random IP packets of a site, good ones and others."""

import ip
from site_plan import BYPASS_PORT, DISCARD_PORT, NOBODY, NO_SA_PORT, UDP, network

TCP, ICMP, ICMP6, SCTP, EXPERIMENT = 6, 1, 58, 132, 253  # 253: RFC 3692
SIZES = (0, 1, 8, 40, 40, 100, 100, 600, 1472)  # payloads up to these


class Clear:
    """Makes packets; `inbound` ones come from the flows' networks, others go there."""

    def __init__(self, rng, inbound):
        self.rng, self.inbound = rng, inbound

    def packet(self, v6, flow, payload=None, port=None, proto=None, **more):
        """A whole packet of a flow; `port` is the one that policies look at."""
        rng = self.rng
        if payload is None:
            payload = rng.randbytes(rng.randint(0, rng.choice(SIZES)))
        if proto is None:
            proto = rng.choice([UDP, UDP, TCP, ICMP6 if v6 else ICMP, SCTP, EXPERIMENT, EXPERIMENT])
        if port is not None:
            ports = [rng.randrange(1024, 65536), port]
            if self.inbound:
                ports.reverse()
            proto, payload = UDP, b"".join(p.to_bytes(2, "big") for p in ports) + payload
        if proto in ip.PORTS | ip.ICMP and len(payload) < 4:
            payload = payload.ljust(4, b"\x55")
        far, near = network(flow, v6) + rng.randrange(1, 256), rng.getrandbits(128 if v6 else 32)
        ends = {"src": far, "dst": near} if self.inbound else {"src": near, "dst": far}
        build = ip.ipv6 if v6 else ip.ipv4
        if not v6:
            more = {"df": bool(rng.randrange(2)), "ttl": rng.randrange(256)} | more
        return build(payload, proto=proto, **{"tos": rng.getrandbits(8)} | ends | more)

    def dressed(self, v6, flow):
        """A packet with IPv4 options or IPv6 extension headers, or a fragment."""
        rng = self.rng
        if rng.randrange(2):
            offset, more = rng.choice([(0, True), (100, True), (200, False)])
            if v6:
                return self.packet(v6, flow, extensions=[(44, ip.fragment_header(offset, more))])
            return self.packet(v6, flow, df=False, offset=offset, more=more)
        if v6:
            kinds = rng.choice([(0,), (43,), (60,), (0, 60), (51,)])
            bodies = {51: b"\x04" + bytes(22)}  # AH with an ICV of 12 bytes
            return self.packet(v6, flow, extensions=[
                (kind, bodies.get(kind) or ip.options_header(rng.randrange(3))) for kind in kinds])
        return self.packet(v6, flow, options=bytes([1]) * 4 * rng.randint(1, 10))

    def by_port(self, v6, flow):
        """A packet whose port has a policy, or one that no policy knows."""
        kind = self.rng.choice([BYPASS_PORT, BYPASS_PORT, DISCARD_PORT, NO_SA_PORT, None])
        return self.packet(v6, NOBODY if kind is None else flow, port=kind)

    def broken(self, packet):
        """A packet with something wrong with it."""
        rng = self.rng
        kind = rng.randrange(5)
        if kind == 0:  # one bit of the headers
            place = rng.randrange(min(len(packet), 40))
            return packet[:place] + bytes([packet[place] ^ 1 << rng.randrange(8)]) + packet[place + 1:]
        if kind == 1:
            return packet[: rng.randint(1, len(packet))]
        if kind == 2:
            return packet + rng.randbytes(rng.randint(1, 40))
        if kind == 3:  # a runt
            return bytes([rng.choice([0x45, 0x60, rng.randrange(256)])]) + rng.randbytes(rng.randrange(40))
        return rng.randbytes(rng.randint(1, 300))
