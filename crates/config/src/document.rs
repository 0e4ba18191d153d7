//! The file as a tree, whose keys and values know where they stand.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};

use super::problem::{Place, Problem};

/// One step from the root of the file to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Into a table.
    Key(String),
    /// Into a list.
    At(usize),
}

/// A value with its place.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where its key stands, and of an element of a list it itself.
    key_at: usize,
    /// Where it stands.
    at: usize,
    /// True if it was found wrong, and is left out.
    is_left_out: bool,
    /// Value of the key.
    pub value: Value,
}

/// A value, by its type.
#[derive(Clone, Debug)]
pub enum Value {
    /// Text, without its quotes.
    Text(String),
    /// A number; none where it is too large.
    Integer(Option<i64>),
    /// A number with a point.
    Float(f64),
    /// True or false.
    Boolean(bool),
    /// A date or a time.
    Time(String),
    /// A list, or tables of one name in order.
    List(Vec<Node>),
    /// Keys and their values, in the order of their names.
    Table(Vec<(String, Node)>),
}

/// A file that was read.
pub struct Document {
    /// The table of all.
    pub root: Node,
    /// Where lines begin.
    lines: Vec<usize>,
    text: String,
}

impl Document {
    /// Reads a file's text. Where it is no TOML the problems are what is wrong with it, and the tree is what could be
    /// read all the same.
    pub fn read(text: &str) -> (Document, Vec<Problem>) {
        let (table, errors) = DeTable::parse_recoverable(text);
        let at = table.span();
        let root = Node::new(at.clone(), at, DeValue::Table(table.into_inner()));
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
        let document = Document { root, lines: lines.collect(), text: text.to_owned() };
        let mut problems: Vec<Problem> =
            errors.iter().map(|error| document.syntax(error)).collect();
        // What follows in a line may only follow from what is wrong there first.
        problems.sort_by_key(|problem| problem.place);
        problems.dedup_by_key(|problem| problem.place.map(|place| place.line));
        (document, problems)
    }

    fn syntax(&self, error: &Error) -> Problem {
        let place = error.span().map(|span| self.place(span.start));
        let wrong = format!("this is no TOML: {}", error.message().trim().replace('\n', "; "));
        let remedy =
            "write KEY = VALUE, each key once, text in quotes, and above them [worker] or [[port]]";
        let (key, value) = (String::new(), String::new());
        Problem { place, key, value, wrong: wrong.into(), remedy: remedy.into() }
    }

    /// The line and column of a byte.
    fn place(&self, at: usize) -> Place {
        let line = self.lines.partition_point(|begin| *begin <= at).max(1);
        let begin = self.lines.get(line - 1).copied().unwrap_or_default();
        let before = self.text.get(begin..at.min(self.text.len())).unwrap_or_default();
        Place { line, column: before.chars().count() + 1 }
    }

    /// Where a key as problems write it stands (`port[1].queues`), or what of it there is. None if nothing is.
    pub fn place_of(&self, key: &str) -> Option<Place> {
        let (mut node, mut found) = (&self.root, None);
        for step in steps(key) {
            let Some(next) = node.child(&step) else { break };
            (node, found) = (next, Some(next));
        }
        let node = found?;
        let at = match node.value {
            Value::Table(_) => node.key_at,
            _ => node.at,
        };
        Some(self.place(at))
    }

    /// The value at a path, as it is written.
    pub fn shown_at(&self, path: &[Step]) -> String {
        self.node(path).map(Node::shown).unwrap_or_default()
    }

    fn node(&self, path: &[Step]) -> Option<&Node> {
        path.iter().try_fold(&self.root, |node, step| node.child(step))
    }

    /// Where the key of a path stands, or with `of_value` its value.
    pub fn place_at(&self, path: &[Step], of_value: bool) -> Option<Place> {
        let node = self.node(path)?;
        let has_place = !path.is_empty();
        has_place.then(|| self.place(if of_value { node.at } else { node.key_at }))
    }
}

/// A key as problems write it, step by step.
fn steps(key: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for part in key.split('.') {
        let (name, rest) = part.split_once('[').unwrap_or((part, ""));
        steps.push(Step::Key(name.to_owned()));
        let numbers = rest.split(['[', ']']).filter_map(|number| number.parse().ok());
        steps.extend(numbers.map(Step::At));
    }
    steps
}

/// A path as problems write it.
pub fn written(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => text.extend([".", key]),
            Step::At(number) => text.push_str(&format!("[{number}]")),
        }
    }
    text
}

