"""What the inbound half of a gateway makes of packets, one after the other (RFC 4301, section 5.2).

Outer headers, ESP and acceptance are read here, decrypted with the `cryptography` package; trailer
and inner packet by `uncover_model`, its headers by `ip.parse`; policies are found by `Spd.look`.
"""

import hmac
import struct

import ip
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from lifetime import Lifetime
from model import CLEAR, Model
from open_model import DROPS, ESP, GCM, NONE, OpenSa, checksum
from records import BYPASS, MAX_BYTES, PROTECT, SA, Drop, unpack
from sad_model import Sad, Window
from uncover_model import uncover

REASON = {name: Drop(number) for number, name in enumerate(DROPS)}


class Flow:
    """An SA with its window and volumes."""

    def __init__(self, sa: OpenSa, top, events, limits):
        self.sa, self.window = sa, Window(sa.esn, top)
        self.lifetime = Lifetime(sa.index, events, limits)

    def state(self):
        return {"top": self.window.top, "seen": self.window.seen()} | self.lifetime.state()


def outer(packet):
    """Bytes of the IP header and whether ESP is directly behind it, or why the packet is dropped."""
    version = packet[0] >> 4
    if version == 4:
        size = (packet[0] & 15) * 4
        if size < 20 or len(packet) < size or checksum(packet[:size]):
            return Drop.HEADER
        total, proto = int.from_bytes(packet[2:4], "big"), packet[9]
        fragment = int.from_bytes(packet[6:8], "big") & 0x3FFF
        if total < size or proto == ESP and size > 40:
            return Drop.HEADER
    elif version == 6 and len(packet) >= 40:
        size, total, proto = 40, 40 + int.from_bytes(packet[4:6], "big"), packet[6]
        fragment = proto == 44 and packet[40:41] == bytes([ESP])
        proto = ESP if fragment else proto
    else:
        return Drop.HEADER
    if len(packet) > MAX_BYTES or total != len(packet):
        return Drop.TOO_LONG
    if proto == ESP and fragment:
        return Drop.FRAGMENT
    return size, proto == ESP


def decrypt(sa, number, data):
    """The text of an ESP packet, or None if the ICV is wrong; `data` is what follows its header."""
    if sa.cipher == GCM:
        aad = struct.pack(">IQ" if sa.esn else ">II", sa.spi, number if sa.esn else number & 0xFFFFFFFF)
        try:
            return AESGCM(sa.key).decrypt(sa.salt + data[:8], data[8:], aad)
        except InvalidTag:
            return None
    text, icv = data[:-sa.icv_bytes], data[-sa.icv_bytes:]
    if not hmac.compare_digest(sa.icv(number, text), icv):
        return None
    decryptor = sa.block_cipher(text[:sa.iv_bytes]).decryptor()
    return decryptor.update(text[sa.iv_bytes:])


class Inbound(Model):
    """What comes from the unprotected side."""

    def __init__(self, modules):
        super().__init__(modules)
        self.sad = Sad()

    def add(self, sa, top=0, limits=None):
        """A new SA; returns the writes of its record and bucket."""
        self.flows[sa.index] = Flow(sa, top, self.events, limits)
        record = unpack(SA, sa.packed()) | {"limits": limits or {}}
        return self.sad.insert(sa.index, record)

    def _judge(self, packet):
        read = outer(packet)
        if isinstance(read, Drop):
            return read
        size, is_esp = read
        if not is_esp:
            return self._policy(packet, None)
        if len(packet) < size + 8:
            return Drop.SHORT
        spi, low = struct.unpack(">II", packet[size : size + 8])
        address = packet[24:40] if packet[0] >> 4 == 6 else packet[16:20]
        index = self.sad.find(int(packet[0] >> 4 == 6), spi,
                              int.from_bytes(address.ljust(16, b"\0"), "big"))
        if index is None:
            return Drop.NO_SA
        return self._open(self.flows[index], low, packet[:size], packet[size + 8:])

    def _open(self, flow, low, net, data):
        sa = flow.sa
        number = flow.window.number(low)
        reason = flow.lifetime.refusal() or flow.window.check(number)
        if reason == Drop.HARD_LIMIT and not self.ordered:
            # With several modules another packet may find the door shut.
            text = decrypt(sa, number, data)
            self.expected.add(uncover(text, sa.tunnel, net), sa.index, sure=False)
        if reason != Drop.NONE:
            return reason
        if sa.cipher != GCM and sa.auth == NONE:
            return Drop.UNSUPPORTED
        text_bytes = len(data) - sa.iv_bytes - sa.icv_bytes
        if text_bytes <= 0 or text_bytes % sa.block:
            return Drop.SHORT
        text = decrypt(sa, number, data)
        if text is None:
            return Drop.INTEGRITY
        flow.window.accept(number)
        flow.lifetime.carry(packets=1)
        inner = uncover(text, sa.tunnel, net)
        if isinstance(inner, str):
            return REASON[inner]
        flow.lifetime.carry(bytes_=len(text) - 2 - text[-2])
        return self._policy(inner, sa)

    def _policy(self, packet, sa):
        """What came by `sa`, or in clear (None), against the policy."""
        _, tail, _, select, _, _ = ip.parse(packet)
        if tail != Drop.NONE:
            return tail
        policy = self.spd.look(select)
        if policy is None:
            return Drop.NO_POLICY
        if policy["action"] not in (BYPASS, PROTECT):
            return Drop.POLICY
        fits = sa is None if policy["action"] == BYPASS else \
            sa is not None and policy["sa"] == sa.reqid
        if not fits:
            return Drop.MISMATCH
        self.expected.add(packet, CLEAR if sa is None else sa.index)
        return Drop.NONE

    def take(self, packet):
        """A packet came out: returns its flow's index, or CLEAR."""
        self.left(packet)
        return self.expected.take(packet)

    def check_state(self, index, got):
        """The SA's state at the end is the model's."""
        flow = self.flows[index]
        want = flow.state()
        if not self.ordered and flow.lifetime.refusal() != Drop.NONE:
            # Which packets were the last ones that the limit let through is open.
            assert got["seen"].bit_count() == want["seen"].bit_count()
            want |= {name: got[name] for name in ("top", "seen")}
        assert got == want, f"state of SA {index}: {got}, not {want}"
