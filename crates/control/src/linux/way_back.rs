//! Cleartext that policy leaves to Linux goes back to the port that it came in by.
//!
//! A program on the private interface redirects it ([`steer::GiveBack`]), so firewall rules, reverse
//! path filters and captures see such packets at their ingress port. Their destinations are protected
//! prefixes, so Linux would route them to the private interface. They are marked, and one of culvert's
//! rules takes packets with the mark past its table. If a firewall clears the mark no packet is lost:
//! it leaves by the private interface, and a worker forwards it.
//!
//! | packet | comes in by |
//! | --- | --- |
//! | cleartext that was taken from a port and is Linux's | that port; of a VLAN of the port, it has its tags again |
//! | cleartext that policy protects, and Linux's NAT has to see first | that port, without the mark: so it is led to the private interface |
//! | cleartext under a policy whose protection is optional (`level use`) | the private interface: the guard's barrier would block it at the port |
//! | decrypted, and ICMP errors of culvert to this host | the private interface |
//! | decrypted by an SA of a tunnel interface | that interface |
//! | decrypted by an SA of an XFRM interface of Linux's own | that interface, with the mark of what was judged; the private interface, where the other filters reverse paths strictly |
//! | decrypted by an SA that marks its packets (`set_mark_in`) | the private interface or its tunnel interface, with the mark |
//! | cleartext that Linux translates for an uplink | the port that it came in by, with the uplink's mark |
//! | decrypted, and marked by a `[[mark]]` rule | the private interface, with the mark |
//!
//! A port in generic mode gets nothing back, because its program would take it again. Then, and where the
//! kernel lacks what the program needs, such packets come in by the private interface.

use std::collections::{BTreeMap, BTreeSet};

use config::TunConfig;
use io::tun::back::HAS_PRIORITY;
use policy::Marks;
use steer::GiveBack;
use tracing::warn;
use wire::VlanTags;

use crate::slots;
use crate::vlans::{FIRST_TAG, Taken};

/// A port whose program is attached.
#[derive(Clone, Copy, Debug)]
pub struct WorkingPort<'a> {
    /// Name of its interface.
    pub interface: &'a str,
    /// The interface's index.
    pub ifindex: u32,
    /// Number of the port, from 1.
    pub tag: u16,
    /// Packets that are redirected to its ingress do not meet its program again, or are passed by it.
    pub takes_back: bool,
    /// True if its program knows the packets by their mark, and removes the mark from those that
    /// are to have none.
    pub unmarks: bool,
}

/// The first tag that stands for a mark; those of ports are below, those of VLANs above.
const FIRST_MARK: u16 = 1 + slots::MAX_PORTS as u16;

/// Port and tags of a VLAN, as the program knows an interface that gets packets back.
type Known = (u32, VlanTags);

/// The program that gives packets back to interfaces.
pub struct WayBack {
    program: Option<GiveBack>,
    /// The ports that get their packets back: tags by interface.
    tags: BTreeMap<u32, u16>,
    /// The VLANs whose tags the program knows, by their tag here: the port, and what their frames have.
    vlans: BTreeMap<u16, (u32, bool, VlanTags)>,
    /// The ports among them whose programs take marks off.
    unmarking: BTreeSet<u32>,
    /// Tags of what goes back to an interface with the mark of an uplink, by the interface's index and the mark; and what the
    /// program knows of them.
    uplinks: BTreeMap<(u32, u32), (u16, Known)>,
    /// Tags of the marks that SAs set, and that rules give to what is decrypted.
    marks: BTreeMap<Marks, u16>,
    /// Why there is no program.
    trouble: Option<String>,
    /// Warnings about ports, by interface.
    warnings: BTreeMap<String, String>,
}

