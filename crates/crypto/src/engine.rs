//! The interface between the data path and a crypto engine.

use thiserror::Error;

use crate::key::Keys;
use crate::session::Session;
use crate::suite::Suite;

/// Direction of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Encrypt and write the ICV.
    Seal,
    /// Check the ICV and decrypt.
    Open,
}

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobStatus {
    /// Not run yet.
    Pending,
    /// The job succeeded.
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
/// 3. the text, encrypted or decrypted in place; for CBC a multiple of [`Suite::block_bytes`];
/// 4. the ICV, [`Suite::icv_len_bytes`] long: written by `Seal`, checked by `Open`. After an
///    `Open` its content is unspecified.
///
/// [`Job::layout`] says which lengths are legal; a text of zero bytes is. Every engine takes packets
/// of up to 65,530 bytes; one that cannot do longer ones answers [`JobStatus::Failed`] and leaves
/// them alone.
///
/// Authenticated data: for combined modes the header (the IV enters through the nonce), with
/// `seq_hi` inserted after its first four bytes when extended sequence numbers are in use (RFC
/// 4106 §5: SPI, high half, low half); for AES-GMAC that, IV and text (RFC 4543 §3.3); for separate
/// algorithms header, IV and text, with `seq_hi` appended (RFC 4303 §2.2.1).
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
    #[inline]
    pub fn esp(session: &'a Session, op: Op, packet: &'a mut [u8], seq_hi: Option<u32>) -> Job<'a> {
        Job { session, op, packet, header_len: 8, seq_hi, status: JobStatus::Pending }
    }

    /// Where the parts of the packet lie, if the lengths fit the suite at all.
    ///
    /// `None` when the packet is too short, when a CBC text is no multiple of its cipher's block, when a
    /// combined mode with `seq_hi` has a header of other than 8 bytes (RFC 4106 §5 defines no
    /// other), or when a separate algorithm would authenticate nothing. Every engine answers
    /// [`JobStatus::Failed`] then.
    #[inline]
    pub fn layout(&self) -> Option<Layout> {
        let esn = self.seq_hi.is_some();
        Layout::of(self.session.suite(), self.header_len, self.packet.len(), esn)
    }

    /// The bytes of text, if the lengths fit the suite at all.
    pub fn text_len(&self) -> Option<usize> {
        self.layout().map(|l| l.icv - l.text)
    }

    /// The packet by its parts, under the same conditions as [`Job::layout`].
    pub fn parts(&mut self) -> Option<Parts<'_>> {
        let layout = self.layout()?;
        let (header, rest) = self.packet.split_at_mut_checked(layout.iv)?;
        let (iv, rest) = rest.split_at_mut_checked(layout.text - layout.iv)?;
        let (text, icv) = rest.split_at_mut_checked(layout.icv - layout.text)?;
        Some(Parts { header, iv, text, icv })
    }
}

/// Offsets, in bytes from the packet's start, of the parts of a job's packet; the header starts at
/// 0, each part ends where the next starts, and the ICV ends the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Where the IV starts: the header's length.
    pub iv: usize,
    /// Where the text starts.
    pub text: usize,
    /// Where the ICV starts.
    pub icv: usize,
}

impl Layout {
    /// [`Job::layout`] by its parts: `esn` says whether extended sequence numbers are in use.
    #[inline]
    pub fn of(suite: Suite, header_len: usize, packet_len: usize, esn: bool) -> Option<Layout> {
        let text = header_len.checked_add(suite.iv_len_bytes())?;
        let icv = packet_len.checked_sub(suite.icv_len_bytes())?;
        let text_len = icv.checked_sub(text)?;
        let fits = match suite {
            // A block is a power of two.
            Suite::Separate { cipher, .. } => icv > 0 && text_len & (cipher.block_bytes() - 1) == 0,
            _ => !esn || header_len == 8,
        };
        fits.then_some(Layout { iv: header_len, text, icv })
    }
}

/// The parts of a job's packet, see [`Job`].
#[derive(Debug)]
pub struct Parts<'p> {
    /// Bytes that are authenticated only.
    pub header: &'p [u8],
    /// The packet's IV.
    pub iv: &'p [u8],
    /// Encrypted or decrypted in place.
    pub text: &'p mut [u8],
    /// The integrity check value.
    pub icv: &'p mut [u8],
}

/// The additional data of a combined mode with extended sequence numbers (RFC 4106 §5, RFC 7634
/// §2.1): SPI, high half, low half. `header` is SPI and low half; `None` if it is not 8 bytes.
#[inline]
pub fn esn_aad(header: &[u8], seq_hi: u32) -> Option<[u8; 12]> {
    let (spi, low) = header.split_first_chunk::<4>()?;
    let low: &[u8; 4] = low.try_into().ok()?;
    let mut aad = [0; 12];
    aad[..4].copy_from_slice(spi);
    aad[4..8].copy_from_slice(&seq_hi.to_be_bytes());
    aad[8..].copy_from_slice(low);
    Some(aad)
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
    /// No provider of a list implements the suite.
    #[error("no engine implements {suite} (asked: {})", .asked.join(", "))]
    NoProvider {
        /// The suite that was asked for.
        suite: Suite,
        /// The providers' names, in their order.
        asked: Vec<&'static str>,
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
        /// The part that is missing or failed.
        what: String,
    },
}

