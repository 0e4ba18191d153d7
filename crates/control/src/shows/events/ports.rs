//! Ports that come and go.

use std::collections::BTreeMap;

use report::Occurrence;

/// Which ports worked when they were looked at last.
#[derive(Default)]
pub struct PortStates(BTreeMap<String, bool>);

impl PortStates {
    /// Looks at all ports: the interface of each, and why it does not work, if so. A port that has never worked
    /// is no news.
    pub fn look<'a>(
        &mut self,
        ports: impl Iterator<Item = (&'a str, Option<&'a str>)>,
    ) -> Vec<Occurrence> {
        let now: BTreeMap<&str, Option<&str>> = ports.collect();
        let mut news = Vec::new();
        for (port, why) in &now {
            let port = (*port).to_owned();
            match (self.0.get(&port).copied().unwrap_or(false), why) {
                (false, None) => news.push(Occurrence::PortUp { port }),
                (true, Some(why)) => {
                    news.push(Occurrence::PortDown { port, why: (*why).to_owned() });
                }
                _ => {}
            }
        }
        let gone =
            self.0.iter().filter(|(port, works)| **works && !now.contains_key(port.as_str()));
        news.extend(gone.map(|(port, _)| {
            let why = "no port any more".to_owned();
            Occurrence::PortDown { port: port.clone(), why }
        }));
        self.0 = now.into_iter().map(|(port, why)| (port.to_owned(), why.is_none())).collect();
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_told_once() {
        let mut states = PortStates::default();
        let up = |port: &str| Occurrence::PortUp { port: port.to_owned() };
        let down = |why: &str| Occurrence::PortDown { port: "wan".into(), why: why.into() };
        let mut look = |ports: &[(&str, Option<&str>)]| states.look(ports.iter().copied());
        assert_eq!(look(&[("lan", None), ("wan", Some("no such interface"))]), [up("lan")]);
        assert_eq!(look(&[("lan", None), ("wan", None)]), [up("wan")]);
        assert_eq!(look(&[("lan", None), ("wan", None)]), []);
        assert_eq!(look(&[("lan", None), ("wan", Some("down"))]), [down("down")]);
        assert_eq!(look(&[("lan", None), ("wan", Some("gone"))]), []);
        assert_eq!(look(&[("lan", None), ("wan", None)]), [up("wan")]);
        assert_eq!(look(&[("lan", None)]), [down("no port any more")]);
    }
}
