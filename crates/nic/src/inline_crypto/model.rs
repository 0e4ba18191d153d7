//! The hardware: tables behind registers, and packets with their descriptors.

use crate::inline_crypto::descriptor::{
    ERROR_AUTHENTICATION, ERROR_INVALID_LENGTH, ERROR_INVALID_PROTOCOL, ERROR_NONE, ReceiveStatus,
    TUCMD_ENCRYPT, TUCMD_ESP, TransmitContext,
};
use crate::inline_crypto::engine::{Engine, EngineError, ICV_LEN, Key, LEAST_LEN};
use crate::inline_crypto::fault::Fault;
use crate::inline_crypto::registers::{
    ADDRESSES, INDEX_MASK, INDEX_SHIFT, IPS_EN, IPSRXIDX, IPSRXIPADDR, IPSRXIPIDX, IPSRXKEY,
    IPSRXMOD, IPSRXSALT, IPSRXSPI, IPSTXIDX, IPSTXKEY, IPSTXSALT, MOD_DECRYPT, MOD_IPV6,
    MOD_PROTO_ESP, MOD_VALID, READ, RX_TABLE_IP, RX_TABLE_KEY, RX_TABLE_SHIFT, RX_TABLE_SPI, SAS,
    SEC_DIS, SECRXCTRL, SECTXCTRL, WRITE,
};

/// Model of the NIC's IPsec engines.
pub struct Nic {
    engine: Engine,
    transmit_keys: Vec<Key>,
    addresses: Vec<[u32; 4]>,
    spis: Vec<Spi>,
    receive_keys: Vec<ReceiveKey>,
    /// Data registers, until a command takes them.
    staged: Staged,
    transmit_control: u32,
    receive_control: u32,
    transmit_index: u32,
    receive_index: u32,
    counters: Counters,
    fault: Option<Fault>,
}

/// Entry of the receive SPI table.
#[derive(Clone, Copy, Default)]
struct Spi {
    spi: u32,
    address: u32,
}

/// Entry of the receive key table.
#[derive(Clone, Default)]
struct ReceiveKey {
    key: Key,
    mode: u32,
}

#[derive(Default)]
struct Staged {
    transmit: Key,
    address: [u32; 4],
    spi: Spi,
    receive: ReceiveKey,
}

/// Counts of the hardware since it was made. A reset does not clear them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that were sealed.
    pub sealed: u64,
    /// Packets that could not be.
    pub not_sealed: u64,
    /// Packets that were opened.
    pub opened: u64,
    /// Packets of no SA in the tables, or with headers that the hardware does not parse.
    pub unknown: u64,
    /// Packets with [`ERROR_INVALID_PROTOCOL`].
    pub wrong_protocol: u64,
    /// Packets with [`ERROR_INVALID_LENGTH`].
    pub wrong_length: u64,
    /// Packets with [`ERROR_AUTHENTICATION`].
    pub wrong_icv: u64,
    /// Full resets so far.
    pub resets: u64,
}

/// Why a packet was not sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransmitError {
    /// The engine is off.
    Off,
    /// Lengths do not fit, or it is not ESP.
    Malformed,
}

impl Nic {
    /// A NIC after reset.
    ///
    /// # Errors
    /// OpenSSL has no AES-128-GCM.
    pub fn new() -> Result<Nic, EngineError> {
        let mut nic = Nic {
            engine: Engine::new()?,
            transmit_keys: Vec::new(),
            addresses: Vec::new(),
            spis: Vec::new(),
            receive_keys: Vec::new(),
            staged: Staged::default(),
            transmit_control: 0,
            receive_control: 0,
            transmit_index: 0,
            receive_index: 0,
            counters: Counters::default(),
            fault: None,
        };
        nic.clear();
        Ok(nic)
    }

    /// Has this be wrong with the hardware, or nothing any more.
    pub fn set_fault(&mut self, fault: Option<Fault>) {
        self.fault = fault;
    }

    /// True if nothing comes back until a reset.
    pub fn is_hung(&self) -> bool {
        self.fault == Some(Fault::Hang)
    }

    /// A full reset: every table is empty, the engines are off. It ends a hang.
    pub fn reset(&mut self) {
        self.clear();
        self.fault = self.fault.filter(|fault| *fault != Fault::Hang);
        self.counters.resets += 1;
    }

    fn clear(&mut self) {
        self.transmit_keys = vec![Key::default(); SAS];
        self.addresses = vec![[0; 4]; ADDRESSES];
        self.spis = vec![Spi::default(); SAS];
        self.receive_keys = vec![ReceiveKey::default(); SAS];
        self.staged = Staged::default();
        (self.transmit_control, self.receive_control) = (SEC_DIS, SEC_DIS);
        (self.transmit_index, self.receive_index) = (0, 0);
    }

