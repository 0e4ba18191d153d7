//! The wire format of vici, strongSwan's control interface (src/libcharon/plugins/vici/README.md), without I/O.
//!
//! A packet is a type, for some types a name, and a message; its length stands before it. A message is a tree of
//! sections, values and lists, each by its own type.

use thiserror::Error;

/// The longest packet that vici has.
pub const MAX_PACKET_LEN: usize = 512 << 10;

/// Sections that may be open at a time: charon's own answers have five.
const MAX_DEPTH: usize = 16;

const COMMAND: u8 = 0;
const REGISTRATION: u8 = 3;

/// Bytes that are no packet, or no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("what it says is not vici: {0}")]
pub struct Malformed(&'static str);

/// A packet of charon's, without its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'p> {
    /// The end of a command's answer.
    Response(&'p [u8]),
    /// There is no such command.
    UnknownCommand,
    /// Events of a name will come.
    Confirmed,
    /// There are no events of that name.
    UnknownEvent,
    /// One of them: its name, and its message.
    Event(&'p [u8], &'p [u8]),
}

impl<'p> Packet<'p> {
    /// Reads a packet without its length.
    ///
    /// # Errors
    /// The fault of the message.
    pub fn parse(bytes: &'p [u8]) -> Result<Packet<'p>, Malformed> {
        let mut rest = Rest(bytes);
        Ok(match rest.byte()? {
            1 => Packet::Response(rest.0),
            2 => Packet::UnknownCommand,
            5 => Packet::Confirmed,
            6 => Packet::UnknownEvent,
            7 => Packet::Event(rest.name()?, rest.0),
            _ => return Err(Malformed("a type that only clients send")),
        })
    }
}

/// A command without arguments, with its length.
pub fn command(name: &str) -> Vec<u8> {
    named(COMMAND, name)
}

/// The wish for events of a name, with its length.
pub fn registration(name: &str) -> Vec<u8> {
    named(REGISTRATION, name)
}

fn named(kind: u8, name: &str) -> Vec<u8> {
    let name = name.get(..usize::from(u8::MAX)).unwrap_or(name).as_bytes();
    let len = (name.len() as u32 + 2).to_be_bytes();
    [&len[..], &[kind, name.len() as u8], name].concat()
}

/// A part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element<'m> {
    /// A section begins.
    Section(&'m [u8]),
    /// The last section that began ends.
    End,
    /// A key and its value.
    Value(&'m [u8], &'m [u8]),
    /// A list begins.
    List(&'m [u8]),
    /// A list's next value.
    Item(&'m [u8]),
    /// The list ends.
    ListEnd,
}

/// Shows each part of a message, with the names of the sections that it is in. A section's end is in that section.
///
/// # Errors
/// The fault of the message. Parts before it have been shown.
pub fn walk<'m>(
    message: &'m [u8],
    mut show: impl FnMut(&[&'m [u8]], Element<'m>),
) -> Result<(), Malformed> {
    let mut rest = Rest(message);
    let mut sections = Vec::with_capacity(MAX_DEPTH);
    let mut is_in_list = false;
    while !rest.0.is_empty() {
        match (rest.byte()?, is_in_list) {
            (1, false) => {
                let name = rest.name()?;
                show(&sections, Element::Section(name));
                if sections.len() == MAX_DEPTH {
                    return Err(Malformed("too many sections in one another"));
                }
                sections.push(name);
            }
            (2, false) => {
                show(&sections, Element::End);
                sections.pop().ok_or(Malformed("the end of no section"))?;
            }
            (3, false) => show(&sections, Element::Value(rest.name()?, rest.value()?)),
            (4, false) => {
                show(&sections, Element::List(rest.name()?));
                is_in_list = true;
            }
            (5, true) => show(&sections, Element::Item(rest.value()?)),
            (6, true) => {
                show(&sections, Element::ListEnd);
                is_in_list = false;
            }
            _ => return Err(Malformed("a part where it cannot be")),
        }
    }
    match sections.is_empty() && !is_in_list {
        true => Ok(()),
        false => Err(Malformed("a section or a list without an end")),
    }
}

/// Bytes that were not read yet.
struct Rest<'m>(&'m [u8]);

impl<'m> Rest<'m> {
    fn take(&mut self, len: usize) -> Result<&'m [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed("it is cut off"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        self.take(1).map(|byte| byte[0])
    }

    fn name(&mut self) -> Result<&'m [u8], Malformed> {
        let len = self.byte()?;
        self.take(len.into())
    }

    fn value(&mut self) -> Result<&'m [u8], Malformed> {
        let len = u16::from_be_bytes([self.byte()?, self.byte()?]);
        self.take(len.into())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Content of a section.
    #[derive(Clone, Debug)]
    pub enum Node {
        Section(Vec<u8>, Vec<Node>),
        Value(Vec<u8>, Vec<u8>),
        List(Vec<u8>, Vec<Vec<u8>>),
    }

    fn put_name(kind: u8, name: &[u8], to: &mut Vec<u8>) {
        to.extend([kind, name.len() as u8]);
        to.extend(name);
    }

    fn put_value(value: &[u8], to: &mut Vec<u8>) {
        to.extend((value.len() as u16).to_be_bytes());
        to.extend(value);
    }

    /// The message of a tree.
    pub fn encode(nodes: &[Node], to: &mut Vec<u8>) {
        for node in nodes {
            match node {
                Node::Section(name, nodes) => {
                    put_name(1, name, to);
                    encode(nodes, to);
                    to.push(2);
                }
                Node::Value(name, value) => {
                    put_name(3, name, to);
                    put_value(value, to);
                }
                Node::List(name, items) => {
                    put_name(4, name, to);
                    for item in items {
                        to.push(5);
                        put_value(item, to);
                    }
                    to.push(6);
                }
            }
        }
    }

    /// The message as it is shown, in lines.
    fn shown(message: &[u8]) -> (Vec<String>, Result<(), Malformed>) {
        let mut lines = Vec::new();
        let end = walk(message, |path, part| lines.push(format!("{path:?} {part:?}")));
        (lines, end)
    }

    fn lines(nodes: &[Node], path: &mut Vec<Vec<u8>>, to: &mut Vec<String>) {
        for node in nodes {
            match node {
                Node::Section(name, nodes) => {
                    to.push(format!("{path:?} {:?}", Element::Section(name)));
                    path.push(name.clone());
                    lines(nodes, path, to);
                    to.push(format!("{path:?} {:?}", Element::End));
                    path.pop();
                }
                Node::Value(name, value) => {
                    to.push(format!("{path:?} {:?}", Element::Value(name, value)));
                }
                Node::List(name, items) => {
                    to.push(format!("{path:?} {:?}", Element::List(name)));
                    to.extend(items.iter().map(|i| format!("{path:?} {:?}", Element::Item(i))));
                    to.push(format!("{path:?} {:?}", Element::ListEnd));
                }
            }
        }
    }

    fn tree() -> impl Strategy<Value = Vec<Node>> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..5);
        let leaf = prop_oneof![
            (bytes(), prop::collection::vec(any::<u8>(), 0..300))
                .prop_map(|(name, value)| Node::Value(name, value)),
            (bytes(), prop::collection::vec(bytes(), 0..3))
                .prop_map(|(name, items)| Node::List(name, items)),
        ];
        let node = leaf.prop_recursive(5, 24, 4, move |inner| {
            (bytes(), prop::collection::vec(inner, 0..4))
                .prop_map(|(name, nodes)| Node::Section(name, nodes))
        });
        prop::collection::vec(node, 0..5)
    }

    proptest! {
        #[test]
        fn a_tree_is_shown_as_it_was_written(tree in tree()) {
            let (mut message, mut wanted) = (Vec::new(), Vec::new());
            encode(&tree, &mut message);
            lines(&tree, &mut Vec::new(), &mut wanted);
            prop_assert_eq!(shown(&message), (wanted, Ok(())));
            // Cut anywhere it is an error, or ends between two parts of the root.
            for end in 0..message.len() {
                let _ = shown(&message[..end]);
            }
            let event = [&[7, 3][..], b"abc", &message].concat();
            prop_assert_eq!(Packet::parse(&event), Ok(Packet::Event(b"abc", &message)));
        }

        #[test]
        fn any_bytes_are_read_in_bounds(bytes in prop::collection::vec(0u8..9, 0..400)) {
            let (lines, _) = shown(&bytes);
            prop_assert!(lines.len() <= bytes.len() + 1);
            let _ = Packet::parse(&bytes);
        }

        #[test]
        fn noise_is_read_in_bounds(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = (shown(&bytes), Packet::parse(&bytes));
        }
    }

    #[test]
    fn what_is_not_balanced_or_goes_too_deep_is_refused() {
        let deep = |sections: usize| [[1, 0].repeat(sections), vec![2; sections]].concat();
        assert_eq!(shown(&deep(MAX_DEPTH)).1, Ok(()));
        for (message, why) in [
            (deep(MAX_DEPTH + 1), "too many sections in one another"),
            (vec![2], "the end of no section"),
            (vec![1, 0], "a section or a list without an end"),
            (vec![4, 0], "a section or a list without an end"),
            (vec![4, 0, 1, 0], "a part where it cannot be"),
            (vec![5, 0, 0], "a part where it cannot be"),
            (vec![9], "a part where it cannot be"),
            (vec![3, 1, b'a', 0, 9, 0], "it is cut off"),
        ] {
            assert_eq!(shown(&message).1, Err(Malformed(why)), "{message:?}");
        }
    }

    #[test]
    fn packets_are_as_the_readme_has_them() {
        assert_eq!(command("list-sas"), b"\0\0\0\x0a\0\x08list-sas");
        assert_eq!(registration("list-sa"), b"\0\0\0\x09\x03\x07list-sa");
        assert_eq!(Packet::parse(&[1]), Ok(Packet::Response(&[])));
        assert_eq!(Packet::parse(&[2]), Ok(Packet::UnknownCommand));
        assert_eq!(Packet::parse(&[5]), Ok(Packet::Confirmed));
        assert_eq!(Packet::parse(&[6]), Ok(Packet::UnknownEvent));
        assert!(Packet::parse(&[]).is_err() && Packet::parse(&[0]).is_err());
        assert!(Packet::parse(&[7, 9, b'a']).is_err());
    }
}
