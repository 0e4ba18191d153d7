//! The driver's tables against a plain model, over random additions, removals and resets; and the hardware's tables against
//! the model's, register by register.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::BTreeMap;

use crate::common::{GCM, config, keys};
use crypto::Suite;
use nic::inline_crypto::registers::*;
use nic::{Nic, NicDevice, SharedNic};
use offload::{Device, HandleError, Invalid, Live, NewSa, PutError, SaDirection, SaHandle};

type Tested<'d> = &'d mut dyn Device<Vec<u8>>;

const SRC: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

#[test]
fn the_1025th_sa_and_the_129th_address_have_no_place() {
    let mut nic = NicDevice::new("nic0").unwrap();
    let device: Tested<'_> = &mut nic;
    let mut handles = Vec::new();
    for direction in [SaDirection::Outbound, SaDirection::Inbound] {
        for spi in 1..=1024 {
            handles.push(put(device, direction, address(spi % 128), spi).unwrap());
        }
        let full = put(device, direction, address(0), 5000).unwrap_err();
        assert_eq!(full, PutError::Full { what: "SAs of a direction", most: 1024 });
    }
    let used: Vec<usize> = device.tables().iter().map(|table| table.used).collect();
    assert_eq!(used, [1024, 1024, 128]);
    // A place for an SA, none for its address; an address that is there is shared.
    device.remove_sa(handles.pop().unwrap()).unwrap();
    let full = put(device, SaDirection::Inbound, address(200), 5000).unwrap_err();
    assert_eq!(full, PutError::Full { what: "receive addresses", most: 128 });
    handles.push(put(device, SaDirection::Inbound, address(1), 5000).unwrap());
    for handle in handles {
        device.remove_sa(handle).unwrap();
    }
    assert!(device.tables().iter().all(|table| table.used == 0));
    assert!(!nic.nic().with(|hardware| hardware.is_on()), "off with the last SA");
}

#[test]
fn the_engines_are_on_while_there_is_an_sa() {
    let mut nic = NicDevice::new("nic0").unwrap();
    let hardware = nic.nic();
    let device: Tested<'_> = &mut nic;
    assert!(!hardware.with(|nic| nic.is_on()));
    let first = put(device, SaDirection::Outbound, address(1), 1).unwrap();
    assert!(hardware.with(|nic| nic.is_on()));
    let second = put(device, SaDirection::Inbound, address(1), 1).unwrap();
    device.remove_sa(first).unwrap();
    assert!(hardware.with(|nic| nic.is_on()));
    device.remove_sa(second).unwrap();
    assert!(!hardware.with(|nic| nic.is_on()));
}

#[test]
fn random_steps_leave_the_tables_of_a_plain_model() {
    random_steps(20_000, 1);
}

/// `cargo test -p culvert-nic --test all tables -- --ignored`
#[test]
#[ignore = "a minute"]
fn a_million_random_steps_leave_the_tables_of_a_plain_model() {
    random_steps(1_000_000, 2);
}

fn random_steps(steps: usize, seed: u64) {
    let mut random = Random(seed);
    let mut nic = NicDevice::new("nic0").unwrap();
    let hardware = nic.nic();
    let device: Tested<'_> = &mut nic;
    let mut model = Model::default();
    for step in 0..steps {
        // Phases that fill the tables, and phases that empty them.
        let is_add = random.below(100) < if step / 5000 % 2 == 0 { 65 } else { 35 };
        if is_add {
            add(device, &mut model, &mut random);
        } else {
            remove(device, &mut model, &mut random);
        }
        if random.below(3000) == 0 {
            device.reset().unwrap();
        }
        if step % 16 == 0 {
            let used: Vec<usize> = device.tables().iter().map(|table| table.used).collect();
            assert_eq!(used, model.used(), "step {step}");
        }
        if step % 997 == 0 || step + 1 == steps {
            hardware_is_as_the_model(&hardware, &model);
        }
    }
}

fn add(device: Tested<'_>, model: &mut Model, random: &mut Random) {
    let is_inbound = random.below(3) > 0;
    let direction = if is_inbound { SaDirection::Inbound } else { SaDirection::Outbound };
    // Few SPIs and few more addresses than there is room for: some are there already.
    let (dst, spi) = (address(random.below(150)), 1 + random.below(12));
    let expected = model.why_not(direction, dst, spi);
    match (put(device, direction, dst, spi), expected) {
        (Ok(handle), None) => {
            let start = Live { number: spi.into(), ..Live::default() };
            assert_eq!(device.live(handle), Ok(start));
            assert!(model.sas.insert(handle, (direction, dst, spi)).is_none(), "a new handle");
        }
        (Err(error), Some(why)) => assert_eq!(error, why),
        (got, expected) => panic!("{got:?}, and not {expected:?}"),
    }
}

fn remove(device: Tested<'_>, model: &mut Model, random: &mut Random) {
    let count = model.sas.len();
    let Some(handle) = model.sas.keys().nth(random.below(count.max(1) as u32) as usize) else {
        return;
    };
    let handle = *handle;
    let (_, _, spi) = model.sas.remove(&handle).unwrap();
    assert_eq!(device.remove_sa(handle).unwrap().number, u64::from(spi));
    assert_eq!(device.remove_sa(handle), Err(HandleError::Unknown));
}

/// The content of the tables, and nothing else.
#[derive(Default)]
struct Model {
    sas: BTreeMap<SaHandle, (SaDirection, IpAddr, u32)>,
}

