//! Loads the program that returns packets to the interface that they came in by, and keeps its
//! table.
//!
//! The program (`bpf/back.bpf.c`) stands where the private interface receives. Its table says which
//! interface, and which mark, each tag stands for: a port that cleartext goes back to, or an interface
//! and the mark that an SA gives to what it decrypts.

use core::fmt;

use aya::Ebpf;
use aya::maps::{Array, MapData};
use aya::programs::TcAttachType;
use wire::VlanTags;
use wire::ethernet::Tag;

use crate::classifier;
use crate::error::{SteerError, chain};

/// One past the highest tag: as many as there are VLAN identifiers.
pub const TAGS: u16 = 4095;

/// The program on the private interface. Dropping it detaches it: Linux then drops packets with a
/// tag.
pub struct GiveBack {
    interface: String,
    /// `struct port` of the program: interface, marks, and the tags of a VLAN.
    ports: Array<MapData, Entry>,
    /// The mark of returned packets.
    mark: u32,
    // Keeps the program loaded and attached.
    _program: Ebpf,
}

impl GiveBack {
    /// Loads the program and attaches it to the private interface, with an empty table. Packets that
    /// it returns get `mark`.
    ///
    /// # Errors
    ///
    /// [`SteerError`] names the step that failed, and a remedy. Nothing stays attached then.
    pub fn load_and_attach(interface: &str, mark: u32) -> Result<Self, SteerError> {
        let at = TcAttachType::Ingress;
        let mut program =
            classifier::load_and_attach(crate::BACK_OBJECT, "give_back", interface, at)?;
        let ports = classifier::take_array(&mut program, TABLE, interface)?;
        Ok(Self { interface: interface.to_owned(), ports, mark, _program: program })
    }

    /// Has packets with this tag given back to this interface from now on; to none with 0.
    /// `unmarks`: a program at tc ingress of the interface passes such a packet by its mark, as
    /// that of a packet socket does, and removes a mark that the packet is not to have.
    ///
    /// # Errors
    ///
    /// [`SteerError::Table`] for a tag that is 0 or too high, and when the kernel refuses.
    pub fn set(&mut self, tag: u16, ifindex: u32, unmarks: bool) -> Result<(), SteerError> {
        self.set_entry(tag, ifindex, Given::back(unmarks, self.mark), VlanTags::NONE)
    }

    /// The same for a VLAN of the interface, whose frames have these tags.
    ///
    /// # Errors
    ///
    /// As [`GiveBack::set`].
    pub fn set_vlan(
        &mut self,
        tag: u16,
        ifindex: u32,
        unmarks: bool,
        tags: VlanTags,
    ) -> Result<(), SteerError> {
        self.set_entry(tag, ifindex, Given::back(unmarks, self.mark), tags)
    }

    /// Has packets with this tag given back to this interface, or to the VLAN of it with these tags, with a mark that rules of
    /// Linux's route by.
    ///
    /// # Errors
    ///
    /// As [`GiveBack::set`].
    pub fn set_uplink(
        &mut self,
        tag: u16,
        ifindex: u32,
        mark: u32,
        tags: VlanTags,
    ) -> Result<(), SteerError> {
        self.set_entry(tag, ifindex, Given { mark, unmarked: 0 }, tags)
    }

    /// Has packets without tag and mark received by the private interface with this mark from now
    /// on; 0 for none.
    ///
    /// # Errors
    ///
    /// [`SteerError::Table`] when the kernel refuses.
    pub fn set_untagged(&mut self, mark: u32) -> Result<(), SteerError> {
        self.ports.set(0, [0, mark, 0, 0, 0], 0).map_err(|error| {
            let (interface, reason) = (self.interface.clone(), chain(&error));
            SteerError::Table { interface, table: TABLE, reason }
        })
    }

    /// Has packets with this tag received by this interface with this mark from now on; by none
    /// with 0.
    ///
    /// # Errors
    ///
    /// As [`GiveBack::set`].
    pub fn set_marked(&mut self, tag: u16, ifindex: u32, mark: u32) -> Result<(), SteerError> {
        self.set_entry(tag, ifindex, Given { mark, unmarked: 0 }, VlanTags::NONE)
    }

    fn set_entry(
        &mut self,
        tag: u16,
        ifindex: u32,
        given: Given,
        tags: VlanTags,
    ) -> Result<(), SteerError> {
        let refused = |reason| classifier::table_error(&self.interface, TABLE, reason);
        if tag == 0 || tag >= TAGS {
            return Err(refused(format!("{tag} is no tag")));
        }
        self.ports
            .set(tag.into(), entry(ifindex, given, tags), 0)
            .map_err(|error| refused(chain(&error)))
    }
}

impl fmt::Debug for GiveBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GiveBack({})", self.interface)
    }
}

/// Marks of packets that are given back: with a mark, and with none.
#[derive(Clone, Copy)]
struct Given {
    mark: u32,
    unmarked: u32,
}

impl Given {
    /// Marks of what an interface gets back, whose packets have `mark`, or none with 0.
    const fn back(unmarks: bool, mark: u32) -> Given {
        match (unmarks, mark) {
            (false, mark) => Given { mark, unmarked: 0 },
            (true, 0) => Given { mark: !0, unmarked: !0 },
            (true, mark) => Given { mark, unmarked: !mark },
        }
    }
}

/// `struct port` of the program.
type Entry = [u32; 5];

/// Entry of an interface, or of a VLAN of it; an empty one for index 0.
fn entry(ifindex: u32, given: Given, tags: VlanTags) -> Entry {
    if ifindex == 0 {
        return [0; 5];
    }
    let mut tags = tags.iter().map(vlan);
    let [outer, inner] = [tags.next().unwrap_or(0), tags.next().unwrap_or(0)];
    [ifindex, given.mark, given.unmarked, outer, inner]
}

/// `struct vlan` of the program: the TPID in network byte order, then the identifier in the host's.
fn vlan(tag: Tag) -> u32 {
    let ([a, b], [c, d]) = (tag.tpid.0.to_be_bytes(), tag.vlan_id().to_ne_bytes());
    u32::from_ne_bytes([a, b, c, d])
}

/// The map's name.
const TABLE: &str = "back_ports";

#[cfg(test)]
mod tests {
    use super::*;
    use wire::EtherType;

    #[test]
    fn an_entry_says_marks_and_tags_from_outside_to_inside() {
        let with = |tags: VlanTags, tpid, id| tags.with(EtherType(tpid), id).expect("a VLAN");
        let tags = with(with(VlanTags::NONE, 0x88a8, 5), 0x8100, 6);
        let [outer, inner] = [(0x88a8, 5), (0x8100, 6)].map(|(tpid, id): (u16, u16)| {
            let ([a, b], [c, d]) = (tpid.to_be_bytes(), id.to_ne_bytes());
            u32::from_ne_bytes([a, b, c, d])
        });
        for (unmarks, mark, marks) in [
            (false, 0, [0, 0]),
            (false, 7, [7, 0]),
            // The program at the interface takes off what says that there is none.
            (true, 0, [!0, !0]),
            (true, 7, [7, !7]),
        ] {
            let given = Given::back(unmarks, mark);
            assert_eq!(entry(3, given, tags), [3, marks[0], marks[1], outer, inner]);
            assert_eq!(entry(3, given, VlanTags::NONE), [3, marks[0], marks[1], 0, 0]);
            assert_eq!(entry(0, given, tags), [0; 5]);
        }
    }
}
