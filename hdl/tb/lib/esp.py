"""Outbound ESP in Python (RFC 4303), stage by stage, as the gateway's sections do it.

`seal()` is the model: what each section hands on, up to the packet on the wire. Ciphers and digests
are those of `cryptography` and hashlib.
"""

import functools
import hmac
import struct
from dataclasses import dataclass

import gcm
import sha
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from layout import Layout

LAYOUT = Layout("aes_pkg", "gateway_pkg")
KEY_LENS = {16: "Aes128", 24: "Aes192", 32: "Aes256"}
HASHES = {"AuthSha1": ("sha1", 12), "AuthSha256": ("sha256", 16)}  # and bytes of the ICV
IPPROTO = {4: 4, 6: 41}  # of IPv4 and IPv6 as payload of a tunnel
ESP = 50


@dataclass(frozen=True)
class Sa:
    """A security association; addresses and keys are bytes."""

    cipher: str = "CipherAesCbc"
    key: bytes = bytes(16)
    auth: str = "AuthSha1"
    auth_key: bytes = bytes(20)
    salt: bytes = bytes(4)
    iv_salt: int = 0  # not in sa_t, but in its state
    spi: int = 256
    tunnel: bool = True
    src: bytes = bytes(4)
    dst: bytes = bytes(4)
    esn: bool = False
    hop_limit: int = 64
    copy_df: bool = False

    @property
    def block(self):
        """Bytes of a cipher block, and so of the IV; 0 for AES-GCM, whose IV is not encrypted."""
        return {"CipherAesCbc": 16, "CipherAesGcm": 0}.get(self.cipher, 8)

    @property
    def align(self):
        return self.block or 4

    @property
    def icv_bytes(self):
        return 16 if self.cipher == "CipherAesGcm" else HASHES[self.auth][1]

    def iv(self, number):
        """AES-GCM's IV of the packet with this number; CBC's before it is encrypted."""
        return number ^ self.iv_salt

    @functools.lru_cache(maxsize=None)
    def auth_keys(self):
        """auth_keys of sa_t."""
        if self.cipher == "CipherAesGcm":
            return gcm.pack_powers(gcm.hash_key(self.key))
        return 0 if self.auth == "AuthNone" else pad_states(HASHES[self.auth][0], self.auth_key)

    def record(self):
        """The fields of sa_t."""
        return {
            "valid": 1, "tunnel": self.tunnel, "v6": len(self.src) == 16, "esn": self.esn,
            "cipher": self.cipher, "auth": self.auth, "spi": self.spi,
            "key_len": KEY_LENS.get(len(self.key), 0) if self.align != 8 else 0,
            "src": int.from_bytes(self.src.ljust(16, b"\0"), "big"),
            "dst": int.from_bytes(self.dst.ljust(16, b"\0"), "big"),
            "hop_limit": self.hop_limit, "copy_df": self.copy_df,
            "key": int.from_bytes(self.key.ljust(32, b"\0"), "big"),
            "salt": int.from_bytes(self.salt, "big"), "auth_keys": self.auth_keys(),
        }


@dataclass(frozen=True)
class Sealed:
    """A packet at each stage, and the headers that go with it."""

    plain: bytes  # what the cipher reads: nonce block, payload, trailer
    data: bytes  # what it writes, with AES-GCM's tag
    wire: bytes
    seal_hdr: int  # seal_hdr_t
    auth_hdr: int  # auth_hdr_t


@functools.lru_cache(maxsize=None)
def pad_states(name, key):
    """HMAC's two states, each left-aligned in 256 bits."""
    inner, outer = (sha.to_int(state) for state in sha.pad_states(name, key))
    shift = 256 - (160 if name == "sha1" else 256)
    return inner << shift + 256 | outer << shift


def checksum(header):
    """The Internet checksum of a header whose checksum field is zero."""
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF ^ total


def ipv4(tos, length, ident, flags, ttl, proto, src, dst):
    header = struct.pack(">BBHHHBBH4s4s", 0x45, tos, length, ident, flags, ttl, proto, 0, src, dst)
    return header[:10] + struct.pack(">H", checksum(header)) + header[12:]


def ipv6(tos, payload_length, next_header, hop_limit, src, dst, flow=0):
    return struct.pack(">IHBB16s16s", 6 << 28 | tos << 20 | flow, payload_length, next_header,
                       hop_limit, src, dst)


def traffic_class(packet):
    if packet[0] >> 4 == 4:
        return packet[1]
    return struct.unpack(">H", packet[:2])[0] >> 4 & 255


def header_bytes(packet):
    return 4 * (packet[0] & 15) if packet[0] >> 4 == 4 else 40


