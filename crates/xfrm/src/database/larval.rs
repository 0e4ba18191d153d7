//! Larval SAs: reserved SPIs, and packets that wait for an SA.

use core::net::IpAddr;
use std::hash::BuildHasher;

use super::Database;
use super::call::Call;
use super::direction::direction_of;
use super::emit::policy_attributes;
use super::envelope::Envelope;
use super::fields::{if_id_of, mark_of};
use super::output::{Group, Output};
use super::sad::{LarvalKey, ReplayForm, Sa, SaOptions};
use super::verify::new_policy;
use crate::backend::Backend;
use crate::clock::Now;
use crate::codec::{
    AF_INET, Acquire, Address, Be16, Be32, Id, LifetimeConfig, LifetimeCurrent, Message, Pad,
    SaInfo, SelectorInfo, SpiInfo, Template, attr, constant as c, family_of, kind,
};
use crate::failure::Failure;

/// The packet that needs an SA, in host byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Source address of the packet.
    pub src: IpAddr,
    /// Destination, of the same family.
    pub dst: IpAddr,
    /// Upper-layer protocol (IANA).
    pub protocol: u8,
    /// Source port; ICMP's type.
    pub src_port: u16,
    /// Destination port; ICMP's code.
    pub dst_port: u16,
    /// Interface that it leaves by, 0 if that is not known.
    pub ifindex: u32,
}

/// Result of a packet's wish for an SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The owners were asked.
    Asked,
    /// They were asked before, and the time to answer is not over.
    Pending,
    /// Nobody listens; ask again later.
    NobodyListens,
    /// There is no such policy or template.
    NoPolicy,
}

impl<B: Backend> Database<B> {
    /// A packet met an outbound policy whose template has no SA. The owners are asked once until
    /// they answer or [`Settings::acquire_timeout_s`](super::Settings) is over.
    ///
    /// `template` counts from 0. `cpu` is the one that wants an SA of its own where another protects it
    /// meanwhile (RFC 9611): each CPU is asked for once. `listening` says whether anyone is in [`Group::Acquire`].
    pub fn acquire(
        &mut self,
        policy_index: u32,
        (template, cpu): (usize, Option<u32>),
        flow: &Flow,
        listening: bool,
        now: Now,
        out: &mut Vec<Output>,
    ) -> Acquired {
        let Some((_, policy)) = self.spd.by_index(policy_index) else { return Acquired::NoPolicy };
        let Some(t) = policy.templates.get(template) else { return Acquired::NoPolicy };
        let options = SaOptions {
            mark: policy.mark.clone(),
            if_id: policy.if_id,
            direction: Some(c::SA_DIR_OUT),
            cpu,
            ..SaOptions::default()
        };
        let Some(mut larval) = self.larval_for(t, flow, options, now) else {
            return Acquired::NoPolicy;
        };
        if self.sad.larval(&larval.larval_key()).is_some() {
            return Acquired::Pending;
        }
        if !listening {
            return Acquired::NobodyListens;
        }
        // 0 means that an SA answers no acquire.
        let seq = self.acquire_seq.checked_add(1).unwrap_or(1);
        larval.info.seq = seq;
        let mut w = Envelope::default().writer(kind::ACQUIRE);
        let mut policy_info = self.policy_info(policy);
        policy_info.dir = 1;
        w.fixed(&Acquire {
            id: larval.info.id.clone(),
            src: larval.info.src,
            selector: larval.info.selector.clone(),
            policy: policy_info,
            aalgos: t.aalgos,
            ealgos: t.ealgos,
            calgos: t.calgos,
            seq,
        });
        policy_attributes(&mut w, policy);
        if let Some(cpu) = cpu {
            w.field(attr::SA_PCPU, &cpu);
        }
        out.push(Output::Event { group: Group::Acquire, message: w.finish() });
        // The template's SPI is a wish of the owner, not a reservation.
        larval.info.id.spi = Be32(0);
        self.acquire_seq = seq;
        let serial = self.sad.insert(larval);
        if cpu.is_some() {
            self.waiting_cpus.insert(serial, policy_index);
        }
        self.rearm_sa(serial, now);
        Acquired::Asked
    }

