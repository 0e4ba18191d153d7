//! Registers of the IPsec engines, by their names in the 82599's data sheet.
//!
//! A table is written by filling its data registers, and then the index register with [`WRITE`]; it is read by the index
//! register with [`READ`], and then the data registers.

/// Transmit SA table: which entry. Bits as in [`IPSRXIDX`], without a table.
pub const IPSTXIDX: u32 = 0x8900;
/// Transmit SA table: salt.
pub const IPSTXSALT: u32 = 0x8904;
/// Transmit SA table: key, four registers, the key's last four bytes in the first one.
pub const IPSTXKEY: u32 = 0x8908;

/// Receive tables: which one, and which entry.
pub const IPSRXIDX: u32 = 0x8e00;
/// Receive IP table: address, four registers in network order; IPv4 in the last one, and zeros in front.
pub const IPSRXIPADDR: u32 = 0x8e04;
/// Receive SPI table: SPI.
pub const IPSRXSPI: u32 = 0x8e14;
/// Receive SPI table: place of the address in the IP table.
pub const IPSRXIPIDX: u32 = 0x8e18;
/// Receive key table: key, four registers, as [`IPSTXKEY`].
pub const IPSRXKEY: u32 = 0x8e1c;
/// Receive key table: salt.
pub const IPSRXSALT: u32 = 0x8e2c;
/// Receive key table: mode.
pub const IPSRXMOD: u32 = 0x8e30;

/// Control of the transmit engine.
pub const SECTXCTRL: u32 = 0x8800;
/// Control of the receive engine.
pub const SECRXCTRL: u32 = 0x8d00;

/// In the control registers: the engine is off, as after a reset.
pub const SEC_DIS: u32 = 1;

/// In the index registers: IPsec is on.
pub const IPS_EN: u32 = 1;
/// In [`IPSRXIDX`]: the table.
pub const RX_TABLE_SHIFT: u32 = 1;
/// The table of addresses.
pub const RX_TABLE_IP: u32 = 1;
/// The table of SPIs.
pub const RX_TABLE_SPI: u32 = 2;
/// The table of keys.
pub const RX_TABLE_KEY: u32 = 3;
/// In the index registers: the entry.
pub const INDEX_SHIFT: u32 = 3;
/// The entry's bits.
pub const INDEX_MASK: u32 = 0x3ff;
/// In the index registers: reads the entry into the data registers.
pub const READ: u32 = 1 << 30;
/// In the index registers: writes the entry from the data registers.
pub const WRITE: u32 = 1 << 31;

/// In [`IPSRXMOD`]: the entry counts.
pub const MOD_VALID: u32 = 1;
/// In [`IPSRXMOD`]: ESP; else AH.
pub const MOD_PROTO_ESP: u32 = 1 << 2;
/// In [`IPSRXMOD`]: decrypt; else the ICV alone.
pub const MOD_DECRYPT: u32 = 1 << 3;
/// In [`IPSRXMOD`]: IPv6.
pub const MOD_IPV6: u32 = 1 << 4;

/// Entries of the transmit SA table, and of the receive SPI and key tables.
pub const SAS: usize = 1024;
/// Entries of the receive IP table.
pub const ADDRESSES: usize = 128;
