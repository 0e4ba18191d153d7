//! Packets that the worker itself sends to measure, told from those of others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use dataplane::Probes;
use wire::protocol;

use super::Paths;

/// Ends of a flow in one direction: addresses, and ports where it has some.
type Ends = ((IpAddr, u16), (IpAddr, u16));

/// Flows of probes, with the paths that these measure, and of reflections.
#[derive(Clone, Default)]
pub struct OwnFlows {
    probes: HashMap<Ends, Arc<str>>,
    echoes: HashMap<(IpAddr, IpAddr), Arc<str>>,
    reflector: Option<u16>,
}

impl OwnFlows {
    /// The path of a flow that leaves, if it is of probes or reflections; no rule chooses for these. `None` for any other
    /// flow, `Some(None)` for a reflection, which goes by the tunnel that its probe came by.
    pub fn path_of(&self, protocol: u8, (src, dst): Ends) -> Option<Option<Arc<str>>> {
        match protocol {
            protocol::UDP => match self.probes.get(&(src, dst)) {
                Some(path) => Some(Some(Arc::clone(path))),
                None => (self.reflector == Some(src.1)).then_some(None),
            },
            protocol::ICMP | protocol::ICMPV6 => {
                self.echoes.get(&(src.0, dst.0)).map(|path| Some(Arc::clone(path)))
            }
            _ => None,
        }
    }
}

impl Paths {
    /// Flows of the sessions that there are, and of the reflector.
    pub fn own_flows(&self) -> OwnFlows {
        let mut flows = OwnFlows {
            reflector: self.reflector.or(self.clear_reflector).map(|_| self.options.port),
            ..OwnFlows::default()
        };
        for session in &self.sessions {
            let path = self.configured.get(session.path).zip(self.source(session.path));
            let Some((path, here)) = path else { continue };
            let (name, there) = (Arc::from(path.name.as_str()), path.to);
            match session.probes {
                Probes::Stamp { local, far } => {
                    flows.probes.insert(((here, local), (there, far)), name);
                }
                // Paths between the same addresses differ in what is no part of a flow.
                Probes::Echo(_) => _ = flows.echoes.entry((here, there)).or_insert(name),
            }
        }
        flows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_have_the_path_that_they_measure() {
        let [here, there, other] = [1, 2, 3].map(|host| IpAddr::from([10, 9, 0, host]));
        let flows = OwnFlows {
            probes: [(((here, 49_862), (there, 862)), Arc::from("lte"))].into(),
            echoes: [((here, other), Arc::from("direct"))].into(),
            reflector: Some(862),
        };
        let path = |protocol, src, dst| {
            flows.path_of(protocol, (src, dst)).map(|path| path.map(|name| name.to_string()))
        };
        let udp = protocol::UDP;
        assert_eq!(path(udp, (here, 49_862), (there, 862)), Some(Some("lte".into())));
        assert_eq!(path(udp, (here, 862), (there, 49_862)), Some(None), "a reflection");
        assert_eq!(path(udp, (here, 49_863), (there, 862)), None);
        assert_eq!(path(protocol::ICMP, (here, 0), (other, 0)), Some(Some("direct".into())));
        assert_eq!(path(protocol::ICMP, (here, 0), (there, 0)), None);
        assert_eq!(path(protocol::TCP, (here, 862), (there, 49_862)), None);
    }
}
