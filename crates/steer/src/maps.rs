//! The program's maps, and how their entries are written.

use std::net::IpAddr;

use aya::Ebpf;
use aya::maps::{Array, HashMap, LpmTrie, Map, MapData, MapError, PerCpuArray, XskMap, lpm_trie};

use crate::config::{Flow, Prefix};
use crate::error::chain;

/// The program's maps.
pub(crate) struct Maps {
    /// AF_XDP sockets by queue; of the XDP programs only.
    pub(crate) xsks: Option<XskMap<MapData>>,
    /// Packet sockets only.
    pub(crate) given_back: Option<Array<MapData, u32>>,
    pub(crate) config: Array<MapData, u32>,
    pub(crate) alive_until: Array<MapData, u64>,
    pub(crate) stats: PerCpuArray<MapData, u64>,
    pub(crate) ports: HashMap<MapData, [u8; 2], u8>,
    pub(crate) vlans: HashMap<MapData, u32, u8>,
    pub(crate) local4: HashMap<MapData, [u8; 4], u8>,
    pub(crate) local6: HashMap<MapData, [u8; 16], u8>,
    pub(crate) protected4: LpmTrie<MapData, [u8; 4], u8>,
    pub(crate) protected6: LpmTrie<MapData, [u8; 16], u8>,
    pub(crate) sad4: HashMap<MapData, [u8; 8], SaValue>,
    pub(crate) sad6: HashMap<MapData, [u8; 20], SaValue>,
    pub(crate) flows4: HashMap<MapData, [u8; 16], u8>,
    pub(crate) flows6: HashMap<MapData, [u8; 40], u8>,
}

impl Maps {
    pub(crate) fn take(program: &mut Ebpf) -> Result<Self, (&'static str, String)> {
        fn map<T: TryFrom<Map, Error = MapError>>(
            program: &mut Ebpf,
            name: &'static str,
        ) -> Result<T, (&'static str, String)> {
            let map = program.take_map(name).ok_or((name, "not in the program".to_owned()))?;
            T::try_from(map).map_err(|error| (name, chain(&error)))
        }
        fn optional<T: TryFrom<Map, Error = MapError>>(
            program: &mut Ebpf,
            name: &'static str,
        ) -> Result<Option<T>, (&'static str, String)> {
            program.map(name).is_some().then_some(()).map(|()| map(program, name)).transpose()
        }
        Ok(Self {
            xsks: optional(program, "xsks")?,
            given_back: optional(program, "given_back")?,
            config: map(program, "config")?,
            alive_until: map(program, "alive_until")?,
            stats: map(program, "stats")?,
            ports: map(program, "ports")?,
            vlans: map(program, "vlans")?,
            local4: map(program, "local4")?,
            local6: map(program, "local6")?,
            protected4: map(program, "protected4")?,
            protected6: map(program, "protected6")?,
            sad4: map(program, "sad4")?,
            sad6: map(program, "sad6")?,
            flows4: map(program, "flows4")?,
            flows6: map(program, "flows6")?,
        })
    }
}

pub(crate) fn insert_protected(maps: &mut Maps, prefix: Prefix) -> Result<(), MapError> {
    let len = u32::from(prefix.len);
    match prefix.addr {
        IpAddr::V4(v4) => maps.protected4.insert(&lpm_trie::Key::new(len, v4.octets()), 1, 0),
        IpAddr::V6(v6) => maps.protected6.insert(&lpm_trie::Key::new(len, v6.octets()), 1, 0),
    }
}

pub(crate) fn remove_protected(maps: &mut Maps, prefix: Prefix) -> Result<(), MapError> {
    let len = u32::from(prefix.len);
    absent_is_fine(match prefix.addr {
        IpAddr::V4(v4) => maps.protected4.remove(&lpm_trie::Key::new(len, v4.octets())),
        IpAddr::V6(v6) => maps.protected6.remove(&lpm_trie::Key::new(len, v6.octets())),
    })
}

pub(crate) fn insert_sa(maps: &mut Maps, sa: &(IpAddr, u32)) -> Result<(), MapError> {
    set_sa(maps, sa, TAKE, BPF_ANY)
}

/// Lets the next packet of an SA that is there pass to Linux.
pub(crate) fn let_one_pass(maps: &mut Maps, sa: &(IpAddr, u32)) -> Result<(), MapError> {
    set_sa(maps, sa, LET_ONE_PASS, BPF_EXIST)
}

