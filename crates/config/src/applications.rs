//! `[applications]` and `[[application]]`: what flows are for.

use std::ops::RangeInclusive;

use apps::{AppId, Application, Catalogue, CatalogueError, Name};
use serde::Deserialize;

use super::marks::Dscp;
use super::prefix::AddressPrefix;

/// `[applications]`: whether flows are told apart by what they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ApplicationsConfig {
    /// True if the first packets of flows are looked at.
    pub enabled: bool,
    /// True if nDPI is asked about flows that culvert does not read.
    pub ndpi: bool,
    /// Hosts that ask name servers for others: what they are told counts for every client.
    pub forwarders: Vec<AddressPrefix>,
}

/// `[[application]]`: an application that is not built in, or other names of one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplicationConfig {
    /// Name of the application.
    pub name: String,
    /// Hosts by name, each with all below it.
    #[serde(default)]
    domains: Vec<Domain>,
    /// Addresses of servers.
    #[serde(default)]
    prefixes: Vec<AddressPrefix>,
    /// Ports of servers.
    #[serde(default)]
    ports: Vec<Ports>,
    /// Protocol of the flows.
    #[serde(default)]
    protocol: Option<Protocol>,
    /// DSCP of the first packet.
    #[serde(default)]
    dscp: Option<Dscp>,
}

/// A domain: `"example.com"`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Domain(Name);

impl<'de> Deserialize<'de> for Domain {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Name::new(text.as_bytes()).map(Domain).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "{text:?} is no domain; write for instance \"example.com\": it and all below it are meant, without '*'"
            ))
        })
    }
}

/// A range of ports, or one: `"5000-5010"`, `"443"`, `443`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ports(RangeInclusive<u16>);

/// A port as the file may write it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(i64),
    Text(String),
}

impl<'de> Deserialize<'de> for Ports {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = match Written::deserialize(deserializer)? {
            Written::Number(number) => number.to_string(),
            Written::Text(text) => text,
        };
        ports(&text).map(Ports).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "{text:?} is no range of ports; write for instance \"5000-5010\", or one port"
            ))
        })
    }
}

fn ports(text: &str) -> Option<RangeInclusive<u16>> {
    let number = |text: &str| text.trim().parse().ok();
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = number(first)?..=number(last)?;
    (!range.is_empty()).then_some(range)
}

/// Protocols by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Protocol {
    Tcp,
    Udp,
    Sctp,
    Icmp,
    Icmpv6,
}

impl Protocol {
    const fn number(self) -> u8 {
        use wire::protocol::{ICMP, ICMPV6, SCTP, TCP, UDP};
        match self {
            Protocol::Tcp => TCP,
            Protocol::Udp => UDP,
            Protocol::Sctp => SCTP,
            Protocol::Icmp => ICMP,
            Protocol::Icmpv6 => ICMPV6,
        }
    }
}

impl ApplicationConfig {
    fn application(&self) -> Application {
        Application {
            name: self.name.clone(),
            domains: self.domains.iter().map(|domain| domain.0.clone()).collect(),
            prefixes: self.prefixes.iter().map(|prefix| prefix.0).collect(),
            ports: self.ports.iter().map(|ports| ports.0.clone()).collect(),
            protocol: self.protocol.map(Protocol::number),
            dscp: self.dscp.map(|dscp| dscp.0),
        }
    }
}

/// Applications of these entries, beside those that are built in, and nDPI's protocols where it is asked.
///
/// # Errors
/// The entries contradict one another.
pub fn catalogue(
    settings: &ApplicationsConfig,
    entries: &[ApplicationConfig],
) -> Result<Catalogue, CatalogueError> {
    let operators = entries.iter().map(ApplicationConfig::application).collect();
    let protocols = settings.ndpi.then(ndpi::applications).into_iter().flatten();
    Catalogue::with_protocols(operators, protocols)
}

