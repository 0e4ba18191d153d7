"""The published gateway's figures, what this one is to reach, and what its modules cost.

Numbers of tables: I is the prototype. III, IV and V are the DES configurations, VII and VIII those with
AES, each with the modules of its policy, SAD, cipher and HMAC sections; IX stands for what the published
design does not have, the AES-GCM lane. All rates are Mbit/s of the packets that come in.
"""

from dataclasses import dataclass

STREAMS = (16, 32, 64, 128)
SIZES = (64, 240, 1500)


@dataclass(frozen=True)
class Configuration:
    """Modules of the sections, the frequency that the published figures are for, and the figures."""

    table: str
    name: str  # policy/SAD/cipher/HMAC
    cipher: str
    mhz: float
    published: dict  # packet bytes: rates of STREAMS
    target: dict  # packet bytes: rate of the longest stream with the 40-cycle HMAC

    @property
    def modules(self):
        return dict(zip(("policy", "sad", "cipher", "hmac"), map(int, self.name.split("/"))))


CONFIGURATIONS = (
    Configuration(
        "III", "4/4/4/4", "des", 102.79,
        {64: (1137.91, 1253.06, 1319.84, 1355.97), 240: (2363.55, 2526.17, 2616.16, 2663.61),
         1500: (3239.63, 3403.22, 3478.30, 3526.33)}, {64: 1611, 240: 3115, 1500: 4784}),
    Configuration(
        "IV", "4/4/4/8", "des", 104.04,
        {64: (1691.06, 2029.28, 2254.75, 2387.38), 240: (3699.20, 4342.54, 4756.11, 4979.33),
         1500: (6139.47, 7168.50, 7732.62, 8081.76)}, {64: 3127, 240: 6080, 1500: 9384}),
    Configuration(
        "V", "8/8/8/16", "des", 100.65,
        {64: (1940.06, 2780.86, 3550.16, 4120.05), 240: (4218.24, 5784.79, 7103.89, 8018.07),
         1500: (6185.03, 7975.65, 9291.33, 10227.44)}, {64: 4986, 240: 8710, 1500: 11447}),
    Configuration(
        "VII", "4/4/6/4", "aes", 94.07,
        {64: (830.41, 973.01, 1064.39, 1116.84), 240: (1711.98, 1990.24, 2166.29, 2266.53),
         1500: (2598.65, 2755.95, 3032.10, 3076.89)}, {64: 1475, 240: 2850, 1500: 4211}),
    Configuration(
        "VIII", "8/8/12/8", "aes", 97.98,
        {64: (1254.14, 1658.37, 1976.98, 2187.06), 240: (2537.90, 3355.57, 4056.53, 4424.76),
         1500: (3362.10, 4580.40, 4961.40, 5518.80)}, {64: 2945, 240: 5726, 1500: 8500}),
)

# The prototype: one packet at a time, cycles a packet (the published 784 of 240 bytes is a misprint).
PROTOTYPE_MHZ = 86.72
PROTOTYPE_CYCLES = {64: 520, 240: 794, 1500: 2379}

# The AES-GCM lane, at the rate of long streams.
GCM_MHZ = 100.0
GCM_TARGET = {64: 6400, 240: 10100, 1500: 12200}


def divide_up(a, b):
    return -(-a // b)


@dataclass(frozen=True)
class Cost:
    """Cycles a packet that each section needs when it does nothing else, from the modules' pages."""

    sections: dict

    @property
    def binds(self):
        return max(self.sections, key=self.sections.get)

    def bound(self, size, mhz):
        return 8 * size * mhz / self.sections[self.binds]


# A policy look-up in two shapes, and a packet's stay in an encapsulation module (its SAD access).
LOOKUP_CYCLES, SAD_CYCLES = 40, 20


def cost(cipher, auth, size, modules, block_cycles):
    """Tunnel mode, IPv4 in IPv4."""
    iv = 16 if cipher == "aes128-cbc" else 8
    align = {"aes128-cbc": 16, "aes128-gcm": 4}.get(cipher, 8)
    data = divide_up(size + 2, align) * align
    icv = 16 if auth == "none" else 12
    wire = 20 + 8 + iv + data + icv
    text = data if cipher == "aes128-gcm" else iv + data  # the nonce block becomes the IV
    cipher_cycles = {
        "aes128-cbc": 10 * text // 16,
        "aes128-gcm": divide_up(text, 16) + 2,
        "des-ecb": 2 * divide_up(text, 16),
        "des-cbc": text // 8 * 17 / 16 + 2,
    }[cipher]
    sections = {
        "input": divide_up(size, 16),
        "policy": LOOKUP_CYCLES / modules["policy"],
        "SAD": SAD_CYCLES / modules["sad"],
        "cipher": cipher_cycles / modules["cipher"],
        "output": divide_up(wire, 16),
    }
    if auth != "none":
        blocks = divide_up(8 + iv + data + 9, 64) + 1
        sections["HMAC"] = (blocks * block_cycles + 1) / modules["hmac"]
    return Cost(sections)
