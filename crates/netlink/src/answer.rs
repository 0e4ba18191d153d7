//! Acknowledgements, and the ends of dumps: read by the requester, written in the kernel's place.
//!
//! ```text
//! | nlmsghdr: ERROR | -errno  i32 | the request, or its header alone (CAPPED) | attributes (ACK_TLVS) |
//! | nlmsghdr: DONE  | -errno  i32 | attributes (ACK_TLVS)                                             |
//! ```

use crate::attribute::{Attributes, align, as_text, u32_at};
use crate::fault::Fault;
use crate::field::Field as _;
use crate::message::{Header, Message, MessageWriter, flag, kind};

/// Meaning of a message for the asker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A part of the answer.
    Part,
    /// The end of it: an acknowledgement, or a dump's.
    End,
    /// Parts of it were lost (`NLMSG_OVERRUN`).
    Overrun,
}

impl Answer {
    /// By a message's header and what follows it.
    ///
    /// # Errors
    /// [`Fault::Refused`] if it says so, [`Fault::Malformed`] for an acknowledgement without a code, or with
    /// one that is none.
    pub fn read(header: &Header, body: &[u8]) -> Result<Answer, Fault> {
        let code = body.first_chunk().map(|code| i32::from_ne_bytes(*code));
        match (header.kind, code) {
            (kind::OVERRUN, _) => Ok(Answer::Overrun),
            (kind::ERROR, Some(0)) | (kind::DONE, None | Some(0)) => Ok(Answer::End),
            (kind::ERROR | kind::DONE, Some(code)) if code < 0 => {
                Err(Fault::Refused { errno: code.wrapping_neg(), text: explanation(header, body) })
            }
            (kind::ERROR | kind::DONE, _) => Err(Fault::Malformed),
            _ => Ok(Answer::Part),
        }
    }
}

/// The text that the kernel may add to an error.
fn explanation(header: &Header, body: &[u8]) -> Option<String> {
    if header.flags & flag::ACK_TLVS == 0 {
        return None;
    }
    let request_len = match header.kind {
        kind::DONE => 0,
        _ if header.flags & flag::CAPPED != 0 => Header::LEN,
        _ => usize::try_from(u32_at(body, CODE_LEN)?).ok()?,
    };
    let attributes = body.get(CODE_LEN..)?.get(align(request_len)..)?;
    Attributes::new(attributes).find(NLMSGERR_ATTR_MSG).map(as_text)
}

/// An acknowledgement, or an error: `nlmsgerr`.
#[derive(Clone, Copy, Debug)]
pub struct Acknowledgement<'a> {
    /// Port id of who gets it.
    pub port_id: u32,
    /// The request's header.
    pub request: &'a Header,
    /// The whole request.
    pub whole: &'a [u8],
    /// Positive errno, 0 for success.
    pub errno: i32,
    /// `NETLINK_CAP_ACK`: do not repeat the request.
    pub cap_ack: bool,
    /// Text for `NLMSGERR_ATTR_MSG`, given only to who set `NETLINK_EXT_ACK`.
    pub text: Option<&'a str>,
    /// Offset of the offending attribute in the request, for `NLMSGERR_ATTR_OFFS`.
    pub offset: Option<u32>,
}

impl Acknowledgement<'_> {
    /// Builds the message.
    pub fn message(&self) -> Message {
        let echo = self.errno != 0 && !self.cap_ack;
        let mut flags = if echo { 0 } else { flag::CAPPED };
        if self.text.is_some() || self.offset.is_some() {
            flags |= flag::ACK_TLVS;
        }
        let mut w = MessageWriter::new(kind::ERROR, flags, self.request.seq, self.port_id);
        w.fixed(&-self.errno);
        if echo {
            w.raw(self.whole);
        } else {
            w.fixed(self.request);
        }
        if let Some(text) = self.text {
            let mut z = text.as_bytes().to_vec();
            z.push(0);
            w.attribute(NLMSGERR_ATTR_MSG, &z);
        }
        if let Some(offset) = self.offset {
            w.field(NLMSGERR_ATTR_OFFS, &offset);
        }
        w.finish()
    }
}

