//! What messages of `NETLINK_NETFILTER` have in common.

/// `nfgenmsg`'s family, and the attributes behind it.
pub fn split(message: &[u8]) -> Option<(u8, &[u8])> {
    Some((*message.first()?, message.get(4..)?))
}

/// The attributes of a message or of another one. What is unsound ends them.
pub fn walk(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?) & TYPE_MASK;
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// Numbers are in network byte order.
pub fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.first_chunk()?))
}

/// Without the flags in its upper bits (`NLA_TYPE_MASK`).
const TYPE_MASK: u16 = 0x3fff;
