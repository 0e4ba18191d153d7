//! The interface between the data path and a crypto engine.

use core::any::Any;
use core::fmt;

use thiserror::Error;

use crate::key::Keys;
use crate::suite::Suite;

/// What a job asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Encrypt and write the ICV.
    Seal,
    /// Check the ICV and decrypt.
    Open,
}

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobStatus {
    /// Not run yet.
    Pending,
    /// Done.
    Done,
    /// The ICV did not verify. The text part of the packet holds no plaintext: it is still
    /// ciphertext, or it was zeroised.
    BadIcv,
    /// The engine could not do the job: a length that the suite does not allow, a session of
    /// another engine, an error inside the library. The packet holds no plaintext on `Open`.
    Failed,
}

/// One packet's work, in place.
///
/// The bytes of `packet`, in this order and without gaps:
/// 1. `header_len` bytes that are authenticated and not encrypted (in ESP: SPI and sequence
///    number, 8 bytes);
/// 2. the IV, [`Suite::iv_len_bytes`] long: written by the caller before `Seal`, read on `Open`;
/// 3. the text, encrypted or decrypted in place; for CBC a multiple of 16 bytes;
/// 4. the ICV, [`Suite::icv_len_bytes`] long: written by `Seal`, checked by `Open`. After an
///    `Open` its content is unspecified.
///
/// What is authenticated: for combined modes the header (the IV enters through the nonce), with
/// `seq_hi` inserted after its first four bytes when extended sequence numbers are in use (RFC
/// 4106 §5: SPI, high half, low half); for HMAC suites header, IV and text, with `seq_hi` appended
/// (RFC 4303 §2.2.1).
#[derive(Debug)]
pub struct Job<'a> {
    /// The keyed state; must come from the same engine's [`Provider`].
    pub session: &'a Session,
    /// Encrypt or decrypt.
    pub op: Op,
    /// The packet, see above.
    pub packet: &'a mut [u8],
    /// Bytes before the IV that are authenticated only.
    pub header_len: usize,
    /// The high-order half of the extended sequence number, in host byte order.
    pub seq_hi: Option<u32>,
    /// Set by the engine.
    pub status: JobStatus,
}

impl<'a> Job<'a> {
    /// A job on an ESP packet.
    pub fn esp(session: &'a Session, op: Op, packet: &'a mut [u8], seq_hi: Option<u32>) -> Job<'a> {
        Job { session, op, packet, header_len: 8, seq_hi, status: JobStatus::Pending }
    }

    /// The bytes of text, if the lengths fit the suite at all.
    pub fn text_len(&self) -> Option<usize> {
        let suite = self.session.suite();
        let around = self.header_len + suite.iv_len_bytes() + suite.icv_len_bytes();
        let len = self.packet.len().checked_sub(around)?;
        match suite {
            Suite::AesCbcHmac { .. } if len % 16 != 0 => None,
            _ => Some(len),
        }
    }
}

/// Why a session could not be made.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum EngineError {
    /// The engine does not implement the suite.
    #[error("engine {engine} does not implement {suite}")]
    Unsupported {
        /// The engine's name.
        engine: &'static str,
        /// The suite that was asked for.
        suite: Suite,
    },
    /// A key has the wrong length.
    #[error("keys do not fit {suite}")]
    KeyLength {
        /// The suite that was asked for.
        suite: Suite,
    },
    /// The library or the processor is missing, or the library failed.
    #[error("engine {engine}: {what}")]
    Unavailable {
        /// The engine's name.
        engine: &'static str,
        /// What is missing or failed.
        what: String,
    },
}

/// One SA's keyed state in an engine: expanded keys, in both directions.
///
/// Shared between workers; engines only read it. Dropping it zeroises the keys.
pub struct Session {
    suite: Suite,
    state: Box<dyn Any + Send + Sync>,
}

impl Session {
    /// Wraps an engine's own state.
    pub fn new(suite: Suite, state: Box<dyn Any + Send + Sync>) -> Session {
        Session { suite, state }
    }

    /// The suite that the session is for.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// The engine's own state, if it is of that type.
    pub fn state<T: 'static>(&self) -> Option<&T> {
        self.state.downcast_ref()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({})", self.suite)
    }
}

/// Makes sessions and engines; one per process and library.
pub trait Provider: Send + Sync {
    /// The engine's name, for people: `ipsec-mb`, `openssl`.
    fn name(&self) -> &'static str;

    /// Version and the code path in use (`1.3, AVX-512 with VAES`), for people.
    fn description(&self) -> String;

    /// Whether sessions for the suite can be made.
    fn supports(&self, suite: Suite) -> bool;

    /// Expands the keys of one SA.
    ///
    /// # Errors
    /// When the suite is not implemented, a key's length is wrong, or the library fails.
    fn session(&self, suite: Suite, keys: &Keys) -> Result<Session, EngineError>;

    /// An engine for one worker thread.
    ///
    /// # Errors
    /// When the library cannot be set up.
    fn engine(&self) -> Result<Box<dyn Engine>, EngineError>;
}

/// Runs bursts of jobs; one per worker thread, so nothing in it is shared.
pub trait Engine: Send {
    /// Runs every job to its end and sets its status. Jobs may be of different sessions, suites
    /// and directions; order in the slice is kept (the engine works inside each job's own packet).
    ///
    /// Does not allocate, block or panic, whatever the jobs hold.
    fn run(&mut self, jobs: &mut [Job<'_>]);
}
