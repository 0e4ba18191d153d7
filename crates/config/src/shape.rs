//! From the tree to typed values: every key that is not known and every value of a wrong type, all at once.
//!
//! A type's deserializer stops at its first error. So what was wrong is left out of the tree, and the tree is read again,
//! until nothing is wrong. An error knows its path, and what would have been right, as it was raised.

use std::fmt::{self, Display};

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use super::document::{Document, Node, Step, Value, written};
use super::problem::{Problem, instead, nearest};

/// The value that was read, as far as it could be, and its problems.
pub struct Shaped<T> {
    /// None where it makes no sense without what is wrong.
    pub value: Option<T>,
    /// Elements of lists were left out as a whole: what refers to them is not known to be wrong.
    pub lacks_elements: bool,
    /// All of them, in the order of the file.
    pub problems: Vec<Problem>,
}

/// Most problems that are listed.
const MOST: usize = 100;

/// Keys that a type has in the table where a document has one that is unknown.
pub fn known_beside<T: DeserializeOwned>(document: &Document) -> Option<&'static [&'static str]> {
    match T::deserialize(&document.root).err()?.what {
        What::UnknownKey { known, .. } => Some(known),
        _ => None,
    }
}

/// Reads a type. `owners` names the tables that have a key.
pub fn read<T: DeserializeOwned>(
    document: &Document,
    owners: &dyn Fn(&str) -> Vec<String>,
) -> Shaped<T> {
    let mut root = document.root.clone();
    let mut shaped = Shaped { value: None, lacks_elements: false, problems: Vec::new() };
    while shaped.problems.len() < MOST {
        match T::deserialize(&root) {
            Ok(value) => {
                shaped.value = Some(value);
                break;
            }
            Err(error) => {
                let path: Vec<Step> = error.path.iter().rev().cloned().collect();
                let is_missing = matches!(error.what, What::Missing(_));
                shaped.lacks_elements |= is_missing;
                let problem = error.problem(document, &path, owners);
                if !is_missing || !is_explained(&shaped.problems, &problem) {
                    shaped.problems.push(problem);
                }
                if !root.leave_out(&path) {
                    break;
                }
            }
        }
    }
    shaped.problems.sort_by_key(|problem| problem.place);
    shaped
}

/// True if a key is missing because it was misspelt, or had a value that was left out.
fn is_explained(problems: &[Problem], missing: &Problem) -> bool {
    let Some((table, key)) = missing.key.rsplit_once('.') else { return false };
    problems.iter().any(|problem| {
        problem.key.rsplit_once('.').is_some_and(|(in_table, other)| {
            in_table == table && (other == key || nearest(other, [key]).is_some())
        })
    })
}

/// Why a value could not be read; the path is filled in from its end.
#[derive(Debug)]
pub struct ShapeError {
    path: Vec<Step>,
    what: What,
}

#[derive(Debug)]
enum What {
    UnknownKey {
        found: String,
        known: &'static [&'static str],
    },
    UnknownValue {
        found: String,
        known: &'static [&'static str],
    },
    Missing(&'static str),
    Type {
        found: String,
        wanted: String,
    },
    /// A table of which there is one, as a list of tables.
    Repeated,
    Said(String),
}

impl ShapeError {
    fn of(what: What) -> ShapeError {
        ShapeError { path: Vec::new(), what }
    }

    fn below(mut self, step: Step) -> ShapeError {
        self.path.push(step);
        self
    }

    fn problem(
        &self,
        document: &Document,
        path: &[Step],
        owners: &dyn Fn(&str) -> Vec<String>,
    ) -> Problem {
        let is_key = matches!(self.what, What::UnknownKey { .. } | What::Missing(_));
        let place = document.place_at(path, !is_key);
        let mut key = written(path);
        let mut value = match key.ends_with(SECRET) {
            true => "...".to_owned(),
            false => document.shown_at(path),
        };
        let (wrong, remedy) = match &self.what {
            What::UnknownKey { found, known } => {
                value.clear();
                let here = instead(found, known);
                let owners = match here.starts_with("there is ") {
                    true => owners(found),
                    false => Vec::new(),
                };
                let remedy = match owners.is_empty() {
                    true => here,
                    false => format!("it is a key of {}; here {here}", owners.join(", ")),
                };
                (format!("unknown key {found:?}"), remedy)
            }
            What::UnknownValue { found, known } => {
                ("this value is not known".into(), instead(found, known))
            }
            What::Missing(name) => {
                key = format!("{key}.{name}");
                value.clear();
                ("this key is missing".into(), format!("add {name} = ... to the table"))
            }
            What::Type { found, wanted } if found == TABLE && wanted == LIST && path.len() == 1 => {
                (
                    format!("this is {found}"),
                    format!("write [[{key}]], with two brackets, as in [[port]]"),
                )
            }
            What::Type { found, wanted } => {
                let unquoted =
                    if found == "text" && is_number(wanted) { ", without quotes" } else { "" };
                (format!("this is {found}"), format!("write {}{unquoted}", plainly(wanted)))
            }
            What::Repeated => {
                value.clear();
                let remedy = format!("write [{key}], once, with one pair of brackets");
                ("this is a list of tables".into(), remedy)
            }
            What::Said(text) if text.contains("IP address syntax") => {
                ("this is no address".into(), ADDRESS.into())
            }
            What::Said(text) => match text.split_once("; ") {
                Some((wrong, remedy)) => (wrong.to_owned(), remedy.to_owned()),
                None => (text.clone(), "write another value".into()),
            },
        };
        Problem { place, key, value, wrong: wrong.into(), remedy: remedy.into() }
    }
}

