//! Devices whose own work costs nothing: what is left is what crypto offload and packet offload ask of a core.
//!
//! The hardware seals and opens with a real cipher, so that each packet that comes out is right and the checks of
//! [`offload::OffloadEngine`] hold: for crypto offload by the engine that software has, for packet offload it is the model
//! ([`nic::packet_offload`]). Its work is done while the clock stands still ([`outside`]), when a queue is polled that either
//! has many packets or got none since it was last polled.
//!
//! | counted, as a driver's and the data path's | not counted, as the hardware's |
//! | --- | --- |
//! | a packet and its work go into the ring (what a descriptor says), and come out of a second one (a completion) | tables, headers that packet offload adds and removes, cipher, ICV, counters and limits of packet offload |
//! | with crypto offload: policy, SA, number, headers, trailer, window, counters; the copy into the queue's memory and back; the looks at what the device has made, and software's cipher for the packets that it compares | the copies that the models make of a packet |
//! | with packet offload: policy, path, the list of packets for the device, the way on of those that come back | |
//!
//! Some costs of a real machine are missing: a write to the card's doorbell for each burst, the time
//! for which a core waits for a device that it polls (crypto offload has its packets back within the burst, so each burst
//! of up to 64 packets would wait once for the device's latency), and the memory of descriptors. A machine would not
//! pay for the hardware's code and tables, which go through the core's caches here, and put out of them what the core needs. What
//! a device has written lies in these caches or, where packets arrive past them, in none; a card's writes lie in the
//! last level.

use std::collections::VecDeque;
use std::sync::Arc;

use crypto::{Engine, Keys, Provider, Session, Suite};
use dataplane::DevicePacket;
use nic::{PacketNic, Sizes};
use offload::{
    Buffer, Burst, Completion, Device, Lane, Live, NewPolicy, NewSa, OffloadEngine, Offloaded,
    PacketSa, Placement, Queue, Request, SaDirection, SaHandle, Watch,
};
use policy::{Direction as PolicyDirection, PolicyConfig, SaConfig};

use crate::error::BenchError;
use crate::free_cipher::Cipher;
use crate::options::{Direction, MAX_SAS};
use crate::outside::outside;

/// A queue in front of hardware that costs nothing.
struct FreeQueue<B> {
    hardware: Box<dyn Queue<B>>,
    /// Descriptors: what the hardware has not looked at.
    submitted: VecDeque<Request<B>>,
    /// Completions that were not polled yet.
    done: VecDeque<Completion<B>>,
    /// True if something was submitted since it was polled.
    is_growing: bool,
    /// True if its output is to lie in no cache.
    is_past_caches: bool,
}

impl<B: Buffer> FreeQueue<B> {
    fn new(hardware: Box<dyn Queue<B>>, is_past_caches: bool) -> FreeQueue<B> {
        let (submitted, done) = (VecDeque::with_capacity(DEPTH), VecDeque::with_capacity(DEPTH));
        FreeQueue { hardware, submitted, done, is_growing: false, is_past_caches }
    }

    /// The hardware's turn.
    fn work(&mut self) {
        let (mut requests, mut completions) = (Burst::new(), Burst::new());
        while !self.submitted.is_empty() || self.hardware.in_flight() > 0 {
            let room = requests.remaining_capacity().min(self.submitted.len());
            requests.extend(self.submitted.drain(..room));
            self.hardware.submit(&mut requests);
            self.hardware.poll(&mut completions);
            if self.is_past_caches {
                completions.iter().for_each(|done| mem::evict(done.buffer.packet()));
            }
            self.done.extend(completions.drain(..));
        }
    }
}

impl<B: Buffer> Queue<B> for FreeQueue<B> {
    fn submit(&mut self, requests: &mut Burst<Request<B>>) -> usize {
        let count = requests.len().min(DEPTH - self.in_flight());
        self.submitted.extend(requests.drain(..count));
        self.is_growing |= count > 0;
        count
    }

    fn poll(&mut self, completions: &mut Burst<Completion<B>>) -> usize {
        let is_growing = core::mem::take(&mut self.is_growing);
        if self.submitted.len() >= MANY || !self.submitted.is_empty() && !is_growing {
            outside(|| self.work());
        }
        let count = completions.remaining_capacity().min(self.done.len());
        completions.extend(self.done.drain(..count));
        count
    }

    fn in_flight(&self) -> usize {
        self.submitted.len() + self.done.len()
    }

    fn depth(&self) -> usize {
        DEPTH
    }
}

/// A queue, and the number of its device.
pub(crate) type Numbered = (u8, Box<dyn Queue<DevicePacket>>);

/// Owner of a gateway's SAs: software, or a device.
pub(crate) enum Holder {
    /// No device: software does all.
    Software,
    /// Hardware for crypto offload, and what its lanes tell.
    Crypto(Cipher, Arc<Watch>),
    /// A device for packet offload, and its outbound SAs by their reqids.
    Packet(Box<dyn Device<DevicePacket>>, Vec<(u32, SaHandle)>),
}

