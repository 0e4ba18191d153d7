//! Names of instances and interfaces.

/// The longest interface name that Linux takes (IFNAMSIZ less the terminating zero).
const INTERFACE_NAME_MAX_LEN: usize = 15;

/// True if a name can be an instance's, and so a directory's.
pub fn valid_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// True if a name can be an interface's.
pub(super) fn valid_interface(name: &str) -> bool {
    (1..=INTERFACE_NAME_MAX_LEN).contains(&name.len())
        && !name.contains(['/', ':'])
        && !name.contains(char::is_whitespace)
        && name != "."
        && name != ".."
}
