//! How loading, attaching and the tables fail.

use crate::config::Attached;

/// Why the program could not be loaded or attached, or a table not be changed.
#[derive(Debug, thiserror::Error)]
pub enum SteerError {
    /// The kernel did not take the program or its maps.
    #[error("{interface}: the XDP program could not be loaded: {reason}; {hint}")]
    Load {
        /// Name of the interface.
        interface: String,
        /// The kernel's report.
        reason: String,
        /// A remedy, for the operator.
        hint: &'static str,
    },
    /// Another XDP program is attached to the interface.
    #[error(
        "{interface}: another XDP program is attached; see which with `ip link show {interface}` \
         and stop its owner, or remove it with `ip link set {interface} xdp off`"
    )]
    Foreign {
        /// Name of the interface.
        interface: String,
    },
    /// The program could not be attached.
    #[error("{interface}: the XDP program could not be attached in {mode} mode: {reason}; {hint}")]
    Attach {
        /// Name of the interface.
        interface: String,
        /// The mode that was tried last.
        mode: Attached,
        /// The kernel's answer.
        reason: String,
        /// A remedy, for the operator.
        hint: &'static str,
    },
    /// The program could not be attached where an interface receives or sends.
    #[error(
        "{interface}: the program for its packets could not be attached: {reason}; the kernel \
         needs CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_BPF (6.1 and later)"
    )]
    Classifier {
        /// Name of the interface.
        interface: String,
        /// The kernel's answer.
        reason: String,
    },
    /// There are no links at tc ingress.
    #[error(
        "{interface}: the program of a port of packet sockets could not be attached: {reason}; it needs \
         Linux 6.6 or later (tcx): use kind = \"xdp\""
    )]
    NoTcx {
        /// Name of the interface.
        interface: String,
        /// The kernel's answer.
        reason: String,
    },
    /// A table is full.
    #[error("{interface}: the table {table} is full; raise its size in the configuration")]
    Full {
        /// Name of the interface.
        interface: String,
        /// The map's name.
        table: &'static str,
    },
    /// A table could not be changed or read.
    #[error("{interface}: the table {table} could not be used: {reason}")]
    Table {
        /// Name of the interface.
        interface: String,
        /// The map's name.
        table: &'static str,
        /// The kernel's answer.
        reason: String,
    },
}

/// An error with all its causes.
pub(crate) fn chain(error: &dyn core::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// Without the bulk of the verifier's log, whose end says what is wrong.
pub(crate) fn short(reason: &str) -> String {
    let tail = reason.char_indices().rev().nth(800).map_or(0, |(at, _)| at);
    match reason.split_once("Verifier output:") {
        Some((head, _)) if head.len() < tail => {
            format!("{head}Verifier output: ...{}", reason.get(tail..).unwrap_or(""))
        }
        _ => reason.to_owned(),
    }
}

pub(crate) fn load_hint(reason: &str) -> &'static str {
    if reason.contains("processed ") {
        "this kernel's verifier rejects the program, which is a bug: please report it with uname -r"
    } else if reason.contains("os error 1)") || reason.contains("os error 13)") {
        "run as root or with CAP_BPF and CAP_NET_ADMIN"
    } else if reason.contains("os error 12)") {
        "raise the limit on locked memory (ulimit -l), or lower the table sizes"
    } else if reason.contains("os error 38)") {
        "the kernel needs CONFIG_BPF_SYSCALL"
    } else {
        "the kernel needs CONFIG_BPF_SYSCALL and CONFIG_XDP_SOCKETS, 5.9 or later"
    }
}

/// A program was not given a frame.
pub(crate) fn refused_trial(interface: &str, reason: String) -> SteerError {
    let hint = "the frame may be too short or too long for a trial";
    SteerError::Load { interface: interface.to_owned(), reason, hint }
}

/// A program could not be loaded.
pub(crate) fn load_error(interface: &str, reason: String) -> SteerError {
    SteerError::Load { interface: interface.to_owned(), hint: load_hint(&reason), reason }
}
