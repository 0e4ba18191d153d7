//! Extensions behind a packet (RFC 8972 §4): type, length, value.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+---------------+-------------------------------+
//! |U|M|I|R|R|R|R|R|     Type      |            Length             |
//! +-+-+-+-+-+-+-+-+---------------+-------------------------------+
//! |                            Value ...
//! ```
//!
//! A reflector sends back what came, so that both directions have packets of one length. U marks a type that it does not
//! know, M one whose length is wrong, I all extensions if their HMAC is wrong.

use super::direct::{self, Counts};
use super::key::{HMAC_LEN, Key};
use super::{Questions, copies};
use crate::labels::Removal;

/// Length of flags, type and length, in bytes.
pub const HEADER_LEN: usize = 4;

/// Flag of a type that the reflector does not know.
pub const UNRECOGNIZED: u8 = 0x80;
/// Flag of a length that is wrong.
pub const MALFORMED: u8 = 0x40;
/// Flag of extensions whose HMAC is wrong, or missing where there is a key.
pub const INTEGRITY: u8 = 0x20;

/// Types that reflections know.
pub mod kind {
    /// Bytes that mean nothing (§4.1).
    pub const EXTRA_PADDING: u8 = 1;
    /// DSCP that came, and with which it shall go back (§4.4).
    pub const CLASS_OF_SERVICE: u8 = 4;
    /// HMAC of the extensions in front of it (§4.8).
    pub const HMAC: u8 = 8;
}

/// The class of service in extensions, as a reflector tells it and is asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Traffic class with which the test packet came: DSCP and ECN.
    pub came: u8,
    /// DSCP with which the reflection goes back.
    pub goes: u8,
}

/// Numbers of a test packet and its reflection, which the HMAC of extensions covers.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    /// Number of the test packet.
    pub asked: u32,
    /// Number of the reflection.
    pub answer: u32,
}

/// An extension, and the rest behind it.
struct Tlv<'b> {
    kind: u8,
    value: &'b [u8],
    /// Header and value.
    len: usize,
}

/// The extension that some bytes begin with. `None` if its length leads beyond their end, or there is no header.
fn first(bytes: &[u8]) -> Option<Tlv<'_>> {
    let ([_, kind, high, low], rest) = bytes.split_first_chunk::<HEADER_LEN>()?;
    let len = usize::from(u16::from_be_bytes([*high, *low]));
    Some(Tlv { kind: *kind, value: rest.get(..len)?, len: HEADER_LEN + len })
}

/// Writes the extensions of a reflection over those of its test packet, of which `tail` has a copy. `assign` says whether
/// second copies of a sender's packets are removed; of several senders the first one is asked for. `count` says what was
/// received and sent beside the probe, once; `None` where nobody counts. Returns false if the key's HMAC of them is wrong or missing:
/// then they are marked, and none was obeyed.
pub fn reflect(
    key: Option<&Key>,
    numbers: Numbers,
    tail: &mut [u8],
    class: &mut Class,
    assign: impl FnOnce(u64) -> Option<Removal>,
    count: impl FnOnce() -> Option<Counts>,
) -> bool {
    if tail.len() < HEADER_LEN {
        // No extension fits: padding of senders that know none.
        return true;
    }
    let signed = match key {
        None => true,
        Some(key) => signature(tail).is_some_and(|(covered, hmac)| {
            key.verifies(&[&numbers.asked.to_be_bytes(), covered], hmac)
        }),
    };
    let (mut at, mut assign, mut count) = (0, Some(assign), Some(count));
    while let Some(here) = tail.get_mut(at..).filter(|here| here.len() >= HEADER_LEN) {
        let Some(Tlv { kind, value, len }) = first(here) else {
            // Nobody knows where the next one begins.
            mark(here, MALFORMED);
            break;
        };
        let is_whole = match kind {
            kind::CLASS_OF_SERVICE => value.len() == 4,
            kind::HMAC => value.len() == HMAC_LEN,
            direct::KIND => value.len() == direct::LEN,
            _ => true,
        };
        let removal = match kind {
            copies::KIND if signed => {
                copies::sender(value).and_then(|sender| assign.take()?(sender))
            }
            _ => None,
        };
        let counts = match kind {
            direct::KIND if signed && is_whole => count.take().and_then(|count| count()),
            _ => None,
        };
        let flags = match kind {
            _ if !signed => INTEGRITY,
            _ if !is_whole => MALFORMED,
            copies::KIND if removal.is_some() => 0,
            direct::KIND if counts.is_some() => 0,
            kind::EXTRA_PADDING | kind::HMAC | kind::CLASS_OF_SERVICE => 0,
            _ => UNRECOGNIZED,
        };
        mark(here, flags);
        if flags == 0 && kind == kind::CLASS_OF_SERVICE {
            tell_class(here, class);
        }
        if let Some(removal) = removal
            && let Some(value) = here.get_mut(HEADER_LEN..)
        {
            copies::answer(value, removal);
        }
        if let Some(counts) = counts
            && let Some(value) = here.get_mut(HEADER_LEN..)
        {
            direct::answer(value, counts);
        }
        if flags == 0 && kind == kind::HMAC && key.is_some() {
            break;
        }
        at += len;
    }
    if let Some(key) = key.filter(|_| signed)
        && let Some((covered, _)) = signature(tail)
    {
        let hmac = key.sign(&[&numbers.answer.to_be_bytes(), covered]);
        let at = covered.len() + HEADER_LEN;
        if let Some(to) = tail.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
            *to = hmac;
        }
    }
    signed
}