impl WayBack {
    /// Attaches the program; a failure is a warning. What comes in by the private interface itself, and has no
    /// mark, gets `judged`.
    pub fn set_up(config: &TunConfig, judged: u32) -> WayBack {
        let name = config.interface.as_str();
        let attach = || {
            let mut program = GiveBack::load_and_attach(name, config.mark)?;
            program.set_untagged(judged)?;
            Ok::<_, steer::SteerError>(program)
        };
        let (program, trouble) = match attach() {
            Ok(program) => (Some(program), None),
            Err(error) => (None, Some(by_private(name, &error))),
        };
        if let Some(trouble) = &trouble {
            warn!("{trouble}");
        }
        WayBack {
            program,
            tags: BTreeMap::new(),
            vlans: BTreeMap::new(),
            unmarking: BTreeSet::new(),
            uplinks: BTreeMap::new(),
            marks: BTreeMap::new(),
            trouble,
            warnings: BTreeMap::new(),
        }
    }

    /// Without a program, where there is no port to give anything back to.
    pub const fn none() -> WayBack {
        WayBack {
            program: None,
            tags: BTreeMap::new(),
            vlans: BTreeMap::new(),
            unmarking: BTreeSet::new(),
            uplinks: BTreeMap::new(),
            marks: BTreeMap::new(),
            trouble: None,
            warnings: BTreeMap::new(),
        }
    }