    /// Counts of the hardware so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// True if both engines are on.
    pub fn is_on(&self) -> bool {
        self.transmits() && self.receives()
    }

    fn transmits(&self) -> bool {
        self.transmit_control & SEC_DIS == 0 && self.transmit_index & IPS_EN != 0
    }

    fn receives(&self) -> bool {
        self.receive_control & SEC_DIS == 0 && self.receive_index & IPS_EN != 0
    }

    /// Writes a register; one that is none is ignored.
    pub fn write(&mut self, register: u32, value: u32) {
        let staged = &mut self.staged;
        match register {
            SECTXCTRL => self.transmit_control = value,
            SECRXCTRL => self.receive_control = value,
            IPSTXIDX => self.transmit_access(value),
            IPSTXSALT => staged.transmit.salt = value,
            IPSRXIDX => self.receive_access(value),
            IPSRXSPI => staged.spi.spi = value,
            IPSRXIPIDX => staged.spi.address = value,
            IPSRXSALT => staged.receive.key.salt = value,
            IPSRXMOD => staged.receive.mode = value,
            _ => {
                if let Some(word) = staged.word(register) {
                    *word = value;
                }
            }
        }
    }

    /// Reads a register; one that is none is 0.
    pub fn read(&mut self, register: u32) -> u32 {
        let staged = &mut self.staged;
        match register {
            SECTXCTRL => self.transmit_control,
            SECRXCTRL => self.receive_control,
            IPSTXIDX => self.transmit_index,
            IPSTXSALT => staged.transmit.salt,
            IPSRXIDX => self.receive_index,
            IPSRXSPI => staged.spi.spi,
            IPSRXIPIDX => staged.spi.address,
            IPSRXSALT => staged.receive.key.salt,
            IPSRXMOD => staged.receive.mode,
            _ => staged.word(register).map_or(0, |word| *word),
        }
    }

    fn transmit_access(&mut self, value: u32) {
        self.transmit_index = value & !(READ | WRITE);
        let entry = self.transmit_keys.get_mut(index(value));
        exchange(value, entry, &mut self.staged.transmit);
    }

    fn receive_access(&mut self, value: u32) {
        self.receive_index = value & !(READ | WRITE);
        let (at, staged) = (index(value), &mut self.staged);
        match value >> RX_TABLE_SHIFT & 3 {
            RX_TABLE_IP => exchange(value, self.addresses.get_mut(at), &mut staged.address),
            RX_TABLE_SPI => exchange(value, self.spis.get_mut(at), &mut staged.spi),
            RX_TABLE_KEY => exchange(value, self.receive_keys.get_mut(at), &mut staged.receive),
            _ => {}
        }
    }

    /// Seals a packet, an IP packet without link header whose ICV is still to come.
    ///
    /// # Errors
    /// The packet is as it was.
    pub fn transmit(
        &mut self,
        context: TransmitContext,
        packet: &mut [u8],
    ) -> Result<(), TransmitError> {
        let sealed = self.seal(context, packet);
        match sealed {
            Ok(()) => self.counters.sealed += 1,
            Err(_) => self.counters.not_sealed += 1,
        }
        sealed
    }

    fn seal(&mut self, context: TransmitContext, packet: &mut [u8]) -> Result<(), TransmitError> {
        if !self.transmits() {
            return Err(TransmitError::Off);
        }
        let esp = packet.get_mut(context.ip_len()..).filter(|esp| {
            context.has(TUCMD_ESP) && (ICV_LEN..=esp.len()).contains(&context.trailer_len())
        });
        let key = self.transmit_keys.get(context.sa());
        let (esp, key) = esp.zip(key).ok_or(TransmitError::Malformed)?;
        if self.fault == Some(Fault::InClear) {
            return Ok(());
        }
        let sealed = self.engine.seal(key, context.has(TUCMD_ENCRYPT), esp);
        sealed.ok_or(TransmitError::Malformed)?;
        self.fault.into_iter().for_each(|fault| fault.spoil_sealed(esp));
        Ok(())
    }

