//! One access to a table after the other, through the registers.

use esp::IvSource;

use crate::entries::{Direction, SaUse, TableError};
use crate::record::Record;
use crate::registers::{
    COMMAND_WRITE, POLICY_BITS, REG_COMMAND, REG_INDEX, REG_RECORD, REG_STATUS, REPLAY_WINDOW,
    Registers, SA_BITS, STATUS_BUSY, STATUS_LOCKED, TABLES_INBOUND, Table,
};

/// Table accesses of one direction, which it counts: they are the driver's clock.
pub(crate) struct Writer<'r, R: ?Sized> {
    pub(crate) registers: &'r mut R,
    pub(crate) direction: Direction,
    pub(crate) accesses: &'r mut u64,
}

impl<R: Registers + ?Sized> Writer<'_, R> {
    fn write_register(&mut self, address: u16, value: u32) {
        *self.accesses += 1;
        self.registers.write(address, value);
    }

    fn read_register(&mut self, address: u16) -> u32 {
        *self.accesses += 1;
        self.registers.read(address)
    }

    /// Lets so many accesses go by.
    pub(crate) fn wait(&mut self, accesses: u64) {
        for _ in 0..accesses {
            self.read_register(REG_STATUS);
        }
    }

    pub(crate) fn record(
        &mut self,
        table: Table,
        index: usize,
        record: &Record,
    ) -> Result<(), TableError> {
        for (place, word) in record.words().enumerate() {
            self.write_register(REG_RECORD + 4 * place as u16, word);
        }
        self.run(table, index, COMMAND_WRITE)
    }

    /// Lets a bucket lead to an entry. Both kinds of buckets have entries of one width.
    pub(crate) fn bucket(
        &mut self,
        table: Table,
        bucket: usize,
        first: Option<u16>,
    ) -> Result<(), TableError> {
        const { assert!(SA_BITS == POLICY_BITS) };
        let mut record = Record::new();
        record.flag(first.is_some()).put(SA_BITS, first.unwrap_or(0).into());
        self.record(table, bucket, &record)
    }

    pub(crate) fn run(
        &mut self,
        table: Table,
        index: usize,
        command: u32,
    ) -> Result<(), TableError> {
        let apart = match self.direction {
            Direction::Outbound => 0,
            Direction::Inbound => TABLES_INBOUND,
        };
        self.write_register(REG_INDEX, index as u32);
        self.write_register(REG_COMMAND, (table as u32 + apart) | command);
        for _ in 0..PATIENCE {
            if self.read_register(REG_STATUS) & STATUS_BUSY == 0 {
                return Ok(());
            }
        }
        Err(TableError::Stuck)
    }

    /// Writes an SA's state, before its first packet here.
    ///
    /// Outbound the window's place holds what numbers are combined with to make AES-GCM's IVs: other random
    /// bits for each state that is written, so that keys that come twice give no nonce twice.
    pub(crate) fn state(&mut self, index: u16, used: &SaUse) -> Result<(), TableError> {
        let window = match self.direction {
            Direction::Inbound => used.window,
            Direction::Outbound => IvSource::new().map_err(|_| TableError::Random)?.random().into(),
        };
        let record = state_record(&SaUse { window, ..*used });
        self.record(Table::SaStates, index.into(), &record)
    }

    /// Reads an SA's state.
    pub(crate) fn sa_use(&mut self, index: u16) -> Result<SaUse, TableError> {
        self.run(Table::SaStates, index.into(), 0)?;
        let words: [u32; STATE_BITS.div_ceil(32) as usize] =
            core::array::from_fn(|word| self.read_register(REG_RECORD + 4 * word as u16));
        // sa_state_t from its lowest bit: two flags, packets, bytes, window, number.
        let mut bit = 2;
        let mut take = |width: u32| {
            let value = (bit..bit + width).zip(0..).fold(0, |sum, (bit, place)| {
                let word = words[(bit / 32) as usize];
                sum | u128::from(word >> (bit % 32) & 1) << place
            });
            bit += width;
            value
        };
        let (packets, bytes) = (take(48) as u64, take(48) as u64);
        let window = take(REPLAY_WINDOW);
        Ok(SaUse { number: take(64) as u64, window, bytes, packets })
    }
}

/// Waits until a gateway has emptied its tables after reset: the record is locked until an access of each unit has
/// ended, which it does behind that.
pub(crate) fn wait_until_empty(
    registers: &mut (impl Registers + ?Sized),
    accesses: &mut u64,
) -> Result<(), TableError> {
    for direction in [Direction::Outbound, Direction::Inbound] {
        let mut access = Writer { registers, direction, accesses };
        for table in [Table::Policies, Table::Sas] {
            access.run(table, 0, 0)?;
        }
    }
    match registers.read(REG_STATUS) & STATUS_LOCKED {
        0 => Ok(()),
        _ => Err(TableError::Stuck),
    }
}

/// An SA's state (`sa_state_t`).
fn state_record(used: &SaUse) -> Record {
    let mut record = Record::new();
    record.put(64, used.number).put(REPLAY_WINDOW - 64, (used.window >> 64) as u64);
    record.put(64, used.window as u64);
    record.put(48, used.bytes).put(48, used.packets).flag(false).flag(false);
    record
}

/// Length of that record in bits.
const STATE_BITS: u32 = 64 + REPLAY_WINDOW + 2 * 48 + 2;

/// Reads of the status register before an access is given up: a hundred times what it takes.
const PATIENCE: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_state_has_seen_its_number_only() {
        let words: Vec<u32> = state_record(&SaUse::at(5)).words().collect();
        let bits = 64 + REPLAY_WINDOW as usize + 96 + 2;
        assert_eq!(words.len(), bits.div_ceil(32));
        assert_eq!(
            words[(2 + 96) / 32] >> ((2 + 96) % 32) & 1,
            1,
            "seen[0] is the lowest of the window"
        );
    }
}
