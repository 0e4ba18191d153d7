//! A kernel with XFRM in memory: requests come in as bytes, answers and news go out as bytes.
//!
//! Its databases are those that [`xfrm::Database`] keeps for IKE daemons, which behave as Linux's. Packets are numbers that
//! somebody takes.

use std::collections::HashMap;
use std::io;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard};

use crypto::Keys;
use netlink::memory::{InMemory, Inbox};
use netlink::{Connection, Listener, Messages};
use policy::{Action, Direction, PolicyConfig, SaConfig, SaId};
use xfrm::codec::{self, AeventId, Be32, Field as _, Header, MessageWriter, constant, kind};
use xfrm::{
    Backend, Counters, Database, Kernel, KernelEvents, Now, Output, PolicyLive, Refusal, Replay,
    SaEnd, SaLive, Sender, Settings, Start,
};

/// A moment amid the daemon's requests.
#[derive(Clone, Copy, Debug)]
pub enum Amid {
    /// After so many more requests, and one.
    After(u32),
    /// Just before the next request that sets an SA's numbers, which knows nothing of it.
    BeforeSet,
}

/// The kernel. Clones are the same.
#[derive(Clone)]
pub struct XfrmKernel {
    state: Arc<Mutex<State>>,
    news: Inbox,
}

struct State {
    databases: Database<Numbers>,
    now: Now,
    /// How many requests of the daemon are not answered, from now on.
    failures: u32,
    /// Packets that come amid the daemon's requests: when, by which SA, how many.
    amid: Option<(Amid, u32, u32)>,
    /// Numbers of those that have come.
    came_amid: Vec<(u32, RangeInclusive<u64>)>,
}

