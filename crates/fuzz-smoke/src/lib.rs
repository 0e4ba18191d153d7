//! The fuzz targets of `fuzz/`, as far as the stable compiler and a second of time go.
//!
//! `cargo test` gives each target the inputs of `fuzz/corpus/`, former crashes among them, and
//! thousands of mutations, the same ones each time. `scripts/fuzz` runs the same entries under
//! libFuzzer for as long as one likes.
//!
//! To add a target: as `scripts/fuzz` wants it, and a line in [`TARGETS`]. A test holds the two
//! lists against each other.
#![forbid(unsafe_code)]

mod mutate;

pub use mutate::Mutator;
use netlink::{Field as _, Header, Messages};

/// An entry that takes any bytes, and panics only if something is wrong with culvert.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of the target, its file, and its folders of inputs.
    pub name: &'static str,
    /// Entry point: one run on an input.
    pub run: fn(&[u8]),
}

/// All targets, by name.
pub const TARGETS: &[Target] = &[
    Target { name: "fuzz_ah", run: esp::fuzz::ah },
    Target { name: "fuzz_apps_dns", run: apps::fuzz::dns },
    Target { name: "fuzz_apps_http", run: apps::fuzz::http },
    Target { name: "fuzz_apps_packets", run: apps::fuzz::packets },
    Target { name: "fuzz_apps_quic", run: apps::fuzz::quic },
    Target { name: "fuzz_apps_tls", run: apps::fuzz::tls },
    Target { name: "fuzz_bfd_dplane", run: bfd::fuzz::stream },
    Target { name: "fuzz_bfd_packets", run: bfd::fuzz::packets },
    Target { name: "fuzz_coalesce", run: io::tun::coalesce::fuzz },
    Target { name: "fuzz_conntrack", run: conntrack },
    Target { name: "fuzz_esp_open", run: esp::fuzz::open },
    Target { name: "fuzz_esp_seal", run: esp::fuzz::seal },
    Target { name: "fuzz_forward", run: forward::fuzz::exercise },
    Target { name: "fuzz_gtpu", run: wire::fuzz::gtpu },
    Target { name: "fuzz_ipcomp", run: esp::fuzz::ipcomp },
    Target { name: "fuzz_iptfs", run: iptfs::fuzz::payloads },
    Target { name: "fuzz_journal", run: journal },
    Target { name: "fuzz_memif_messages", run: memif::fuzz::messages },
    Target { name: "fuzz_memif_rings", run: memif::fuzz::rings },
    Target { name: "fuzz_mirror", run: mirror::fuzz::exercise },
    Target { name: "fuzz_ndpi", run: ndpi::fuzz::answer },
    Target { name: "fuzz_netlink", run: netlink::fuzz::exercise },
    Target { name: "fuzz_overlay", run: overlay::fuzz::exercise },
    Target { name: "fuzz_paths", run: paths::fuzz::packets },
    Target { name: "fuzz_preof", run: preof::fuzz::exercise },
    Target { name: "fuzz_reassembly", run: forward::fuzz::reassemble },
    Target { name: "fuzz_segment", run: io::tun::segment::fuzz },
    Target { name: "fuzz_srv6", run: srv6::fuzz::exercise },
    Target { name: "fuzz_vici", run: vici::fuzz::exercise },
    Target { name: "fuzz_wire", run: wire::fuzz::exercise },
    Target { name: "fuzz_xfrm", run: xfrm },
];

/// A ctnetlink datagram from the kernel.
fn conntrack(bytes: &[u8]) {
    ::conntrack::events(bytes).for_each(drop);
    let mut statistics = ::conntrack::Statistics::default();
    for (_, message) in Messages::new(bytes) {
        statistics.add_fill(&message[Header::LEN..]);
        statistics.add_refusals(&message[Header::LEN..]);
    }
}

/// A journal as a dead process left it.
fn journal(bytes: &[u8]) {
    let Ok(replay) = vault::read_journal(bytes) else { return };
    assert!(replay.sound_len <= bytes.len());
    for pair in replay.frames.windows(2) {
        assert!(pair[0].0 < pair[1].0, "records overlap");
    }
    let sound = vault::read_journal(&bytes[..replay.sound_len]);
    assert_eq!(sound.map(|r| r.frames), Ok(replay.frames), "a cut journal reads differently");
}

/// Datagrams of a client, each behind its length in 15 bits of two bytes, little-endian.
fn xfrm(bytes: &[u8]) {
    let mut rest = bytes;
    while let [low, high, tail @ ..] = rest {
        let len = usize::from(u16::from_le_bytes([*low, *high & 0x7f])).min(tail.len());
        let (datagram, after) = tail.split_at(len);
        ::xfrm::fuzz::decode(datagram);
        ::xfrm::fuzz::request(datagram);
        ::xfrm::fuzz::kernel(datagram);
        rest = after;
    }
}
