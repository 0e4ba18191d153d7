"""Wrong configurations, each with the answer that is wanted.

A row: a name, the file's text, and for each problem where it stands (line and column, or None for what the file leaves out), its key, and words
that the answer must have. The answers are all that `culvert check` may say: one more is wrong, too.
"""

WAN = '[[port]]\ninterface = "wan"\n'
APP = '[[port]]\ninterface = "app0"\nkind = "memif"\nsocket = "/run/culvert/app0.sock"\n'
TUNNEL = '[[tunnel]]\ninterface = "ipsec0"\n'
PATH = '[[path]]\nname = "fibre"\ntunnel = "ipsec0"\nsource = "10.9.1.1"\nto = "10.9.1.2"\n'
STEER = '[[steer]]\nname = "voice"\n'
LIMIT = '[[limit]]\nname = "site"\nrate = "10Mbit"\nall = true\n'


def ports(count, more=""):
    return "".join(f'[[port]]\ninterface = "p{i}"\n{more}' for i in range(count))


#: What no machine takes.
OF_THE_FILE = {
    # The file as such.
    "no-toml": ("name = ", [((1, 8), "", ["no TOML", "KEY = VALUE"])]),
    "key-twice": ('name = "a"\nname = "b"\n', [((2, 1), "", ["duplicate key", "each key once"])]),
    "without-quotes": ("name = gwa\n", [((1, 8), "", ["no TOML", "text in quotes"])]),
    # Keys.
    "unknown-key": ('colour = "red"\n', [((1, 1), "colour", ["unknown key", "there is name, source, port"])]),
    "misspelt-key": (
        '[[port]]\ninterface = "wan"\nmdoe = "auto"\n',
        [((3, 1), "port[0].mdoe", ["unknown key", "did you mean mode?"])],
    ),
    "misspelt-required-key": (
        '[[port]]\ninterfce = "wan"\n',
        [((2, 1), "port[0].interfce", ["did you mean interface?"])],
    ),
    "misspelt-table": ("[wroker]\nframes = 1024\n", [((1, 2), "wroker", ["unknown key", "did you mean worker?"])]),
    "hyphen-for-underscore": ("[worker]\nframe-bytes = 2048\n", [((2, 1), "worker.frame-bytes", ["did you mean frame_bytes?"])]),
    "one-bracket": ('[port]\ninterface = "wan"\n', [((1, 1), "port", ["a table", "[[port]]", "two brackets"])]),
    "required-key": ('[[port]]\nmode = "auto"\n', [((1, 1), "port[0].interface", ["missing", "add interface = ..."])]),
    # Types.
    "number-for-text": ("[[port]]\ninterface = 3\n", [((2, 13), "port[0].interface", ["a number", "text in quotes"])]),
    "text-for-number": ('[worker]\nframes = "many"\n', [((2, 10), "worker.frames", ["text", "a number from 0"])]),
    "text-for-boolean": ('[guard]\nenabled = "yes"\n', [((2, 11), "guard.enabled", ["text", "true or false"])]),
    "text-for-list": ('[guard]\nprefixes = "10.2.0.0/16"\n', [((2, 12), "guard.prefixes", ["text", "a list"])]),
    "below-zero": ("[worker]\nframes = -1\n", [((2, 10), "worker.frames", ["-1", "a number from 0"])]),
    "too-large": ("[worker]\nframes = 99999999999\n", [((2, 10), "worker.frames", ["99999999999", "4294967295"])]),
    # Words.
    "misspelt-mode": (WAN + 'mode = "natve"\n', [((3, 8), "port[0].mode", ["natve", "did you mean native?"])]),
    "unknown-mode": (WAN + 'mode = "fast"\n', [((3, 8), "port[0].mode", ["fast", "auto, native, generic"])]),
    "unknown-kind": (WAN + 'kind = "tap"\n', [((3, 8), "port[0].kind", ["tap", "memif"])]),
    "unknown-engine": ('[crypto]\nengine = "opnssl"\n', [((2, 10), "crypto.engine", ["did you mean openssl?"])]),
    "unknown-poll": ('[worker]\npoll = "never"\n', [((2, 8), "worker.poll", ["adaptive, always"])]),
    "unknown-source": ('source = "kernle"\n', [((1, 10), "source", ["did you mean kernel?"])]),
    "unknown-level": ('[log]\nlevel = "verbose"\n', [((2, 9), "log.level", ["verbose", "error, warn, info"])]),
    # Names.
    "name-with-slash": ('name = "../x"\n', [((1, 8), "name", ["../x", "letters, digits"])]),
    "long-interface": ('[[port]]\ninterface = "interface-too-long"\n', [((2, 13), "port[0].interface", ["1 to 15"])]),
    "port-twice": (WAN + WAN, [((4, 13), "port[1].interface", ["named twice"])]),
    "loopback": ('[[port]]\ninterface = "lo"\n', [((2, 13), "port[0].interface", ["loopback", "ip link"])]),
    "private-loopback": ('[tun]\ninterface = "lo"\n', [((2, 13), "tun.interface", ["neither lo nor one of the ports"])]),
    "private-is-a-port": (WAN + '[tun]\ninterface = "wan"\n', [((4, 13), "tun.interface", ["one of the ports"])]),
    "tunnel-loopback": ('[[tunnel]]\ninterface = "lo"\nif_id = 1\n', [((2, 13), "tunnel[0].interface", ["not lo"])]),
    # Prefixes and addresses.
    "no-length": ('[guard]\nprefixes = ["10.2.0.0"]\n', [((2, 13), "guard.prefixes[0]", ["no address prefix", "10.2.0.0/16"])]),
    "length-33": ('[guard]\nprefixes = ["10.2.0.0/33"]\n', [((2, 13), "guard.prefixes[0]", ["10.2.0.0/33", "no address prefix"])]),
    "host-bits": (
        '[guard]\nprefixes = ["10.1.0.0/24", "10.2.0.1/16"]\n',
        [((2, 28), "guard.prefixes[1]", ["bits beyond the length", '"10.2.0.0/16"', '"10.2.0.1/32"'])],
    ),
    "host-bits-v6": ('[guard]\nprefixes = ["2001:db8::1/32"]\n', [((2, 13), "guard.prefixes[0]", ['"2001:db8::/32"'])]),
    "no-address": (TUNNEL + 'ikey = 1\nokey = 1\nremote = "peer"\n', [((5, 10), "tunnel[0].remote", ["no address", "192.0.2.1"])]),
    "other-families": (
        '[[mark]]\nmark = 1\nsrc = "10.0.0.0/8"\ndst = "2001:db8::/32"\n',
        [((4, 7), "mark[0].dst", ["family of src"])],
    ),
    # Numbers.
    "private-mtu": ("[tun]\nmtu = 12\n", [((2, 7), "tun.mtu", ["1280"])]),
    "linux-table": ("[tun]\ntable = 254\n", [((2, 9), "tun.table", ["253 to 255"])]),
    "strongswan-table": ("[tun]\ntable = 220\n", [((2, 9), "tun.table", ["strongSwan's own"])]),
    "strongswan-marked-table": ("[tun]\nmarked_table = 220\n", [((2, 16), "tun.marked_table", ["strongSwan's own"])]),
    "rule-behind-strongswan": ("[tun]\nrule_preference = 221\n", [((2, 19), "tun.rule_preference", ["2 to 218"])]),
    "frames-1000": ("[worker]\nframes = 1000\n", [((2, 10), "worker.frames", ["power of two"])]),
    "queues-0": (WAN + "queues = 0\n", [((3, 10), "port[0].queues", ["1 to 64"])]),
    "workers-65": ("[worker]\ncpus = 65\n", [((2, 8), "worker.cpus", ["1 to 64"])]),
    "cpu-and-cpus": ("[worker]\ncpu = 0\ncpus = 1\n", [((2, 7), "worker.cpu", ["leave it out"])]),
    "crypto-core-of-a-worker": (
        "[worker]\ncpus = [0]\ncrypto_cpus = [0]\n",
        [((3, 15), "worker.crypto_cpus", ["differ"])],
    ),
    "memif-mtu": (APP + "mtu = 3000\n", [((5, 7), "port[0].mtu", ["1770"])]),
    # What does not fit together.
    "too-many-ports": (ports(65), [((130, 13), "port[64].interface", ["more ports", "at most 64", "go through Linux"])]),
    "key-of-another-kind": (WAN + "mtu = 1400\n", [((3, 7), "port[0].mtu", ['kind = "memif"'])]),
    "tunnel-without-id": (TUNNEL, [((1, 1), "tunnel[0].if_id", ["ikey and okey"])]),
    "tunnel-id-twice": (
        TUNNEL + 'if_id = 1\n[[tunnel]]\ninterface = "ipsec1"\nif_id = 1\n',
        [((6, 9), "tunnel[1].if_id", ["another one"])],
    ),
    "device-without-port": (
        '[device.nic0]\nkind = "nic-model"\nport = "wan"\n',
        [((3, 8), "device.nic0.port", ["one of the ports"])],
    ),
    "limit-below-nothing": (LIMIT + 'parent = "all"\n', [((5, 10), "limit[0].parent", ["another [[limit]]"])]),
    "gtpu-of-no-application": (
        WAN + '[[gtpu]]\naddress = "10.1.0.1"\nport = "wan"\n',
        [((5, 8), "gtpu[0].port", ["memif"])],
    ),
    # Names that nothing has, in rules, and keys that belong elsewhere.
    "misspelt-path": (
        PATH + STEER + 'paths = ["fibr"]\n',
        [((8, 9), "steer[0].paths", ["fibr", "no [[path]] of this name", "did you mean fibre?"])],
    ),
    "misspelt-application": (
        PATH + STEER + 'paths = ["fibre"]\napplication = "Zoom"\n[applications]\nenabled = true\n',
        [((9, 15), "steer[0].application", ["no such application", "did you mean zoom?"])],
    ),
    "class-that-is-not-measured": (
        PATH + STEER + 'paths = ["fibre"]\nclass = "EF"\n',
        [((8, 9), "steer[0].paths", ["do not measure the class", 'add "EF" to dscp of path fibre'])],
    ),
    "path-twice": (PATH + PATH, [((7, 8), "path[1].name", ["no other path"])]),
    "bound-with-a-unit": (
        PATH + 'max_loss_percent = "120 %"\nmax_delay_ms = "-1 ms"\n',
        [
            ((6, 20), "path[0].max_loss_percent", ["a number, without quotes"]),
            ((7, 16), "path[0].max_delay_ms", ["a number from 0", "without quotes"]),
        ],
    ),
    "bound-below-zero": (PATH + "max_delay_ms = -1\n", [((6, 16), "path[0].max_delay_ms", ["this is -1"])]),
    "bound-beyond-all": (PATH + "max_loss_percent = 120\n", [((6, 20), "path[0].max_loss_percent", ["0 to 100"])]),
    "bound-that-no-probe-passes": (
        PATH + "timeout_ms = 200\nmax_delay_ms = 300\n",
        [((7, 16), "path[0].max_delay_ms", ["at most timeout_ms"])],
    ),
    "part-of-a-key": (PATH + "delay = 20\n", [((6, 1), "path[0].delay", ["did you mean max_delay_ms?"])]),
    "key-of-another-table": (PATH + "reflector = true\n", [((6, 1), "path[0].reflector", ["it is a key of [paths]"])]),
    "two-brackets-for-one": ("[[paths]]\nreflector = true\n", [((1, 1), "paths", ["a list of tables", "write [paths], once"])]),
    "unicode": (PATH.replace("fibre", "f\u00efbre"), [((2, 8), "path[0].name", ["f\u00efbre", "letters"])]),
    "name-of-300": (PATH.replace("fibre", "f" * 300), [((2, 8), "path[0].name", ["1 to 64 letters"])]),
    # All at once, in the order of the file, and nothing that only follows from them.
    "several": (
        'nmae = "gwa"\n[[port]]\ninterface = "wan"\nmode = "fast"\n[[port]]\ninterface = "lo"\n[tun]\nmtu = 1\ntable = 220\n'
        '[guard]\nprefixes = ["x", "10.2.0.0/16", "10.2.0.1/16"]\n',
        [
            ((1, 1), "nmae", ["did you mean name?"]),
            ((4, 8), "port[0].mode", ["fast"]),
            ((6, 13), "port[1].interface", ["loopback"]),
            ((8, 7), "tun.mtu", ["1280"]),
            ((9, 9), "tun.table", ["strongSwan"]),
            ((11, 13), "guard.prefixes[0]", ["no address prefix"]),
            ((11, 33), "guard.prefixes[2]", ["bits beyond"]),
        ],
    ),
}