impl XfrmKernel {
    /// A kernel without SAs and policies.
    pub fn new(now: Now) -> XfrmKernel {
        let databases = Database::new(Numbers::default(), Settings::default());
        let state = State { databases, now, failures: 0, amid: None, came_amid: Vec::new() };
        XfrmKernel { state: Arc::new(Mutex::new(state)), news: Inbox::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Sockets of the daemon's.
    pub fn connect(&self) -> (Kernel, KernelEvents) {
        let requests = Connection::in_memory(Box::new(self.clone())).unwrap();
        let events = Listener::in_memory(self.news.clone(), Box::new(self.clone())).unwrap();
        (Kernel::by(requests), KernelEvents::by(events))
    }

    /// Time goes on.
    pub fn pass(&self, now: Now) {
        let (mut state, mut outputs) = (self.state(), Vec::new());
        state.now = now;
        state.databases.tick(now, &mut outputs);
        self.carry_out(&mut state, outputs);
    }

    /// The answer to a request of an IKE daemon: an errno.
    pub fn request(&self, request: &[u8]) -> i32 {
        let answers = self.answer(&mut self.state(), request);
        let errno = answers.last().and_then(|answer| answer.get(Header::LEN..)?.first_chunk::<4>());
        errno.map_or(0, |bytes| -i32::from_ne_bytes(*bytes))
    }

    /// Requests of the daemon are not answered, so many of them.
    pub fn fail(&self, requests: u32) {
        self.state().failures = requests;
    }

    /// News since the last round, and this, are lost.
    pub fn lose_news(&self) {
        self.news.lose_all();
    }

    /// The last number of an outbound SA that is used or given away, with its packets; `None` without the SA.
    pub fn sent(&self, spi: u32) -> Option<(u64, u64)> {
        let state = self.state();
        let (_, live) = state.databases.backend().find(spi)?;
        Some((live.replay.sent, live.counters.packets))
    }

    /// The kernel itself encrypts packets by an SA, and tells of it: the numbers that it takes.
    pub fn encrypt(&self, spi: u32, packets: u32) -> Option<RangeInclusive<u64>> {
        self.encrypt_in(&mut self.state(), spi, packets)
    }

    /// It does so between two requests of the daemon's.
    pub fn encrypt_amid(&self, amid: Amid, spi: u32, packets: u32) {
        self.state().amid = Some((amid, spi, packets));
    }

    /// SPIs and numbers of packets that came so.
    pub fn take_amid(&self) -> Vec<(u32, RangeInclusive<u64>)> {
        std::mem::take(&mut self.state().came_amid)
    }

    fn come_amid(&self, state: &mut State, spi: u32, packets: u32) {
        let numbers = self.encrypt_in(state, spi, packets);
        state.came_amid.extend(numbers.map(|numbers| (spi, numbers)));
    }

    fn encrypt_in(&self, state: &mut State, spi: u32, packets: u32) -> Option<RangeInclusive<u64>> {
        let (id, live) = state.databases.backend_mut().find_mut(spi)?;
        let (id, first) = (*id, live.replay.sent + 1);
        let last = live.replay.sent + u64::from(packets);
        if last > u64::from(u32::MAX) {
            return None;
        }
        live.replay.sent = last;
        live.counters.packets += u64::from(packets);
        live.counters.bytes += u64::from(packets) * 100;
        let sa = codec::SaId {
            dst: id.dst.into(),
            spi: Be32(id.spi),
            family: 2,
            protocol: id.protocol,
            ..codec::SaId::default()
        };
        let mut news = MessageWriter::new(kind::NEWAE, 0, 0, 0);
        news.fixed(&AeventId { sa, flags: constant::AE_CR, ..AeventId::default() });
        self.news.put(news.finish().to_vec());
        Some(first..=last)
    }

    /// Carries out a datagram of requests; the answer.
    fn answer(&self, state: &mut State, datagram: &[u8]) -> Vec<Vec<u8>> {
        let sender = Sender { port_id: 0, ext_ack: true, cap_ack: true };
        let (now, mut outputs) = (state.now, Vec::new());
        state.databases.request(&sender, datagram, now, &mut outputs);
        self.carry_out(state, outputs)
    }

    /// Tells the news of some outputs; what is for the requester.
    fn carry_out(&self, state: &mut State, outputs: Vec<Output>) -> Vec<Vec<u8>> {
        let mut answers = Vec::new();
        for output in outputs {
            match output {
                Output::Reply(message) => answers.push(message.to_vec()),
                Output::Dump(mut dump) => {
                    while let Some(part) = state.databases.dump_chunk(&mut dump, 8192) {
                        answers.push(part.to_vec());
                    }
                }
                Output::Flush(flush) => {
                    let (now, mut more) = (state.now, Vec::new());
                    state.databases.go_on(flush, now, &mut more);
                    answers.extend(self.carry_out(state, more));
                }
                Output::Event { message, .. } => self.news.put(message.to_vec()),
                Output::Change(_) => {}
            }
        }
        answers
    }
}

impl InMemory for XfrmKernel {
    fn requested(&mut self, datagram: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let mut state = self.state();
        if state.failures > 0 {
            state.failures -= 1;
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        let sets = Messages::new(datagram).any(|(header, _)| header.kind == kind::NEWAE);
        if let Some((Amid::BeforeSet, spi, packets)) = state.amid.take_if(|_| sets) {
            self.come_amid(&mut state, spi, packets);
        }
        let answers = self.answer(&mut state, datagram);
        match state.amid {
            Some((Amid::After(0), spi, packets)) => {
                state.amid = None;
                self.come_amid(&mut state, spi, packets);
            }
            Some((Amid::After(left), spi, packets)) => {
                state.amid = Some((Amid::After(left - 1), spi, packets));
            }
            Some((Amid::BeforeSet, ..)) | None => {}
        }
        Ok(answers)
    }
}

/// Numbers of SAs, as a kernel has them.
#[derive(Default)]
struct Numbers(HashMap<SaId, SaLive>);

impl Numbers {
    fn find(&self, spi: u32) -> Option<(&SaId, &SaLive)> {
        self.0.iter().find(|(id, _)| id.spi == spi)
    }

    fn find_mut(&mut self, spi: u32) -> Option<(&SaId, &mut SaLive)> {
        self.0.iter_mut().find(|(id, _)| id.spi == spi)
    }

    fn get(&mut self, id: &SaId) -> Result<&mut SaLive, Refusal> {
        self.0.get_mut(id).ok_or_else(|| Refusal::new(libc::ESRCH, "no such SA"))
    }
}

impl Backend for Numbers {
    fn sa_add(&mut self, config: &SaConfig, _: &Keys, start: &Start) -> Result<(), Refusal> {
        let Start::At { replay, counters } = start else {
            return Err(Refusal::new(libc::EINVAL, "a kernel keeps nothing"));
        };
        let live = SaLive { replay: replay.clone(), counters: *counters, ..SaLive::default() };
        self.0.insert(config.id(), live);
        Ok(())
    }

    fn sa_update(&mut self, config: &SaConfig) -> Result<(), Refusal> {
        self.get(&config.id()).map(drop)
    }

    fn sa_delete(&mut self, id: &SaId, _: &Keys, _: SaEnd) {
        self.0.remove(id);
    }

    fn sa_live(&self, id: &SaId) -> Option<SaLive> {
        self.0.get(id).cloned()
    }

    fn sa_set_replay(&mut self, id: &SaId, replay: &Replay) -> Result<(), Refusal> {
        self.get(id)?.replay = replay.clone();
        Ok(())
    }

    fn sa_set_counters(&mut self, id: &SaId, counters: &Counters) -> Result<(), Refusal> {
        self.get(id)?.counters = *counters;
        Ok(())
    }

    fn policy_put(&mut self, _: &PolicyConfig) -> Result<(), Refusal> {
        Ok(())
    }

    fn ask_again(&mut self, _: u32) {}

    fn policy_delete(&mut self, _: u32) {}

    fn policy_live(&self, _: u32) -> Option<PolicyLive> {
        Some(PolicyLive::default())
    }

    fn set_default(&mut self, _: Direction, _: Action) {}
}
