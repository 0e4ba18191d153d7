"""What a process has in memory, and key bytes in all forms that they may have there."""

import struct
from pathlib import Path

#: Bytes of a page.
PAGE = 4096

#: A page's bits in /proc/kpageflags.
UNEVICTABLE, MLOCKED = 1 << 18, 1 << 33

#: Bytes that are read at once, and those by which two reads overlap.
CHUNK, OVERLAP = 16 << 20, 256

ZEROS = bytes(PAGE)

#: Pieces of key bytes that are looked for are so long: by chance none is found.
LEAST = 12


def regions(pid):
    """Begin, end and name of what a process has mapped and can write to, now or before."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        span, rights, *_, = line.split()
        name = line.split(maxsplit=5)[5] if len(line.split(maxsplit=5)) > 5 else ""
        # What is of a file and cannot be written to is the file's: programs and their libraries.
        if "r" in rights and ("w" in rights or not name or name.startswith("[stack")):
            begin, end = (int(at, 16) for at in span.split("-"))
            yield begin, end, name


def present(pagemap, begin, end):
    """Runs of pages of a region that are in memory or in swap space."""
    pagemap.seek(begin // PAGE * 8)
    entries = pagemap.read((end - begin) // PAGE * 8)
    entries = struct.unpack(f"={len(entries) // 8}Q", entries)
    run = None
    for number, entry in enumerate((*entries, 0)):
        if entry >> 62:
            run = number if run is None else run
        elif run is not None:
            yield begin + run * PAGE, begin + number * PAGE
            run = None


def pieces(pid):
    """The memory of a process: address, name of the region, and bytes."""
    with open(f"/proc/{pid}/pagemap", "rb") as pagemap, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for begin, end, name in regions(pid):
            for first, last in present(pagemap, begin, end):
                for at in range(first, last, CHUNK):
                    try:
                        memory.seek(at)
                        data = memory.read(min(CHUNK + OVERLAP, last - at))
                    except OSError:
                        # Rings of the kernel, or a region that has gone meanwhile.
                        continue
                    for offset, part in written(data):
                        yield at + offset, name, part


def written(data):
    """Runs of pages that are not all zeros."""
    run = None
    for at in range(0, len(data) + PAGE, PAGE):
        page = data[at : at + PAGE]
        if page and page != ZEROS[: len(page)]:
            run = at if run is None else run
        elif run is not None:
            yield run, data[run:at]
            run = None


def found_in(data, needles):
    """Which needles are in some bytes, and where."""
    for text, needle in needles.items():
        at = data.find(needle)
        if at >= 0:
            yield text, at


def found(pid, needles):
    """Needles in a process's memory."""
    return [(text, hex(begin + at), name) for begin, name, data in pieces(pid) for text, at in found_in(data, needles)]


