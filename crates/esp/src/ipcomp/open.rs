//! Inbound: from a compressed packet, or IP in IP, to what was inside.

use outcome::DropReason;
use wire::{Fields, Span, Summary};

use super::{Deflate, HEADER_LEN};
use crate::open::{Content, Opening};
use crate::params::Mode;
use crate::sa::Sa;
use crate::size::MAX_IP_LEN;

impl Sa {
    /// Decompresses a packet: what followed its IPComp header, which may become `most` bytes long. `h` was parsed from
    /// the packet.
    ///
    /// # Errors
    /// - [`DropReason::MalformedIpComp`]: shorter than the header.
    /// - [`DropReason::InDeflate`]: no deflate stream, or one that saves nothing, which nobody may send
    ///   (RFC 3173 §2.2).
    /// - [`DropReason::InDeflateTooLong`]: it is longer than `most`, or than any IP packet.
    pub fn decompress<'d>(
        &self,
        packet: &[u8],
        h: impl Into<Fields>,
        deflate: &'d mut Deflate,
        most: usize,
    ) -> Result<&'d [u8], DropReason> {
        let h = h.into();
        let headers_len = usize::from(h.header_len());
        let stream = packet
            .get(..h.total_len().into())
            .and_then(|packet| packet.get(headers_len + HEADER_LEN..))
            .ok_or(DropReason::MalformedIpComp)?;
        let payload = deflate.decompress(stream, most.min(MAX_IP_LEN - headers_len))?;
        match payload.len() < stream.len() + HEADER_LEN {
            true => Err(DropReason::InDeflate),
            false => Ok(payload),
        }
    }

    /// An opening that needs no job, for [`Opening::content`]: the payload of IP in IP, or the
    /// result of [`Sa::decompress`], written to where the compressed one was, right behind the
    /// IPComp header.
    pub fn open_bare(&self, payload: Span) -> Opening {
        Opening { esp: payload, seq: 0, seq_hi: None, shape: self.shape }
    }

    /// The length of the header in front of what was compressed, in bytes.
    pub const IPCOMP_HEADER_LEN: usize = HEADER_LEN;
}

impl Opening {
    /// True if the packet needs a job of an engine: ESP and AH.
    #[inline]
    pub fn has_job(&self) -> bool {
        !self.shape.is_bare()
    }

    /// The content of IPComp, or of IP in IP.
    pub(crate) fn look_behind_bare(
        &self,
        buf: &mut [u8],
        (outer, outer_h): (Span, Fields),
        inner: &mut Summary,
    ) -> Result<Content, DropReason> {
        let payload = self.esp;
        let next_header = match self.shape.is_ipcomp() {
            true => {
                let at = payload.start.checked_sub(HEADER_LEN);
                *at.and_then(|at| buf.get(at)).ok_or(DropReason::MalformedIpComp)?
            }
            false => outer_h.protocol(),
        };
        match self.shape.mode() {
            Mode::Tunnel | Mode::Iptfs => {
                let rest = buf.get_mut(payload.start..).ok_or(DropReason::MalformedIpComp)?;
                self.tunnel(rest, payload, outer_h.traffic_class(), next_header, inner)
            }
            Mode::Transport => {
                let headers_len = outer_h.header_len().into();
                self.transport(buf, (outer, outer_h), headers_len, payload, next_header, inner)
            }
        }
    }
}
