//! Linux's VRFs (`ip link add type vrf`): tables of their own for the packets of some interfaces. Workers look there for
//! what comes in by these; SAs and policies of a VRF they do not know, so beside the kernel what is in one stays with
//! the kernel, and is shown with the VRF's name.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use mirror::{Link, Snapshot};

/// Members of VRFs, with the name of the VRF.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vrfs {
    /// The VRFs themselves, and the interfaces in them.
    by_ifindex: BTreeMap<u32, String>,
    /// Tables of the VRFs, by index.
    tables: BTreeMap<u32, u32>,
    /// The addresses of all of these. One may be another interface's too: what has it stays with the kernel as well.
    by_address: HashMap<IpAddr, String>,
}

impl Vrfs {
    /// The VRFs of a network namespace.
    pub fn of(snapshot: &Snapshot) -> Vrfs {
        let links = snapshot.links().filter_map(|link| {
            let vrf = vrf_of(link, |index| snapshot.link(index))?;
            Some((link.index, vrf.name.clone()))
        });
        let by_ifindex: BTreeMap<u32, String> = links.collect();
        let tables = snapshot.links().filter_map(|link| {
            let vrf = vrf_of(link, |index| snapshot.link(index))?;
            Some((link.index, vrf.vrf_table?))
        });
        let tables = tables.collect();
        let by_address = match by_ifindex.is_empty() {
            true => HashMap::new(),
            false => {
                let all = snapshot.addresses();
                all.filter_map(|a| Some((a.addr, by_ifindex.get(&a.ifindex)?.clone()))).collect()
            }
        };
        Vrfs { by_ifindex, tables, by_address }
    }

    /// True if there is no VRF.
    pub fn is_empty(&self) -> bool {
        self.by_ifindex.is_empty()
    }

    /// The VRFs, and the interfaces in them.
    pub fn interfaces(&self) -> impl Iterator<Item = u32> {
        self.by_ifindex.keys().copied()
    }

    /// The table in which routes are looked for of what comes in by an interface of a VRF.
    pub fn table(&self, ifindex: u32) -> Option<u32> {
        self.tables.get(&ifindex).copied()
    }

    /// The VRF that an interface is, or is in.
    pub fn of_interface(&self, ifindex: u32) -> Option<&str> {
        self.by_ifindex.get(&ifindex).map(String::as_str)
    }

    /// The VRF that has an address of this host.
    pub fn of_address(&self, addr: IpAddr) -> Option<&str> {
        self.by_address.get(&addr).map(String::as_str)
    }

    /// One VRF with an interface and an address.
    #[cfg(test)]
    pub fn with(name: &str, ifindex: u32, addr: IpAddr) -> Vrfs {
        Vrfs {
            by_ifindex: BTreeMap::from([(ifindex, name.into())]),
            tables: BTreeMap::from([(ifindex, 100)]),
            by_address: HashMap::from([(addr, name.into())]),
        }
    }
}

/// The VRF that a link is, or is in: also as part of a bridge or a bond that is in one.
fn vrf_of<'l>(link: &'l Link, at: impl Fn(u32) -> Option<&'l Link>) -> Option<&'l Link> {
    let chain = std::iter::successors(Some(link), |link| at(link.master?));
    chain.take(DEEPEST).find(|link| link.kind.as_deref() == Some("vrf"))
}

/// Masters above each other; Linux allows for eight.
const DEEPEST: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::testing::xfrm_interface;

    #[test]
    fn a_link_is_in_the_vrf_of_its_masters() {
        let link = |index, kind: &str, master| Link {
            kind: Some(kind.into()),
            master,
            ..xfrm_interface(index, index)
        };
        let links = [
            link(1, "veth", Some(2)),
            link(2, "bridge", Some(3)),
            link(3, "vrf", None),
            link(4, "veth", Some(5)),
            link(5, "bridge", None),
            // Its master is in another network namespace.
            link(6, "veth", Some(9)),
        ];
        let at = |index: u32| links.iter().find(|link| link.index == index);
        let found = links.each_ref().map(|link| vrf_of(link, at).map(|vrf| vrf.index));
        assert_eq!(found, [Some(3), Some(3), Some(3), None, None, None]);
        let circle = [link(1, "bridge", Some(2)), link(2, "bridge", Some(1))];
        assert!(vrf_of(&circle[0], |i| circle.iter().find(|link| link.index == i)).is_none());
    }
}