fn set_sa(
    maps: &mut Maps,
    (dst, spi): &(IpAddr, u32),
    what: u32,
    flags: u64,
) -> Result<(), MapError> {
    let value = [what, 0];
    match dst {
        IpAddr::V4(v4) => maps.sad4.insert(sa_key::<4, 8>(v4.octets(), *spi), value, flags),
        IpAddr::V6(v6) => maps.sad6.insert(sa_key::<16, 20>(v6.octets(), *spi), value, flags),
    }
}

pub(crate) fn remove_sa(maps: &mut Maps, (dst, spi): &(IpAddr, u32)) -> Result<(), MapError> {
    absent_is_fine(match dst {
        IpAddr::V4(v4) => maps.sad4.remove(&sa_key::<4, 8>(v4.octets(), *spi)),
        IpAddr::V6(v6) => maps.sad6.remove(&sa_key::<16, 20>(v6.octets(), *spi)),
    })
}

/// The destination, then the SPI, in network byte order. `KEY` is `ADDR` + 4.
fn sa_key<const ADDR: usize, const KEY: usize>(addr: [u8; ADDR], spi: u32) -> [u8; KEY] {
    const { assert!(ADDR + 4 == KEY) };
    let mut key = [0; KEY];
    let (to_addr, to_spi) = key.split_at_mut(ADDR);
    to_addr.copy_from_slice(&addr);
    to_spi.copy_from_slice(&spi.to_be_bytes());
    key
}

pub(crate) fn insert_flow(maps: &mut Maps, flow: &Flow) -> Result<(), MapError> {
    match (flow.src, flow.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            maps.flows4.insert(flow_key::<4, 16>(src.octets(), dst.octets(), flow), 1, BPF_ANY)
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            maps.flows6.insert(flow_key::<16, 40>(src.octets(), dst.octets(), flow), 1, BPF_ANY)
        }
        // No packet has addresses of two families.
        _ => Ok(()),
    }
}

pub(crate) fn remove_flow(maps: &mut Maps, flow: &Flow) -> Result<(), MapError> {
    absent_is_fine(match (flow.src, flow.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            maps.flows4.remove(&flow_key::<4, 16>(src.octets(), dst.octets(), flow))
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            maps.flows6.remove(&flow_key::<16, 40>(src.octets(), dst.octets(), flow))
        }
        _ => Ok(()),
    })
}

/// Source, destination, ports in network byte order, protocol. `KEY` is twice `ADDR` and 8.
fn flow_key<const ADDR: usize, const KEY: usize>(
    src: [u8; ADDR],
    dst: [u8; ADDR],
    flow: &Flow,
) -> [u8; KEY] {
    const { assert!(2 * ADDR + 8 == KEY) };
    let mut key = [0; KEY];
    let (addresses, rest) = key.split_at_mut(2 * ADDR);
    addresses[..ADDR].copy_from_slice(&src);
    addresses[ADDR..].copy_from_slice(&dst);
    rest[..2].copy_from_slice(&flow.src_port.to_be_bytes());
    rest[2..4].copy_from_slice(&flow.dst_port.to_be_bytes());
    rest[4..].copy_from_slice(&u32::from(flow.protocol).to_ne_bytes());
    key
}

/// Removing what is not there is no error.
pub(crate) fn absent_is_fine(result: Result<(), MapError>) -> Result<(), MapError> {
    match result {
        Err(MapError::KeyNotFound | MapError::ElementNotFound) => Ok(()),
        Err(MapError::SyscallError(call)) if call.io_error.raw_os_error() == Some(libc::ENOENT) => {
            Ok(())
        }
        other => other,
    }
}

/// Action for an SA's packets, and room for the program's lock.
type SaValue = [u32; 2];

/// Flags of `BPF_MAP_UPDATE_ELEM`.
const BPF_ANY: u64 = 0;
const BPF_EXIST: u64 = 2;

/// Action for an SA's packets; see `bpf/maps.h`.
const TAKE: u32 = 1;
const LET_ONE_PASS: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_network_byte_order() {
        assert_eq!(sa_key::<4, 8>([10, 0, 0, 1], 0x0102_0304), [10, 0, 0, 1, 1, 2, 3, 4]);
        let [src, dst] = [[10, 0, 0, 1], [10, 0, 0, 2]];
        let ports = (0x0102, 0x0304);
        let (src_port, dst_port) = ports;
        let flow = Flow { src: src.into(), dst: dst.into(), protocol: 17, src_port, dst_port };
        let key = flow_key::<4, 16>(src, dst, &flow);
        assert_eq!(key[..12], [10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4]);
        assert_eq!(key[12..], 17u32.to_ne_bytes());
    }
}