#: What this machine does not have. Cores 990 and above are nobody's.
OF_THE_MACHINE = {
    "core": ("[worker]\ncpus = [0, 999]\n", [((2, 8), "worker.cpus", ["core 999", "it may use 0"])]),
    "crypto-core": ("[worker]\ncrypto_cpus = [998]\n", [((2, 15), "worker.crypto_cpus", ["core 998", "it may use 0"])]),
    "older-core": ("[worker]\ncpu = 997\n", [((2, 7), "worker.cpu", ["core 997"])]),
    "cores-of-both": (
        "[worker]\ncpus = [990, 991]\ncrypto_cpus = [993]\n",
        [((2, 8), "worker.cpus", ["cores 990-991"]), ((3, 15), "worker.crypto_cpus", ["core 993"])],
    ),
    "frames-for-64-workers": ("[worker]\ncpus = 64\n", [((1, 2), "worker.frames", ["64 workers", "worker.frames = 65536"])]),
    "frames-for-28-queues": (
        ports(7, "queues = 4\n") + "[worker]\nframes = 1024\n",
        [((23, 10), "worker.frames", ["28 queues", "worker.frames = "])],
    ),
    "queues-for-one-worker": (
        ports(1, 'kind = "xdp"\nqueues = 40\n') + "[worker]\ncpus = 1\nframes = 65536\n",
        [((4, 10), "port[0].queues", ["40 receive queues", "at most 16", "more workers"])],
    ),
    "private-name-is-taken": ('[tun]\ninterface = "lan"\n', [((2, 13), "tun.interface", ["another kind", "another name"])]),
    "tunnel-name-is-taken": (
        '[[tunnel]]\ninterface = "lan"\nif_id = 1\n',
        [((2, 13), "tunnel[0].interface", ["another kind", "ip link"])],
    ),
    "memif-name-is-taken": (
        APP.replace("app0\"", "lan\"", 1),
        [((2, 13), "port[0].interface", ["another kind", "ip link"])],
    ),
    "of-the-file-too": (
        ports(65) + "[worker]\ncpus = [0, 999]\n",
        [((130, 13), "port[64].interface", ["at most 64"]), ((132, 8), "worker.cpus", ["core 999"])],
    ),
}

#: What works, and is spoken of: a warning's key and words.
ACCEPTED = {
    "empty": ("", []),
    "interface-that-may-come": (WAN.replace("wan", "wann"), [("port[0].interface", ["no such interface", "did you mean wan?"])]),
    "queues-beyond-those-there": (WAN + "queues = 64\n", [("port[0].queues", ["the interface has"])]),
    "socket-without-directory": (
        APP.replace("/run/culvert/app0.sock", "/run/culvert/not-there/app0.sock"),
        [("port[0].socket", ["no such directory"])],
    ),
    "rule-that-nothing-comes-to": (
        TUNNEL + "if_id = 1\n" + PATH + STEER + 'paths = ["fibre"]\n[[steer]]\nname = "late"\npaths = ["fibre"]\nmark = 1\n',
        [("steer[1].name", ["no packet comes to it: voice is about the same ones", "put it before voice"])],
    ),
    "path-without-its-interface": (
        TUNNEL + "if_id = 1\n" + PATH.replace("ipsec0", "ipsec9"),
        [("path[0].tunnel", ["there is no such interface", "did you mean ipsec0?"])],
    ),
}
