//! Policies and SAs of a gateway, put in and taken out while it works.
//!
//! Every change is made of writes after each of which the tables are whole: an entry is written
//! before anything leads to it, and nothing leads to it any more when it is cleared. A place that
//! becomes free is not used again before look-ups that were on their way through it have ended; time is
//! counted in register accesses.

use std::collections::{BTreeMap, VecDeque};

use crate::access::{Writer, wait_until_empty};
use crate::chain::{Before, Chains};
use crate::entries::{Direction, PolicyIndex, SaUse, TableError};
use crate::pearson::bucket;
use crate::registers::{
    ACCESS_CYCLES, CHAIN_LEN, LOOK_UP_CYCLES, MAGIC, POLICY_BITS, REG_MAGIC, REG_SIZES,
    REG_VERSION, Registers, SA_BITS, SHAPES, SIZES, Table, VERSION,
};
use crate::sa::{Sa, SaIndex};
use crate::selector::{Action, Policy, Shape};

/// Places of a table and what is in them.
#[derive(Debug)]
struct Slots<T> {
    places: Vec<Option<T>>,
    most: usize,
    /// Places that became free and that nothing may use yet, with the number of accesses by then; the
    /// oldest first.
    resting: VecDeque<(u16, u64)>,
}

impl<T> Slots<T> {
    fn new(bits: u32) -> Slots<T> {
        Slots { places: Vec::new(), most: 1 << bits, resting: VecDeque::new() }
    }

    fn get(&self, index: u16) -> Option<&T> {
        self.places.get(usize::from(index))?.as_ref()
    }

    /// A place that is free: a new one while there are any, else the one that has rested longest,
    /// with the accesses that must still go by.
    fn free(&self, accesses: u64) -> Option<(u16, u64)> {
        if self.places.len() < self.most {
            return Some((self.places.len() as u16, 0));
        }
        let (place, since) = self.resting.front()?;
        let rested = accesses.saturating_sub(*since);
        Some((*place, (LOOK_UP_CYCLES / ACCESS_CYCLES).saturating_sub(rested)))
    }

    fn put(&mut self, index: u16, entry: T) {
        let place = usize::from(index);
        if self.places.len() <= place {
            self.places.resize_with(place + 1, || None);
        }
        self.places[place] = Some(entry);
        self.resting.retain(|(resting, _)| *resting != index);
    }

    fn take(&mut self, index: u16) -> Option<T> {
        self.places.get_mut(usize::from(index))?.take()
    }

    /// Nothing leads to a place any more.
    fn rest(&mut self, index: u16, accesses: u64) {
        self.resting.push_back((index, accesses));
    }

    fn iter(&self) -> impl Iterator<Item = (u16, &T)> {
        let all = self.places.iter().enumerate();
        all.filter_map(|(place, entry)| Some((place as u16, entry.as_ref()?)))
    }
}

/// A policy, its shape's place and its bucket.
#[derive(Clone, Copy, Debug)]
struct Placed {
    policy: Policy,
    shape: usize,
    bucket: usize,
}

/// Tables of one direction.
#[derive(Debug)]
struct Half {
    /// Each shape, and how many policies have it.
    shapes: [Option<(Shape, usize)>; SHAPES],
    policies: Slots<Placed>,
    policy_chains: Chains,
    sas: Slots<Sa>,
    sa_chains: Chains,
}

impl Half {
    fn new() -> Half {
        Half {
            shapes: [None; SHAPES],
            policies: Slots::new(POLICY_BITS),
            policy_chains: Chains::default(),
            sas: Slots::new(SA_BITS),
            sa_chains: Chains::default(),
        }
    }
}

/// The tables of one gateway. It must be empty at first, as it is after reset.
#[derive(Debug)]
pub struct Tables {
    halves: [Half; 2],
    /// Register accesses so far.
    accesses: u64,
}