impl Node {
    fn new(key: Range<usize>, at: Range<usize>, value: DeValue<'_>) -> Node {
        let value = match value {
            DeValue::String(text) => Value::Text(text.into_owned()),
            DeValue::Integer(number) => {
                Value::Integer(i64::from_str_radix(number.as_str(), number.radix()).ok())
            }
            DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(is_so) => Value::Boolean(is_so),
            DeValue::Datetime(time) => Value::Time(time.to_string()),
            DeValue::Array(list) => {
                let of = |value: Spanned<DeValue<'_>>| {
                    let at = value.span();
                    Node::new(at.clone(), at, value.into_inner())
                };
                Value::List(list.into_iter().map(of).collect())
            }
            DeValue::Table(table) => {
                let of = |(key, value): (Spanned<_>, Spanned<DeValue<'_>>)| {
                    let (key_at, at) = (key.span(), value.span());
                    let key: std::borrow::Cow<'_, str> = key.into_inner();
                    (key.into_owned(), Node::new(key_at, at, value.into_inner()))
                };
                Value::Table(table.into_iter().map(of).collect())
            }
        };
        Node { key_at: key.start, at: at.start, is_left_out: false, value }
    }

    fn child(&self, step: &Step) -> Option<&Node> {
        match (&self.value, step) {
            (Value::List(list), Step::At(number)) => list.get(*number),
            (Value::Table(table), Step::Key(key)) => {
                table.iter().find(|(name, _)| name == key).map(|(_, node)| node)
            }
            _ => None,
        }
    }

    fn child_mut(&mut self, step: &Step) -> Option<&mut Node> {
        match (&mut self.value, step) {
            (Value::List(list), Step::At(number)) => list.get_mut(*number),
            (Value::Table(table), Step::Key(key)) => {
                table.iter_mut().find(|(name, _)| name == key).map(|(_, node)| node)
            }
            _ => None,
        }
    }

    /// Leaves what a path leads to out, as if it were not there; elements of lists keep their numbers. False if it leads
    /// nowhere, or to the whole.
    pub fn leave_out(&mut self, path: &[Step]) -> bool {
        let mut node = self;
        for step in path {
            let Some(next) = node.child_mut(step) else { return false };
            node = next;
        }
        node.is_left_out |= !path.is_empty();
        !path.is_empty()
    }

    /// True if it counts.
    pub fn is_there(&self) -> bool {
        !self.is_left_out
    }

    /// The text of a key, if it has one.
    pub fn text(&self, key: &str) -> Option<&str> {
        match &self.child(&Step::Key(key.to_owned()))?.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Type of the value, for people.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Text(_) => "text",
            Value::Integer(_) | Value::Float(_) => "a number",
            Value::Boolean(_) => "true or false",
            Value::Time(_) => "a time",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }

    /// The value as it is written, cut short.
    pub fn shown(&self) -> String {
        match &self.value {
            Value::Text(text) | Value::Time(text) => text.clone(),
            Value::Integer(Some(number)) => number.to_string(),
            Value::Integer(None) => String::new(),
            Value::Float(number) => number.to_string(),
            Value::Boolean(is_so) => is_so.to_string(),
            Value::List(list) => {
                let shown: Vec<String> = list.iter().take(4).map(Node::shown).collect();
                let more = if list.len() > 4 { ", ..." } else { "" };
                format!("[{}{more}]", shown.join(", "))
            }
            Value::Table(_) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: usize, column: usize) -> Option<Place> {
        Some(Place { line, column })
    }

    #[test]
    fn keys_are_found_where_they_stand() {
        let text = "name = \"\u{e4}\"\n[[port]]\ninterface = \"a\"\n[[port]]\ninterface = \"b\"\nqueues = 0\n\
                    [worker]\ncpus = [0, 1]\n[device.nic0]\nport = \"a\"\n";
        let (document, problems) = Document::read(text);
        assert!(problems.is_empty());
        for (key, at) in [
            ("name", place(1, 8)),
            ("port[0].interface", place(3, 13)),
            ("port[1].queues", place(6, 10)),
            // What the file leaves out stands in its table.
            ("port[1].mode", place(4, 1)),
            ("worker.cpus", place(8, 8)),
            ("worker.cpus[1]", place(8, 12)),
            ("device.nic0.port", place(10, 8)),
            ("guard.prefixes", None),
        ] {
            assert_eq!(document.place_of(key), at, "{key}");
        }
    }

    #[test]
    fn what_is_no_toml_is_told_once_a_line_in_order() {
        let (document, problems) = Document::read("name = \"a\"\n@x@ y\nb = c\n[worker\n");
        let lines: Vec<_> = problems.iter().filter_map(|p| Some(p.place?.line)).collect();
        assert_eq!(lines.first(), Some(&2), "{problems:?}");
        assert!(lines.len() > 1 && lines.is_sorted_by(|a, b| a < b), "{problems:?}");
        assert_eq!(document.root.text("name"), Some("a"));
    }

    #[test]
    fn what_is_left_out_keeps_the_numbers_of_others() {
        let (mut document, _) = Document::read("a = [1, 2, 3]\n");
        let path = [Step::Key("a".into()), Step::At(1)];
        assert_eq!(written(&path), "a[1]");
        assert!(document.root.leave_out(&path));
        assert!(
            !document.root.leave_out(&[]) && !document.root.leave_out(&[Step::Key("b".into())])
        );
        assert_eq!(document.place_of("a[2]"), place(1, 12));
    }
}
