//! The entry point of fuzzers and noise tests: every behaviour, with whatever arrives.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::{Behaviour, Csid, Done, Flavours, Headend, Mode, Quoted, Sid};

/// Has every kind of segment take the step of a packet, every kind of headend put segments on it, and look
/// at it as one that an error quotes.
///
/// # Panics
/// When one of them panics, or says that a packet begins behind its end: that is the finding.
pub fn exercise(bytes: &[u8]) {
    let (selector, packet) = bytes.split_first().unwrap_or((&0, &[]));
    let segments = [Ipv6Addr::LOCALHOST; 2];
    let headend = |mode| Headend::new(mode, &segments, Ipv6Addr::LOCALHOST).expect("two");
    let behaviours = [
        Behaviour::End,
        Behaviour::EndX(Ipv6Addr::LOCALHOST),
        Behaviour::EndDx2(1),
        Behaviour::EndDx4(Ipv4Addr::LOCALHOST),
        Behaviour::EndDt6(1),
        Behaviour::EndDt46(1),
        Behaviour::EndB6Encaps(headend(Mode::EncapRed)),
    ];
    let bit = |n: u8| selector >> n & 1 != 0;
    let flavours = Flavours { psp: bit(0), usp: bit(1), usd: bit(2) };
    let csid = match selector >> 3 & 3 {
        0 => Csid::None,
        1 => Csid::next(32, 16).expect("fits"),
        2 => Csid::replace(48, 16).expect("fits"),
        _ => Csid::replace(32, 32).expect("fits"),
    };
    for behaviour in behaviours {
        let sid = Sid { behaviour, flavours, csid };
        let mut bytes = vec![0; sid.overhead()];
        bytes.extend(packet);
        let before = bytes.clone();
        match sid.process(&mut bytes) {
            Ok(Done::Onward { cut } | Done::Inside { cut, .. } | Done::Here { cut }) => {
                assert!(cut <= bytes.len());
            }
            // One whose headers are refused stays as it came, so that an ICMP error quotes it.
            Err(refusal) if sid.overhead() == 0 => {
                assert!(refusal.icmp().is_none() || bytes == before);
            }
            Err(_) => {}
        }
    }
    let modes = [Mode::Encap, Mode::EncapRed, Mode::Inline, Mode::InlineRed, Mode::L2Encap];
    for mode in modes {
        let headend = headend(mode);
        let mut bytes = vec![0; headend.overhead()];
        bytes.extend(packet);
        let _ = headend.apply(&mut bytes);
        let _ = Quoted::parse(packet).map(|quoted| headend.has_made(&quoted));
    }
}
