//! The kernel's own XFRM databases, for who works beside them.
//!
//! | Module       | What it knows                                            |
//! |--------------|----------------------------------------------------------|
//! | this one     | requests: dumps, an SA's numbers, expiries               |
//! | `events`     | what the kernel tells of changes                         |
//! | `count`      | how many SAs the kernel has                              |
//!
//! Nothing here decides. Times out of the kernel are wall-clock seconds, SPIs are in host byte order.

mod count;
mod events;

use std::io;

use netlink::{Connection, Dump, Fault, Protocol};
use policy::{Action, Direction, SaId};

use crate::clock::Now;
use crate::codec::{
    self, AF_INET, AF_INET6, Address, AeventId, Attributes, Be32, Expire, Field, Id,
    LifetimeConfig, LifetimeCurrent, MarkAttribute, Message, MessageWriter, Pad, PolicyDefault,
    PolicyId, PolicyInfo, SaInfo, SelectorInfo, attr, constant as c, family_of, flag, kind,
};
use crate::database::{KernelNumbers, LearntPolicy, LearntSa};

pub use self::count::KernelSad;
pub(crate) use self::events::decode;
pub use self::events::{KernelEvent, KernelEvents};

/// Requests to the kernel's XFRM, in the calling thread's network namespace. For one thread, which
/// waits for each answer.
pub struct Kernel {
    connection: Connection,
}

impl Kernel {
    /// Opens a socket.
    ///
    /// # Errors
    /// The kernel has no XFRM, or does not let this process ask.
    pub fn open() -> io::Result<Kernel> {
        Ok(Kernel::by(Connection::open(Protocol::Xfrm)?))
    }

    /// By a connection that is open.
    pub fn by(connection: Connection) -> Kernel {
        Kernel { connection }
    }

    /// All SAs, oldest first, and whether changes came in between. What is damaged is left out.
    /// `generation` counts up with each SA.
    ///
    /// # Errors
    /// The kernel did not answer.
    pub fn sas(&mut self, generation: &mut u64, now: Now) -> io::Result<(Vec<LearntSa>, bool)> {
        let (answers, is_stale) = self.dump(kind::GETSA)?;
        // Linux begins with the youngest.
        let sas = answers.iter().rev().filter_map(|answer| {
            *generation += 1;
            LearntSa::decode(answer, *generation, now).ok()
        });
        Ok((sas.collect(), is_stale))
    }