impl Tables {
    /// For the gateway behind these registers. Waits until its tables have been emptied after reset: the record is
    /// locked until an access of each unit has ended.
    ///
    /// # Errors
    /// [`TableError::NotAGateway`], [`TableError::Version`], [`TableError::Sizes`], [`TableError::Stuck`].
    pub fn new(registers: &mut (impl Registers + ?Sized)) -> Result<Tables, TableError> {
        let magic = registers.read(REG_MAGIC);
        if magic != MAGIC {
            return Err(TableError::NotAGateway(magic));
        }
        // Minor versions add; major ones change.
        match registers.read(REG_VERSION) {
            found if found >> 16 == VERSION >> 16 && found >= VERSION => {}
            found => return Err(TableError::Version { found }),
        }
        match registers.read(REG_SIZES) {
            SIZES => {}
            found => return Err(TableError::Sizes { found, wanted: SIZES }),
        }
        let mut accesses = 0;
        wait_until_empty(registers, &mut accesses)?;
        Ok(Tables { halves: [Half::new(), Half::new()], accesses })
    }

    /// Puts a policy in.
    ///
    /// # Errors
    /// [`TableError`]; nothing has changed then, unless it is [`TableError::Stuck`].
    pub fn add_policy(
        &mut self,
        registers: &mut (impl Registers + ?Sized),
        direction: Direction,
        policy: Policy,
    ) -> Result<PolicyIndex, TableError> {
        let half = &mut self.halves[direction as usize];
        if !policy.selector.is_valid() {
            return Err(TableError::Selector);
        }
        let policy = Policy { selector: policy.selector.masked(), ..policy };
        if let Some((taken, _)) =
            half.policies.iter().find(|(_, placed)| placed.policy.selector == policy.selector)
        {
            return Err(TableError::SelectorTaken(PolicyIndex(taken)));
        }
        match (direction, policy.action) {
            (_, Action::Discard | Action::Bypass) => {}
            (Direction::Outbound, Action::Protect(sa)) if half.sas.get(sa.0).is_some() => {}
            (Direction::Outbound, Action::Protect(sa)) => {
                return Err(TableError::Missing { what: "SA", index: sa.0 });
            }
            (Direction::Inbound, Action::Require(reqid)) if reqid >> SA_BITS == 0 => {}
            (_, action) => return Err(TableError::Action(action, direction)),
        }
        let full = |what, most| TableError::Full { what, most };
        let most = half.policies.most;
        let (index, wait) = half.policies.free(self.accesses).ok_or(full("policies", most))?;
        let shape = policy.selector.shape();
        let known = half.shapes.iter().position(|s| s.is_some_and(|(known, _)| known == shape));
        let free = half.shapes.iter().position(Option::is_none);
        let place = known.or(free).ok_or(full("kinds of selectors", SHAPES))?;
        let placed =
            Placed { policy, shape: place, bucket: bucket(&policy.selector.hashed(place)) };
        if half.policy_chains.len(placed.bucket) >= CHAIN_LEN {
            return Err(full("policies of one hash", CHAIN_LEN));
        }

        let mut write = Writer { registers, direction, accesses: &mut self.accesses };
        write.wait(wait);
        if known.is_none() {
            write.record(Table::Shapes, place, &shape.record(true))?;
        }
        let first = half.policy_chains.first(placed.bucket);
        write.record(Table::Policies, index.into(), &policy.record(true, place, first))?;
        write.bucket(Table::PolicyBuckets, placed.bucket, Some(index))?;

        let users = half.shapes[place].map_or(0, |(_, users)| users);
        half.shapes[place] = Some((shape, users + 1));
        half.policy_chains.push(placed.bucket, index);
        half.policies.put(index, placed);
        Ok(PolicyIndex(index))
    }

    /// Lets an outbound policy's packets go through another SA from the next one on: the successor of
    /// the one that it had.
    ///
    /// # Errors
    /// [`TableError::Missing`] for the policy or the SA, [`TableError::Stuck`].
    pub fn change_sa(
        &mut self,
        registers: &mut (impl Registers + ?Sized),
        PolicyIndex(index): PolicyIndex,
        sa: SaIndex,
    ) -> Result<(), TableError> {
        let direction = Direction::Outbound;
        let half = &mut self.halves[direction as usize];
        half.sas.get(sa.0).ok_or(TableError::Missing { what: "SA", index: sa.0 })?;
        let missing = TableError::Missing { what: "policy", index };
        let mut placed = *half.policies.get(index).ok_or(missing)?;
        placed.policy.action = Action::Protect(sa);
        let next = half.policy_chains.next(placed.bucket, index);
        let record = placed.policy.record(true, placed.shape, next);
        let mut write = Writer { registers, direction, accesses: &mut self.accesses };
        write.record(Table::Policies, index.into(), &record)?;
        half.policies.put(index, placed);
        Ok(())
    }

