//! Shadow tables: what the driver has put into the hardware, for quick search and to load it again.

use core::net::IpAddr;
use std::collections::HashMap;

use offload::{Invalid, Live, PutError, SaDirection, SaHandle};

use crate::inline_crypto::engine::Key;
use crate::inline_crypto::model::Nic;
use crate::inline_crypto::registers::{
    ADDRESSES, INDEX_SHIFT, IPS_EN, IPSRXIDX, IPSRXIPADDR, IPSRXIPIDX, IPSRXKEY, IPSRXMOD,
    IPSRXSALT, IPSRXSPI, IPSTXIDX, IPSTXKEY, IPSTXSALT, MOD_DECRYPT, MOD_IPV6, MOD_PROTO_ESP,
    MOD_VALID, RX_TABLE_IP, RX_TABLE_KEY, RX_TABLE_SHIFT, RX_TABLE_SPI, SAS, SEC_DIS, SECRXCTRL,
    SECTXCTRL, WRITE,
};

/// The tables of one NIC.
pub(crate) struct Shadow {
    transmit: Table<TransmitSa>,
    receive: Table<ReceiveSa>,
    addresses: Table<Address>,
    /// The place of each SA.
    by_handle: HashMap<SaHandle, Place>,
    /// Inbound SAs by destination and SPI.
    by_spi: HashMap<(IpAddr, u32), u16>,
    /// The place of each address.
    by_address: HashMap<[u32; 4], u16>,
}

/// Where an SA is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub direction: SaDirection,
    pub index: u16,
    /// Encrypted, not only authenticated.
    pub is_encrypted: bool,
}

/// An SA that is to be put in.
pub(crate) struct NewEntry<'a> {
    pub handle: SaHandle,
    pub direction: SaDirection,
    pub dst: IpAddr,
    pub spi: u32,
    pub key: Key,
    pub is_encrypted: bool,
    pub start: &'a Live,
}

struct TransmitSa {
    key: Key,
    start: Live,
}

struct ReceiveSa {
    dst: IpAddr,
    spi: u32,
    /// Index in the table of addresses.
    address: u16,
    key: Key,
    mode: u32,
    start: Live,
}

struct Address {
    words: [u32; 4],
    /// SAs that have it.
    users: usize,
}

/// A table of the hardware.
struct Table<T> {
    entries: Vec<Option<T>>,
    /// Places that are free, the lowest last.
    free: Vec<u16>,
}

impl<T> Table<T> {
    fn new(len: usize) -> Table<T> {
        Table { entries: (0..len).map(|_| None).collect(), free: (0..len as u16).rev().collect() }
    }

    fn used(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    fn get(&self, index: u16) -> Option<&T> {
        self.entries.get(usize::from(index))?.as_ref()
    }

    fn insert(&mut self, entry: T) -> Option<u16> {
        let index = self.free.pop()?;
        *self.entries.get_mut(usize::from(index))? = Some(entry);
        Some(index)
    }

    fn remove(&mut self, index: u16) -> Option<T> {
        let entry = self.entries.get_mut(usize::from(index))?.take()?;
        self.free.push(index);
        Some(entry)
    }

    fn iter(&self) -> impl Iterator<Item = (u16, &T)> {
        let places = self.entries.iter().zip(0..);
        places.filter_map(|(entry, index)| Some((index, entry.as_ref()?)))
    }
}

impl Shadow {
    pub fn new() -> Shadow {
        Shadow {
            transmit: Table::new(SAS),
            receive: Table::new(SAS),
            addresses: Table::new(ADDRESSES),
            by_handle: HashMap::new(),
            by_spi: HashMap::new(),
            by_address: HashMap::new(),
        }
    }

    /// How many SAs to transmit, SAs to receive, and addresses.
    pub fn used(&self) -> [usize; 3] {
        [self.transmit.used(), self.receive.used(), self.addresses.used()]
    }

    /// Where an SA is.
    pub fn place(&self, handle: SaHandle) -> Option<Place> {
        self.by_handle.get(&handle).copied()
    }