    /// One SA, `None` where it is not there.
    ///
    /// # Errors
    /// The kernel did not answer, or what it answered is damaged.
    pub fn sa(&mut self, id: &SaId, generation: u64, now: Now) -> io::Result<Option<LearntSa>> {
        let mut w = MessageWriter::request(kind::GETSA, 0);
        w.fixed(&name(id));
        put_mark(&mut w, id);
        let answer = unless_gone(self.connection.ask(w))?.flatten();
        let learnt = answer.map(|answer| LearntSa::decode(&answer, generation, now));
        learnt.transpose().map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// All policies but those of sockets, oldest first, and whether changes came in between.
    ///
    /// # Errors
    /// The kernel did not answer.
    pub fn policies(&mut self) -> io::Result<(Vec<LearntPolicy>, bool)> {
        let (answers, is_stale) = self.dump(kind::GETPOLICY)?;
        let policies = answers.iter().rev().filter_map(|a| LearntPolicy::decode(a).ok());
        Ok((policies.filter(|policy| !policy.is_of_socket).collect(), is_stale))
    }

    /// Default actions for packets that no policy matches: inbound, outbound, forwarded. Kernels
    /// before 5.14 let them pass.
    ///
    /// # Errors
    /// The kernel did not answer.
    pub fn defaults(&mut self) -> io::Result<[Action; 3]> {
        let mut w = MessageWriter::request(kind::GETDEFAULT, 0);
        w.fixed(&PolicyDefault::default());
        let answer = match self.connection.ask(w) {
            Err(Fault::Refused { errno: libc::EINVAL, .. }) => None,
            answer => unless_gone(answer)?.flatten(),
        };
        let told = answer.and_then(|answer| PolicyDefault::decode(&answer).ok());
        let action = |told: u8| match told {
            c::DEFAULT_BLOCK => Action::Block,
            _ => Action::Allow,
        };
        let told = told.unwrap_or_default();
        Ok([told.input, told.output, told.forward].map(action))
    }

    /// An SA's numbers and counters, `None` where it is not there.
    ///
    /// # Errors
    /// The kernel did not answer, or what it answered is damaged.
    pub fn numbers(&mut self, id: &SaId) -> io::Result<Option<KernelNumbers>> {
        let mut w = MessageWriter::request(kind::GETAE, 0);
        w.fixed(&aevent(id, c::AE_RVAL | c::AE_LVAL));
        put_mark(&mut w, id);
        let answer = unless_gone(self.connection.ask(w))?.flatten();
        let Some(answer) = answer else { return Ok(None) };
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let rest = answer.get(AeventId::LEN..).ok_or_else(invalid)?;
        let a = Attributes::parse(rest).map_err(|_| invalid())?;
        let current: LifetimeCurrent = a.value(attr::LTIME_VAL).unwrap_or_default();
        KernelNumbers::decode(&a, &current).map(Some).map_err(|_| invalid())
    }

    /// Sets an SA's sequence numbers (`XFRM_MSG_NEWAE`). Returns whether it is there.
    ///
    /// # Errors
    /// The kernel did not take them.
    pub fn set_replay(&mut self, id: &SaId, numbers: &KernelNumbers) -> io::Result<bool> {
        self.set(id, |w| numbers.write_replay(w))
    }

    /// Sets an SA's counters, and the times of its addition and first use (`XFRM_MSG_NEWAE`). Returns
    /// whether it is there.
    ///
    /// # Errors
    /// The kernel did not take them.
    pub fn set_counters(&mut self, id: &SaId, numbers: &KernelNumbers) -> io::Result<bool> {
        self.set(id, |w| numbers.write_counters(w))
    }

    /// Sets sequence numbers and counters at once ([`Kernel::set_replay`], [`Kernel::set_counters`]): what the
    /// kernel receives between two messages would be forgotten twice.
    ///
    /// # Errors
    /// The kernel did not take them.
    pub fn set_numbers(&mut self, id: &SaId, numbers: &KernelNumbers) -> io::Result<bool> {
        self.set(id, |w| {
            numbers.write_replay(w);
            numbers.write_counters(w);
        })
    }

    /// Has the kernel tell of its use of an SA after so many packets ([`KernelEvent::Used`]; `XFRM_MSG_NEWAE`).
    /// Returns whether it is there.
    ///
    /// # Errors
    /// The kernel did not take it.
    pub fn set_threshold(&mut self, id: &SaId, packets: u32) -> io::Result<bool> {
        self.set(id, |w| {
            w.field(attr::REPLAY_THRESH, &packets);
        })
    }

    fn set(&mut self, id: &SaId, write: impl FnOnce(&mut MessageWriter)) -> io::Result<bool> {
        let mut w = MessageWriter::request(kind::NEWAE, flag::REPLACE);
        w.fixed(&aevent(id, 0));
        write(&mut w);
        put_mark(&mut w, id);
        self.command(w)
    }

    /// Installs a policy that lets pass. What stands already is replaced.
    ///
    /// # Errors
    /// The kernel did not take it.
    pub fn put_bypass(&mut self, bypass: &Bypass) -> io::Result<()> {
        let info = PolicyInfo {
            limits: LifetimeConfig::unlimited(),
            selector: bypass.selector(),
            dir: bypass.direction as u8,
            ..PolicyInfo::default()
        };
        let mut w = MessageWriter::request(kind::UPDPOLICY, 0);
        w.fixed(&info);
        bypass.put_scope(&mut w);
        self.command(w).map(drop)
    }

    /// Takes such a policy away. Returns whether it was there.
    ///
    /// # Errors
    /// The kernel did not do it.
    pub fn delete_bypass(&mut self, bypass: &Bypass) -> io::Result<bool> {
        let dir = bypass.direction as u8;
        let id = PolicyId { selector: bypass.selector(), dir, ..PolicyId::default() };
        let mut w = MessageWriter::request(kind::DELPOLICY, 0);
        w.fixed(&id);
        bypass.put_scope(&mut w);
        self.command(w)
    }

    /// Says that an SA has reached a limit: the kernel tells its owner, and deletes it where the limit
    /// is hard. Returns whether it is there.
    ///
    /// # Errors
    /// The kernel did not take it.
    pub fn expire(&mut self, id: &SaId, is_hard: bool) -> io::Result<bool> {
        let mut w = MessageWriter::request(kind::EXPIRE, 0);
        let codec::SaId { dst, spi, family, protocol, .. } = name(id);
        let sa = SaInfo { id: Id { dst, spi, protocol, pad: Pad }, family, ..SaInfo::default() };
        w.fixed(&Expire { sa, hard: is_hard.into(), pad: Pad });
        put_mark(&mut w, id);
        self.command(w)
    }

    /// Has something done; false where what it names is not there.
    fn command(&mut self, request: MessageWriter) -> io::Result<bool> {
        Ok(unless_gone(self.connection.command(request))?.is_some())
    }

    /// All of something, and whether changes got in between, so that it may be inconsistent.
    fn dump(&mut self, kind: u16) -> io::Result<(Vec<Message>, bool)> {
        let mut all = Vec::new();
        let request = MessageWriter::request(kind, 0);
        let dump = self.connection.dump(request, |_, body| all.push(Message::new(body.to_vec())));
        let dump = unless_gone(dump)?;
        Ok((all, dump == Some(Dump::Interrupted)))
    }
}

/// A policy that lets pass what has all bits of a mark, before all other policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bypass {
    /// Direction of the policy.
    pub direction: Direction,
    /// For IPv6; else for IPv4.
    pub is_v6: bool,
    /// Of an XFRM interface; 0 for none.
    pub if_id: u32,
    /// Bits of the mark.
    pub mark: u32,
}