    /// Takes a policy out.
    ///
    /// # Errors
    /// [`TableError::Missing`], [`TableError::Stuck`].
    pub fn remove_policy(
        &mut self,
        registers: &mut (impl Registers + ?Sized),
        direction: Direction,
        PolicyIndex(index): PolicyIndex,
    ) -> Result<(), TableError> {
        let half = &mut self.halves[direction as usize];
        let missing = TableError::Missing { what: "policy", index };
        let placed = half.policies.take(index).ok_or(missing)?;
        let behind = half.policy_chains.next(placed.bucket, index);
        let mut write = Writer { registers, direction, accesses: &mut self.accesses };
        match half.policy_chains.remove(placed.bucket, index) {
            Some(Before::Bucket(next)) => {
                write.bucket(Table::PolicyBuckets, placed.bucket, next)?
            }
            Some(Before::Entry(before, next)) => {
                if let Some(front) = half.policies.get(before) {
                    let record = front.policy.record(true, front.shape, next);
                    write.record(Table::Policies, before.into(), &record)?;
                }
            }
            None => {}
        }
        // A look-up that has come this far finds its way on.
        let cleared = placed.policy.record(false, placed.shape, behind);
        write.record(Table::Policies, index.into(), &cleared)?;
        half.policies.rest(index, *write.accesses);
        let users = half.shapes[placed.shape].map_or(0, |(_, users)| users);
        if users <= 1 {
            half.shapes[placed.shape] = None;
            let shape = placed.policy.selector.shape();
            write.record(Table::Shapes, placed.shape, &shape.record(false))?;
        } else if let Some((_, count)) = &mut half.shapes[placed.shape] {
            *count -= 1;
        }
        Ok(())
    }

    /// Puts an SA in. `number` is the last one that was used, or the highest one accepted: 0 for a new
    /// SA.
    ///
    /// # Errors
    /// [`TableError`]; nothing has changed then, unless it is [`TableError::Stuck`].
    pub fn add_sa(
        &mut self,
        registers: &mut (impl Registers + ?Sized),
        direction: Direction,
        sa: Sa,
        number: u64,
    ) -> Result<SaIndex, TableError> {
        self.add_used_sa(registers, direction, sa, &SaUse::at(number))
    }

    /// As [`Tables::add_sa`], an SA that goes on from where it was in another place.
    ///
    /// # Errors
    /// As [`Tables::add_sa`].
    pub fn add_used_sa(
        &mut self,
        registers: &mut (impl Registers + ?Sized),
        direction: Direction,
        sa: Sa,
        used: &SaUse,
    ) -> Result<SaIndex, TableError> {
        sa.check()?;
        let half = &mut self.halves[direction as usize];
        if direction == Direction::Inbound
            && let Some((taken, _)) =
                half.sas.iter().find(|(_, other)| (other.dst, other.spi) == (sa.dst, sa.spi))
        {
            return Err(TableError::SpiTaken(SaIndex(taken)));
        }
        let full = |what, most| TableError::Full { what, most };
        let (index, wait) = half.sas.free(self.accesses).ok_or(full("SAs", half.sas.most))?;
        let place = bucket(&sa.hashed());
        if half.sa_chains.len(place) >= CHAIN_LEN {
            return Err(full("SAs of one hash", CHAIN_LEN));
        }
        let first = match direction {
            Direction::Inbound => half.sa_chains.first(place),
            Direction::Outbound => None,
        };
        let record = sa.record(true, first)?;

        let mut write = Writer { registers, direction, accesses: &mut self.accesses };
        write.wait(wait);
        write.state(index, used)?;
        write.record(Table::Sas, index.into(), &record)?;
        if direction == Direction::Inbound {
            write.bucket(Table::SaBuckets, place, Some(index))?;
            half.sa_chains.push(place, index);
        }
        half.sas.put(index, sa);
        Ok(SaIndex(index))
    }

