//! Marks of packets that go back to Linux, and the programs that give them ([`WayBack`]).

use std::collections::{BTreeMap, BTreeSet};

use config::Config;
use forward::SourceCheck;
use mirror::Snapshot;
use policy::Marks as Pair;
use steer::SendMarks;

use super::private::{self, Private};
use super::tunnels::Tunnels;
use super::way_back::WayBack;

/// Marks between Linux and culvert.
pub struct Marks {
    /// Gives packets back to Linux, with their marks.
    pub way_back: WayBack,
    /// Tells the marks of what Linux sends, where the kernel can.
    _send_marks: Option<SendMarks>,
    /// Marks that SAs set.
    of_sas: Vec<Pair>,
    /// Linux's own XFRM interfaces by which it takes what their SAs decrypt for this host: indices by `if_id`.
    brought_by: BTreeMap<u32, u32>,
}

impl Marks {
    /// No SA sets a mark yet.
    pub fn new(way_back: WayBack, send_marks: Option<SendMarks>) -> Marks {
        let brought_by = BTreeMap::new();
        Marks { way_back, _send_marks: send_marks, of_sas: Vec::new(), brought_by }
    }

    /// SAs set these marks.
    pub fn set_of_sas(&mut self, marks: Vec<Pair>) {
        self.of_sas = marks;
    }

    /// Linux takes what these `if_id`s decrypt, with the mark of what was judged.
    pub fn follow_interfaces(
        &mut self,
        snapshot: &Snapshot,
        tunnels: &Tunnels,
        judged: &BTreeSet<u32>,
    ) {
        // Their way back is the private interface.
        let takes = |name: &str| private::source_check(name) != SourceCheck::Strict;
        self.brought_by = tunnels.bringing(snapshot, judged, takes);
    }

    /// Tells Linux the marks of SAs, and those that `[[mark]]` gives to what is decrypted.
    pub fn tell(&mut self, config: &Config, private: &Private, tunnels: &Tunnels) {
        let mut wanted = self.of_sas.clone();
        wanted.extend(self.brought_by.keys().map(|if_id| Pair::of_interface(*if_id)));
        for marks in config.marks.iter().map(|rule| Pair::of_mark(rule.mark)) {
            if !wanted.contains(&marks) {
                wanted.push(marks);
            }
        }
        let (brought_by, judged) = (&self.brought_by, config.tun.judged_mark);
        self.way_back.follow_marks(&wanted, |Pair { mark, if_id }| match (if_id, mark) {
            (0, _) => Some((private.ifindex(), mark)),
            // One of Linux's own.
            (_, 0) => brought_by.get(&if_id).map(|ifindex| (*ifindex, judged)),
            _ => tunnels.ifindex(if_id).map(|ifindex| (ifindex, mark)),
        });
    }
}
