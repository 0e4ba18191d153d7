//! The program `nft`, and what nf_tables itself says.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::{fmt, io};

use netlink::netfilter::{self, Nfgenmsg};
use netlink::{Connection, MessageWriter, Protocol};
use thiserror::Error;

/// Access of the guard to the kernel's nf_tables.
pub(crate) trait Nft: fmt::Debug + Send {
    /// Carries out all of a ruleset or nothing.
    fn apply(&mut self, ruleset: &str) -> Result<(), NftError>;

    /// Checks that a ruleset could be carried out. Changes nothing.
    fn check(&mut self, ruleset: &str) -> Result<(), NftError>;

    /// True if the kernel has a table of this name (`ip6 NAME`).
    fn has_table(&mut self, table: &str) -> io::Result<bool>;
}

/// Why a ruleset was not carried out.
#[derive(Debug, Error)]
pub enum NftError {
    /// The program cannot be started.
    #[error("cannot be started: {0}\n  install the package nftables")]
    Missing(io::Error),
    /// nft, or the kernel, refused.
    #[error("{0}")]
    Said(String),
}

impl NftError {
    /// A copy of the error.
    pub(crate) fn again(&self) -> NftError {
        match self {
            NftError::Missing(error) => NftError::Missing(error.kind().into()),
            NftError::Said(said) => NftError::Said(said.clone()),
        }
    }
}

/// The program itself.
#[derive(Debug)]
pub(crate) struct Program;

impl Nft for Program {
    fn apply(&mut self, ruleset: &str) -> Result<(), NftError> {
        run(&["-f", "-"], ruleset)
    }

    fn check(&mut self, ruleset: &str) -> Result<(), NftError> {
        run(&["--check", "-f", "-"], ruleset)
    }

    /// Asks by nfnetlink (`NFT_MSG_GETTABLE`).
    fn has_table(&mut self, table: &str) -> io::Result<bool> {
        let name = table.trim_start_matches("ip6 ");
        let mut netfilter = Connection::open(Protocol::Netfilter)?;
        let mut request = MessageWriter::request(GET_TABLE, 0);
        request.fixed(&Nfgenmsg::of(NFPROTO_IPV6)).text(TABLE_NAME, name);
        match netfilter.ask(request) {
            Err(fault) if fault.refusal() == Some(crate::kernel::NO_ENTRY) => Ok(false),
            answer => Ok(answer.map(|_| true)?),
        }
    }
}

/// nf_tables' subsystem and message.
const GET_TABLE: u16 = netfilter::kind(10, 1);
const TABLE_NAME: u16 = 1;
const NFPROTO_IPV6: u8 = 10;

/// Hands a ruleset to `nft`, which carries out all of it or nothing.
///
/// # Errors
/// The message of `nft`, or why it cannot be started.
pub fn apply(ruleset: &str) -> Result<(), String> {
    Program.apply(ruleset).map_err(|error| error.to_string())
}

fn run(arguments: &[&str], ruleset: &str) -> Result<(), NftError> {
    let said = |error: io::Error| NftError::Said(error.to_string());
    let mut child = Command::new("nft")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(NftError::Missing)?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that ends before it has read all of it says why.
        let written = stdin.write_all(ruleset.as_bytes());
        drop(stdin);
        let output = child.wait_with_output().map_err(said)?;
        return match output.status.success() {
            true => written.map_err(said),
            false => Err(NftError::Said(refusal(&output.stderr))),
        };
    }
    Err(NftError::Said("nft reads nothing".into()))
}

/// Its report of the first mistake, in one line, without the ruleset that it quotes.
fn refusal(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let first = text.lines().find(|line| line.contains("Error")).or_else(|| text.lines().next());
    first.unwrap_or("nft failed and said nothing").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_one_line_that_says_why() {
        let said = b"/dev/stdin:3:9-18: Error: Interface does not exist\n    oif 4294967295 drop\n        ^^^^^^^^^^\n";
        assert_eq!(refusal(said), "/dev/stdin:3:9-18: Error: Interface does not exist");
        assert_eq!(
            refusal(b"netlink: cache initialization failed\n"),
            "netlink: cache initialization failed"
        );
        assert_eq!(refusal(b""), "nft failed and said nothing");
    }
}