/// Length of the extensions of a sender that asks everything, in bytes: with an HMAC, if there is a key.
pub const LONGEST_QUESTION: usize =
    HEADER_LEN + copies::LEN + HEADER_LEN + direct::LEN + HEADER_LEN + HMAC_LEN;

/// Writes extensions that ask behind the probe with this number, and their HMAC. Returns the length; `None` if there is no
/// room.
pub(crate) fn ask(
    key: Option<&Key>,
    seq: u32,
    questions: Questions,
    out: &mut [u8],
) -> Option<usize> {
    let Questions { sender, sent } = questions;
    let mut len = 0;
    if let Some(sender) = sender {
        len += put(out, copies::KIND, &copies::question(sender))?;
    }
    if let Some(sent) = sent {
        len += put(out.get_mut(len..)?, direct::KIND, &direct::question(sent))?;
    }
    let Some(key) = key.filter(|_| len > 0) else { return Some(len) };
    let (covered, rest) = out.split_at_mut_checked(len)?;
    let hmac = key.sign(&[&seq.to_be_bytes(), covered]);
    Some(len + put(rest, kind::HMAC, &hmac)?)
}

/// Writes an extension as a sender has it, marked as unrecognised (§4). Returns its length.
fn put(out: &mut [u8], kind: u8, value: &[u8]) -> Option<usize> {
    let len = HEADER_LEN + value.len();
    let (header, rest) = out.get_mut(..len)?.split_first_chunk_mut::<HEADER_LEN>()?;
    let [high, low] = u16::try_from(value.len()).ok()?.to_be_bytes();
    *header = [UNRECOGNIZED, kind, high, low];
    rest.copy_from_slice(value);
    Some(len)
}

/// Answers of a far end to all questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answers {
    /// Consent to copies. `None`: second ones are not removed.
    pub(crate) removal: Option<Removal>,
    /// Packets that it has received and sent beside the probe. `None`: it does not count.
    pub(crate) counts: Option<Counts>,
}

/// The answers to a sender's questions, in the extensions of the reflection with this number.
pub(crate) fn answers(
    key: Option<&Key>,
    answer: u32,
    tail: &[u8],
    questions: Questions,
) -> Answers {
    let is_signed = key.is_none_or(|key| {
        signature(tail)
            .is_some_and(|(covered, hmac)| key.verifies(&[&answer.to_be_bytes(), covered], hmac))
    });
    let Questions { sender, sent } = questions;
    let (mut answers, mut at) = (Answers::default(), 0);
    while let Some((here, tlv)) = tail.get(at..).and_then(|rest| Some((rest, first(rest)?))) {
        at += tlv.len;
        // What the far end has marked it has not answered, and nothing behind the HMAC is covered by it.
        let is_answered = is_signed && here.first() == Some(&0);
        match tlv.kind {
            copies::KIND if is_answered => {
                answers.removal = sender.and_then(|sender| copies::read(tlv.value, sender));
            }
            direct::KIND if is_answered => {
                answers.counts = sent.and_then(|sent| direct::read(tlv.value, sent));
            }
            kind::HMAC if key.is_some() => break,
            _ => {}
        }
    }
    answers
}