impl Holder {
    /// With empty tables.
    ///
    /// # Errors
    /// [`BenchError::Device`].
    pub(crate) fn new(placement: Placement) -> Result<Holder, BenchError> {
        Ok(match placement {
            Placement::Cpu => Holder::Software,
            Placement::Crypto => Holder::Crypto(Cipher::default(), Arc::default()),
            Placement::Packet => {
                let sizes = Sizes { sas: MAX_SAS, policies: MAX_SAS };
                Holder::Packet(Box::new(PacketNic::new(NAME, sizes).map_err(device)?), Vec::new())
            }
        })
    }

    /// Puts an SA in: its session from then on. `software` has its keys.
    ///
    /// # Errors
    /// [`BenchError::Device`]: it does not fit.
    pub(crate) fn session(
        &mut self,
        direction: Direction,
        (config, keys): (&SaConfig, &Keys),
        software: Session,
    ) -> Result<Session, BenchError> {
        let direction = match direction {
            Direction::Outbound => SaDirection::Outbound,
            Direction::Inbound => SaDirection::Inbound,
        };
        let start = &Live::default();
        let new = NewSa { direction, config, keys, start };
        match self {
            Holder::Software => Ok(software),
            Holder::Crypto(cipher, _) => {
                let sa = cipher.put_sa(&software);
                Ok(Offloaded::session((0, NAME.into()), sa, software, &config.params))
            }
            Holder::Packet(nic, outbound) => {
                let sa = nic.put_sa(new).map_err(device)?;
                if direction == SaDirection::Outbound {
                    outbound.push((config.reqid, sa));
                }
                Ok(PacketSa::session(NUMBER, NAME.into(), sa, config.params.suite))
            }
        }
    }

    /// Puts a policy in, if the device has policies, and this one is not for forwarded packets; it is marked as the
    /// device's then.
    ///
    /// # Errors
    /// [`BenchError::Device`]: it does not fit.
    pub(crate) fn put_policy(&mut self, config: &mut PolicyConfig) -> Result<(), BenchError> {
        let Holder::Packet(nic, outbound) = self else { return Ok(()) };
        if config.direction == PolicyDirection::Forward {
            return Ok(());
        }
        let reqid = config.templates.first().map(|template| template.reqid);
        let sa = outbound.iter().find(|(of, _)| Some(*of) == reqid).map(|(_, sa)| *sa);
        let sa = sa.filter(|_| config.direction == PolicyDirection::Out);
        nic.put_policy(NewPolicy { config, sa }).map_err(device)?;
        config.flags.device = Some(NUMBER);
        Ok(())
    }

    /// The engine of a worker.
    ///
    /// # Errors
    /// The provider has none.
    pub(crate) fn engine(
        &self,
        (provider, suite): (&dyn Provider, Suite),
        is_past_caches: bool,
    ) -> Result<Box<dyn Engine>, BenchError> {
        let software = provider.engine()?;
        let Holder::Crypto(cipher, watch) = self else { return Ok(software) };
        let queue =
            Box::new(FreeQueue::new(Box::new(cipher.queue(provider.engine()?)), is_past_caches));
        let lane = Lane::new(queue, Cipher::capabilities(suite), Arc::clone(watch));
        Ok(Box::new(OffloadEngine::new(software, vec![lane], Arc::new(true.into()))))
    }

    /// The queue of a worker, if the device has whole packets.
    ///
    /// # Errors
    /// [`BenchError::Device`]: no queue is left.
    pub(crate) fn queue(&mut self, is_past_caches: bool) -> Result<Option<Numbered>, BenchError> {
        let Holder::Packet(nic, _) = self else { return Ok(None) };
        Ok(Some((NUMBER, Box::new(FreeQueue::new(nic.queue().map_err(device)?, is_past_caches)))))
    }

    /// True if the device has whole SAs (packet offload).
    pub(crate) fn has_whole_sas(&self) -> bool {
        matches!(self, Holder::Packet(..))
    }

    /// Holds what the device has done against how many packets were sealed and opened.
    ///
    /// # Errors
    /// [`BenchError::NotOffloaded`] unless it has done all of them.
    pub(crate) fn check(&self, given: u64) -> Result<(), BenchError> {
        let done = match self {
            Holder::Software => return Ok(()),
            // The device may also have been given the work that software has done in its place.
            Holder::Crypto(cipher, watch) => cipher.done().saturating_sub(watch.in_software()),
            Holder::Packet(nic, _) => {
                let counters = nic.counters();
                counters.sealed + counters.opened
            }
        };
        match done == given {
            true => Ok(()),
            false => Err(BenchError::NotOffloaded { given, done }),
        }
    }
}

fn device(error: impl core::fmt::Display) -> BenchError {
    BenchError::Device(error.to_string())
}

const NAME: &str = "free";
/// Number of the device among the worker's.
const NUMBER: u8 = 0;
/// Descriptors of a ring: more than a worker gathers in a round.
const DEPTH: usize = 1024;
/// Packets that the hardware has at a time, where so many come: its own code and tables then take the core's caches less
/// often than for each burst.
const MANY: usize = 512;
