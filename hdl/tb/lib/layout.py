"""The packed types of rtl/'s packages, read from their source, as Python dicts.

    hdr = Layout("aes_pkg", "gateway_pkg")
    value = hdr.pack("auth_hdr_t", low=0, auth="AuthSha1", frame={"net_bytes": 20})
    hdr.unpack("auth_hdr_t", value)["frame"]["net_bytes"]

Fields that are not named are 0. Enumerations are packed from names or numbers, and unpacked to
numbers. What is read is the subset of SystemVerilog that the packages use: localparams, enums,
vectors and packed structs.
"""

import re
from pathlib import Path

RTL = Path(__file__).resolve().parents[2] / "rtl"
BASES = {"logic": 1, "bit": 1}


class Layout:
    def __init__(self, *packages):
        self.constants = {}  # localparams and enumeration values
        self.widths = dict(BASES)
        self.structs = {}  # name -> [(field, type, width)], the highest bits first
        for package in packages:
            (path,) = RTL.rglob(f"{package}.sv")
            self._read(re.sub(r"//.*", "", path.read_text(encoding="utf-8")))

    def _value(self, text):
        text = re.sub(r"\d*'([hd])([0-9a-fA-F_]+)", self._literal, text)
        return eval(text.replace("/", "//").strip(), {"__builtins__": {}}, self.constants)

    @staticmethod
    def _literal(match):
        return str(int(match[2].replace("_", ""), 16 if match[1] == "h" else 10))

    def _width(self, base, ranges):
        width = self.widths[base]
        for high, low in re.findall(r"\[([^:\]]+):([^\]]+)\]", ranges or ""):
            width *= abs(self._value(high) - self._value(low)) + 1
        return width

    def _read(self, text):
        pattern = re.compile(
            r"localparam\s+int\s+unsigned\s+(?P<const>\w+)\s*=\s*(?P<value>[^;{]+);"
            r"|typedef\s+enum\s+(?P<ebase>\w+)\s*(?P<erange>\[[^;{]*\])?\s*"
            r"\{(?P<values>[^}]*)\}\s*(?P<enum>\w+);"
            r"|typedef\s+struct\s+packed\s*\{(?P<fields>[^}]*)\}\s*(?P<struct>\w+);"
            r"|typedef\s+(?P<base>\w+)\s*(?P<range>\[[^;]*\])?\s+(?P<name>\w+);")
        for match in pattern.finditer(text):
            if match["const"]:
                self.constants[match["const"]] = self._value(match["value"])
            elif match["enum"]:
                self.widths[match["enum"]] = self._width(match["ebase"], match["erange"])
                for entry in match["values"].split(","):
                    name, value = entry.split("=")
                    self.constants[name.strip()] = self._value(value)
            elif match["struct"]:
                fields = []
                for entry in filter(str.strip, match["fields"].split(";")):
                    base, ranges, name = re.fullmatch(
                        r"\s*(\w+)\s*((?:\[[^\]]*\]\s*)*)\s*(\w+)\s*", entry).groups()
                    fields.append((name, base, self._width(base, ranges)))
                self.structs[match["struct"]] = fields
                self.widths[match["struct"]] = sum(width for _, _, width in fields)
            else:
                self.widths[match["name"]] = self._width(match["base"], match["range"])

    def pack(self, kind, **values):
        """A struct's value from its fields; nested structs are dicts."""
        number = 0
        known = {name for name, _, _ in self.structs[kind]}
        assert values.keys() <= known, f"{kind} has no {values.keys() - known}"
        for name, base, width in self.structs[kind]:
            value = values.get(name, 0)
            if isinstance(value, dict):
                value = self.pack(base, **value)
            elif isinstance(value, str):
                value = self.constants[value]
            value = int(value)
            assert 0 <= value < 1 << width, f"{kind}.{name} has {width} bits, not for {value:#x}"
            number = number << width | value
        return number

    def unpack(self, kind, number):
        """The fields of a struct's value."""
        out = {}
        for name, base, width in reversed(self.structs[kind]):
            value = number & (1 << width) - 1
            number >>= width
            out[name] = self.unpack(base, value) if base in self.structs else value
        assert number == 0, f"{kind} has fewer bits"
        return out