    /// The numbers that an SA was put in with.
    pub fn start(&self, handle: SaHandle) -> Option<&Live> {
        let place = self.place(handle)?;
        match place.direction {
            SaDirection::Outbound => Some(&self.transmit.get(place.index)?.start),
            SaDirection::Inbound => Some(&self.receive.get(place.index)?.start),
        }
    }

    /// Puts an SA into the tables and the hardware, and switches the engines on with the first one.
    pub fn add(&mut self, nic: &mut Nic, new: NewEntry<'_>) -> Result<(), PutError> {
        let (handle, direction, is_encrypted) = (new.handle, new.direction, new.is_encrypted);
        let index = match direction {
            SaDirection::Outbound => self.add_transmit(nic, new),
            SaDirection::Inbound => self.add_receive(nic, new),
        }?;
        self.by_handle.insert(handle, Place { direction, index, is_encrypted });
        if self.by_handle.len() == 1 {
            switch(nic, true);
        }
        Ok(())
    }

    fn add_transmit(&mut self, nic: &mut Nic, new: NewEntry<'_>) -> Result<u16, PutError> {
        let sa = TransmitSa { key: new.key, start: new.start.clone() };
        let index = self.transmit.insert(sa).ok_or(NO_SA)?;
        self.load_transmit(nic, index);
        Ok(index)
    }

    fn add_receive(&mut self, nic: &mut Nic, new: NewEntry<'_>) -> Result<u16, PutError> {
        let NewEntry { dst, spi, key, start, is_encrypted, .. } = new;
        if self.by_spi.contains_key(&(dst, spi)) {
            return Err(Invalid::Exists.into());
        }
        if self.receive.is_full() {
            return Err(NO_SA);
        }
        let address = self.take_address(nic, words(dst))?;
        let flag = |is: bool, bit| if is { bit } else { 0 };
        let mode = MOD_VALID
            | MOD_PROTO_ESP
            | flag(is_encrypted, MOD_DECRYPT)
            | flag(dst.is_ipv6(), MOD_IPV6);
        let sa = ReceiveSa { dst, spi, address, key, mode, start: start.clone() };
        let index = self.receive.insert(sa).ok_or(NO_SA)?;
        self.load_receive(nic, index);
        self.by_spi.insert((dst, spi), index);
        Ok(index)
    }

    /// The place of an address, which one more SA has then.
    fn take_address(&mut self, nic: &mut Nic, words: [u32; 4]) -> Result<u16, PutError> {
        if let Some(index) = self.by_address.get(&words) {
            let entry = self.addresses.entries.get_mut(usize::from(*index));
            entry.into_iter().flatten().for_each(|entry| entry.users += 1);
            return Ok(*index);
        }
        let full = PutError::Full { what: "receive addresses", most: ADDRESSES };
        let index = self.addresses.insert(Address { words, users: 1 }).ok_or(full)?;
        self.by_address.insert(words, index);
        load_address(nic, index, words);
        Ok(index)
    }

    fn leave_address(&mut self, nic: &mut Nic, index: u16) {
        let entry = self.addresses.entries.get_mut(usize::from(index));
        let Some(entry) = entry.and_then(Option::as_mut) else { return };
        entry.users -= 1;
        if entry.users == 0 {
            self.by_address.remove(&entry.words);
            self.addresses.remove(index);
            load_address(nic, index, [0; 4]);
        }
    }

    /// Takes an SA out, and switches the engines off with the last one. The numbers that it was put in with.
    pub fn remove(&mut self, nic: &mut Nic, handle: SaHandle) -> Option<Live> {
        let place = self.by_handle.remove(&handle)?;
        let start = match place.direction {
            SaDirection::Outbound => {
                let sa = self.transmit.remove(place.index)?;
                self.load_transmit(nic, place.index);
                sa.start
            }
            SaDirection::Inbound => {
                let sa = self.receive.remove(place.index)?;
                self.by_spi.remove(&(sa.dst, sa.spi));
                self.load_receive(nic, place.index);
                self.leave_address(nic, sa.address);
                sa.start
            }
        };
        if self.by_handle.is_empty() {
            switch(nic, false);
        }
        Some(start)
    }

