//! Applications: names that are built in, and what an operator says of others.

use core::net::IpAddr;
use core::ops::RangeInclusive;
use std::collections::HashMap;

use policy::Prefix;

use crate::flow_id::{End, FlowId};
use crate::name::Name;

/// Number of an application in its [`Catalogue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AppId(u16);

impl AppId {
    /// Flows of which nothing is known.
    pub const UNKNOWN: AppId = AppId(0);
    /// Flows that nobody on the path can know: their ClientHello is encrypted.
    pub const HIDDEN: AppId = AppId(1);
    /// Questions to name servers.
    pub const DNS: AppId = AppId(2);
    /// TLS to a host of no application.
    pub const TLS: AppId = AppId(3);
    /// QUIC to a host of no application.
    pub const QUIC: AppId = AppId(4);
    /// HTTP/1 in clear to a host of no application.
    pub const HTTP: AppId = AppId(5);

    /// No flow has it: stands for an application that is not in the catalogue.
    pub const NONE: AppId = AppId(u16::MAX);

    /// Place of the application in lists by application.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The application with a place.
    pub(crate) const fn of_index(index: u16) -> AppId {
        AppId(index)
    }
}

/// Names of the applications that have a number of their own.
const OWN: [&str; 6] = ["unknown", "hidden", "dns", "tls", "quic", "http"];

/// Applications of a catalogue at most: as many as a word of [`Hints`](crate::Hints) can name.
pub const MOST_APPLICATIONS: usize = 4000;

/// Definition of an application by the operator: by names, or by what is in the first packet, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Application {
    /// Name of the application; that of one that is built in adds to it.
    pub name: String,
    /// Hosts by name, each with all below it.
    pub domains: Vec<Name>,
    /// Addresses of servers. Empty: any.
    pub prefixes: Vec<Prefix>,
    /// Ports of servers. Empty: any.
    pub ports: Vec<RangeInclusive<u16>>,
    /// IP protocol of the flows. `None`: any.
    pub protocol: Option<u8>,
    /// DSCP of a flow's first packet. `None`: any.
    pub dscp: Option<u8>,
}

impl Application {
    /// True if the first packet of a flow tells the application.
    fn is_by_first_packet(&self) -> bool {
        let is_by_server = !self.prefixes.is_empty() || !self.ports.is_empty();
        is_by_server || self.protocol.is_some() || self.dscp.is_some()
    }

    /// True if the application is at this end of a flow.
    fn is_at(&self, end: &End) -> bool {
        let is_there = |prefix: &Prefix| prefix.contains(end.addr);
        let has_port = |ports: &RangeInclusive<u16>| ports.contains(&end.port);
        (self.prefixes.is_empty() || self.prefixes.iter().any(is_there))
            && (self.ports.is_empty() || self.ports.iter().any(has_port))
    }
}

/// Why applications make no catalogue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// A name stands for two.
    #[error("application {0:?} is there twice")]
    Twice(String),
    /// The name has a meaning of its own.
    #[error(
        "application {0:?}: the name stands for flows that no name, prefix or port tells; choose another"
    )]
    Own(String),
    /// Nothing tells the application.
    #[error("application {0:?}: say domains, prefixes, ports, protocol or dscp")]
    Empty(String),
    /// A domain stands for two applications.
    #[error(
        "domain {domain}: of application {first:?}, and of {second:?} too; it can be of one only"
    )]
    Domain {
        /// Domain that both have.
        domain: Name,
        /// Application that has it first.
        first: String,
        /// Application that wants it as well.
        second: String,
    },
    /// There are more than can be told apart.
    #[error("{0} applications; at most {MOST_APPLICATIONS}, those built in among them")]
    TooMany(usize),
}

/// All applications that flows are told apart by.
#[derive(Clone, Debug)]
pub struct Catalogue {
    names: Vec<String>,
    domains: HashMap<Name, AppId, ahash::RandomState>,
    /// Those that the first packet tells, in the operator's order.
    by_first_packet: Vec<(AppId, Application)>,
}

