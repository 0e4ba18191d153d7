#!/usr/bin/python3
"""Writes scapy.txt: ESP packets made by scapy's IPsec layer, with fixed keys, IVs and numbers.

Run with Debian 12's python3-scapy (2.5.0) and python3-cryptography (38.0.4):

    ./generate.py > scapy.txt

One packet a line, fields apart by one space, byte strings in hexadecimal, "-" for an empty one:

    suite mode udp esn seq cipher-key salt auth-key cleartext esp-packet

suite as culvert spells it; mode "tunnel" or "transport"; udp and esn 0 or 1; seq the whole 64-bit
sequence number in decimal. The cleartext is a whole IP packet, the ESP packet begins with its
outer IP header. A counter mode's IV is the sequence number.

Some things are beyond scapy 2.5.0 and done here by hand. It authenticates the high half of extended
sequence numbers with combined modes only, and has not every truncation, nor AES-XCBC-MAC: there the ICV
is computed here (RFC 4303 section 2.2.1). Its GCM always has an ICV of 16 bytes: shorter ones are cut
(RFC 4106 section 6). Camellia is told to it, AES-GMAC's IV and ICV are put around its NULL (RFC 4543
section 3). And the UDP length over IPv4 does not cover the ESP packet: it is computed anew.

Every combined mode, every cipher with one integrity algorithm and every integrity algorithm with one cipher
is there in all forms, every other suite in one.
"""

import hashlib
import hmac
import struct
import sys

import scapy
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.cmac import CMAC
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import (ICMPv6EchoRequest, IPv6, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting,
                                PadN)
from scapy.layers.ipsec import CRYPT_ALGOS, ESP, CryptAlgo, SecurityAssociation
from scapy.packet import Raw

SPI = 0xC0FFEE01
V4 = ("192.0.2.1", "198.51.100.2")
V6 = ("2001:db8::1", "2001:db8:ffff::2")
CRYPT_ALGOS["CAMELLIA-CBC"] = CryptAlgo("CAMELLIA-CBC", cipher=algorithms.Camellia, mode=modes.CBC)


def hashed(digest):
    return lambda key, data: hmac.new(key, data, digest).digest()


def cmac(key, data):
    mac = CMAC(algorithms.AES(key))
    mac.update(data)
    return mac.finalize()


def xcbc(key, data):
    """AES-XCBC-MAC (RFC 3566 section 4)."""

    def aes(key, block):
        return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)

    def xor(a, b):
        return bytes(x ^ y for x, y in zip(a, b))

    k1, k2, k3 = (aes(key, bytes([n]) * 16) for n in (1, 2, 3))
    blocks = [data[at : at + 16] for at in range(0, len(data), 16)]
    last = blocks.pop()
    last = xor(last, k2) if len(last) == 16 else xor((last + b"\x80").ljust(16, b"\0"), k3)
    chain = bytes(16)
    for block in [*blocks, last]:
        chain = aes(k1, xor(chain, block))
    return chain


# Scapy's name or none, the function, length of key and of ICV.
INTEGRITY = {
    "sha1": ("HMAC-SHA1-96", hashed(hashlib.sha1), 20, 12),
    "sha256": ("SHA2-256-128", hashed(hashlib.sha256), 32, 16),
    "sha384": ("SHA2-384-192", hashed(hashlib.sha384), 48, 24),
    "sha512": ("SHA2-512-256", hashed(hashlib.sha512), 64, 32),
    "sha1_160": (None, hashed(hashlib.sha1), 20, 20),
    "sha256_96": (None, hashed(hashlib.sha256), 32, 12),
    "md5": ("HMAC-MD5-96", hashed(hashlib.md5), 16, 12),
    "md5_128": (None, hashed(hashlib.md5), 16, 16),
    "aesxcbc": (None, xcbc, 16, 12),
    "aescmac": ("AES-CMAC-96", cmac, 16, 12),
}
FIRST = ("sha1", "sha256", "sha384", "sha512")