    /// Opens a packet, an IP packet without link header, if an SA in the tables is its. One of no SA, and one with an error
    /// about protocol or length, is as it was; one with a wrong ICV has no text any more.
    pub fn receive(&mut self, packet: &mut [u8]) -> ReceiveStatus {
        let Some((header_len, sa)) = self.find(packet) else {
            self.counters.unknown += 1;
            return ReceiveStatus::default();
        };
        let error = self.open(header_len, sa, packet);
        let counter = match error {
            ERROR_NONE => &mut self.counters.opened,
            ERROR_INVALID_PROTOCOL => &mut self.counters.wrong_protocol,
            ERROR_INVALID_LENGTH => &mut self.counters.wrong_length,
            _ => &mut self.counters.wrong_icv,
        };
        *counter += 1;
        ReceiveStatus::secp(error)
    }

    /// The header's length and the SA's place.
    ///
    /// 1. Headers: IPv4 without options, whole; or IPv6.
    /// 2. The destination's place in the table of addresses.
    /// 3. Of all entries with that place and the SPI, the one that is valid and of the packet's IP version.
    fn find(&self, packet: &[u8]) -> Option<(usize, usize)> {
        if !self.receives() {
            return None;
        }
        let (header_len, is_v6, protocol, address) = parse(packet)?;
        let spi_at = match protocol {
            ESP => header_len,
            AH => header_len + 4,
            _ => return None,
        };
        let spi = word(packet, spi_at)?;
        let place = self.addresses.iter().position(|entry| *entry == address)? as u32;
        let is_it = |(entry, key): (&Spi, &ReceiveKey)| {
            entry.spi == spi
                && entry.address == place
                && key.mode & MOD_VALID != 0
                && (key.mode & MOD_IPV6 != 0) == is_v6
        };
        let sa = self.spis.iter().zip(&self.receive_keys).position(is_it)?;
        Some((header_len, sa))
    }

    fn open(&mut self, header_len: usize, sa: usize, packet: &mut [u8]) -> u32 {
        let is_esp = parse(packet).is_some_and(|(_, _, protocol, _)| protocol == ESP);
        let Some(entry) = self.receive_keys.get(sa) else { return ERROR_INVALID_PROTOCOL };
        // An SA of AH is known, and left to software.
        if !is_esp || entry.mode & MOD_PROTO_ESP == 0 {
            return ERROR_INVALID_PROTOCOL;
        }
        let esp = packet.get_mut(header_len..).unwrap_or_default();
        if esp.len() < LEAST_LEN || !esp.len().is_multiple_of(4) {
            return ERROR_INVALID_LENGTH;
        }
        if self.fault == Some(Fault::FalseAlarm) {
            return ERROR_AUTHENTICATION;
        }
        match self.engine.open(&entry.key, entry.mode & MOD_DECRYPT != 0, esp) {
            Some(true) => {
                self.fault.into_iter().for_each(|fault| fault.spoil_opened(esp));
                ERROR_NONE
            }
            Some(false) => ERROR_AUTHENTICATION,
            None => ERROR_INVALID_LENGTH,
        }
    }
}

impl Staged {
    /// The data register with this address, of those that come in fours.
    fn word(&mut self, register: u32) -> Option<&mut u32> {
        let fours = [
            (IPSTXKEY, &mut self.transmit.words),
            (IPSRXIPADDR, &mut self.address),
            (IPSRXKEY, &mut self.receive.key.words),
        ];
        let mut found = fours.into_iter().filter_map(|(first, words)| {
            let at = register.checked_sub(first)?;
            words.get_mut(at as usize / 4).filter(|_| at.is_multiple_of(4))
        });
        found.next()
    }
}

/// A table's entry into the data registers, or from them.
fn exchange<T: Clone>(access: u32, entry: Option<&mut T>, staged: &mut T) {
    let Some(entry) = entry else { return };
    if access & WRITE != 0 {
        *entry = staged.clone();
    } else if access & READ != 0 {
        *staged = entry.clone();
    }
}

fn index(access: u32) -> usize {
    (access >> INDEX_SHIFT & INDEX_MASK) as usize
}

/// Header length, IPv6 or not, protocol, and destination as the table of addresses has it.
fn parse(packet: &[u8]) -> Option<(usize, bool, u8, [u32; 4])> {
    match *packet.first()? {
        0x45 => {
            // Neither an offset nor more to come.
            if word(packet, 4)? & 0x3fff != 0 {
                return None;
            }
            Some((20, false, *packet.get(9)?, [0, 0, 0, word(packet, 16)?]))
        }
        first if first >> 4 == 6 => {
            let mut address = [0; 4];
            for (n, to) in address.iter_mut().enumerate() {
                *to = word(packet, 24 + 4 * n)?;
            }
            Some((40, true, *packet.get(6)?, address))
        }
        _ => None,
    }
}

fn word(packet: &[u8], at: usize) -> Option<u32> {
    packet.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

const ESP: u8 = 50;
const AH: u8 = 51;