    /// Takes an SA out, overwrites its keys in the gateway, and returns what it has done: it does nothing
    /// beyond that.
    ///
    /// Packets that were let in for it and have not come to it yet are dropped ([`NoSa`]), unless its
    /// place has another SA by then: where outputs may be blocked for long, add no SA outbound before
    /// they have moved again.
    ///
    /// [`NoSa`]: crate::Drop::NoSa
    ///
    /// # Errors
    /// [`TableError::InUse`] while a policy asks for it, [`TableError::Missing`],
    /// [`TableError::Stuck`].
    pub fn remove_sa(
        &mut self,
        registers: &mut (impl Registers + ?Sized),
        direction: Direction,
        SaIndex(index): SaIndex,
    ) -> Result<SaUse, TableError> {
        let half = &mut self.halves[direction as usize];
        let protect = Action::Protect(SaIndex(index));
        if let Some((user, _)) = half.policies.iter().find(|(_, p)| p.policy.action == protect) {
            return Err(TableError::InUse(PolicyIndex(user)));
        }
        let sa = half.sas.take(index).ok_or(TableError::Missing { what: "SA", index })?;
        let place = bucket(&sa.hashed());
        let behind = half.sa_chains.next(place, index);
        let mut write = Writer { registers, direction, accesses: &mut self.accesses };
        match half.sa_chains.remove(place, index) {
            Some(Before::Bucket(next)) => write.bucket(Table::SaBuckets, place, next)?,
            Some(Before::Entry(before, next)) => {
                if let Some(front) = half.sas.get(before) {
                    write.record(Table::Sas, before.into(), &front.record(true, next)?)?;
                }
            }
            None => {}
        }
        write.record(Table::Sas, index.into(), &Sa::empty_record(behind))?;
        let used = write.sa_use(index)?;
        half.sas.rest(index, *write.accesses);
        Ok(used)
    }

    /// Counters and numbers of an SA.
    ///
    /// # Errors
    /// [`TableError::Missing`], [`TableError::Stuck`].
    pub fn sa_use(
        &mut self,
        registers: &mut (impl Registers + ?Sized),
        direction: Direction,
        SaIndex(index): SaIndex,
    ) -> Result<SaUse, TableError> {
        let half = &self.halves[direction as usize];
        half.sas.get(index).ok_or(TableError::Missing { what: "SA", index })?;
        Writer { registers, direction, accesses: &mut self.accesses }.sa_use(index)
    }

    /// Puts everything in again, in the same places, after the gateway was reset: SAs first, each with what it had done
    /// by then, policies behind them. Until it returns no packet is let through in clear: buckets of policies are
    /// written last.
    ///
    /// # Errors
    /// [`TableError::Missing`] for an SA of which `used` knows nothing: it must not begin anew.
    /// [`TableError::Stuck`].
    pub fn restore(
        &mut self,
        registers: &mut (impl Registers + ?Sized),
        used: &BTreeMap<(Direction, SaIndex), SaUse>,
    ) -> Result<(), TableError> {
        wait_until_empty(registers, &mut self.accesses)?;
        for direction in [Direction::Outbound, Direction::Inbound] {
            let half = &self.halves[direction as usize];
            let mut write = Writer { registers, direction, accesses: &mut self.accesses };
            for (index, sa) in half.sas.iter() {
                let missing = TableError::Missing { what: "state of SA", index };
                let used = used.get(&(direction, SaIndex(index))).ok_or(missing)?;
                let next = half.sa_chains.next(bucket(&sa.hashed()), index);
                write.state(index, used)?;
                write.record(Table::Sas, index.into(), &sa.record(true, next)?)?;
            }
            for place in half.sa_chains.buckets() {
                write.bucket(Table::SaBuckets, place, half.sa_chains.first(place))?;
            }
            for (place, shape) in half.shapes.iter().enumerate() {
                if let Some((shape, _)) = shape {
                    write.record(Table::Shapes, place, &shape.record(true))?;
                }
            }
            for (index, placed) in half.policies.iter() {
                let next = half.policy_chains.next(placed.bucket, index);
                let record = placed.policy.record(true, placed.shape, next);
                write.record(Table::Policies, index.into(), &record)?;
            }
            for place in half.policy_chains.buckets() {
                write.bucket(Table::PolicyBuckets, place, half.policy_chains.first(place))?;
            }
        }
        Ok(())
    }