/// Makes sessions and engines; one per process and library.
pub trait Provider: Send + Sync {
    /// The engine's name, for people: `ipsec-mb`, `openssl`.
    fn name(&self) -> &'static str;

    /// Version and the code path in use (`1.3, AVX-512 with VAES`), for people.
    fn description(&self) -> String;

    /// True if the provider can make sessions for the suite.
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

    /// The library's best way to run one suite under one key, for benchmarks: what there is to
    /// compare an engine with. `None` if the provider has none, or not for this suite and keys.
    fn bare(&self, suite: Suite, keys: &Keys) -> Option<Box<dyn Bare>> {
        let _ = (suite, keys);
        None
    }
}

/// The library without an engine around it, see [`Provider::bare`]: no jobs, no statuses, and
/// nothing is kept from anybody when an ICV is wrong. Never for traffic.
pub trait Bare: Send {
    /// Seals or opens every packet in place; each is SPI and sequence number (8 bytes), IV, text,
    /// ICV, as in [`Job`] without extended sequence numbers. Returns how many were done, on `Open`
    /// with the right ICV. Packets whose lengths do not fit the suite are left alone.
    fn run(&mut self, op: Op, packets: &mut [&mut [u8]]) -> usize;
}

/// Runs bursts of jobs; one per worker thread, so nothing in it is shared.
pub trait Engine: Send {
    /// Runs every job to its end and sets its status. Jobs may be of different sessions, suites
    /// and directions; order in the slice is kept (the engine works inside each job's own packet).
    ///
    /// Does not allocate, block or panic, whatever the jobs hold.
    fn run(&mut self, jobs: &mut [Job<'_>]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AesKey, Cipher, IcvLen, Integrity};

    fn session(suite: Suite) -> Session {
        Session::new(suite, Box::new(()))
    }

    #[test]
    fn layout_follows_the_suite() {
        let gcm = session(Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv12 });
        let mut packet = [0; 8 + 8 + 5 + 12];
        let mut job = Job::esp(&gcm, Op::Seal, &mut packet, Some(1));
        assert_eq!(job.layout(), Some(Layout { iv: 8, text: 16, icv: 21 }));
        assert_eq!(job.text_len(), Some(5));
        let parts = job.parts().unwrap();
        let lens = (parts.header.len(), parts.iv.len(), parts.text.len(), parts.icv.len());
        assert_eq!(lens, (8, 8, 5, 12));
    }

    #[test]
    fn lengths_that_do_not_fit() {
        let gcm = session(Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 });
        for len in 0..32 {
            let mut packet = vec![0; len];
            assert_eq!(Job::esp(&gcm, Op::Open, &mut packet, None).layout(), None, "{len}");
        }
        for cipher in Cipher::all() {
            let session = session(Suite::Separate { cipher, integrity: Integrity::Sha1_96 });
            for text in 0..64 {
                let mut packet = vec![0; 8 + cipher.iv_len_bytes() + text + 12];
                let job = Job::esp(&session, Op::Open, &mut packet, None);
                let fits = text.is_multiple_of(cipher.block_bytes());
                assert_eq!(job.text_len(), fits.then_some(text), "{cipher}");
            }
        }
    }

    #[test]
    fn hostile_header_lengths_do_not_overflow() {
        for suite in Suite::all() {
            let session = session(suite);
            let mut packet = [0; 64];
            for header_len in [65, usize::MAX, usize::MAX - 8] {
                let mut job = Job::esp(&session, Op::Open, &mut packet, None);
                job.header_len = header_len;
                assert!(job.parts().is_none());
            }
        }
    }

    #[test]
    fn esn_needs_an_esp_header_in_combined_modes() {
        for suite in Suite::all().filter(|suite| suite.integrity().is_none()) {
            let session = session(suite);
            let mut packet = [0; 64];
            for header_len in [0, 4, 12] {
                let mut job = Job::esp(&session, Op::Seal, &mut packet, Some(7));
                job.header_len = header_len;
                assert_eq!(job.layout(), None);
                job.seq_hi = None;
                assert!(job.layout().is_some());
            }
        }
        assert_eq!(esn_aad(&[1; 7], 0), None);
        assert_eq!(esn_aad(&[1; 9], 0), None);
        assert_eq!(
            esn_aad(&[1, 2, 3, 4, 5, 6, 7, 8], 0x0a0b_0c0d),
            Some([1, 2, 3, 4, 0x0a, 0x0b, 0x0c, 0x0d, 5, 6, 7, 8])
        );
    }

    #[test]
    fn nothing_to_authenticate_is_refused() {
        let null = session(Suite::integrity_only(Integrity::Sha256_128));
        let mut packet = [0; 16];
        let mut job = Job::esp(&null, Op::Seal, &mut packet, None);
        job.header_len = 0;
        assert_eq!(job.layout(), None);
    }
}