impl Bypass {
    /// All packets of the family.
    fn selector(&self) -> SelectorInfo {
        let family = if self.is_v6 { AF_INET6 } else { AF_INET };
        SelectorInfo { family, ..SelectorInfo::default() }
    }

    /// Attributes that make it another policy than one for the same packets.
    fn put_scope(&self, w: &mut MessageWriter) {
        w.field(attr::MARK, &MarkAttribute { value: self.mark, mask: self.mark });
        if self.if_id != 0 {
            w.field(attr::IF_ID, &self.if_id);
        }
    }
}

/// `None` where what a request names is not there.
fn unless_gone<T>(result: Result<T, Fault>) -> io::Result<Option<T>> {
    match result {
        Err(Fault::Refused { errno: libc::ESRCH | libc::ENOENT, .. }) => Ok(None),
        result => Ok(Some(result?)),
    }
}

fn name(id: &SaId) -> codec::SaId {
    codec::SaId {
        dst: id.dst.into(),
        spi: Be32(id.spi),
        family: family_of(id.dst),
        protocol: id.protocol,
        pad: Pad,
    }
}

fn aevent(id: &SaId, flags: u32) -> AeventId {
    AeventId { sa: name(id), src: Address::default(), flags, reqid: 0 }
}

fn put_mark(w: &mut MessageWriter, id: &SaId) {
    let policy::Mark { value, mask } = id.mark;
    if value | mask != 0 {
        w.field(attr::MARK, &MarkAttribute { value, mask });
    }
}
