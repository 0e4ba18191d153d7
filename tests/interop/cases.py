"""What is tried: cases of static SAs, and `ip xfrm`'s words for them.

A case has keys of its own. culvert never repeats the sequence numbers of a key, not even for an SA
that was deleted and added again, so keys that are used twice make the later case fail.
"""

import hashlib
import re
from dataclasses import dataclass, replace

from lab import topology as t
from lab.suites import COVERING

#: Linux's names: of combined modes and ciphers by scapy's name, of integrity algorithms by strongSwan's.
LINUX = {
    "AES-GCM": "rfc4106(gcm(aes))", "AES-CCM": "rfc4309(ccm(aes))", "GMAC": "rfc4543(gcm(aes))",
    "CHACHA20-POLY1305": "rfc7539esp(chacha20,poly1305)",
    "AES-CBC": "cbc(aes)", "AES-CTR": "rfc3686(ctr(aes))", "CAMELLIA-CBC": "cbc(camellia)",
    "3DES": "cbc(des3_ede)", "DES": "cbc(des)", "NULL": "ecb(cipher_null)",
    "aesxcbc": "xcbc(aes)", "aescmac": "cmac(aes)",
}  # fmt: skip


def _words(suite):
    """`ip xfrm`'s words for a suite. {crypt:BITS} and {auth:BITS} stand for keys."""
    key, icv = f"{{crypt:{suite.key_len * 8}}}" if suite.key_len else "''", suite.icv_len * 8
    if not suite.integrity:
        return f"aead '{LINUX[suite.crypt]}' {key} {icv}"
    auth = LINUX.get(suite.integrity, f"hmac({suite.integrity.split('_')[0]})")
    return (
        f"enc '{LINUX[suite.crypt]}' {key} "
        f"auth-trunc '{auth}' {{auth:{suite.auth_key_len * 8}}} {icv}"
    )


SUITES = {name: _words(suite) for name, suite in COVERING.items()}

#: Linux's SAs have SM4-CBC and HMAC-SM3; SM4-GCM and SM4-CTR it has for other things, but refuses here.
SUITES |= {
    f"{name}-{auth}": f"enc '{cipher}' {key} auth-trunc 'hmac({hmac})' {{auth:256}} {icv}"
    for name, cipher, key in (
        ("sm4", "cbc(sm4)", "{crypt:128}"), ("aes128", "cbc(aes)", "{crypt:128}"),
        ("null", "ecb(cipher_null)", "''"),
    )
    for auth, hmac, icv in (
        ("sm3_96", "sm3", 96), ("sm3_128", "sm3", 128), ("sm3", "sm3", 256), ("sha256", "sha256", 128),
    )
    if "sm" in name or "sm" in auth
}  # fmt: skip

#: AH's algorithms, each by itself.
AUTHS = {
    f"ah-{name}": f"auth-trunc '{LINUX.get(name, f'hmac({name})')}' {{auth:{key}}} {icv}"
    for name, key, icv in (
        ("sha1", 160, 96), ("sha256", 256, 128), ("sha384", 384, 192), ("sha512", 512, 256),
        ("aesxcbc", 128, 96), ("aescmac", 128, 96), ("sm3", 256, 256),
    )
}  # fmt: skip

#: Payloads of the pings: empty, unaligned, and up to what fits into every tunnel.
SIZES = (0, 8, 56, 511, 1000, 1200, 1300)

#: The columns of the table: what every suite is tried with.
COLUMNS = {
    "tunnel 4in4": {},
    "tunnel 6in6": {"outer": 6, "inner": 6},
    "tunnel 6in4": {"inner": 6},
    "tunnel 4in6": {"outer": 6},
    "transport v4": {"mode": "transport"},
    "transport v6": {"mode": "transport", "outer": 6, "inner": 6},
    "tunnel udp-encap": {"encap": True},
    "transport udp-encap": {"mode": "transport", "encap": True},
    "tunnel esn": {"esn": True},
    "tunnel esn across 2^32": {"esn": True, "start": 0xFFFFFFF0},
}