/// A value that cannot be: its entry, its key, itself, and what is allowed.
pub(super) type Wrong = (usize, &'static str, String, String);

/// Values that cannot be: the first of each entry, and what is wrong with all together.
pub(super) fn problems(
    settings: &ApplicationsConfig,
    entries: &[ApplicationConfig],
    is_name: impl Fn(&str) -> bool,
) -> impl Iterator<Item = Wrong> {
    let one = move |(at, entry): (usize, &ApplicationConfig)| {
        let allowed = "1 to 64 letters, digits, '-' and '_'";
        let wrong = || (at, "name", entry.name.clone(), allowed.into());
        (!is_name(&entry.name)).then(wrong)
    };
    let each: Vec<Wrong> = entries.iter().enumerate().filter_map(one).collect();
    let all = match each.is_empty() {
        true => catalogue(settings, entries).err().map(|error| of_all(entries, &error)),
        false => None,
    };
    each.into_iter().chain(all)
}

/// The entry that an error is about: the last that it names.
fn of_all(entries: &[ApplicationConfig], error: &CatalogueError) -> Wrong {
    let name = match error {
        CatalogueError::Twice(name)
        | CatalogueError::Own(name)
        | CatalogueError::Empty(name)
        | CatalogueError::Domain { second: name, .. } => name.as_str(),
        CatalogueError::TooMany(_) => "",
    };
    let at = entries.iter().rposition(|entry| entry.name == name).unwrap_or(0);
    let key = if matches!(error, CatalogueError::Domain { .. }) { "domains" } else { "name" };
    (at, key, name.to_owned(), error.to_string())
}

/// Names of the applications that are built in, and of the classes of flows that are none's.
pub fn built_in() -> Vec<String> {
    let all = |catalogue: Catalogue| {
        let names = catalogue.all().map(|(_, name): (AppId, &str)| name.to_owned());
        names.collect()
    };
    catalogue(&ApplicationsConfig::default(), &[]).map(all).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct File {
        application: Vec<ApplicationConfig>,
    }

    fn read(text: &str) -> Result<Vec<ApplicationConfig>, String> {
        let file = toml::from_str::<File>(text).map_err(|error| error.message().to_owned());
        file.map(|file| file.application)
    }

    fn wrong(text: &str) -> Vec<Wrong> {
        let entries = read(text).expect("entries");
        problems(&ApplicationsConfig::default(), &entries, |name| !name.contains(' ')).collect()
    }

    #[test]
    fn an_application_in_full() {
        let text = "[[application]]\nname = \"erp\"\ndomains = [\"erp.Example.\"]\n\
            prefixes = [\"10.9.0.0/16\"]\nports = [443, \"5000-5010\"]\nprotocol = \"tcp\"\ndscp = \"AF21\"\n";
        let entries = read(text).expect("an entry");
        let application = entries[0].application();
        assert_eq!(application.domains[0].as_str(), "erp.example");
        assert_eq!(application.ports, [443..=443, 5000..=5010]);
        assert_eq!((application.protocol, application.dscp), (Some(6), Some(18)));
        let of = |ndpi| {
            let settings = ApplicationsConfig { enabled: true, ndpi, ..Default::default() };
            catalogue(&settings, &entries).expect("a catalogue")
        };
        assert!(of(false).find("erp").is_some() && of(false).find("bittorrent").is_none());
        let all = of(true);
        assert!(all.find("erp").is_some() && all.find("bittorrent").is_some());
        assert_eq!(all.find("tls"), Some(AppId::TLS), "it has no other of the same name");
        assert!(built_in().contains(&"hidden".to_owned()));
    }

    #[test]
    fn what_cannot_be_says_what_would_be_right() {
        let entry = |rest: &str| format!("[[application]]\nname = \"a\"\n{rest}\n");
        for (rest, said) in [
            ("domains = [\"*.example\"]", "\"*.example\" is no domain; write for instance"),
            ("ports = [\"9-1\"]", "\"9-1\" is no range of ports"),
            ("ports = [70000]", "\"70000\" is no range of ports"),
        ] {
            let error = read(&entry(rest)).expect_err("an error");
            assert!(error.contains(said), "{error}");
        }
        assert!(read(&entry("dscp = 64")).is_err());
        assert!(wrong(&entry(""))[0].3.contains("say domains"));
        let twice = entry("dscp = 1") + &entry("dscp = 2");
        assert_eq!((wrong(&twice)[0].0, wrong(&twice)[0].1), (1, "name"));
        assert!(wrong("[[application]]\nname = \"a b\"\ndscp = 1\n")[0].3.contains("letters"));
    }
}