def page_flags(pid, path):
    """The kernel's flags of each page of a file that a process has mapped, by their number in the file."""
    flags = {}
    with open(f"/proc/{pid}/pagemap", "rb") as pagemap, open("/proc/kpageflags", "rb", buffering=0) as kernel:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            words = line.split(maxsplit=5)
            if len(words) < 6 or words[5] != str(path):
                continue
            begin, end = (int(at, 16) for at in words[0].split("-"))
            pagemap.seek(begin // PAGE * 8)
            entries = pagemap.read((end - begin) // PAGE * 8)
            for number, (entry,) in enumerate(struct.iter_unpack("=Q", entries)):
                if entry >> 63:
                    kernel.seek((entry & ((1 << 55) - 1)) * 8)
                    flags[int(words[2], 16) // PAGE + number] = struct.unpack("=Q", kernel.read(8))[0]
    return flags


def swapped(key, width):
    """Each word of so many bytes with its bytes reversed."""
    return b"".join(key[at : at + width][::-1] for at in range(0, len(key), width))


def aes_round_keys(key):
    """AES's key schedule (FIPS 197 section 5.2), behind the key itself."""
    words = [key[at : at + 4] for at in range(0, len(key), 4)]
    count, rcon = len(words), 1
    for n in range(count, 4 * (count + 7)):
        word = words[-1]
        if n % count == 0:
            word = bytes(SBOX[b] for b in word[1:] + word[:1])
            word = bytes([word[0] ^ rcon]) + word[1:]
            rcon = _double(rcon)
        elif count > 6 and n % count == 4:
            word = bytes(SBOX[b] for b in word)
        words.append(bytes(a ^ b for a, b in zip(words[n - count], word, strict=True)))
    schedule = b"".join(words)
    return [schedule[at : at + 16] for at in range(0, len(schedule), 16)]


def _double(value):
    return (value << 1) ^ (0x11B if value & 0x80 else 0)


def _sbox():
    """FIPS 197 section 5.1.1: the inverse in GF(2^8), and an affine map."""
    box, p, q = [0] * 256, 1, 1
    while True:
        p ^= _double(p) & 0xFF
        for shift in (1, 2, 4):
            q ^= q << shift & 0xFF
        q ^= 0x09 if q & 0x80 else 0
        rotated = [(q << n | q >> (8 - n)) & 0xFF for n in range(5)]
        box[p] = rotated[0] ^ rotated[1] ^ rotated[2] ^ rotated[3] ^ rotated[4] ^ 0x63
        if p == 1:
            break
    box[0] = 0x63
    return box


SBOX = _sbox()


def sha256_state(block):
    """The state of SHA-256 after one block (FIPS 180-4 section 6.2.2): what an HMAC keeps of its key."""
    words = list(struct.unpack(">16I", block))
    for n in range(16, 64):
        a, b = words[n - 15], words[n - 2]
        first = _right(a, 7) ^ _right(a, 18) ^ a >> 3
        second = _right(b, 17) ^ _right(b, 19) ^ b >> 10
        words.append((words[n - 16] + first + words[n - 7] + second) & 0xFFFFFFFF)
    begin = [_root(prime, 2) for prime in PRIMES[:8]]
    a, b, c, d, e, f, g, h = begin
    for word, prime in zip(words, PRIMES, strict=True):
        first = h + (_right(e, 6) ^ _right(e, 11) ^ _right(e, 25)) + (e & f ^ ~e & g) + _root(prime, 3) + word
        second = (_right(a, 2) ^ _right(a, 13) ^ _right(a, 22)) + (a & b ^ a & c ^ b & c)
        a, b, c, d, e, f, g, h = (first + second) & 0xFFFFFFFF, a, b, c, (d + first) & 0xFFFFFFFF, e, f, g
    end = zip(begin, (a, b, c, d, e, f, g, h), strict=True)
    return struct.pack(">8I", *((one + other) & 0xFFFFFFFF for one, other in end))


def _right(word, count):
    return (word >> count | word << 32 - count) & 0xFFFFFFFF


def _root(prime, degree):
    """32 bits behind the point of a prime's root."""
    low, high = 0, prime << 32
    while high - low > 1:
        middle = (low + high) // 2
        if middle**degree <= prime << 32 * degree:
            low = middle
        else:
            high = middle
    return low & 0xFFFFFFFF


PRIMES = [n for n in range(2, 312) if all(n % m for m in range(2, n))]


def forms(name, key, is_aes=False, hmac_block=0):
    """What to look for of a key, by a text that says what it is."""
    needles = {}

    def add(form, value):
        for half in range(0, max(len(value) - LEAST, 1), 16):
            needles[f"{name}, {form}, from byte {half}"] = value[half : half + 16]

    add("raw", key)
    for width in (4, 8):
        if len(key) % width == 0:
            add(f"words of {width} bytes reversed", swapped(key, width))
    add("reversed", key[::-1])
    text = key.hex()
    for form, value in (("hex", text), ("upper-case hex", text.upper())):
        # What a text was cut from may be left of it.
        needles[f"{name}, {form}"] = value[: 2 * LEAST].encode()
        needles[f"{name}, end of {form}"] = value[-2 * LEAST :].encode()
    if is_aes:
        for number, value in enumerate(aes_round_keys(key)):
            add(f"round key {number}", value)
            add(f"round key {number}, words of 4 bytes reversed", swapped(value, 4))
    if hmac_block:
        # RFC 2104: the block is the key and zeros; only the part with the key tells one from another.
        for pad in (0x36, 0x5C):
            add(f"block xor {pad:#x}", bytes(b ^ pad for b in key[:hmac_block]))
            if hmac_block == 64 and len(key) == 32:
                state = sha256_state(bytes(b ^ pad for b in key.ljust(64, b"\0")))
                add(f"SHA-256 behind {pad:#x}", state)
                add(f"SHA-256 behind {pad:#x}, words of 4 bytes reversed", swapped(state, 4))
    return needles