    /// Follows the attached ports. To be called before workers learn of them: the program drops
    /// packets with a tag that it does not know.
    pub fn follow<'a>(&mut self, ports: impl Iterator<Item = WorkingPort<'a>>) {
        self.tags.clear();
        self.unmarking.clear();
        let mut warnings = BTreeMap::new();
        let Some(program) = &mut self.program else { return };
        for port in ports {
            // Index 0: no interface for this tag.
            let ifindex = if port.takes_back { port.ifindex } else { 0 };
            match program.set(port.tag, ifindex, port.unmarks) {
                Ok(()) if port.takes_back => {
                    self.unmarking.extend(port.unmarks.then_some(port.ifindex));
                    self.tags.insert(port.ifindex, port.tag);
                }
                Ok(()) => {
                    let why = "its XDP program is in generic mode, and would take them again";
                    warnings.insert(port.interface.to_owned(), by_port(port.interface, &why));
                }
                Err(error) => {
                    warnings.insert(port.interface.to_owned(), by_port(port.interface, &error));
                }
            }
        }
        for (interface, warning) in &warnings {
            if self.warnings.get(interface) != Some(warning) {
                warn!("{warning}");
            }
        }
        self.warnings = warnings;
    }

    /// Follows the VLANs of ports, after these. To be called before workers learn of them.
    pub fn follow_vlans<'a>(&mut self, vlans: impl Iterator<Item = Taken<'a>>) {
        let Some(program) = &mut self.program else { return };
        for Taken { ifindex, port, tags, back, name } in vlans {
            if !self.tags.contains_key(&port) {
                continue;
            }
            let unmarks = self.unmarking.contains(&port);
            if self.vlans.get(&back) != Some(&(port, unmarks, tags)) {
                if let Err(error) = program.set_vlan(back, port, unmarks, tags) {
                    warn!("{}", by_port(name, &error));
                    continue;
                }
                self.vlans.insert(back, (port, unmarks, tags));
            }
            self.tags.insert(ifindex, back | HAS_PRIORITY);
        }
    }

    /// Follows the marks that SAs set, those of XFRM interfaces, and then those that rules give; `way` is the
    /// interface by which what has such a mark and `if_id` comes in, and the mark that it has then, if there is
    /// one. To be told before workers are.
    pub fn follow_marks(&mut self, wanted: &[Marks], way: impl Fn(Marks) -> Option<(u32, u32)>) {
        let set: BTreeSet<&Marks> = wanted.iter().collect();
        self.marks.retain(|marks, _| set.contains(marks));
        let used = self.used();
        let Some(program) = &mut self.program else { return };
        let mut free = (FIRST_MARK..FIRST_TAG).filter(|tag| !used.contains(tag));
        for marks in wanted {
            let known = self.marks.get(marks).copied();
            let Some(tag) = known.or_else(|| free.next()) else {
                warn!(
                    "there are more marks than Linux can be told; what SAs decrypt with the rest is \
                     dropped, what rules mark comes without"
                );
                break;
            };
            // Where there is no such interface no packet belongs to it.
            let (ifindex, mark) = way(*marks).unwrap_or((0, marks.mark));
            let result = program.set_marked(tag, ifindex, mark);
            match result {
                Ok(()) => {
                    self.marks.insert(*marks, tag);
                }
                Err(error) => warn!(%error, mark = marks.mark, "Linux cannot be told this mark"),
            }
        }
    }

    /// Follows the marks of uplinks, after ports and VLANs: each interface gets its packets back with each of them. Returns the
    /// tags by index and mark. To be told before workers are.
    pub fn follow_uplinks(&mut self, marks: &BTreeSet<u32>) -> BTreeMap<(u32, u32), u16> {
        let wanted: BTreeMap<(u32, u32), (u16, Known)> = self
            .tags
            .iter()
            .flat_map(|(ifindex, tag)| marks.iter().map(move |mark| ((*ifindex, *mark), *tag)))
            .map(|(key, tag)| {
                let vlan = self.vlans.get(&(tag & !HAS_PRIORITY));
                let known = vlan.map_or((key.0, VlanTags::NONE), |(port, _, tags)| (*port, *tags));
                (key, (tag & HAS_PRIORITY, known))
            })
            .collect();
        self.uplinks.retain(|key, _| wanted.contains_key(key));
        let used = self.used();
        let mut free = (FIRST_MARK..FIRST_TAG).rev().filter(|tag| !used.contains(tag));
        let Some(program) = &mut self.program else { return BTreeMap::new() };
        for ((ifindex, mark), (flag, known)) in wanted {
            let before = self.uplinks.get(&(ifindex, mark)).copied();
            let before = before.map(|(tag, known)| (tag & !HAS_PRIORITY, known));
            if before.is_some_and(|(_, of)| of == known) {
                continue;
            }
            let Some(tag) = before.map(|(tag, _)| tag).or_else(|| free.next()) else {
                warn!(
                    "there are more uplinks and interfaces than Linux can be told: some connections begin as the routes \
                     lead"
                );
                break;
            };
            match program.set_uplink(tag, known.0, mark, known.1) {
                Ok(()) => {
                    self.uplinks.insert((ifindex, mark), (tag | flag, known));
                }
                Err(error) => {
                    warn!(%error, mark, "Linux cannot be told the mark of an uplink");
                    self.uplinks.remove(&(ifindex, mark));
                }
            }
        }
        self.uplinks.iter().map(|(key, (tag, _))| (*key, *tag)).collect()
    }

    /// Tags that stand for marks.
    fn used(&self) -> BTreeSet<u16> {
        let of_uplinks = self.uplinks.values().map(|(tag, _)| tag & !HAS_PRIORITY);
        self.marks.values().copied().chain(of_uplinks).collect()
    }

    /// The tags by which Linux takes decrypted packets with a mark.
    pub fn marks(&self) -> impl Iterator<Item = (Marks, u16)> {
        self.marks.iter().map(|(marks, tag)| (*marks, *tag))
    }

    /// The tag by which an interface gets its packets back.
    pub fn tag(&self, ifindex: u32) -> Option<u16> {
        self.tags.get(&ifindex).copied()
    }

    /// Warnings for the operator.
    pub fn warnings(&self) -> impl Iterator<Item = &String> {
        self.trouble.iter().chain(self.warnings.values())
    }
}

fn by_private(private: &str, why: &dyn std::fmt::Display) -> String {
    format!("cleartext that policy leaves to Linux comes in by {private}, not by its port: {why}")
}

fn by_port(port: &str, why: &dyn std::fmt::Display) -> String {
    format!(
        "port {port}: cleartext that policy leaves to Linux comes in by the private interface: {why}"
    )
}
