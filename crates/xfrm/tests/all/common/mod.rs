//! A recording data path, builders of requests, and a laboratory that holds both.

pub mod migrating;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use crypto::Keys;
use policy::{Action, Direction, PolicyConfig, SaConfig, SaId as PathId};
use xfrm::codec::{
    Address, Be16, Be32, Field, Header, Id, LifetimeConfig, Message, MessageWriter, Messages,
    Offload, PolicyId, PolicyInfo, SaId, SaInfo, SelectorInfo, SpiInfo, Template, attr, constant,
    flag, kind,
};
use xfrm::{
    Backend, Counters, Database, Dump, Group, Now, Output, PolicyLive, Refusal, Replay, SaLive,
    Sender, Settings, Start,
};

/// A data path that remembers.
#[derive(Debug, Default)]
pub struct Recorder {
    pub sas: HashMap<PathId, (SaConfig, Keys, Start)>,
    pub live: HashMap<PathId, SaLive>,
    pub policies: BTreeMap<u32, PolicyConfig>,
    pub policy_live: HashMap<u32, PolicyLive>,
    pub defaults: HashMap<u8, Action>,
    /// Policies whose flows may ask again.
    pub asked_again: Vec<u32>,
    /// Refuses everything that can be refused.
    pub refuse: Option<Refusal>,
    /// Refuses SAs from this source.
    pub refuse_src: Option<(IpAddr, Refusal)>,
    /// Refuses SAs of this protocol.
    pub refuse_protocol: Option<(u8, Refusal)>,
    /// A device takes the SAs that ask for one.
    pub has_device: bool,
    /// Refuses counters only.
    pub refuse_counters: bool,
}

impl Recorder {
    fn refusal(&self) -> Result<(), Refusal> {
        self.refuse.clone().map_or(Ok(()), Err)
    }
}

impl Backend for Recorder {
    fn sa_add(&mut self, config: &SaConfig, keys: &Keys, start: &Start) -> Result<(), Refusal> {
        self.refusal()?;
        if let Some((src, refusal)) = &self.refuse_src
            && config.params.src == *src
        {
            return Err(refusal.clone());
        }
        if let Some((protocol, refusal)) = &self.refuse_protocol
            && config.params.protocol.number() == *protocol
        {
            return Err(refusal.clone());
        }
        assert!(keys.fit(config.params.suite), "keys that do not fit reached the data path");
        if let Start::At { replay, counters } = start {
            let live = SaLive { counters: *counters, replay: replay.clone(), ..SaLive::default() };
            self.live.insert(config.id(), live);
        }
        let sa = (config.clone(), keys.clone(), start.clone());
        assert!(self.sas.insert(config.id(), sa).is_none(), "the SA was there already");
        Ok(())
    }

    fn sa_add_offloaded(
        &mut self,
        config: &SaConfig,
        keys: &Keys,
        start: &Start,
        wanted: &Offload,
    ) -> Result<bool, Refusal> {
        if wanted.flags & constant::OFFLOAD_PACKET != 0 && !self.has_device {
            return Err(Refusal::new(libc::EINVAL, "no packet offload"));
        }
        self.sa_add(config, keys, start).map(|()| self.has_device)
    }

    fn policy_put_offloaded(&mut self, config: &PolicyConfig, _: &Offload) -> Result<(), Refusal> {
        match self.has_device {
            true => self.policy_put(config),
            false => Err(Refusal::new(libc::EINVAL, "no packet offload")),
        }
    }

    fn sa_update(&mut self, config: &SaConfig) -> Result<(), Refusal> {
        self.refusal()?;
        self.sas.get_mut(&config.id()).expect("an update of what is not there").0 = config.clone();
        Ok(())
    }

    fn sa_delete(&mut self, id: &PathId, keys: &Keys, _: xfrm::SaEnd) {
        let (_, installed, _) = self.sas.remove(id).expect("deletes what is not there");
        assert!(installed == *keys, "deletes it with other keys than it was installed with");
        self.live.remove(id);
    }

    fn sa_live(&self, id: &PathId) -> Option<SaLive> {
        self.live.get(id).cloned()
    }

    fn sa_set_replay(&mut self, id: &PathId, replay: &Replay) -> Result<(), Refusal> {
        self.refusal()?;
        self.live.get_mut(id).expect("known").replay = replay.clone();
        Ok(())
    }

    fn sa_set_counters(&mut self, id: &PathId, counters: &Counters) -> Result<(), Refusal> {
        self.refusal()?;
        if self.refuse_counters {
            return Err(Refusal::new(libc::EIO, "no counters"));
        }
        self.live.get_mut(id).expect("known").counters = *counters;
        Ok(())
    }

    fn policy_put(&mut self, config: &PolicyConfig) -> Result<(), Refusal> {
        self.refusal()?;
        self.policies.insert(config.index, config.clone());
        Ok(())
    }