#: The mark of the cases with one. What a port brings has it by its DSCP.
MARK, MARKED_DSCP = 42, 46

#: What IPComp is tried with.
COMPRESSED = (
    "tunnel 4in4", "tunnel 6in6", "tunnel 6in4", "tunnel 4in6", "transport v4", "transport v6",
)  # fmt: skip

#: Those of suites that differ from one with all columns in their algorithms alone, whose lengths and nonces such a
#: suite has, too.
FEW = ("tunnel 4in4", "transport v6", "tunnel esn")


def has_all_columns(suite):
    """AES-GCM, ChaCha20-Poly1305, AES-CBC with the HMACs of the RFCs; of all others those with keys of 128 bits."""
    known = ("gcm", "chacha", "-sha1", "-sha256", "-sha384", "-sha512")
    is_known = any(word in suite for word in known) and "_" not in suite
    return is_known and not any(word in suite for word in ("ctr", "camellia", "des")) or suite in (
        "aes128ctr-sha256", "aes128ccm8", "aes128ccm16", "aes128gmac", "camellia128-sha256", "3des-sha256",
        "aes128-aesxcbc", "aes128-aescmac", "aes128-sha256_96", "aes128-md5", "sm4-sm3_128",
    )  # fmt: skip


#: A handful that says much in little time.
SAMPLE = (
    "aes128gcm16 tunnel 4in4",
    "aes256-sha256 tunnel 4in4",
    "aes128gcm16 transport v4",
    "aes128-sha1 transport v6",
    "aes128gcm16 tunnel udp-encap",
    "ah-sha256 transport v6",
    "aes128gcm16 tunnel 4in4 in AH",
    "deflate in aes128gcm16 tunnel 4in4",
    "aes128gcm16 tunnel 4in4 marks",
    "aes128gcm16 transport v6 marks",
    "aes256gcm16 tunnel esn across 2^32",
    "chacha20poly1305 tunnel 6in4",
    "sm4-sm3 tunnel 4in4",
    "ike aes128gcm16, rekeys under load",
)


@dataclass(frozen=True)
class Case:
    """One case. The families are those of the outer and the inner header, the latter of a tunnel."""

    name: str
    suite: str
    #: Where it stands in the table; empty for what stands beside it.
    column: str = ""
    mode: str = "tunnel"
    outer: int = 4
    inner: int = 4
    encap: bool = False
    esn: bool = False
    #: The sequence number that both sides begin after.
    start: int = 0
    window: int = 32
    flag: str = ""
    tfc_bytes: int = 0
    sizes: tuple = SIZES
    #: The algorithm of an SA of AH, in transport mode, that is around the first; empty for none.
    around: str = ""
    #: Whether an SA of IPComp is inside, in the case's mode; that of the suite is of transport mode then.
    comp: bool = False
    #: Whether the pings are random bytes, which compression does not make shorter.
    noise: bool = False
    #: Payloads that must be refused with an error that says so.
    too_big: tuple = ()
    #: The pings' DF bit, as for lab.pinger; None leaves it to the system.
    df: bool | None = None
    #: The mark that packets need to leave, by policies and SAs with it, and that the SAs for what arrives set;
    #: 0 for none.
    mark: int = 0


