//! Names of nDPI's protocols, by their numbers.

use std::sync::LazyLock;

/// Names as the library spells them, in the order of their numbers.
static SPELLED: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let lines = include_str!("../data/protocols").lines();
    lines.filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace).collect()
});

/// The same as names of applications.
static APPLICATIONS: LazyLock<Vec<String>> =
    LazyLock::new(|| SPELLED.iter().map(|name| as_application(name)).collect());

/// Names of the library's protocols, in the order of their numbers.
pub(crate) fn spelled() -> &'static [&'static str] {
    &SPELLED
}

/// Name of the application that a protocol stands for: in lower case, of letters, digits, `-` and `_`. `None` for 0, which
/// stands for none, and for numbers that the library does not have.
pub fn application(protocol: u16) -> Option<&'static str> {
    let name = APPLICATIONS.get(usize::from(protocol)).filter(|_| protocol != 0);
    name.map(String::as_str)
}

/// All of them.
pub fn applications() -> impl Iterator<Item = &'static str> {
    APPLICATIONS.iter().skip(1).map(String::as_str)
}

fn as_application(name: &str) -> String {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    let parts = name.chars().map(|letter| if is_part(letter) { letter } else { '-' });
    parts.collect::<String>().trim_end_matches('-').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_protocol_is_an_application_of_its_own() {
        let mut names: Vec<&str> = applications().collect();
        assert_eq!(names.len(), 281);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 281, "two have the same name");
        assert_eq!((application(5), application(92)), (Some("dns"), Some("ssh")));
        assert_eq!((application(0), application(282)), (None, None));
        assert_eq!(as_application("Sina(Weibo)"), "sina-weibo");
        assert_eq!(as_application("Z39.50"), "z39-50");
    }
}