    fn ask_again(&mut self, index: u32) {
        self.asked_again.push(index);
    }

    fn policy_delete(&mut self, index: u32) {
        assert!(self.policies.remove(&index).is_some(), "deletes what is not there");
    }

    fn policy_live(&self, index: u32) -> Option<PolicyLive> {
        self.policy_live.get(&index).copied()
    }

    fn set_default(&mut self, direction: Direction, action: Action) {
        self.defaults.insert(direction as u8, action);
    }
}

/// A database, a clock and a requester.
pub struct Lab {
    pub db: Database<Recorder>,
    pub now: Now,
    pub sender: Sender,
}

impl Lab {
    pub fn new() -> Lab {
        Lab {
            db: Database::new(Recorder::default(), Settings::default()),
            now: Now { wall_s: 1_700_000_000, mono_ms: 1_000_000 },
            sender: Sender { port_id: 4711, ext_ack: true, cap_ack: false },
        }
    }

    /// Sends a datagram, whatever it is.
    pub fn send(&mut self, datagram: &[u8]) -> Vec<Output> {
        let mut out = Vec::new();
        self.db.request(&self.sender, datagram, self.now, &mut out);
        out
    }

    /// Sends a request that asks for an acknowledgement, and gives its errno (0 for success).
    pub fn errno(&mut self, request: &[u8]) -> i32 {
        errno(&self.send(request))
    }

    /// Sends a request that must succeed.
    pub fn ok(&mut self, request: &[u8]) -> Vec<Output> {
        let out = self.send(request);
        assert_eq!(errno(&out), 0, "{}", text(&out).unwrap_or_default());
        out
    }

    /// Lets seconds pass and does what is due.
    pub fn pass(&mut self, seconds: u64) -> Vec<Output> {
        self.now.wall_s += seconds;
        self.now.mono_ms += seconds * 1000;
        let mut out = Vec::new();
        self.db.tick(self.now, &mut out);
        out
    }

    /// Runs a dump to its end.
    pub fn dump(&mut self, request: &[u8]) -> Vec<Message> {
        let mut out = self.send(request);
        assert_eq!(out.len(), 1);
        let Some(Output::Dump(mut dump)) = out.pop() else { panic!("no dump") };
        self.drain(&mut dump)
    }

    pub fn drain(&mut self, dump: &mut Dump) -> Vec<Message> {
        let mut chunks = Vec::new();
        while let Some(chunk) = self.db.dump_chunk(dump, 3776) {
            chunks.push(chunk);
        }
        chunks
    }

    /// Everything that persists, in a comparable form, and how many SAs there are.
    pub fn state(&self) -> (Vec<(String, Vec<u8>)>, usize) {
        let records = self.db.records();
        let records = records.map(|c| (format!("{:?}", c.key), c.record.unwrap().to_vec()));
        (records.collect(), self.db.sa_count())
    }
}

/// The errno of the acknowledgement among the outputs.
pub fn errno(out: &[Output]) -> i32 {
    replies(out)
        .find(|m| header(m).kind == kind::ERROR)
        .map(|m| -i32::from_ne_bytes(m[16..20].try_into().unwrap()))
        .expect("no acknowledgement")
}

/// The text of the extended acknowledgement.
pub fn text(out: &[Output]) -> Option<String> {
    let m = replies(out).find(|m| header(m).kind == kind::ERROR)?;
    let h = header(m);
    if h.flags & flag::ACK_TLVS == 0 {
        return None;
    }
    let echoed = u32::from_ne_bytes(m[20..24].try_into().unwrap()) as usize;
    let at = if h.flags & flag::CAPPED != 0 { 36 } else { 20 + echoed.next_multiple_of(4) };
    let len = u16::from_ne_bytes(m[at..at + 2].try_into().unwrap()) as usize;
    Some(String::from_utf8(m[at + 4..at + len - 1].to_vec()).unwrap())
}

pub fn replies(out: &[Output]) -> impl Iterator<Item = &Message> {
    out.iter().filter_map(|o| match o {
        Output::Reply(m) => Some(m),
        _ => None,
    })
}

/// The notifications with their groups.
pub fn events(out: &[Output]) -> Vec<(Group, &Message)> {
    let event = |o| match o {
        &Output::Event { group, ref message } => Some((group, message)),
        _ => None,
    };
    out.iter().filter_map(event).collect()
}

/// Groups and types of the notifications.
pub fn event_kinds(out: &[Output]) -> Vec<(Group, u16)> {
    events(out).into_iter().map(|(g, m)| (g, header(m).kind)).collect()
}

pub fn header(m: &[u8]) -> Header {
    Header::decode(m).unwrap()
}