impl Catalogue {
    /// The applications that are built in, and those of an operator, whose domains win.
    ///
    /// # Errors
    /// They contradict one another, or nothing tells one of them.
    pub fn new(operators: Vec<Application>) -> Result<Catalogue, CatalogueError> {
        Catalogue::with_protocols(operators, [])
    }

    /// The same, and those that a second classifier tells by their names alone.
    ///
    /// # Errors
    /// The same as those of [`Catalogue::new`].
    pub fn with_protocols<'n>(
        operators: Vec<Application>,
        protocols: impl IntoIterator<Item = &'n str>,
    ) -> Result<Catalogue, CatalogueError> {
        let mut catalogue = Catalogue::built_in();
        let (mut seen, mut taken) = (Vec::new(), HashMap::new());
        for application in operators {
            let name = application.name.clone();
            if OWN.contains(&name.as_str()) {
                return Err(CatalogueError::Own(name));
            }
            if seen.contains(&name) {
                return Err(CatalogueError::Twice(name));
            }
            if application.domains.is_empty() && !application.is_by_first_packet() {
                return Err(CatalogueError::Empty(name));
            }
            for domain in &application.domains {
                if let Some(first) = taken.insert(domain.clone(), name.clone())
                    && first != name
                {
                    let (domain, second) = (domain.clone(), name);
                    return Err(CatalogueError::Domain { domain, first, second });
                }
            }
            let id = catalogue.id(&name);
            for domain in &application.domains {
                catalogue.domains.insert(domain.clone(), id);
            }
            if application.is_by_first_packet() {
                catalogue.by_first_packet.push((id, application));
            }
            seen.push(name);
        }
        for name in protocols {
            catalogue.id(name);
        }
        match catalogue.names.len() {
            count if count > MOST_APPLICATIONS => Err(CatalogueError::TooMany(count)),
            _ => Ok(catalogue),
        }
    }

    fn built_in() -> Catalogue {
        let mut catalogue = Catalogue {
            names: OWN.map(str::to_owned).into(),
            domains: HashMap::default(),
            by_first_packet: Vec::new(),
        };
        let lines = include_str!("../data/names").lines().filter(|line| !line.starts_with('#'));
        for (name, domains) in lines.filter_map(|line| line.split_once(':')) {
            let id = catalogue.id(name);
            let domains = domains.split_whitespace().filter_map(|text| Name::new(text.as_bytes()));
            catalogue.domains.extend(domains.map(|domain| (domain, id)));
        }
        catalogue
    }

    /// The number of a name, which is added if it is new.
    fn id(&mut self, name: &str) -> AppId {
        let at = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        // Too many are refused before one of them is used.
        AppId(at as u16)
    }

    /// Name of an application.
    pub fn name(&self, id: AppId) -> &str {
        self.names.get(id.index()).map_or("unknown", String::as_str)
    }

    /// Every application, in the order of their numbers.
    pub fn all(&self) -> impl ExactSizeIterator<Item = (AppId, &str)> {
        self.names.iter().enumerate().map(|(at, name)| (AppId(at as u16), name.as_str()))
    }

    /// The application with a name.
    pub fn find(&self, name: &str) -> Option<AppId> {
        self.all().find_map(|(id, known)| (known == name).then_some(id))
    }

    /// The application of a host: that of the longest domain that it is in.
    pub fn of_host(&self, host: &Name) -> Option<AppId> {
        host.suffixes().find_map(|suffix| self.domains.get(suffix).copied())
    }

    /// The application that a flow's first packet tells, by what an operator has said: the first that fits.
    pub fn of_first_packet(&self, flow: &FlowId, dscp: u8) -> Option<AppId> {
        let fits = |application: &Application| {
            application.protocol.is_none_or(|protocol| protocol == flow.protocol)
                && application.dscp.is_none_or(|asked| asked == dscp)
                && flow.ends().iter().any(|end| application.is_at(end))
        };
        self.by_first_packet.iter().find_map(|(id, application)| fits(application).then_some(*id))
    }
}