/// Length in bytes of the code in front of the request.
const CODE_LEN: usize = 4;
const NLMSGERR_ATTR_MSG: u16 = 1;
const NLMSGERR_ATTR_OFFS: u16 = 2;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::Messages;

    /// Any type; XFRM's for the deletion of an SA.
    const REQUEST: u16 = 0x11;

    fn message(kind: u16, body: &[u8]) -> Message {
        let mut w = MessageWriter::new(kind, flag::REQUEST, 7, 9);
        w.raw(body);
        w.finish()
    }

    fn read(message: &[u8]) -> Result<Answer, Fault> {
        let (header, whole) = Messages::new(message).next().unwrap();
        Answer::read(&header, &whole[Header::LEN..])
    }

    #[test]
    fn an_error_repeats_the_request_and_success_does_not() {
        let whole = message(REQUEST, &[5; 24]);
        let (request, _) = Messages::new(&whole).next().unwrap();
        let mut ack = Acknowledgement {
            port_id: 9,
            request: &request,
            whole: &whole,
            errno: libc::ESRCH,
            cap_ack: false,
            text: None,
            offset: None,
        };
        let m = ack.message();
        assert_eq!(m[16..20], (-libc::ESRCH).to_ne_bytes());
        assert_eq!(m[20..], whole[..]);
        ack.cap_ack = true;
        ack.text = Some("no");
        let m = ack.message();
        let h = Header::decode(&m).unwrap();
        assert_eq!(h.flags, flag::CAPPED | flag::ACK_TLVS);
        assert_eq!(m[20..36], whole[..16]);
        assert_eq!(m[36..], [7, 0, 1, 0, b'n', b'o', 0, 0]);
        (ack.errno, ack.cap_ack, ack.text) = (0, false, None);
        let h = Header::decode(&ack.message()).unwrap();
        assert_eq!((h.flags, h.len), (flag::CAPPED, 36));
    }

    #[test]
    fn what_a_kernel_answers_is_understood() {
        assert_eq!(read(&message(REQUEST, &[])).unwrap(), Answer::Part);
        assert_eq!(read(&message(kind::OVERRUN, &[])).unwrap(), Answer::Overrun);
        assert_eq!(read(&message(kind::DONE, &[])).unwrap(), Answer::End);
        assert_eq!(read(&message(kind::DONE, &[0; 4])).unwrap(), Answer::End);
        assert_eq!(read(&message(kind::ERROR, &[0; 20])).unwrap(), Answer::End);
        assert!(matches!(read(&message(kind::ERROR, &[])), Err(Fault::Malformed)));
        let no = (-libc::EPERM).to_ne_bytes();
        for kind in [kind::ERROR, kind::DONE] {
            let fault = read(&message(kind, &no)).unwrap_err();
            assert!(matches!(fault, Fault::Refused { errno: libc::EPERM, text: None }), "{kind}");
        }
        // A dump that ends with an error has its attributes behind the code.
        let mut w = MessageWriter::new(kind::DONE, flag::ACK_TLVS, 7, 9);
        w.raw(&no).attribute(NLMSGERR_ATTR_MSG, b"no leave\0");
        let Err(Fault::Refused { text, .. }) = read(&w.finish()) else { panic!("not refused") };
        assert_eq!(text.as_deref(), Some("no leave"));
    }

    proptest! {
        /// The writer of the kernel's side and the reader of the other one agree.
        #[test]
        fn what_is_acknowledged_is_understood(
            errno in 0..200i32,
            cap_ack: bool,
            text in proptest::option::of("[a-z ]{0,40}"),
            offset: Option<u32>,
            body in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let whole = message(REQUEST, &body);
            let (request, _) = Messages::new(&whole).next().unwrap();
            let text = text.as_deref();
            let ack = Acknowledgement {
                port_id: 9, request: &request, whole: &whole, errno, cap_ack, text, offset,
            };
            match read(&ack.message()) {
                Ok(answer) => prop_assert!(errno == 0 && answer == Answer::End),
                Err(Fault::Refused { errno: read, text: said }) => {
                    prop_assert_eq!((read, said.as_deref()), (errno, text));
                }
                Err(other) => panic!("{other}"),
            }
        }

        #[test]
        fn noise_never_panics(kind in 0..5u16, flags: u16, noise in proptest::collection::vec(any::<u8>(), 0..100)) {
            let header = Header { kind, flags, ..Header::default() };
            let _ = Answer::read(&header, &noise);
        }
    }
}