    /// The larval SA that a template asks for; transport templates take the flow's addresses.
    fn larval_for(&self, t: &Template, flow: &Flow, options: SaOptions, now: Now) -> Option<Sa> {
        let or_flow = |a: Address, flow: IpAddr| {
            let ip = a.ip(t.family)?;
            Some(if ip.is_unspecified() && family_of(flow) == t.family { flow } else { ip })
        };
        let (dst, src) = (or_flow(t.id.dst, flow.dst)?, or_flow(t.src, flow.src)?);
        let len = if flow.src.is_ipv4() { 32 } else { 128 };
        let info = SaInfo {
            selector: SelectorInfo {
                dst: flow.dst.into(),
                src: flow.src.into(),
                dst_port: Be16(flow.dst_port),
                dst_port_mask: Be16(u16::MAX),
                src_port: Be16(flow.src_port),
                src_port_mask: Be16(u16::MAX),
                family: family_of(flow.src),
                dst_prefix_len: len,
                src_prefix_len: len,
                protocol: flow.protocol,
                pad: Pad,
                ifindex: flow.ifindex.cast_signed(),
                user: 0,
            },
            id: Id { dst: dst.into(), spi: t.id.spi, protocol: t.id.protocol, pad: Pad },
            src: src.into(),
            reqid: t.reqid,
            family: t.family,
            mode: t.mode,
            ..SaInfo::default()
        };
        Some(self.larval_sa(info, options, now))
    }

    fn larval_sa(&self, mut info: SaInfo, options: SaOptions, now: Now) -> Sa {
        info.limits = LifetimeConfig {
            hard_add_s: self.settings.acquire_timeout_s.into(),
            ..LifetimeConfig::unlimited()
        };
        info.current = LifetimeCurrent { add_time_s: now.wall_s, ..LifetimeCurrent::default() };
        Sa {
            info,
            options,
            algorithms: None,
            replay: ReplayForm::Short,
            added_mono_ms: now.mono_ms.cast_signed(),
            dying: false,
            deadline: None,
            mapping: None,
            tunnel_users: 0,
        }
    }

    /// `ALLOCSPI`: reserves an SPI of the range in a larval SA, that of the acquire if the request
    /// answers one. A request that fails leaves no larval SA behind (Linux leaves one without SPI).
    pub(super) fn allocate_spi(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let (request, attributes) = call.parse::<SpiInfo>()?;
        let info = &request.info;
        match info.id.protocol {
            c::IPPROTO_ESP | c::IPPROTO_AH => {}
            c::IPPROTO_COMP if request.max >= 0x1_0000 => return Err(Failure::SpiRange),
            c::IPPROTO_COMP => {}
            _ => return Err(Failure::SpiProtocol),
        }
        if request.min > request.max {
            return Err(Failure::SpiRange);
        }
        let dst = info.id.dst.ip(info.family).ok_or(Failure::SpiExhausted)?;
        let src = info.src.ip(info.family).ok_or(Failure::SpiExhausted)?;
        let (mark, direction) = (mark_of(&attributes), direction_of(&attributes));
        let key = LarvalKey {
            dst,
            src,
            protocol: info.id.protocol,
            mode: info.mode,
            reqid: info.reqid,
            if_id: if_id_of(&attributes),
            mark: mark.value,
            cpu: attributes.value(attr::SA_PCPU),
        };
        if key.cpu.is_some_and(|cpu| cpu >= self.settings.cpus) {
            return Err(Failure::CpuOfReservation);
        }
        let by_seq = self
            .sad
            .by_seq(info.seq)
            .filter(|(_, sa)| info.seq != 0 && sa.dst() == dst && sa.options.cpu == key.cpu);
        let found = by_seq.map(|(serial, _)| serial).or_else(|| self.sad.larval(&key));
        let has_spi = found.and_then(|s| self.sad.get(s)).is_some_and(|sa| sa.info.id.spi.0 != 0);
        let serial = if let Some(serial) = found.filter(|_| has_spi) {
            serial
        } else {
            let spi = self
                .free_spi(dst, info.id.protocol, request.min, request.max)
                .ok_or(Failure::SpiExhausted)?;
            let serial = found.unwrap_or_else(|| {
                let (if_id, cpu) = (key.if_id, key.cpu);
                let options = SaOptions { mark, if_id, direction, cpu, ..SaOptions::default() };
                let sa = self.larval_sa(reserved(info), options, call.now);
                self.sad.insert(sa)
            });
            self.sad.reserve(serial, spi);
            serial
        };
        self.rearm_sa(serial, call.now);
        let sa = self.sad.get(serial).ok_or(Failure::NoSa)?;
        let message = self.sa_message(kind::NEWSA, sa, call.answer());
        call.reply(message);
        Ok(())
    }

