"""A frame around one module, so that it can be placed alone and its ports' paths are timed.

A module has more ports than the device has pins. In the frame each input bit comes from a register
of a shift chain, and each output bit goes to a register of another: two pins, and every path starts
and ends at a register next to the module, as it would at its neighbours'. The chains are not
counted in the area, which is that of the module alone.
"""

import json


def read_ports(path, top):
    """(name, direction, width) of each port of `top`, from a netlist in yosys' JSON."""
    with open(path, encoding="utf-8") as file:
        module = json.load(file)["modules"][top]
    return [(n, p["direction"], len(p["bits"])) for n, p in module["ports"].items()]


def harness(top, ports, clocks):
    """Verilog of the frame `frame`, and of `top` as a black box. `clocks`: see Design.

    A clock that is not in `clocks` is that of the ports that begin as it does: out_clk_i of out_*.
    """
    clocks = {n: (n.removesuffix("clk_i"),) for n, _, _ in ports
              if n.endswith("_clk_i")} | clocks

    def clock_of(port):
        for clock, beginnings in clocks.items():
            if port.startswith(beginnings):
                return clock
        return "clk_i"

    def is_global(port):
        return port == "clk_i" or port in clocks or port.endswith("rst_ni")

    pins = [n for n, _, _ in ports if is_global(n)]
    # A module without registers has no clock; its frame has one all the same.
    if "clk_i" not in pins:
        pins.insert(0, "clk_i")
    lines = [f"module frame(input {', input '.join(pins)}, input shift_i, input load_i, "
             "output shift_o);"]
    connect = [f".{n}({n})" for n, _, _ in ports if is_global(n)]
    link = "shift_i"
    for clock in ["clk_i", *clocks]:
        inputs = [(n, w) for n, d, w in ports
                  if d == "input" and not is_global(n) and clock_of(n) == clock]
        outputs = [(n, w) for n, d, w in ports if d == "output" and clock_of(n) == clock]
        for kind, group in (("in", inputs), ("out", outputs)):
            total = sum(w for _, w in group)
            if not total:
                continue
            # Each port has its own register, so that a path's ends say which it is.
            registers = [f"port_{n}" for n, _ in group]
            lines += [f"  reg [{w - 1}:0] port_{n};" for n, w in group]
            chain = f"{{{', '.join(registers)}}}"
            shifted = f"{{{chain}, {link}}}"
            if kind == "out":
                lines += [f"  wire [{w - 1}:0] {n}_w;" for n, w in group]
                outputs_now = ", ".join(f"{n}_w" for n, _ in group)
                shifted = f"load_i ? {{1'b0, {outputs_now}}} : {shifted}"
            lines += [f"  wire [{total}:0] next_{kind}_{clock} = {shifted};",
                      f"  always @(posedge {clock}) {chain} <= next_{kind}_{clock}[{total - 1}:0];"]
            connect += [f".{n}({n}_w)" if kind == "out" else f".{n}(port_{n})" for n, _ in group]
            # The bit that is shifted out goes to the next chain.
            link = f"{registers[0]}[{group[0][1] - 1}]"
    lines += [f"  assign shift_o = {link};", f"  {top} u_dut({', '.join(connect)});", "endmodule"]
    declared = ", ".join(f"{d} [{w - 1}:0] {n}" for n, d, w in ports)
    lines += ["(* blackbox *)", f"module {top}({declared});", "endmodule", ""]
    return "\n".join(lines)