    /// The SAs of one direction.
    pub fn sas(&self, direction: Direction) -> impl Iterator<Item = (SaIndex, &Sa)> {
        self.halves[direction as usize].sas.iter().map(|(index, sa)| (SaIndex(index), sa))
    }

    /// The policies of one direction.
    pub fn policies(&self, direction: Direction) -> impl Iterator<Item = (PolicyIndex, &Policy)> {
        let policies = self.halves[direction as usize].policies.iter();
        policies.map(|(index, placed)| (PolicyIndex(index), &placed.policy))
    }
}

#[cfg(test)]
mod tests {
    use core::net::IpAddr;
    use crypto::Keys;
    use esp::Mode;
    use proptest::prelude::*;

    use super::*;
    use crate::registers::{
        BUCKET_BITS, REG_COMMAND, REG_INDEX, REG_RECORD, REG_STATUS, STATUS_BUSY, STATUS_LOCKED,
    };
    use crate::sa::{Auth, Cipher, Limits};
    use crate::selector::Selector;

    /// A register file with tables behind it, that follows chains as the gateway does.
    #[derive(Default)]
    struct Memory {
        registers: BTreeMap<u16, u32>,
        tables: BTreeMap<(u32, u32), Vec<u32>>,
    }

    impl Registers for Memory {
        fn read(&mut self, address: u16) -> u32 {
            match address {
                REG_MAGIC => MAGIC,
                REG_VERSION => VERSION,
                REG_SIZES => SIZES,
                REG_STATUS => 0,
                _ => self.registers.get(&address).copied().unwrap_or(0),
            }
        }

        fn write(&mut self, address: u16, value: u32) {
            self.registers.insert(address, value);
            if address == REG_COMMAND {
                let record = |place: u16| self.registers.get(&(REG_RECORD + 4 * place)).copied();
                let words = (0..64).map(|place| record(place).unwrap_or(0)).collect();
                let index = self.registers.get(&REG_INDEX).copied().unwrap_or(0);
                self.tables.insert((value & 0xf, index), words);
                // Bits that a record does not fill are undefined.
                self.registers.extend((0..64).map(|place| (REG_RECORD + 4 * place, !0)));
            }
        }
    }

    impl Memory {
        /// Bits of a table's entry, by their distance from the lowest one.
        fn bits(&self, table: u32, index: u32, low: u32, width: u32) -> u64 {
            let words = self.tables.get(&(table, index));
            let bit = |n: u32| words.map_or(0, |words| words[(n / 32) as usize] >> (n % 32) & 1);
            (0..width).fold(0, |sum, n| sum | u64::from(bit(low + n)) << n)
        }

        /// The entries of a bucket's chain that are valid.
        fn chain(&self, buckets: u32, entries: u32, bucket: usize, valid_bit: u32) -> Vec<u16> {
            let mut found = Vec::new();
            let mut more = self.bits(buckets, bucket as u32, 10, 1) == 1;
            let mut at = self.bits(buckets, bucket as u32, 0, 10) as u32;
            while more {
                if self.bits(entries, at, valid_bit, 1) == 1 {
                    found.push(at as u16);
                }
                assert!(found.len() < 1024, "a chain bites its tail");
                more = self.bits(entries, at, 10, 1) == 1;
                at = self.bits(entries, at, 0, 10) as u32;
            }
            found
        }
    }

    /// The highest bits of `policy_t` and `sa_t`.
    const POLICY_VALID: u32 = 340;
    const SA_VALID: u32 = 1320;