def derive(label, length):
    """Bytes that look random and are the same in every run."""
    return hashlib.shake_128(label.encode()).digest(length)


def suites():
    """Each suite: name, scapy's cipher, ICV length (combined modes), length of key, of salt and of a random IV,
    integrity algorithm or None; and whether it is there in all forms.
    """
    for bits in (128, 192, 256):
        for icv in (8, 12, 16):
            yield (f"aes{bits}gcm{icv}", "AES-GCM", icv, bits // 8, 4, 0, None), True
    yield ("chacha20poly1305", "CHACHA20-POLY1305", 16, 32, 4, 0, None), True
    for bits in (128, 192, 256):
        for name in FIRST:
            yield (f"aes{bits}-{name}", "AES-CBC", None, bits // 8, 0, 16, name), True
    for name in FIRST:
        yield (f"null-{name}", "NULL", None, 0, 0, 0, name), True
    for bits in (128, 192, 256):
        for icv in (8, 12, 16):
            yield (f"aes{bits}ccm{icv}", "AES-CCM", icv, bits // 8, 3, 0, None), True
    for bits in (128, 192, 256):
        yield (f"aes{bits}gmac", "GMAC", 16, bits // 8, 4, 0, None), True
    ciphers = [("null", "NULL", 0, 0, 0), ("3des", "3DES", 24, 0, 8), ("des", "DES", 8, 0, 8)]
    for bits in (128, 192, 256):
        ciphers.append((f"aes{bits}", "AES-CBC", bits // 8, 0, 16))
        ciphers.append((f"aes{bits}ctr", "AES-CTR", bits // 8, 4, 0))
        ciphers.append((f"camellia{bits}", "CAMELLIA-CBC", bits // 8, 0, 16))
    for cipher, scapys, key, salt, iv in ciphers:
        for name in INTEGRITY:
            if scapys not in ("NULL", "AES-CBC") or name not in FIRST:
                has_all_forms = cipher == "null" or name == "sha256"
                yield (f"{cipher}-{name}", scapys, None, key, salt, iv, name), has_all_forms


def cleartexts(size):
    """A cleartext packet of each kind, with a payload of `size` bytes; DF is set."""
    data = Raw(derive("payload", size))
    v4 = {"src": "10.1.0.5", "dst": "10.2.0.9", "tos": 0xBA, "flags": "DF", "id": 7, "ttl": 61}
    v6 = {"src": "2001:db8:1::5", "dst": "2001:db8:2::9", "tc": 0x49, "fl": 0x12345, "hlim": 61}
    return {
        "v4": IP(**v4) / UDP(sport=1000, dport=2000) / data,
        "v6": IPv6(**v6) / TCP(sport=1000, dport=2000, flags="A", seq=1, ack=2) / data,
    }


def own_packets(size):
    """Packets between the SA's own end points, for transport mode."""
    data = Raw(derive("payload", size))
    routing = IPv6ExtHdrRouting(addresses=["2001:db8:ffff::2"], segleft=0)
    return {
        "v4": IP(src=V4[0], dst=V4[1], flags="DF", id=7) / ICMP(id=3, seq=4) / data,
        "v4opt": IP(src=V4[0], dst=V4[1], flags="DF", id=7, options=[("NOP")] * 4)
        / TCP(sport=1000, dport=2000) / data,
        "v6": IPv6(src=V6[0], dst=V6[1]) / UDP(sport=1000, dport=2000) / data,
        "v6ext": IPv6(src=V6[0], dst=V6[1])
        / IPv6ExtHdrHopByHop(options=[PadN(optdata=b"\0" * 4)]) / routing
        / ICMPv6EchoRequest(id=3, seq=4) / data,
    }


def seal(suite, mode, udp, esn, seq, clear):
    """One line of the file."""
    name, cipher, icv, key_len, salt_len, iv_len, auth = suite
    key, salt = derive(name + "key", key_len), derive(name + "salt", salt_len)
    scapys, mac, auth_key_len, auth_icv = INTEGRITY[auth] if auth else (None, None, 0, 0)
    auth_key = derive(name + "auth", auth_key_len)
    outer = None
    if mode == "tunnel4":
        tc = clear.tos if clear.version == 4 else clear.tc
        outer = IP(src=V4[0], dst=V4[1], ttl=64, id=0, flags="DF", tos=tc)
    elif mode == "tunnel6":
        tc = clear.tos if clear.version == 4 else clear.tc
        outer = IPv6(src=V6[0], dst=V6[1], hlim=64, tc=tc)
    by_hand = auth and (esn or not scapys)
    cut = 16 - icv if cipher == "AES-GCM" else 0
    gmac = cipher == "GMAC"
    sa = SecurityAssociation(
        ESP, spi=SPI, crypt_algo="NULL" if gmac else cipher,
        crypt_key=None if gmac else (key + salt) or None,
        crypt_icv_size=None if gmac or not icv else icv + cut,
        auth_algo=scapys if auth and not by_hand else None,
        auth_key=auth_key if auth and not by_hand else None,
        tunnel_header=outer, nat_t_header=UDP(sport=4500, dport=4500) if udp else None,
        esn_en=bool(esn), esn=seq >> 32)
    if iv_len:
        iv = derive(f"{name}{mode}{udp}{seq}", iv_len)
    elif cipher in ("NULL", "GMAC"):
        iv = b""
    else:
        iv = struct.pack("!Q", seq)
    sealed = sa.encrypt(clear, seq_num=seq & 0xFFFFFFFF, iv=iv)
    if by_hand:
        covered = bytes(sealed[ESP]) + (struct.pack("!L", seq >> 32) if esn else b"")
        sealed[ESP].data += mac(auth_key, covered)[:auth_icv]
    if gmac:
        iv, text = struct.pack("!Q", seq), sealed[ESP].data
        number = struct.pack("!Q" if esn else "!L", seq)
        covered = struct.pack("!L", SPI) + number + iv + text
        sealed[ESP].data = iv + text + AESGCM(key).encrypt(salt + iv, b"", covered)
    if cut:
        sealed[ESP].data = sealed[ESP].data[:-cut]
    # Lengths and the IPv4 checksum are computed anew, the UDP checksum stays zero.
    for layer, fields in ((IP, ("len", "chksum")), (IPv6, ("plen",)), (UDP, ("len",))):
        if layer in sealed:
            for field in fields:
                if field in sealed[layer].fields:
                    delattr(sealed[layer], field)
    fields = [key, salt, auth_key, bytes(clear), bytes(sealed)]
    print(name, mode.rstrip("46"), udp, esn, seq, *(f.hex() or "-" for f in fields))


def main():
    print("# Source: generate.py beside this file, scapy", scapy.__version__)
    seq = 1
    for suite, has_all_forms in suites():
        if not has_all_forms:
            seq += 1
            seal(suite, "tunnel4", 0, 0, seq, cleartexts(seq * 7 % 61)["v4"])
            continue
        for mode in ("tunnel4", "tunnel6"):
            for inner in ("v4", "v6"):
                for udp in (0, 1):
                    seq += 1
                    size = seq * 7 % 61
                    seal(suite, mode, udp, 0, seq, cleartexts(size)[inner])
                seq += 1
                seal(suite, mode, 0, 1, (5 << 32) + seq, cleartexts(seq * 7 % 61)[inner])
        for kind in own_packets(0):
            # Scapy names ESP, not UDP, in the last of several IPv6 headers.
            for udp in (0, 1) if kind != "v6ext" else (0,):
                seq += 1
                seal(suite, "transport", udp, udp, seq, own_packets(seq * 7 % 61)[kind])
    return 0


if __name__ == "__main__":
    sys.exit(main())
