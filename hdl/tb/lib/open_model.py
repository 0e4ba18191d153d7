"""ESP in Python for the inbound benches: SAs, packets as their peer would send them, and the packed
structs of `gateway_pkg` that the inbound sections exchange.

Packets are built with the `cryptography` package; checksums and headers by hand.
"""

import hashlib
import hmac as hmac_
import random
import struct
from dataclasses import dataclass, field

import gcm
import sha
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

try:
    from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
except ImportError:
    from cryptography.hazmat.primitives.ciphers.algorithms import TripleDES


class Struct:
    """A packed struct: names and widths, highest bits first."""

    def __init__(self, **fields):
        self.fields = fields
        self.bits = sum(fields.values())

    def pack(self, **values):
        total = 0
        for name, width in self.fields.items():
            value = int(values.pop(name, 0))
            assert 0 <= value < 1 << width, f"{name} = {value:#x} does not fit"
            total = total << width | value
        assert not values, f"no such fields: {list(values)}"
        return total

    def unpack(self, value):
        out, shift = {}, self.bits
        for name, width in self.fields.items():
            shift -= width
            out[name] = value >> shift & (1 << width) - 1
        return out


IP_INFO = Struct(v6=1, bytes=14, hdr_bytes=6, tos=8, df=1, proto=8)
SA = Struct(valid=1, tunnel=1, v6=1, esn=1, cipher=3, key_len=2, auth=2, spi=32, src=128, dst=128,
            hop_limit=8, copy_df=1, key=256, salt=32, auth_keys=512, reqid=10, limits=192, more=1, next=10)
SAD_REQ = Struct(op=2, sa=10, v6=1, spi=32, dst=128, high=32, seq=32, bytes=14, payload=14)
SAD_RSP = Struct(drop=5, sa=10, number=64, iv=64, data=SA.bits)
OPEN = Struct(low=1, cipher=3, auth=2, key_len=2, key=256, salt=32, auth_keys=512, sa=10, reqid=10,
              tunnel=1, spi=32, number=64, esn=1, iv=64, bytes=14, net=320, ip=IP_INFO.bits)
CLEAR = Struct(low=1, clear=1, skip=5, sa=10, spi=32, reqid=10, tunnel=1, net=320, ip=IP_INFO.bits)

SEND, FIND, ACCEPT, COUNT = range(4)

DROPS = ("None Header TooLong NoPolicy Policy Mismatch NoSa HardLimit Numbers ReplayLate Replay "
         "Integrity Padding Inner Fragment Short Unsupported").split()
DROP = {name: number for number, name in enumerate(DROPS)}

AES_CBC, GCM, DES, TDES, DES_ECB = range(5)
NONE, SHA1, SHA256 = range(3)
ESP, NO_NEXT = 50, 59


@dataclass
class OpenSa:
    """One inbound SA, with what its sender needs to know."""

    index: int = 5
    spi: int = 0x12345678
    cipher: int = AES_CBC
    auth: int = SHA1
    tunnel: bool = True
    v6: bool = False
    esn: bool = False
    key_bytes: int = 16
    src: bytes = b""
    dst: bytes = b""
    seed: int = 0
    key: bytes = field(init=False)
    auth_key: bytes = field(init=False)
    salt: bytes = field(init=False)

    def __post_init__(self):
        rng = random.Random(f"{self.seed} {self.index} {self.spi}")
        size = {AES_CBC: self.key_bytes, GCM: self.key_bytes, TDES: 24}.get(self.cipher, 8)
        self.key = rng.randbytes(size)
        self.auth_key = rng.randbytes(32 if self.auth == SHA256 else 20)
        self.salt = rng.randbytes(4)
        self.src = self.src or rng.randbytes(16 if self.v6 else 4)
        self.dst = self.dst or rng.randbytes(16 if self.v6 else 4)

    @property
    def reqid(self):
        """Not the index, so that one is not taken for the other."""
        return ~self.index & 0x3FF

    @property
    def block(self):
        return {AES_CBC: 16, GCM: 4}.get(self.cipher, 8)

    @property
    def iv_bytes(self):
        return {AES_CBC: 16}.get(self.cipher, 8)

    @property
    def icv_bytes(self):
        return 16 if self.cipher == GCM else {NONE: 0, SHA1: 12, SHA256: 16}[self.auth]

    @property
    def icv_name(self):
        return {SHA1: "sha1", SHA256: "sha256"}[self.auth]

    def auth_keys(self):
        """The HMAC's two pad states, or the powers of GCM's hash key."""
        if self.cipher == GCM:
            return gcm.pack_powers(gcm.hash_key(self.key))
        if self.auth == NONE:
            return 0
        width = 256 if self.auth == SHA256 else 160
        inner, outer = (sha.to_int(s) for s in sha.pad_states(self.icv_name, self.auth_key))
        return (inner << 256 - width) << 256 | outer << 256 - width

    def packed(self):
        """The packed `sa_t`."""
        address = lambda a: int.from_bytes(a.ljust(16, b"\0"), "big")
        return SA.pack(
            valid=1, tunnel=self.tunnel, v6=self.v6, esn=self.esn, cipher=self.cipher,
            key_len=gcm.LENGTHS.get(len(self.key), 0), auth=self.auth, spi=self.spi,
            src=address(self.src), dst=address(self.dst), hop_limit=64,
            key=int.from_bytes(self.key.ljust(32, b"\0"), "big"),
            salt=int.from_bytes(self.salt, "big"), auth_keys=self.auth_keys(), reqid=self.reqid)

    def block_cipher(self, iv):
        if self.cipher == AES_CBC:
            return Cipher(algorithms.AES(self.key), modes.CBC(iv))
        key = self.key if self.cipher == TDES else self.key * 3
        return Cipher(TripleDES(key), modes.ECB() if self.cipher == DES_ECB else modes.CBC(iv))

    def encrypt(self, number, text, iv):
        """What follows the ESP header on the wire: IV, ciphertext, and GCM's ICV."""
        if self.cipher == GCM:
            aad = struct.pack(">IQ" if self.esn else ">II", self.spi,
                              number if self.esn else number & 0xFFFFFFFF)
            return iv + AESGCM(self.key).encrypt(self.salt + iv, text, aad)
        encryptor = self.block_cipher(iv).encryptor()
        return iv + encryptor.update(text)

    def icv(self, number, data):
        """HMAC over ESP header, data and, with ESN, the upper half of the number."""
        message = struct.pack(">II", self.spi, number & 0xFFFFFFFF) + data
        if self.esn:
            message += struct.pack(">I", number >> 32)
        return hmac_.new(self.auth_key, message, self.icv_name).digest()[:self.icv_bytes]

    def seal(self, number, text, iv):
        """What follows the ESP header on the wire, whole; `text` is payload, padding, trailer."""
        data = self.encrypt(number, text, iv)
        return data if self.auth == NONE else data + self.icv(number, data)

    def text(self, payload, next_header, extra_pad=0):
        """Payload with padding and trailer; `extra_pad` blocks more than alignment asks for."""
        pad = -(len(payload) + 2) % self.block + extra_pad * self.block
        assert pad < 256
        return payload + bytes(range(1, pad + 1)) + bytes([pad, next_header])


def checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def ip_header(v6, src, dst, proto, payload_bytes, tos=0, df=True, options=b"", ttl=64, ident=0,
              fragment=0, length=None):
    """An IP header; `length` puts a wrong length into it."""
    if v6:
        size = payload_bytes if length is None else length
        return struct.pack(">IHBB", 6 << 28 | tos << 20 | 0x12345, size, proto, ttl) + src + dst
    assert len(options) % 4 == 0
    size = 20 + len(options) + payload_bytes if length is None else length
    head = struct.pack(">BBHHHBBH4s4s", 0x45 + len(options) // 4, tos, size, ident,
                       int(df) << 14 | fragment, ttl, proto, 0, src, dst) + options
    return head[:10] + struct.pack(">H", checksum(head)) + head[12:]


def ip_packet(rng, v6, payload_bytes, proto=17, **more):
    """A random IP packet."""
    size = 16 if v6 else 4
    return ip_header(v6, rng.randbytes(size), rng.randbytes(size), proto, payload_bytes,
                     **more) + rng.randbytes(payload_bytes)


def ip_info(header, total_bytes):
    """`ip_info_t` of a packet's IP header, as a dict."""
    if header[0] >> 4 == 6:
        return {"v6": 1, "bytes": total_bytes, "hdr_bytes": 40,
                "tos": int.from_bytes(header[:2], "big") >> 4 & 255, "df": 0, "proto": header[6]}
    return {"v6": 0, "bytes": total_bytes, "hdr_bytes": (header[0] & 15) * 4, "tos": header[1],
            "df": header[6] >> 6 & 1, "proto": header[9]}


def esp_packet(sa, number, text, iv, tos=0, options=b"", **more):
    """A whole packet of an SA: IP header, ESP header, IV, ciphertext, ICV."""
    esp = struct.pack(">II", sa.spi, number & 0xFFFFFFFF) + sa.seal(number, text, iv)
    return ip_header(sa.v6, sa.src, sa.dst, ESP, len(esp), tos=tos, options=options, **more) + esp


def open_hdr(sa, number, net, iv, data_bytes, total_bytes):
    """The packed `open_hdr_t` of a packet, as the SAD section makes it."""
    return OPEN.pack(
        cipher=sa.cipher, auth=sa.auth, key_len=gcm.LENGTHS.get(len(sa.key), 0),
        key=int.from_bytes(sa.key.ljust(32, b"\0"), "big"), salt=int.from_bytes(sa.salt, "big"),
        auth_keys=sa.auth_keys(), sa=sa.index, reqid=sa.reqid, tunnel=sa.tunnel, spi=sa.spi, number=number,
        esn=sa.esn, iv=int.from_bytes(iv, "big"), bytes=data_bytes,
        net=int.from_bytes(net.ljust(40, b"\0"), "big"),
        ip=IP_INFO.pack(**ip_info(net, total_bytes)))


def check():
    """The HMAC's states belong to its key, GCM's powers to its own; structs pack both ways."""
    sa = OpenSa(auth=SHA256)
    assert sa.icv(1, b"x") == hmac_.new(sa.auth_key, struct.pack(">II", sa.spi, 1) + b"x",
                                        hashlib.sha256).digest()[:16]
    fields = SAD_REQ.unpack(SAD_REQ.pack(op=2, seq=7, bytes=9))
    assert (fields["op"], fields["seq"], fields["bytes"], fields["spi"]) == (2, 7, 9, 0)
    header = ip_header(False, b"abcd", b"efgh", 50, 100)
    assert checksum(header) == 0


check()
