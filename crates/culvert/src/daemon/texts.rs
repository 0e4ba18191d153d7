//! How parts of SAs and policies are shown.

use esp::{Protocol, SaParams};

/// An SA's algorithms.
pub fn suite_text(params: &SaParams) -> String {
    match params.protocol {
        Protocol::Esp => params.suite.to_string(),
        // That there is no encryption says the protocol.
        Protocol::Ah => params.suite.to_string().trim_start_matches("null-").to_owned(),
        Protocol::IpComp => "deflate".to_owned(),
        Protocol::IpInV4 | Protocol::IpInV6 => params.suite.to_string(),
    }
}

/// A mark, where there is one.
pub fn mark_text(mark: policy::Mark) -> Option<String> {
    (mark.mask != 0).then(|| format!("{:#x}/{:#x}", mark.value, mark.mask))
}