    fn sa(spi: u32) -> Sa {
        Sa {
            mode: Mode::Tunnel,
            src: IpAddr::from([192, 0, 2, 1]),
            dst: IpAddr::from([192, 0, 2, 2]),
            spi,
            esn: false,
            cipher: Cipher::AesGcm,
            auth: Auth::None,
            hop_limit: 64,
            copy_df: true,
            reqid: 3,
            keys: Keys { cipher: vec![7; 16], salt: vec![1; 4], auth: Vec::new() },
            limits: Limits::default(),
        }
    }

    fn policy(n: u8, action: Action) -> Policy {
        let any = (IpAddr::from([0, 0, 0, 0]), 0);
        // Three shapes; texts of few different bytes, so that chains get long.
        let len = [32, 24, 16][usize::from(n % 3)];
        let net = IpAddr::from([n / 3, n / 3, n / 3, 1]);
        Policy {
            selector: Selector::between(any, (net, len)),
            action,
            priority: 5,
            is_low_class: false,
        }
    }

    proptest! {
        /// Whatever comes and goes: by its bucket every entry is found, and nothing else is.
        #[test]
        fn every_entry_is_found(steps in proptest::collection::vec((any::<u8>(), 0..3u8), 1..120)) {
            let mut memory = Memory::default();
            let mut tables = Tables::new(&mut memory).unwrap();
            let side = Direction::Inbound;
            let mut entries: BTreeMap<u8, (PolicyIndex, SaIndex)> = BTreeMap::new();
            for (n, what) in steps {
                if let Some((policy, sa)) = entries.remove(&n) {
                    tables.remove_policy(&mut memory, side, policy).unwrap();
                    tables.remove_sa(&mut memory, side, sa).unwrap();
                } else if what > 0 {
                    let sa = tables.add_sa(&mut memory, side, sa(n.into()), 9).unwrap();
                    let policy = policy(n, Action::Require(n.into()));
                    let policy = tables.add_policy(&mut memory, side, policy).unwrap();
                    entries.insert(n, (policy, sa));
                }
            }
            let mut reached = (0, 0);
            for place in 0..1 << BUCKET_BITS {
                reached.0 += memory.chain(8, 9, place, POLICY_VALID).len();
                reached.1 += memory.chain(13, 11, place, SA_VALID).len();
            }
            prop_assert_eq!(reached, (entries.len(), entries.len()));
            for (n, (policy_index, sa_index)) in &entries {
                let shape = tables.halves[1].policies.get(policy_index.0).unwrap().shape;
                let hashed = policy(*n, Action::Discard).selector.masked().hashed(shape);
                let chain = memory.chain(8, 9, bucket(&hashed), POLICY_VALID);
                prop_assert!(chain.contains(&policy_index.0));
                let chain = memory.chain(13, 11, bucket(&sa(u32::from(*n)).hashed()), SA_VALID);
                prop_assert!(chain.contains(&sa_index.0));
            }
        }
    }

    /// A place is used again only when every other one was, and no look-up can be on its way there.
    #[test]
    fn places_rest() {
        let mut memory = Memory::default();
        let mut tables = Tables::new(&mut memory).unwrap();
        let side = Direction::Outbound;
        let all: Vec<SaIndex> =
            (0..1024).map(|n| tables.add_sa(&mut memory, side, sa(n), 0).unwrap()).collect();
        let full = tables.add_sa(&mut memory, side, sa(9999), 0).unwrap_err();
        assert_eq!(full, TableError::Full { what: "SAs", most: 1024 });
        tables.remove_sa(&mut memory, side, all[7]).unwrap();
        tables.remove_sa(&mut memory, side, all[3]).unwrap();
        let before = tables.accesses;
        assert_eq!(tables.add_sa(&mut memory, side, sa(9999), 0), Ok(all[7]));
        assert!(tables.accesses - before > LOOK_UP_CYCLES / ACCESS_CYCLES - 50);
        assert_eq!(tables.add_sa(&mut memory, side, sa(9998), 0), Ok(all[3]));
        assert!(tables.add_sa(&mut memory, side, sa(9997), 0).is_err());
    }