impl Model {
    fn of(&self, direction: SaDirection) -> impl Iterator<Item = (IpAddr, u32)> {
        let sas = self.sas.values().filter(move |(of, ..)| *of == direction);
        sas.map(|(_, dst, spi)| (*dst, *spi))
    }

    fn addresses(&self) -> Vec<IpAddr> {
        let mut all: Vec<IpAddr> = self.of(SaDirection::Inbound).map(|(dst, _)| dst).collect();
        all.sort();
        all.dedup();
        all
    }

    fn used(&self) -> [usize; 3] {
        let count = |direction| self.of(direction).count();
        let (out, inbound) = (count(SaDirection::Outbound), count(SaDirection::Inbound));
        [out, inbound, self.addresses().len()]
    }

    fn why_not(&self, direction: SaDirection, dst: IpAddr, spi: u32) -> Option<PutError> {
        let full = |what, most| Some(PutError::Full { what, most });
        if direction == SaDirection::Inbound && self.of(direction).any(|sa| sa == (dst, spi)) {
            return Some(Invalid::Exists.into());
        }
        if self.of(direction).count() == 1024 {
            return full("SAs of a direction", 1024);
        }
        let addresses = self.addresses();
        if direction == SaDirection::Inbound && !addresses.contains(&dst) && addresses.len() == 128
        {
            return full("receive addresses", 128);
        }
        None
    }
}

/// The hardware's tables, read by their registers, have the model's SAs and nothing else.
fn hardware_is_as_the_model(hardware: &SharedNic, model: &Model) {
    let sorted = |mut list: Vec<(Vec<u32>, u32, u32)>| {
        list.sort();
        list
    };
    let words = |dst: IpAddr| match dst {
        IpAddr::V4(v4) => vec![0, 0, 0, v4.to_bits()],
        IpAddr::V6(v6) => (0..4).rev().map(|n| (v6.to_bits() >> (32 * n)) as u32).collect(),
    };
    let inbound = model.of(SaDirection::Inbound).map(|(dst, spi)| (words(dst), spi, spi));
    let found = hardware.with(received);
    assert_eq!(sorted(found), sorted(inbound.collect()));
    let mut outbound: Vec<u32> = model.of(SaDirection::Outbound).map(|(_, spi)| spi).collect();
    outbound.sort_unstable();
    let mut found: Vec<u32> = hardware.with(transmitted);
    found.sort_unstable();
    assert_eq!(found, outbound);
    assert_eq!(hardware.with(|nic| nic.is_on()), !model.sas.is_empty());
}

/// Address, SPI and the key's first word of each valid entry.
fn received(nic: &mut Nic) -> Vec<(Vec<u32>, u32, u32)> {
    let on = nic.read(IPSRXIDX) & IPS_EN;
    let mut read = |table: u32, index: u32, registers: &[u32]| -> Vec<u32> {
        nic.write(IPSRXIDX, READ | index << INDEX_SHIFT | table << RX_TABLE_SHIFT | on);
        registers.iter().map(|register| nic.read(*register)).collect()
    };
    let four = |first: u32| [first, first + 4, first + 8, first + 12];
    let mut found = Vec::new();
    for index in 0..SAS as u32 {
        let key = read(RX_TABLE_KEY, index, &[IPSRXMOD, IPSRXKEY + 12, IPSRXSALT]);
        let spi = read(RX_TABLE_SPI, index, &[IPSRXSPI, IPSRXIPIDX]);
        if key[0] & MOD_VALID == 0 {
            assert_eq!((spi[0], key[1], key[2]), (0, 0, 0), "a free place has no SPI and no key");
            continue;
        }
        let address = read(RX_TABLE_IP, spi[1], &four(IPSRXIPADDR));
        found.push((address, spi[0], key[1]));
    }
    found
}

/// The key's first word of each entry that has a key.
fn transmitted(nic: &mut Nic) -> Vec<u32> {
    let on = nic.read(IPSTXIDX) & IPS_EN;
    let mut entry = |index: u32| {
        nic.write(IPSTXIDX, READ | index << INDEX_SHIFT | on);
        (nic.read(IPSTXKEY + 12), nic.read(IPSTXSALT))
    };
    let entries = (0..SAS as u32).map(&mut entry);
    entries.filter(|(_, salt)| *salt != 0).map(|(word, _)| word).collect()
}

/// Keys that name the SPI; numbers too.
fn put(
    device: Tested<'_>,
    direction: SaDirection,
    dst: IpAddr,
    spi: u32,
) -> Result<SaHandle, PutError> {
    let suite: Suite = GCM;
    let start = Live { number: spi.into(), ..Live::default() };
    let config = config(suite, SRC, dst, spi);
    let config = match dst {
        IpAddr::V4(_) => config,
        IpAddr::V6(_) => crate::common::config(suite, Ipv6Addr::LOCALHOST.into(), dst, spi),
    };
    device.put_sa(NewSa { direction, config: &config, keys: &keys(suite, spi), start: &start })
}

/// IPv4 and IPv6 in turn.
fn address(number: u32) -> IpAddr {
    match number % 2 {
        0 => Ipv4Addr::from_bits(0x0a00_0000 + number).into(),
        _ => Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(number)).into(),
    }
}

/// Numbers that look random (splitmix64), the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % u64::from(end)) as u32
    }
}