    /// Loads everything into hardware that a reset has emptied: the tables first, so that nothing is worked on by
    /// half of them.
    pub fn reload(&self, nic: &mut Nic) {
        self.addresses.iter().for_each(|(index, entry)| load_address(nic, index, entry.words));
        self.receive.iter().for_each(|(index, _)| self.load_receive(nic, index));
        self.transmit.iter().for_each(|(index, _)| self.load_transmit(nic, index));
        if !self.by_handle.is_empty() {
            switch(nic, true);
        }
    }

    /// Writes a place of the transmit table, zeros if it is free.
    fn load_transmit(&self, nic: &mut Nic, index: u16) {
        let none = Key::default();
        let key = self.transmit.get(index).map_or(&none, |sa| &sa.key);
        write_four(nic, IPSTXKEY, key.words);
        nic.write(IPSTXSALT, key.salt);
        let is_on = on(nic, IPSTXIDX);
        nic.write(IPSTXIDX, WRITE | at(index) | is_on);
        write_four(nic, IPSTXKEY, [0; 4]);
        nic.write(IPSTXSALT, 0);
    }

    /// Writes a place of the SPI and key tables, zeros if it is free. The SPI comes last, and goes first.
    fn load_receive(&self, nic: &mut Nic, index: u16) {
        let none = Key::default();
        let sa = self.receive.get(index);
        let (key, mode) = sa.map_or((&none, 0), |sa| (&sa.key, sa.mode));
        let (spi, address) = sa.map_or((0, 0), |sa| (sa.spi, sa.address));
        let load_spi = |nic: &mut Nic| {
            nic.write(IPSRXSPI, spi);
            nic.write(IPSRXIPIDX, address.into());
            access(nic, RX_TABLE_SPI, index);
        };
        if sa.is_none() {
            load_spi(nic);
        }
        write_four(nic, IPSRXKEY, key.words);
        nic.write(IPSRXSALT, key.salt);
        nic.write(IPSRXMOD, mode);
        access(nic, RX_TABLE_KEY, index);
        // No key stays in the data registers.
        write_four(nic, IPSRXKEY, [0; 4]);
        nic.write(IPSRXSALT, 0);
        if sa.is_some() {
            load_spi(nic);
        }
    }
}

fn load_address(nic: &mut Nic, index: u16, words: [u32; 4]) {
    write_four(nic, IPSRXIPADDR, words);
    access(nic, RX_TABLE_IP, index);
}

fn access(nic: &mut Nic, table: u32, index: u16) {
    let is_on = on(nic, IPSRXIDX);
    nic.write(IPSRXIDX, WRITE | at(index) | table << RX_TABLE_SHIFT | is_on);
}

fn at(index: u16) -> u32 {
    u32::from(index) << INDEX_SHIFT
}

/// The bit that says that IPsec is on, as it is now: each access writes it again.
fn on(nic: &mut Nic, register: u32) -> u32 {
    nic.read(register) & IPS_EN
}

fn write_four(nic: &mut Nic, first: u32, words: [u32; 4]) {
    (0..).step_by(4).zip(words).for_each(|(at, word)| nic.write(first + at, word));
}

/// Switches both engines.
fn switch(nic: &mut Nic, is_on: bool) {
    let (index, control) = if is_on { (IPS_EN, 0) } else { (0, SEC_DIS) };
    for register in [IPSTXIDX, IPSRXIDX] {
        nic.write(register, index);
    }
    for register in [SECTXCTRL, SECRXCTRL] {
        nic.write(register, control);
    }
}

/// An address as the table has it.
fn words(addr: IpAddr) -> [u32; 4] {
    match addr {
        IpAddr::V4(addr) => [0, 0, 0, addr.to_bits()],
        IpAddr::V6(addr) => {
            let bits = addr.to_bits();
            [96, 64, 32, 0].map(|shift| (bits >> shift) as u32)
        }
    }
}

const NO_SA: PutError = PutError::Full { what: "SAs of a direction", most: SAS };