/// A key whose value is not shown.
const SECRET: &str = ".secret";

const ADDRESS: &str = "write an address such as \"192.0.2.1\" or \"2001:db8::1\"";

/// A value that is a table.
const TABLE: &str = "a table";

/// The expectation of a list's deserializer.
const LIST: &str = "a sequence";

/// True if a type's deserializer expects a number.
fn is_number(wanted: &str) -> bool {
    matches!(wanted, "u8" | "u16" | "u32" | "u64" | "usize" | "f64")
}

/// The expectation of a type's deserializer, in an operator's words.
fn plainly(wanted: &str) -> String {
    match wanted {
        "f64" => "a number".into(),
        "a string" => "text in quotes".into(),
        "a boolean" => "true or false".into(),
        "u8" => "a number from 0 to 255".into(),
        "u16" => "a number from 0 to 65535".into(),
        "u32" => "a number from 0 to 4294967295".into(),
        "u64" | "usize" => "a number, not below 0".into(),
        LIST => "a list: [...], or of tables [[...]], with two brackets, as in [[port]]".into(),
        "IP address" => "an address such as \"192.0.2.1\" or \"2001:db8::1\"".into(),
        _ if wanted.starts_with("struct ") || wanted == "a map" => "a table: { ... }".into(),
        _ => wanted.to_owned(),
    }
}

impl Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::UnknownKey { found, known } => {
                write!(f, "unknown key {found:?}; {}", instead(found, known))
            }
            What::UnknownValue { found, known } => {
                write!(f, "{found:?} is not known; {}", instead(found, known))
            }
            What::Missing(name) => write!(f, "{name} is missing; add it"),
            What::Type { found, wanted } => write!(f, "this is {found}; write {}", plainly(wanted)),
            What::Repeated => f.write_str("this is a list of tables; write one table"),
            What::Said(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for ShapeError {}

impl serde::de::Error for ShapeError {
    fn custom<T: Display>(said: T) -> Self {
        ShapeError::of(What::Said(said.to_string()))
    }

    fn invalid_type(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        let (found, wanted) = (kind_of(found), wanted.to_string());
        ShapeError::of(What::Type { found, wanted })
    }

    fn invalid_value(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        let found = match found {
            Unexpected::Signed(number) => number.to_string(),
            Unexpected::Unsigned(number) => number.to_string(),
            Unexpected::Float(number) => number.to_string(),
            other => other.to_string(),
        };
        ShapeError::of(What::Type { found, wanted: wanted.to_string() })
    }

    fn unknown_variant(found: &str, known: &'static [&'static str]) -> Self {
        ShapeError::of(What::UnknownValue { found: found.to_owned(), known })
    }

    fn unknown_field(found: &str, known: &'static [&'static str]) -> Self {
        ShapeError::of(What::UnknownKey { found: found.to_owned(), known })
    }

    fn missing_field(name: &'static str) -> Self {
        ShapeError::of(What::Missing(name))
    }
}

fn kind_of(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Str(_) => "text".into(),
        Unexpected::Signed(_) | Unexpected::Unsigned(_) => "a number".into(),
        Unexpected::Float(number) => number.to_string(),
        Unexpected::Bool(_) => "true or false".into(),
        Unexpected::Map => TABLE.into(),
        Unexpected::Seq => "a list".into(),
        other => other.to_string(),
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = ShapeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ShapeError> {
        match &self.value {
            Value::Text(text) | Value::Time(text) => visitor.visit_borrowed_str(text),
            Value::Integer(Some(number)) => visitor.visit_i64(*number),
            Value::Integer(None) => Err(ShapeError::of(What::Type {
                found: "a number of more than 64 bits".into(),
                wanted: "a smaller one".into(),
            })),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Boolean(is_so) => visitor.visit_bool(*is_so),
            Value::List(list) => visitor.visit_seq(Elements { list, next: 0 }),
            Value::Table(table) => visitor.visit_map(Entries { table, next: 0 }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ShapeError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ShapeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ShapeError> {
        let Value::Text(text) = &self.value else {
            let found = self.kind().to_owned();
            let wanted = format!("one of {}, in quotes", known.join(", "));
            return Err(ShapeError::of(What::Type { found, wanted }));
        };
        let word: StrDeserializer<'_, ShapeError> = text.as_str().into_deserializer();
        visitor.visit_enum(word)
    }

    /// A list would be read as the fields in their order.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ShapeError> {
        match &self.value {
            Value::List(_) => Err(ShapeError::of(What::Repeated)),
            _ => self.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

struct Elements<'de> {
    list: &'de [Node],
    next: usize,
}

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = ShapeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ShapeError> {
        while let Some(node) = self.list.get(self.next) {
            let at = self.next;
            self.next += 1;
            if node.is_there() {
                return seed.deserialize(node).map(Some).map_err(|e| e.below(Step::At(at)));
            }
        }
        Ok(None)
    }
}

struct Entries<'de> {
    table: &'de [(String, Node)],
    next: usize,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = ShapeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ShapeError> {
        while let Some((key, node)) = self.table.get(self.next) {
            if node.is_there() {
                let word: StrDeserializer<'_, ShapeError> = key.as_str().into_deserializer();
                let below = |error: ShapeError| error.below(Step::Key(key.clone()));
                return seed.deserialize(word).map(Some).map_err(below);
            }
            self.next += 1;
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, ShapeError> {
        let Some((key, node)) = self.table.get(self.next) else {
            return Err(ShapeError::of(What::Said("a value without a key".into())));
        };
        self.next += 1;
        seed.deserialize(node).map_err(|error| error.below(Step::Key(key.clone())))
    }
}