def static_cases():
    """All cases with static SAs, the table's first."""
    for suite in SUITES:
        columns = COLUMNS if has_all_columns(suite) else FEW
        for column, how in ((column, COLUMNS[column]) for column in columns):
            yield Case(f"{suite} {column}", suite, column, **how)
    for suite in AUTHS:
        for column, how in COLUMNS.items():
            if not how.get("encap"):
                yield Case(f"{suite} {column}", suite, **how)
    yield Case("ah-sha256 tunnel 4in4 flag align4", "ah-sha256", flag="align4")
    gcm = "aes128gcm16"
    for column in ("tunnel 4in4", "tunnel 6in6", "transport v4", "transport v6", "tunnel esn"):
        yield Case(f"{gcm} {column} in AH", gcm, around="ah-sha256", **COLUMNS[column])
    yield Case(f"{gcm} tunnel udp-encap v6", gcm, encap=True, outer=6, inner=6)
    yield Case(f"{gcm} tunnel esn window 4096", gcm, esn=True, window=4096)
    for flag in ("nopmtudisc", "noecn", "decap-dscp", "align4"):
        yield Case(f"{gcm} tunnel flag {flag}", gcm, flag=flag)
    yield Case(f"{gcm} tunnel tfcpad 600", gcm, tfc_bytes=600)
    for column in ("tunnel 4in4", "tunnel 6in6", "tunnel 6in4", "transport v4", "transport v6"):
        yield Case(f"{gcm} {column} marks", gcm, mark=MARK, **COLUMNS[column])
    yield Case(f"{gcm} tunnel 4in4 in AH marks", gcm, mark=MARK, around="ah-sha256")
    for column in COMPRESSED:
        how = COLUMNS[column]
        yield Case(f"deflate in {gcm} {column}", gcm, comp=True, **how)
        yield Case(f"deflate in {gcm} {column} noise", gcm, comp=True, noise=True, **how)
        # Linux compresses before it fragments: one packet becomes several only where it stays long.
        yield Case(
            f"deflate in {gcm} {column} big", gcm, comp=True, sizes=(1472, 4000), df=False, **how
        )  # fmt: skip
    yield Case(f"deflate in {gcm} tunnel 4in4 in AH", gcm, comp=True, around="ah-sha256")
    yield Case(f"deflate in {gcm} tunnel udp-encap", gcm, comp=True, encap=True)
    yield Case("deflate in ah-sha256 tunnel 4in4", "ah-sha256", comp=True)
    # What fits into 1500 bytes: less outer header, SPI and sequence number, IV, ICV, and the two
    # bytes of the trailer, the whole of it a multiple of four (RFC 4303, section 2.4).
    yield Case(f"{gcm} tunnel 4in4 path MTU", gcm, sizes=(1400, 1418), too_big=(1419, 1472), df=True)
    yield Case(
        f"{gcm} tunnel 6in6 path MTU", gcm, outer=6, inner=6,
        sizes=(1300, 1378), too_big=(1379, 1452), df=True,
    )  # fmt: skip
    for suite in (gcm, "aes128-sha1"):
        for column in ("tunnel 4in4", "tunnel 6in6", "transport v4", "transport v6"):
            yield Case(
                f"{suite} {column} big", suite, sizes=(1472, 4000), df=False, **COLUMNS[column]
            )


class Side:
    """One side of a case: its addresses."""

    def __init__(self, outer, inner, net):
        self.outer, self.inner, self.net = outer, inner, net


CULVERT = Side(
    {4: t.WAN_A4, 6: t.WAN_A6}, {4: t.CLIENT4, 6: t.CLIENT6}, {4: "10.1.0.0/24", 6: "2001:db8:1::/64"}
)
KERNEL = Side(
    {4: t.WAN_B4, 6: t.WAN_B6}, {4: t.SERVER4, 6: t.SERVER6}, {4: "10.2.0.0/24", 6: "2001:db8:2::/64"}
)


def batch(case, serial, me, peer):
    """What `ip -batch` is told on side `me`. `serial` makes the SPIs and the keys of the case."""
    return "\n".join([
        "xfrm state flush", "xfrm policy flush",
        *_states(case, serial, me, peer, out=True), *_states(case, serial, peer, me, out=False),
        *_policies(case, me, peer), "",
    ])  # fmt: skip