    #[test]
    fn something_else_is_told_from_a_gateway() {
        struct Other(u32, u32);
        impl Registers for Other {
            fn read(&mut self, address: u16) -> u32 {
                match address {
                    REG_MAGIC => self.0,
                    REG_VERSION => self.1,
                    _ => 0x0101_0101,
                }
            }
            fn write(&mut self, _: u16, _: u32) {}
        }
        let not_one = Tables::new(&mut Other(5, VERSION)).unwrap_err();
        assert_eq!(not_one, TableError::NotAGateway(5));
        // Without the interlock, and of another make.
        for found in [0x0001_0000, 0x0002_0003] {
            let error = Tables::new(&mut Other(MAGIC, found)).unwrap_err();
            assert_eq!(error, TableError::Version { found });
        }
        let error = Tables::new(&mut Other(MAGIC, VERSION + 5)).unwrap_err();
        assert!(matches!(error, TableError::Sizes { found: 0x0101_0101, .. }));
    }

    #[test]
    fn a_gateway_that_does_not_answer_is_given_up() {
        struct Busy(u32);
        impl Registers for Busy {
            fn read(&mut self, address: u16) -> u32 {
                match address {
                    REG_STATUS => self.0,
                    _ => Memory::default().read(address),
                }
            }
            fn write(&mut self, _: u16, _: u32) {}
        }
        for status in [STATUS_BUSY, STATUS_LOCKED] {
            assert_eq!(Tables::new(&mut Busy(status)).unwrap_err(), TableError::Stuck);
        }
        let mut tables = Tables::new(&mut Busy(0)).unwrap();
        let added = tables.add_sa(&mut Busy(STATUS_BUSY), Direction::Outbound, sa(1), 0);
        assert_eq!(added.unwrap_err(), TableError::Stuck);
    }

    #[test]
    fn the_record_is_left_alone_until_tables_are_empty() {
        struct Log(Vec<(u16, u32)>);
        impl Registers for Log {
            fn read(&mut self, address: u16) -> u32 {
                Memory::default().read(address)
            }
            fn write(&mut self, address: u16, value: u32) {
                self.0.push((address, value));
            }
        }
        let mut log = Log(Vec::new());
        Tables::new(&mut log).unwrap();
        assert!(log.0.iter().all(|(address, _)| *address < REG_RECORD));
        let reads: Vec<u32> =
            log.0.iter().filter(|(address, _)| *address == REG_COMMAND).map(|w| w.1).collect();
        assert_eq!(reads, [1, 3, 9, 11], "policies and SAs of both directions");
    }

    /// Entries that a reset has emptied are written again in the same places, and by the same chains.
    #[test]
    fn a_restored_gateway_has_what_it_had() {
        let mut memory = Memory::default();
        let mut tables = Tables::new(&mut memory).unwrap();
        let side = Direction::Inbound;
        let mut used = BTreeMap::new();
        for n in 0..40_u8 {
            let sa = tables.add_sa(&mut memory, side, sa(n.into()), n.into()).unwrap();
            used.insert((side, sa), SaUse::at(n.into()));
            let policy = policy(n, Action::Require(n.into()));
            let policy = tables.add_policy(&mut memory, side, policy).unwrap();
            if n % 3 == 0 {
                tables.remove_policy(&mut memory, side, policy).unwrap();
                tables.remove_sa(&mut memory, side, sa).unwrap();
                used.remove(&(side, sa));
            }
        }
        let mut emptied = Memory::default();
        tables.restore(&mut emptied, &used).unwrap();
        for place in 0..1 << BUCKET_BITS {
            for (buckets, entries, valid) in [(8, 9, POLICY_VALID), (13, 11, SA_VALID)] {
                let chain = memory.chain(buckets, entries, place, valid);
                assert_eq!(emptied.chain(buckets, entries, place, valid), chain);
                for entry in chain {
                    let all = |memory: &Memory| memory.bits(entries, entry.into(), 11, 64);
                    assert_eq!(all(&emptied), all(&memory));
                }
            }
        }
        used.pop_first();
        let error = tables.restore(&mut Memory::default(), &used).unwrap_err();
        assert!(matches!(error, TableError::Missing { .. }), "an SA must not begin anew");
    }
}
