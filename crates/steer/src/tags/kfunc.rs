//! The kernel's function by which XDP programs are told the VLAN tag that the driver has taken out of a frame.
//!
//! The compiled program calls a helper of a number that there is not ([`PLACEHOLDER`]), so any clang will do. The
//! kernel's own functions are called by the numbers of their types (BTF), which each kernel has its own of:
//!
//! ```text
//!   code  src  imm
//!   0x85   0   PLACEHOLDER    as compiled: a helper
//!   0x85   2   type's number  as loaded: a function of the kernel
//! ```

use aya_obj::generated::{BPF_PSEUDO_KFUNC_CALL, bpf_insn};

use super::btf;
use crate::device::KERNEL_TYPES;

/// Number of the function in this kernel, or the reason that there is none.
pub(super) fn rx_vlan_tag() -> Result<u32, String> {
    let types = std::fs::read(KERNEL_TYPES).map_err(|error| format!("{KERNEL_TYPES}: {error}"))?;
    let found = btf::function(&types, RX_VLAN_TAG);
    found.ok_or_else(|| format!("this kernel has no {RX_VLAN_TAG} (6.8 and later)"))
}

/// Makes calls of the function of all those of [`PLACEHOLDER`], and says how many there were.
pub(super) fn fill_in(program: &mut [bpf_insn], number: u32) -> usize {
    let is_placeholder =
        |insn: &&mut bpf_insn| insn.code == CALL && insn.src_reg() == 0 && insn.imm == PLACEHOLDER;
    let calls = program.iter_mut().filter(is_placeholder);
    calls
        .map(|insn| {
            insn.set_src_reg(BPF_PSEUDO_KFUNC_CALL as u8);
            // Of the kernel itself, and not of a module.
            insn.off = 0;
            insn.imm = number as i32;
        })
        .count()
}

const RX_VLAN_TAG: &str = "bpf_xdp_metadata_rx_vlan_tag";

/// Number that `bpf/tags.bpf.c` calls, to be replaced by the function's.
const PLACEHOLDER: i32 = 0x6b66_0001;

/// `BPF_JMP | BPF_CALL`.
const CALL: u8 = 0x85;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_of_the_placeholder_are_changed() {
        let le = |code: u8, registers: u8, imm: i32| {
            let [a, b, c, d] = imm.to_le_bytes();
            [code, registers, 0, 0, a, b, c, d]
        };
        let bytes = [
            le(CALL, 0, PLACEHOLDER),
            le(CALL, 0, 1),              // bpf_map_lookup_elem
            le(CALL, 0x10, PLACEHOLDER), // of a function of the program's own
            le(0xb7, 0, PLACEHOLDER),    // r0 = PLACEHOLDER
            le(CALL, 0, PLACEHOLDER),
        ];
        let mut program = aya_obj::copy_instructions(&bytes.concat()).expect("whole instructions");
        let before = program.clone();
        assert_eq!(fill_in(&mut program, 66_153), 2);
        for at in [0, 4] {
            let insn = program[at];
            assert_eq!((insn.code, insn.src_reg(), insn.dst_reg()), (CALL, 2, 0));
            assert_eq!((insn.off, insn.imm), (0, 66_153));
        }
        for (now, was) in program[1..4].iter().zip(&before[1..4]) {
            assert_eq!((now.code, now.src_reg(), now.imm), (was.code, was.src_reg(), was.imm));
        }
        assert_eq!(fill_in(&mut program, 1), 0, "none is left");
    }

    #[test]
    fn the_compiled_programs_call_it_once_each() {
        let object = aya_obj::Object::parse(&crate::TAGS_OBJECT.0).expect("an object");
        for name in ["tags", "tags_frags"] {
            let key = object.programs[name].function_key();
            let mut program = object.functions[&key].instructions.clone();
            assert_eq!(fill_in(&mut program, 1), 1, "{name}");
        }
    }
}
