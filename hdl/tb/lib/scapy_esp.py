"""An opener of ESP packets that shares nothing with the model: scapy's."""

import warnings

with warnings.catch_warnings():
    # scapy imports ciphers that `cryptography` is about to move.
    warnings.simplefilter("ignore")
    from scapy.layers.inet import IP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.ipsec import ESP, SecurityAssociation

CRYPT = {"CipherAesCbc": "AES-CBC", "CipherAesGcm": "AES-GCM", "CipherDes": "DES",
         "Cipher3Des": "3DES"}
AUTH = {"AuthNone": "NULL", "AuthSha1": "HMAC-SHA1-96", "AuthSha256": "SHA2-256-128"}


def parse(packet):
    return (IP if packet[0] >> 4 == 4 else IPv6)(packet)


def open_packet(sa, wire, number):
    """The packet inside, checked by scapy: header fields, ICV, padding. Raises if one is wrong."""
    outer = parse(wire)
    length = outer.len if outer.version == 4 else outer.plen + 40
    assert length == len(wire), "the IP header's length is not the packet's"
    if outer.version == 4:
        checksum = outer.chksum
        del outer.chksum
        assert IP(bytes(outer)).chksum == checksum, "the IP header's checksum is wrong"
        outer = parse(wire)
    assert outer[ESP].seq == number & 0xFFFFFFFF
    tunnel = None
    if sa.tunnel:
        tunnel = IP() if len(sa.src) == 4 else IPv6()
    association = SecurityAssociation(
        ESP, spi=sa.spi, crypt_algo=CRYPT[sa.cipher],
        crypt_key=sa.key + (sa.salt if sa.cipher == "CipherAesGcm" else b""),
        auth_algo=AUTH[sa.auth], auth_key=sa.auth_key, tunnel_header=tunnel)
    return bytes(association.decrypt(outer, esn_en=sa.esn, esn=number >> 32))