/// The fixed struct of a message.
pub fn fixed<T: Field>(m: &[u8]) -> T {
    T::decode(&m[16..]).unwrap()
}

/// An attribute of a message with a fixed struct of type `T`.
pub fn attribute<T: Field>(m: &[u8], kind: u16) -> Option<Vec<u8>> {
    let attributes = xfrm::codec::Attributes::parse(&m[16 + T::LEN..]).unwrap();
    attributes.bytes(kind).map(<[u8]>::to_vec)
}

/// All messages of a dump but the last, which must be the end.
pub fn entries(chunks: &[Message]) -> Vec<(Header, Vec<u8>)> {
    let mut all: Vec<_> =
        chunks.iter().flat_map(|c| Messages::new(c).map(|(h, m)| (h, m.to_vec()))).collect();
    let (last, _) = all.pop().expect("no end");
    assert_eq!(last.kind, kind::DONE);
    assert!(all.iter().all(|(h, _)| h.flags == flag::MULTI));
    all
}

pub fn ip(s: &str) -> IpAddr {
    s.parse().unwrap()
}

/// A request under construction.
pub fn request(kind: u16, body: &impl Field) -> MessageWriter {
    let mut w = MessageWriter::new(kind, flag::REQUEST | flag::ACK, 77, 0);
    w.fixed(body);
    w
}

pub const DST: &str = "192.0.2.2";
pub const SRC: &str = "192.0.2.1";

pub fn unlimited() -> LifetimeConfig {
    LifetimeConfig {
        soft_bytes: u64::MAX,
        hard_bytes: u64::MAX,
        soft_packets: u64::MAX,
        hard_packets: u64::MAX,
        ..LifetimeConfig::default()
    }
}

/// An ESP SA in tunnel mode.
pub fn sa_info(spi: u32) -> SaInfo {
    SaInfo {
        id: Id { dst: Address::from(ip(DST)), spi: Be32(spi), protocol: 50, ..Id::default() },
        src: ip(SRC).into(),
        limits: unlimited(),
        reqid: 7,
        family: 2,
        mode: 1,
        replay_window: 32,
        ..SaInfo::default()
    }
}

pub fn algorithm(name: &str, numbers: &[u32], key: &[u8]) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize(64, 0);
    for n in numbers {
        bytes.extend(n.to_ne_bytes());
    }
    bytes.extend(key);
    bytes
}

pub fn gcm() -> Vec<u8> {
    algorithm("rfc4106(gcm(aes))", &[160, 128], &[0x5a; 20])
}

/// A request for an SA with AES-GCM; more attributes may follow.
pub fn gcm_sa(kind: u16, info: &SaInfo) -> MessageWriter {
    let mut w = request(kind, info);
    w.attribute(attr::ALG_AEAD, &gcm());
    w
}

pub fn sa_id(spi: u32) -> SaId {
    SaId { dst: ip(DST).into(), spi: Be32(spi), family: 2, protocol: 50, ..SaId::default() }
}

pub fn path_id(spi: u32) -> PathId {
    PathId { dst: ip(DST), spi, protocol: 50, mark: policy::Mark::default() }
}

pub fn alloc_spi(min: u32, max: u32) -> MessageWriter {
    let info = SaInfo { replay_window: 0, ..sa_info(0) };
    request(kind::ALLOCSPI, &SpiInfo { info, min, max })
}

pub fn selector() -> SelectorInfo {
    SelectorInfo {
        dst: ip("10.1.0.0").into(),
        src: ip("10.2.0.0").into(),
        family: 2,
        dst_prefix_len: 24,
        src_prefix_len: 24,
        ..SelectorInfo::default()
    }
}

pub fn policy_info(dir: u8) -> PolicyInfo {
    PolicyInfo {
        selector: selector(),
        limits: unlimited(),
        priority: 5,
        dir,
        ..PolicyInfo::default()
    }
}

pub fn template() -> Template {
    Template {
        id: Id { dst: ip(DST).into(), protocol: 50, ..Id::default() },
        family: 2,
        src: ip(SRC).into(),
        reqid: 7,
        mode: 1,
        aalgos: u32::MAX,
        ealgos: u32::MAX,
        calgos: u32::MAX,
        ..Template::default()
    }
}

pub fn policy(kind: u16, info: &PolicyInfo, templates: &[Template]) -> MessageWriter {
    let mut w = request(kind, info);
    if !templates.is_empty() {
        let bytes: Vec<u8> = templates.iter().flat_map(Field::to_bytes).collect();
        w.attribute(attr::TMPL, &bytes);
    }
    w
}

pub fn policy_id(dir: u8, index: u32) -> PolicyId {
    PolicyId { selector: selector(), index, dir, ..PolicyId::default() }
}

pub fn be16(n: u16) -> Be16 {
    Be16(n)
}