/// True if an address is one of these.
pub(crate) fn is_in(prefixes: &[Prefix], addr: IpAddr) -> bool {
    prefixes.iter().any(|prefix| prefix.contains(addr))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).expect("a name")
    }

    fn by_name(app: &str, domain: &str) -> Application {
        Application { name: app.into(), domains: vec![name(domain)], ..Application::default() }
    }

    #[test]
    fn the_list_that_is_built_in() {
        let text = include_str!("../data/names");
        let mut domains = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (app, list) = line.split_once(':').expect("an application and its domains");
            assert!(!OWN.contains(&app) && !list.trim().is_empty(), "{line}");
            domains.extend(list.split_whitespace().map(name));
        }
        let count = domains.len();
        domains.sort();
        domains.dedup();
        assert_eq!(domains.len(), count, "a domain is there twice");
        let catalogue = Catalogue::new(Vec::new()).expect("a catalogue");
        assert_eq!(catalogue.domains.len(), count);
        assert_eq!(catalogue.of_host(&name("us02web.zoom.us")), catalogue.find("zoom"));
        assert_eq!(catalogue.of_host(&name("notzoom.us")), None);
        for (id, own) in [(AppId::HIDDEN, "hidden"), (AppId::HTTP, "http"), (AppId::DNS, "dns")] {
            assert_eq!((catalogue.name(id), catalogue.find(own)), (own, Some(id)));
        }
    }

    #[test]
    fn the_longest_domain_and_the_operator_win() {
        let apps = vec![
            by_name("erp", "erp.corp.example"),
            by_name("corp", "corp.example"),
            by_name("calls", "zoom.us"),
            by_name("zoom", "zoom.corp.example"),
        ];
        let catalogue = Catalogue::new(apps).expect("a catalogue");
        let cases = [
            ("a.erp.corp.example", Some("erp")),
            ("www.corp.example", Some("corp")),
            ("a.zoom.us", Some("calls")),
            ("zoom.com", Some("zoom")),
            ("zoom.corp.example", Some("zoom")),
            ("example", None),
        ];
        for (host, app) in cases {
            let found = catalogue.of_host(&name(host)).map(|id| catalogue.name(id));
            assert_eq!(found, app, "{host}");
        }
    }

    #[test]
    fn the_first_packet_tells() {
        let prefix = Prefix { addr: [10, 9, 0, 0].into(), len: 16 };
        let apps = vec![
            Application {
                name: "backup".into(),
                prefixes: vec![prefix],
                ports: vec![873..=873, 10_000..=10_010],
                protocol: Some(6),
                ..Application::default()
            },
            Application { name: "voice".into(), dscp: Some(46), ..Application::default() },
        ];
        let catalogue = Catalogue::new(apps).expect("a catalogue");
        let flow = |protocol, dst: [u8; 4], port| {
            let here = End { addr: [10, 1, 0, 5].into(), port: 4000 };
            FlowId::new(protocol, here, End { addr: dst.into(), port })
        };
        let of = |flow, dscp| catalogue.of_first_packet(&flow, dscp).map(|id| catalogue.name(id));
        assert_eq!(of(flow(6, [10, 9, 3, 4], 10_005), 0), Some("backup"));
        assert_eq!(of(flow(6, [10, 9, 3, 4], 10_011), 0), None);
        assert_eq!(of(flow(17, [10, 9, 3, 4], 873), 0), None);
        assert_eq!(of(flow(6, [10, 8, 3, 4], 873), 0), None);
        assert_eq!(of(flow(17, [10, 8, 3, 4], 5004), 46), Some("voice"));
    }

    #[test]
    fn what_makes_no_catalogue() {
        let error = |apps| Catalogue::new(apps).expect_err("an error").to_string();
        let twice = error(vec![by_name("a", "a.example"), by_name("a", "b.example")]);
        assert_eq!(twice, "application \"a\" is there twice");
        let domain = error(vec![by_name("a", "a.example"), by_name("b", "a.example")]);
        assert!(domain.starts_with("domain a.example: of application \"a\", and of \"b\" too"));
        assert!(error(vec![by_name("tls", "a.example")]).contains("choose another"));
        let empty = Application { name: "a".into(), ..Application::default() };
        assert!(error(vec![empty]).contains("say domains"));
        let many =
            (0..MOST_APPLICATIONS).map(|n| by_name(&format!("a{n}"), &format!("a{n}.example")));
        assert!(error(many.collect()).contains("at most 4000"));
    }
}