def ip_packet(rng, version, length, proto=None, df=None, fragment=0):
    """A packet of `length` bytes: a valid IP header, random bytes behind it."""
    proto = rng.choice([1, 6, 17, 50, 132]) if proto is None else proto
    df = rng.random() < 0.5 if df is None else df
    tos, ttl = rng.getrandbits(8), rng.randint(1, 255)
    if version == 4:
        header = ipv4(tos, length, rng.getrandbits(16), df << 14 | fragment, ttl, proto,
                      rng.randbytes(4), rng.randbytes(4))
    else:
        header = ipv6(tos, length - 40, proto, ttl, rng.randbytes(16), rng.randbytes(16),
                      rng.getrandbits(20))
    return header + rng.randbytes(length - len(header))


def policy_hdr(packet, sa_index, low=0):
    """policy_hdr_t of an outbound packet."""
    v6 = packet[0] >> 4 == 6
    return LAYOUT.pack("policy_hdr_t", low=low, sa=sa_index, ip={
        "v6": v6, "bytes": len(packet), "hdr_bytes": header_bytes(packet),
        "tos": traffic_class(packet), "df": not v6 and packet[6] >> 6 & 1,
        "proto": packet[6] if v6 else packet[9]})


def cipher(sa, iv):
    if sa.align == 16:
        return Cipher(algorithms.AES(sa.key), modes.CBC(iv))
    key = sa.key if sa.cipher == "Cipher3Des" else sa.key[:8] * 3
    mode = modes.ECB() if sa.cipher == "CipherDesEcb" else modes.CBC(iv)
    return Cipher(TripleDES(key), mode)


def encrypt(sa, number, plain):
    """The cipher section: `plain` begins with the nonce block where the cipher has blocks."""
    if sa.cipher == "CipherAesGcm":
        aad = struct.pack(">IQ", sa.spi, number) if sa.esn else esp_header(sa, number)
        return AESGCM(sa.key).encrypt(sa.salt + struct.pack(">Q", sa.iv(number)), plain, aad)
    worker = cipher(sa, bytes(sa.block)).encryptor()
    return worker.update(plain) + worker.finalize()


def esp_header(sa, number):
    return struct.pack(">II", sa.spi, number & 0xFFFFFFFF)


def icv(sa, number, esp, data):
    if sa.auth == "AuthNone":
        return b""
    name, length = HASHES[sa.auth]
    text = esp + data + (struct.pack(">I", number >> 32) if sa.esn else b"")
    return hmac.digest(sa.auth_key, text, name)[:length]


def outer_header(sa, packet, number, length):
    """The IP header of a sealed packet with `length` bytes behind that header."""
    tos = traffic_class(packet)
    if not sa.tunnel:
        if packet[0] >> 4 == 6:
            return packet[:4] + struct.pack(">HB", length, ESP) + packet[7:40]
        header = packet[:2] + struct.pack(">H", 20 + length) + packet[4:9] + bytes([ESP, 0, 0])
        header += packet[12:20]
        return header[:10] + struct.pack(">H", checksum(header)) + header[12:]
    if len(sa.src) == 16:
        return ipv6(tos, length, ESP, sa.hop_limit, sa.src, sa.dst)
    df = not (sa.copy_df and packet[0] >> 4 == 4 and not packet[6] & 0x40)
    ident = 0 if df else number + (sa.spi ^ sa.spi >> 16) & 0xFFFF
    return ipv4(tos, 20 + length, ident, df << 14, sa.hop_limit, ESP, sa.src, sa.dst)


def seal(sa, packet, number, low=0):
    """A whole, valid packet through all outbound sections."""
    version = packet[0] >> 4
    if sa.tunnel:
        payload, next_header = packet, IPPROTO[version]
    else:
        payload = packet[header_bytes(packet):]
        next_header = packet[9] if version == 4 else packet[6]
    pad = -(len(payload) + 2) % sa.align
    nonce = sa.iv(number).to_bytes(sa.block, "big") if sa.block else b""
    plain = nonce + payload + bytes(range(1, pad + 1)) + bytes([pad, next_header])
    data = encrypt(sa, number, plain)
    esp = esp_header(sa, number)
    iv = b"" if sa.block else struct.pack(">Q", sa.iv(number))
    tag = icv(sa, number, esp, data)
    net = outer_header(sa, packet, number, len(esp + iv + data + tag))
    frame = {
        "net": int.from_bytes(net.ljust(40, b"\0"), "big"), "net_bytes": len(net),
        "esp": int.from_bytes(esp, "big"), "high": number >> 32, "esn": sa.esn,
        "iv_here": not sa.block, "iv": sa.iv(number),
    }
    record = sa.record()
    common = {"low": low, "auth": sa.auth, "auth_keys": record["auth_keys"], "frame": frame}
    return Sealed(
        plain=plain, data=data, wire=net + esp + iv + data + tag,
        seal_hdr=LAYOUT.pack("seal_hdr_t", cipher=sa.cipher, key_len=record["key_len"],
                             key=record["key"], salt=record["salt"], bytes=len(plain), **common),
        auth_hdr=LAYOUT.pack("auth_hdr_t", **common))
