//! Children in charon's lists: which are configured, and which have SAs.

use crate::message::{Element, Malformed, walk};

/// A child by the names of its connection and itself.
pub type Child = (String, String);

/// The children of a `list-conn` event. Those that only pass or drop packets have no SAs, and are left out.
///
/// # Errors
/// It is no message.
pub fn configured(message: &[u8]) -> Result<Vec<Child>, Malformed> {
    let mut children = Vec::new();
    let mut has_sas = true;
    walk(message, |path, part| match (path, part) {
        ([_, at], Element::Section(_)) if *at == b"children" => has_sas = true,
        ([_, at, _], Element::Value(b"mode", mode)) if *at == b"children" => {
            has_sas = !matches!(mode, b"PASS" | b"DROP");
        }
        ([connection, at, child], Element::End) if *at == b"children" && has_sas => {
            children.push((name(connection), name(child)));
        }
        _ => {}
    })?;
    Ok(children)
}

/// The children of a `list-sa` event that have SAs installed.
///
/// # Errors
/// It is no message.
pub fn up(message: &[u8]) -> Result<Vec<Child>, Malformed> {
    let mut children = Vec::new();
    let (mut child, mut is_up) = (None, false);
    walk(message, |path, part| match (path, part) {
        // charon before 5.5 has the child's name there, and later ones a number behind it.
        ([_, at], Element::Section(section)) if *at == b"child-sas" => {
            (child, is_up) = (Some(name(section)), false);
        }
        ([_, at, _], Element::Value(b"name", said)) if *at == b"child-sas" => {
            child = Some(name(said));
        }
        // While one is rekeyed it carries packets, and the next is installed before it is deleted.
        ([_, at, _], Element::Value(b"state", state)) if *at == b"child-sas" => {
            is_up = matches!(state, b"INSTALLED" | b"UPDATING" | b"REKEYING");
        }
        ([connection, at, _], Element::End) if *at == b"child-sas" && is_up => {
            children.extend(child.take().map(|child| (name(connection), child)));
        }
        _ => {}
    })?;
    Ok(children)
}

/// A name as people may see it.
fn name(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::tests::{Node, encode};

    fn section(name: &str, nodes: Vec<Node>) -> Node {
        Node::Section(name.into(), nodes)
    }

    fn value(name: &str, value: &str) -> Node {
        Node::Value(name.into(), value.into())
    }

    fn message(node: Node) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(&[node], &mut bytes);
        bytes
    }

    fn names(children: Result<Vec<Child>, Malformed>) -> Vec<String> {
        children.unwrap().into_iter().map(|(of, child)| format!("{of}/{child}")).collect()
    }

    #[test]
    fn children_with_sas_are_configured_ones() {
        let ts = || Node::List(b"local-ts".into(), vec![b"10.1.0.0/24".into()]);
        let child = |name, mode| section(name, vec![value("mode", mode), ts()]);
        let children =
            vec![child("net", "TUNNEL"), child("lan", "PASS"), child("host", "TRANSPORT")];
        let others = section("local-1", vec![section("children", vec![value("mode", "TUNNEL")])]);
        let conn =
            section("hq\n", vec![value("version", "IKEv2"), others, section("children", children)]);
        assert_eq!(names(configured(&message(conn))), ["hq?/net", "hq?/host"]);
    }

    #[test]
    fn children_are_up_by_the_state_of_their_sas() {
        let child =
            |key, name, state| section(key, vec![value("name", name), value("state", state)]);
        let sas = vec![
            child("net-1", "net", "REKEYED"),
            child("net-2", "net", "INSTALLED"),
            child("dmz-3", "dmz", "INSTALLING"),
            child("lan-4", "lan", "REKEYING"),
            section("old", vec![value("state", "INSTALLED")]),
        ];
        let ike = section("hq", vec![value("state", "ESTABLISHED"), section("child-sas", sas)]);
        assert_eq!(names(up(&message(ike))), ["hq/net", "hq/lan", "hq/old"]);
        assert!(up(&[3]).is_err());
    }
}
