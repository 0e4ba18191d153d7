//! The entry point of fuzzers and noise tests: everything that reads bytes from outside.

use crate::ethernet::{EthernetHeader, Tag};
use crate::gtpu::{GtpuFields, GtpuHeader};
use crate::ipv4::Ipv4Header;
use crate::ipv6::Ipv6Header;
use crate::{VlanTags, esp, icmpv4, icmpv6, natt, tcp, udp};

/// Runs every parser and accessor over the bytes, as a frame and as what each header would be,
/// and every change in place over a copy of a packet that parses.
///
/// # Panics
/// When one of them panics, or when a change in place breaks the packet: that is the finding.
pub fn exercise(bytes: &[u8]) {
    if let Ok(header) = EthernetHeader::parse(bytes) {
        let payload = bytes.get(header.payload_offset..).expect("inside the frame");
        packet(payload);
        let mut out = [0u8; 22];
        let len = header.emit(&mut out).expect("22 bytes are enough");
        assert_eq!(out.get(..len), bytes.get(..len));
        let tags = VlanTags::of(&header);
        let with = |outer: VlanTags, tag: Tag| outer.with(tag.tpid, tag.vlan_id());
        // 4095 names no VLAN, and no device has it.
        let again = tags.iter().try_fold(VlanTags::NONE, with);
        assert!(again.is_none_or(|again| again == tags));
    }
    packet(bytes);
    views(bytes);
}

/// GTP-U, as the payload of a datagram.
///
/// # Panics
/// When parser or accessors do, or when header, extension headers and payload are not the whole message.
pub fn gtpu(bytes: &[u8]) {
    let Ok(header) = GtpuHeader::parse(bytes) else { return };
    let fixed = match bytes.first().is_some_and(|flags| flags & 7 != 0) {
        true => 12,
        false => 8,
    };
    assert_eq!(fixed + header.extensions().len() + header.payload().len(), bytes.len());
    assert_eq!(header.extensions().len() % 4, 0);
    core::hint::black_box((header.message(), header.teid(), header.seq()));
    let mut out = [0; 8];
    let payload_len = u16::try_from(bytes.len() - 8).expect("as the length field says");
    let fields = GtpuFields { message: header.message(), payload_len, teid: header.teid() };
    fields.emit(&mut out).expect("8 bytes are enough");
    assert_eq!(out.get(1..), bytes.get(1..8));
}

fn packet(bytes: &[u8]) {
    let quoted = crate::parse_quoted_ip(bytes);
    let Ok(h) = crate::parse_ip(bytes) else { return };
    assert_eq!(quoted, Ok(h), "what is a packet may be quoted");
    if let Some((summary, _)) = crate::summarize(bytes, bytes.len()) {
        assert_eq!(summary, crate::Summary::from(&h));
    }
    let (header_len, total_len) = (usize::from(h.header_len), usize::from(h.total_len));
    assert!(header_len <= total_len && total_len <= bytes.len());
    let mut copy = bytes.to_vec();
    if crate::decrement_ttl(&mut copy, &h) {
        let after = crate::parse_ip(&copy).expect("TTL does not break a packet");
        assert_eq!(after.ttl + 1, h.ttl);
    }
    crate::set_traffic_class(&mut copy, !h.traffic_class);
    let after = crate::parse_ip(&copy).expect("the traffic class does not break a packet");
    assert_eq!(after.traffic_class, !h.traffic_class);
    let marked = crate::set_ecn_ce(&mut copy);
    let after = crate::parse_ip(&copy).expect("ECN does not break a packet");
    assert_eq!(after.traffic_class & crate::ECN_MASK == crate::ECN_CE, marked);
    crate::complete_partial(&mut copy, &h);
    if crate::fill_l4_checksum(&mut copy, &h) {
        assert_eq!(crate::verify_l4_checksum(&copy, &h), crate::L4Checksum::Valid);
    }
    assert_eq!(copy.get(total_len..), bytes.get(total_len..), "written beyond the packet's end");
    // Headers of another packet must not lead to a panic either.
    for cut in [0, 1, 7, 19, 20, 39, 40, header_len, total_len / 2] {
        let Some(short) = copy.get_mut(..cut.min(total_len)) else { continue };
        let _ = crate::decrement_ttl(short, &h);
        let _ = crate::set_ecn_ce(short);
        crate::set_traffic_class(short, 0xff);
        crate::fill_l4_checksum(short, &h);
        crate::complete_partial(short, &h);
        crate::verify_l4_checksum(short, &h);
        crate::ipv4::fill_checksum(short);
    }
    views(bytes.get(header_len..total_len).unwrap_or_default());
}

/// Every view, over bytes that may or may not be its header.
fn views(bytes: &[u8]) {
    use core::hint::black_box;
    for header in [Ipv4Header::parse(bytes), Ipv4Header::parse_quoted(bytes)].into_iter().flatten()
    {
        black_box((header.src(), header.dst(), header.ttl(), header.protocol()));
        black_box((header.ident(), header.fragment_offset(), header.more_fragments()));
        black_box((header.checksum(), header.dont_fragment(), header.traffic_class()));
        let header_len = usize::from(header.header_len());
        assert_eq!(header.options().len() + 20, header_len);
        assert!(header.payload().len() + header_len <= bytes.len());
    }
    for header in [Ipv6Header::parse(bytes), Ipv6Header::parse_quoted(bytes)].into_iter().flatten()
    {
        black_box((header.src(), header.dst(), header.hop_limit(), header.next_header()));
        black_box((header.flow_label(), header.traffic_class()));
        assert!(header.payload().len() <= usize::from(header.payload_len()));
        if let Ok(extensions) = header.extensions() {
            assert!(usize::from(extensions.header_len) <= 40 + header.payload().len());
        }
    }
    if let Ok(header) = udp::UdpHeader::parse(bytes) {
        assert_eq!(header.payload().len() + 8, usize::from(header.len()));
        black_box((header.src_port(), header.dst_port(), header.checksum(), header.is_empty()));
    }
    if let Ok(header) = tcp::TcpHeader::parse(bytes) {
        assert_eq!(header.payload().len() + header.header_len(), bytes.len());
        black_box((header.src_port(), header.dst_port(), header.seq(), header.ack()));
        black_box((header.flags(), header.window(), header.checksum(), header.mss()));
    }
    if let Ok(header) = icmpv4::Icmpv4Header::parse(bytes) {
        black_box((header.kind(), header.code(), header.checksum(), header.mtu(), header.body()));
    }
    if let Ok(header) = icmpv6::Icmpv6Header::parse(bytes) {
        black_box((header.kind(), header.code(), header.checksum(), header.mtu(), header.body()));
    }
    if let Ok(header) = esp::EspHeader::parse(bytes) {
        assert_eq!(Some(&header.to_bytes()[..]), bytes.get(..8));
    }
    gtpu(bytes);
    black_box((natt::classify(bytes), crate::traffic_class(bytes)));
}