    /// A free SPI: some at random, then a bounded row of neighbours. 0 is never given.
    fn free_spi(&mut self, dst: IpAddr, protocol: u8, min: u32, max: u32) -> Option<u32> {
        let min = min.max(1);
        let span = u64::from(max.checked_sub(min)?) + 1;
        let free = |spi: u32| !self.sad.spi_taken(&(dst, spi, protocol));
        let pick = |random: u64| min + u32::try_from(random % span).unwrap_or(0);
        let mut counter = self.random_counter;
        let found = (0..RANDOM_TRIES).find_map(|_| {
            counter += 1;
            Some(pick(self.random.hash_one(counter))).filter(|&spi| free(spi))
        });
        let found = found.or_else(|| {
            let start = self.random.hash_one(counter) % span;
            (0..span.min(ROW)).map(|i| pick(start.wrapping_add(i))).find(|&spi| free(spi))
        });
        self.random_counter = counter;
        found
    }

    /// `ACQUIRE` from user space: Linux asks all key managers, that is, everyone in the group.
    pub(super) fn acquire_request(&mut self, call: &mut Call<'_>) -> Result<(), Failure> {
        let (request, attributes) = call.parse::<Acquire>()?;
        let templates = new_policy(&request.policy, &attributes)?;
        let mut info = request.policy.clone();
        info.dir = 1;
        info.share = 0;
        let policy = super::spd::Policy {
            info,
            templates,
            mark: mark_of(&attributes),
            if_id: if_id_of(&attributes),
            offload: None,
            added_mono_ms: 0,
            deadline: None,
        };
        for t in &policy.templates {
            self.acquire_seq = self.acquire_seq.checked_add(1).unwrap_or(1);
            let mut w = Envelope::default().writer(kind::ACQUIRE);
            w.fixed(&Acquire {
                id: t.id.clone(),
                policy: policy.info.clone(),
                seq: self.acquire_seq,
                ..request.clone()
            });
            policy_attributes(&mut w, &policy);
            let message: Message = w.finish();
            call.event(Group::Acquire, message);
        }
        Ok(())
    }
}

/// Fields of its request that a reservation keeps, as Linux does: addresses as the selector, of no
/// family.
fn reserved(request: &SaInfo) -> SaInfo {
    let len = if request.family == AF_INET { 32 } else { 128 };
    SaInfo {
        selector: SelectorInfo {
            dst: request.id.dst,
            src: request.src,
            dst_prefix_len: len,
            src_prefix_len: len,
            ..SelectorInfo::default()
        },
        id: Id { spi: Be32(0), ..request.id.clone() },
        src: request.src,
        reqid: request.reqid,
        family: request.family,
        mode: request.mode,
        ..SaInfo::default()
    }
}

const RANDOM_TRIES: u32 = 64;
/// How many neighbours are tried when the random tries fail: the range is nearly full then.
const ROW: u64 = 65536;