/// The extensions that an HMAC covers, and the HMAC. It is the last extension, but for padding.
fn signature(tail: &[u8]) -> Option<(&[u8], &[u8; HMAC_LEN])> {
    let mut at = 0;
    while let Some(tlv) = first(tail.get(at..)?) {
        if tlv.kind == kind::HMAC {
            return Some((tail.get(..at)?, tlv.value.try_into().ok()?));
        }
        at += tlv.len;
    }
    None
}

/// Sets the flags of an extension: a sender's own say nothing (§4).
fn mark(tlv: &mut [u8], flags: u8) {
    if let Some(first) = tlv.first_mut() {
        *first = flags;
    }
}

/// Fills in the class of service: DSCP1 is the sender's wish, DSCP2 and ECN what came, RP how the wish fared (§4.4).
fn tell_class(tlv: &mut [u8], class: &mut Class) {
    let Some([wish, told, ..]) = tlv.get_mut(HEADER_LEN..) else { return };
    // 6 bits of DSCP1, 6 of DSCP2, 2 of ECN, 2 of RP: the wish is granted.
    class.goes = *wish >> 2;
    let (dscp, ecn) = (class.came >> 2, class.came & 3);
    *wish = *wish & 0xfc | dscp >> 4;
    *told = dscp << 4 | ecn << 2;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NUMBERS: Numbers = Numbers { asked: 5, answer: 9 };
    const COUNTS: Option<Counts> = Some(Counts { received: 0x0a0b_0c0d, sent: 0x0102_0304 });
    const ASKS: Questions = Questions { sender: Some(7), sent: None };

    fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
        // As a sender has it: U and M are set, to be cleared by a reflector that knows it.
        let len = (value.len() as u16).to_be_bytes();
        [&[UNRECOGNIZED | MALFORMED, kind, len[0], len[1]], value].concat()
    }

    fn reflected(key: Option<&Key>, mut tail: Vec<u8>) -> (bool, Vec<u8>, Class) {
        let mut class = Class { came: 46 << 2 | 1, goes: 46 };
        let signed = reflect(key, NUMBERS, &mut tail, &mut class, |_| None, || COUNTS);
        (signed, tail, class)
    }

    /// The answer to a sender that asks a reflector with these keys; `tamper` changes the reflected extensions.
    fn asked(
        (here, there): (Option<&Key>, Option<&Key>),
        removal: Option<Removal>,
        tamper: impl Fn(&mut [u8]),
    ) -> Option<Removal> {
        let mut tail = [0; LONGEST_QUESTION];
        let len = ask(here, NUMBERS.asked, ASKS, &mut tail).expect("room");
        let tail = &mut tail[..len];
        let mut class = Class { came: 0, goes: 0 };
        let assign = |sender| removal.filter(|_| sender == 7);
        reflect(there, NUMBERS, tail, &mut class, assign, || None);
        tamper(tail);
        answers(here, NUMBERS.answer, tail, ASKS).removal
    }

    #[test]
    fn a_sender_that_asks_hears_whether_copies_are_removed() {
        let (key, other) = (Key::new(&[7; 32]).ok(), Key::new(&[8; 32]).ok());
        let (key, other) = (key.as_ref(), other.as_ref());
        let removal = Removal { by: 0x0102_0304_0506_0708, label: 0x1_2340, recovers: true };
        let granted = Some(removal);
        for keys in [(None, None), (key, key)] {
            let less = Some(Removal { recovers: false, ..removal });
            assert_eq!(asked(keys, less, |_| ()), less);
            assert_eq!(asked(keys, granted, |_| ()), granted);
            assert_eq!(asked(keys, None, |_| ()), None);
            // As by a reflector that knows no extensions, and sends all back as it came.
            assert_eq!(asked(keys, granted, |tail| tail[0] = UNRECOGNIZED), None);
            assert_eq!(asked(keys, granted, |tail| tail[4] ^= 1), None, "another's type");
            assert_eq!(asked(keys, granted, |tail| tail[15] ^= 1), None, "another sender");
        }
        assert_eq!(asked((key, other), granted, |_| ()), None);
        assert_eq!(asked((key, key), granted, |tail| tail[20] ^= 1), None, "no HMAC of the key");
        let mut short = [0; LONGEST_QUESTION];
        let all = Questions { sent: Some(1), ..ASKS };
        assert_eq!(ask(key, 1, all, &mut short), Some(LONGEST_QUESTION));
        assert_eq!(ask(key, 1, all, &mut short[1..]), None);
    }

    /// Counts that a sender hears of a reflector with this answer; `tamper` changes the reflected extensions.
    fn counted(
        key: Option<&Key>,
        sent: u32,
        counts: Option<Counts>,
        tamper: impl Fn(&mut [u8]),
    ) -> Option<Counts> {
        let questions = Questions { sender: None, sent: Some(sent) };
        let mut tail = [0; LONGEST_QUESTION];
        let len = ask(key, NUMBERS.asked, questions, &mut tail).expect("room");
        let tail = &mut tail[..len];
        let mut class = Class { came: 0, goes: 0 };
        assert!(reflect(key, NUMBERS, tail, &mut class, |_| None, || counts));
        tamper(tail);
        answers(key, NUMBERS.answer, tail, questions).counts
    }

    #[test]
    fn counts_of_both_ends_are_told() {
        let key = Key::new(&[7; 32]).ok();
        for key in [None, key.as_ref()] {
            assert_eq!(counted(key, 77, COUNTS, |_| ()), COUNTS);
            assert_eq!(counted(key, 77, None, |_| ()), None, "nobody counts");
            // As by a reflector that knows no extensions.
            assert_eq!(counted(key, 77, COUNTS, |tail| tail[0] = UNRECOGNIZED), None);
            assert_eq!(counted(key, 77, COUNTS, |tail| tail[7] ^= 1), None, "another's count");
        }
        assert_eq!(counted(key.as_ref(), 77, COUNTS, |tail| tail[9] ^= 1), None, "no HMAC of it");
    }

    #[test]
    fn direct_measurement_is_as_rfc_8972_has_it() {
        let mut tail = [0xff; 16];
        let questions = Questions { sender: None, sent: Some(0x1122_3344) };
        assert_eq!(ask(None, 1, questions, &mut tail), Some(16));
        let probe = [0x80, 5, 0, 12, 0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(tail, probe);
        let (_, out, _) = reflected(None, probe.into());
        let told = [0, 5, 0, 12, 0x11, 0x22, 0x33, 0x44, 10, 11, 12, 13, 1, 2, 3, 4];
        assert_eq!(out, told);
        // What stood in the reflector's fields is ignored.
        assert_eq!(reflected(None, told.into()).1, told);
        for len in [0, 4, 11, 13, 16] {
            let (_, out, _) = reflected(None, tlv(direct::KIND, &vec![1; len]));
            assert_eq!((out[0], &out[4..]), (MALFORMED, &vec![1; len][..]), "{len}");
            assert_eq!(answers(None, 9, &tlv(direct::KIND, &vec![0; len]), questions).counts, None);
        }
        let key = Key::new(&[7; 32]).ok();
        let (signed, out, _) = reflected(key.as_ref(), probe.into());
        assert_eq!((signed, out[0], &out[4..]), (false, INTEGRITY, &probe[4..]));
    }

    #[test]
    fn a_probe_asks_for_one_sender() {
        let question = |sender| tlv(copies::KIND, &copies::question(sender));
        let mut tail = [question(7), question(8)].concat();
        let (mut class, mut asked) = (Class { came: 0, goes: 0 }, Vec::new());
        reflect(
            None,
            NUMBERS,
            &mut tail,
            &mut class,
            |sender| {
                asked.push(sender);
                Some(Removal { by: 1, label: 16, recovers: true })
            },
            || None,
        );
        assert_eq!((asked, tail[0], tail[28]), (vec![7], 0, UNRECOGNIZED));
    }

    #[test]
    fn a_probe_asks_for_counts_once() {
        let question = tlv(direct::KIND, &direct::question(7));
        let (_, out, _) = reflected(None, [question.clone(), question].concat());
        assert_eq!([out[0], out[16]], [0, UNRECOGNIZED]);
        assert_eq!(out[24..], [0; 8]);
    }

    #[test]
    fn what_is_unknown_is_marked() {
        let tail = [tlv(kind::EXTRA_PADDING, &[1, 2]), tlv(200, &[3]), tlv(201, &[])].concat();
        let (signed, out, _) = reflected(None, tail.clone());
        assert!(signed);
        assert_eq!([out[0], out[6], out[11]], [0, UNRECOGNIZED, UNRECOGNIZED]);
        assert_eq!([&out[1..6], &out[7..11], &out[12..]], [&tail[1..6], &tail[7..11], &tail[12..]]);
    }

    #[test]
    fn the_class_of_service_is_told_and_obeyed() {
        let (_, out, class) = reflected(None, tlv(kind::CLASS_OF_SERVICE, &[10 << 2, 0, 0, 0]));
        assert_eq!(class.goes, 10);
        // DSCP1 10, DSCP2 46, ECN 1, RP 0.
        let word = u16::from(10u8) << 10 | 46 << 4 | 1 << 2;
        assert_eq!(out, [&[0, 4, 0, 4], &word.to_be_bytes()[..], &[0, 0]].concat());
        let (_, out, class) = reflected(None, tlv(kind::CLASS_OF_SERVICE, &[10 << 2, 0]));
        assert_eq!((out[0], class.goes), (MALFORMED, 46));
    }

    #[test]
    fn a_length_beyond_the_end_is_marked_and_nothing_behind_it() {
        let tail = [tlv(kind::EXTRA_PADDING, &[]), vec![0, 200, 0, 9, 1, 2, 3, 4]].concat();
        let (_, out, _) = reflected(None, tail.clone());
        assert_eq!(out[4], MALFORMED);
        assert_eq!(out[5..], tail[5..]);
        // Less than a header is padding.
        assert_eq!(reflected(None, vec![9, 9, 9]).1, [9, 9, 9]);
    }

    #[test]
    fn a_key_wants_its_hmac_over_them() {
        let key = Key::new(&[7; 32]).expect("a key");
        let covered = tlv(kind::CLASS_OF_SERVICE, &[10 << 2, 0, 0, 0]);
        let hmac = key.sign(&[&5u32.to_be_bytes(), &covered]);
        let tail = [covered.clone(), tlv(kind::HMAC, &hmac), tlv(1, &[0; 3])].concat();
        let (signed, out, class) = reflected(Some(&key), tail.clone());
        assert!(signed);
        assert_eq!(class.goes, 10);
        assert_eq!(out[12..28], key.sign(&[&9u32.to_be_bytes(), &out[..8]]));
        for at in [1, 5, 14] {
            let mut other = tail.clone();
            other[at] ^= 1;
            let (signed, out, class) = reflected(Some(&key), other);
            assert!(!signed, "{at}");
            assert_eq!((out[0], class.goes), (INTEGRITY, 46), "{at}");
        }
        let (signed, out, _) = reflected(Some(&key), covered);
        assert!(!signed);
        assert_eq!(out[0], INTEGRITY);
    }

    proptest! {
        #[test]
        fn the_length_stays_and_marks_are_all_that_changes(tail in prop::collection::vec(any::<u8>(), 0..80)) {
            let (_, out, _) = reflected(None, tail.clone());
            prop_assert_eq!(out.len(), tail.len());
            let changed = out.iter().zip(&tail).filter(|(a, b)| a != b).count();
            // A flag each, two bytes of a class of service, eight of counts.
            prop_assert!(changed <= 3 * (tail.len() / HEADER_LEN));
        }
    }
}
