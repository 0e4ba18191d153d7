//! Help of `culvert bfd`.

/// Below the help.
pub const EXAMPLES: &str = "Examples:\n  \
    culvert bfd\n  \
    culvert bfd --json";
