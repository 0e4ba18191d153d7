//! Records in words.

use std::collections::HashMap;

use dataplane::{OfSa, Record, Verdict};
use report::PacketFate;

use crate::texts::spi_text;

/// Interfaces by index; 0 is the private one.
pub type Names = HashMap<u32, String>;

/// An interface's name.
pub fn name(names: &Names, ifindex: u32) -> String {
    names.get(&ifindex).cloned().unwrap_or_else(|| format!("#{ifindex}"))
}

/// An SA, in words.
pub fn sa(OfSa { id, reqid }: &OfSa) -> String {
    format!("SA {} to {}, reqid {reqid}", spi_text(id.spi), id.dst)
}

/// Fate of a packet, as a word.
pub const fn word(verdict: &Verdict) -> PacketFate {
    match verdict {
        Verdict::Unknown => PacketFate::Unknown,
        Verdict::Protected(_) => PacketFate::Protected,
        Verdict::Decrypted => PacketFate::Decrypted,
        Verdict::Sent { .. } => PacketFate::Sent,
        Verdict::HandedOver => PacketFate::HandedOver,
        Verdict::ToLinux => PacketFate::ToLinux,
        Verdict::Consumed => PacketFate::Consumed,
        Verdict::Held => PacketFate::Held,
        Verdict::Cut => PacketFate::Cut,
        Verdict::Dropped(_) => PacketFate::Dropped,
    }
}

/// Fate of a packet, in words.
pub fn verdict(record: &Record, names: &Names) -> String {
    match &record.verdict {
        Verdict::Unknown => "its end came too late to be noted".into(),
        Verdict::Protected(by) => format!("protected by {}", sa(by)),
        Verdict::Decrypted => "decrypted and accepted".into(),
        Verdict::Sent { ifindex } => format!("sent by {}", name(names, *ifindex)),
        Verdict::HandedOver => "sent by another worker".into(),
        Verdict::ToLinux => "handed to Linux".into(),
        Verdict::Consumed => {
            "consumed: keepalive, dummy, or a fragment whose packet goes on whole".into()
        }
        Verdict::Held => "waits for an SA, a neighbour or other fragments".into(),
        Verdict::Cut => "cut into fragments, which go on".into(),
        Verdict::Dropped(reason) => format!("dropped ({}): {}", reason.name(), reason.text()),
    }
}

/// A packet's comments: what became of it, then its SA, its policy and its interface as far as it has them.
pub fn comments(record: &Record, names: &Names) -> Vec<String> {
    let mut comments = vec![verdict(record, names)];
    comments.extend(record.sa.as_ref().map(sa));
    comments.extend(record.policy.map(|index| format!("policy {index}")));
    if record.ifindex != 0 || !record.is_outbound {
        comments.push(format!("interface {}", name(names, record.ifindex)));
    }
    comments
}