def _states(case, serial, source, destination, out):
    if case.comp:
        # The CPI has 16 bits, and those below 256 are taken.
        cpi = 0x100 + 2 * serial + (source is KERNEL)
        flags = ' flag "af-unspec"' if case.outer != case.inner else ""
        yield (
            f"xfrm state add src {source.outer[case.outer]} dst {destination.outer[case.outer]} "
            f"proto comp spi {cpi:#x} reqid 7 mode {case.mode}{flags} comp deflate"
        )
        # Linux holds the selector of each SA against the innermost packet: those of mixed families have none.
        case = replace(case, mode="transport")
    yield _state(case, serial, source, destination, out)
    if case.around:
        ah = replace(case, suite=case.around, mode="transport", tfc_bytes=0, flag="", around="")
        yield _state(ah, serial, source, destination, out, first_spi=0x9000)


def _proto(suite):
    return "ah" if suite in AUTHS else "esp"


def _state(case, serial, source, destination, out, first_spi=0x1000):
    spi = first_spi + 2 * serial + (source is KERNEL)

    def key(match):
        name, bits = match.groups()
        return "0x" + hashlib.shake_128(f"{spi} {name} {case.suite}".encode()).hexdigest(int(bits) // 8)

    flags = " ".join(
        word for word in (
            "esn" if case.esn else "", "af-unspec" if case.outer != case.inner else "", case.flag
        ) if word
    )  # fmt: skip
    words = [
        f"xfrm state add src {source.outer[case.outer]} dst {destination.outer[case.outer]}",
        f"proto {_proto(case.suite)} spi {spi:#x} reqid 7 mode {case.mode} "
        f"replay-window {case.window}",
    ]
    if case.start:
        words.append(f"{'replay-oseq' if out else 'replay-seq'} {case.start}")
    if flags:
        words.append(f'flag "{flags}"')
    if case.mark:
        words.append(f"{'mark' if out else 'output-mark'} {case.mark} mask 0xffffffff")
    if case.tfc_bytes and out:
        words.append(f"tfcpad {case.tfc_bytes}")
    words.append(re.sub(r"\{(\w+):(\d+)\}", key, (SUITES | AUTHS)[case.suite]))
    if case.encap:
        words.append(f"encap espinudp 4500 4500 {'::' if case.outer == 6 else '0.0.0.0'}")
    return " ".join(words)


def _policies(case, me, peer):
    mine, its = me.outer[case.outer], peer.outer[case.outer]
    if case.mode == "tunnel":
        near, far, what = me.net[case.inner], peer.net[case.inner], ""
        out, back = f"src {mine} dst {its}", f"src {its} dst {mine}"
        inbound = ("in", "fwd")
    else:
        # Nothing but the pings: not what the gateways say to each other to find each other.
        near, far, out, back, inbound = mine, its, "", "", ("in",)
        what = "proto icmp" if case.outer == 4 else "proto ipv6-icmp type 128"
    words = f"proto {_proto(case.suite)} reqid 7 mode {case.mode}"
    words_in = words
    if case.comp:
        esp = f"tmpl proto {_proto(case.suite)} reqid 7 mode transport"
        words = f"proto comp reqid 7 mode {case.mode} {esp}"
        # As charon has it: what is not worth compressing comes without.
        words_in = f"proto comp reqid 7 mode {case.mode} level use {esp}"
    # Between the ends of the tunnel, if there is one.
    around = " tmpl proto ah reqid 7 mode transport" if case.around else ""
    for kind in [what] if case.mode == "tunnel" or case.outer == 4 else [what, what[:-3] + "129"]:
        mark = f" mark {case.mark} mask 0xffffffff" if case.mark else ""
        yield (
            f"xfrm policy add src {near} dst {far} {kind} dir out{mark} priority 100 "
            f"tmpl {out} {words}{around}"
        )
        for way in inbound:
            yield (
                f"xfrm policy add src {far} dst {near} {kind} dir {way} priority 100 "
                f"tmpl {back} {words_in}{around}"
            )
