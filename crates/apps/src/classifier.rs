//! The classifier: packets in, verdicts out.
//!
//! ```text
//!   packet ── with payload? ── its flow ─┬─ TCP: both directions put together ── TLS, HTTP, DNS
//!                                        └─ UDP: DNS, QUIC
//!   verdict ──> hints: the flow, its server and port; a believed answer: its addresses
//! ```
//!
//! A packet without payload (a SYN, an acknowledgement) is not looked at, and nothing is kept for it. A flow is given up
//! after [`MOST_PACKETS`] packets; all flows together keep [`MOST_MEMORY`] bytes at most.

use std::collections::VecDeque;
use std::sync::Arc;

use policy::Prefix;
use wire::tcp::TcpHeader;
use wire::udp::UdpHeader;
use wire::{Fragment, protocol, udp};

use crate::application::{AppId, Catalogue, is_in};
use crate::dns::Message;
use crate::flow::{Flow, Looking, Stage};
use crate::flow_id::{End, FlowId};
use crate::flows::Flows;
use crate::hints::{Hints, Likely};
use crate::name::Name;
use crate::queries::Queries;
use crate::quic::{ClientSide, Quic};
use crate::second::{Asked, Question, Second};
use crate::stream::{Stream, Told};
use crate::tally::Tally;
use crate::tls::ClientHello;
use crate::verdict::{KnownBy, Verdict};

/// Packets with payload after which a flow is given up, of both directions together.
pub const MOST_PACKETS: u64 = 24;

/// The same of a UDP flow that is no QUIC: datagrams say what they are at once.
const MOST_DATAGRAMS: u64 = 4;

/// Flows that are looked at, or remembered, at a time.
const MOST_FLOWS: usize = 8192;

/// Memory of flows that are not decided, in bytes.
pub const MOST_MEMORY: usize = 8 << 20;

/// Names that clients show outside of encrypted ClientHellos, at most.
const MOST_PUBLIC_NAMES: usize = 256;

/// Port of name servers.
const DNS_PORT: u16 = 53;

/// Name that the largest network with encrypted ClientHellos has clients show.
const PUBLIC_NAME: &[u8] = b"cloudflare-ech.com";

/// Looks at packets of flows, and says which application they are of. One thread has it.
#[derive(Debug)]
pub struct Classifier {
    catalogue: Arc<Catalogue>,
    hints: Arc<Hints>,
    /// Resolvers that ask for other hosts: answers to them count for all clients.
    forwarders: Vec<Prefix>,
    flows: Flows,
    queries: Queries,
    public_names: VecDeque<Name>,
    /// Another classifier, which is asked about what this one cannot read.
    second: Option<Second>,
    tally: Tally,
}

/// A packet with payload, in so far as it is looked at.
struct Seen<'p> {
    id: FlowId,
    src: End,
    dst: End,
    /// Sequence number of TCP.
    sequence: u32,
    payload: &'p [u8],
    /// Length of the IP packet, in bytes.
    len: u64,
}

/// Result of a look at a packet.
enum Look {
    /// The content tells something.
    Content(Content),
    /// More packets have to come.
    Begun,
    /// It is of no protocol that is read here.
    Strange,
}

/// Finding from a flow's content.
struct Content {
    client: End,
    server: End,
    host: Option<Name>,
    /// The application where the host is none's.
    otherwise: AppId,
    known_by: KnownBy,
}

impl Classifier {
    /// A classifier that has seen nothing.
    pub fn new(
        catalogue: Arc<Catalogue>,
        hints: Arc<Hints>,
        forwarders: Vec<Prefix>,
    ) -> Classifier {
        let tally = Tally::new(catalogue.all().len());
        Classifier {
            catalogue,
            hints,
            forwarders,
            flows: Flows::new(MOST_FLOWS),
            queries: Queries::default(),
            public_names: Name::new(PUBLIC_NAME).into_iter().collect(),
            second: None,
            tally,
        }
    }

    /// Looks at an IP packet, at this time of any clock that goes on. Returns the verdict if the packet decides its flow.
    pub fn packet(&mut self, now_ns: u64, packet: &[u8]) -> Option<Verdict> {
        let seen = match seen(packet) {
            Ok(seen) => seen?,
            Err(Odd) => {
                self.tally.odd += 1;
                return None;
            }
        };
        let place = self.flows.find(&seen.id);
        let place = place.unwrap_or_else(|| self.begin(&seen));
        let flow = self.flows.get_mut(place)?;
        if let Stage::Decided(app) = flow.stage {
            self.tally.packets(app, 1, seen.len);
            if app == AppId::DNS {
                self.dns_again(&seen, now_ns);
            }
            return None;
        }
        flow.packets += 1;
        flow.bytes += seen.len;
        let is_strange = match self.look(place, &seen, now_ns) {
            Look::Content(content) => {
                let verdict = self.verdict(seen.id, content, now_ns);
                self.decide(place, &verdict, now_ns);
                return Some(verdict);
            }
            Look::Begun => false,
            Look::Strange => true,
        };
        self.ask(place, &seen, (now_ns, packet), is_strange);
        if !self.is_enough(place) {
            self.bound(now_ns);
            return None;
        }
        let verdict = self.give_up(place, now_ns)?;
        self.decide(place, &verdict, now_ns);
        Some(verdict)
    }

    /// Ends the look at all flows that are not decided, as no more packets come. Returns the verdicts.
    pub fn finish(&mut self, now_ns: u64) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        while let Some(place) = self.flows.oldest_beyond(0) {
            let Some(verdict) = self.give_up(place, now_ns) else { break };
            self.decide(place, &verdict, now_ns);
            verdicts.push(verdict);
        }
        verdicts
    }

    /// Counts so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Applications that flows are told apart by.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Flows that are kept, and the memory of those that are not decided, in bytes.
    pub fn load(&self) -> (usize, usize) {
        self.flows.load()
    }

    fn begin(&mut self, seen: &Seen<'_>) -> usize {
        let looking = match seen.id.protocol {
            protocol::TCP => Looking::Tcp(Default::default()),
            _ => Looking::Udp(ClientSide::default()),
        };
        let stage = Stage::Looking(Box::new(looking));
        let asked = Asked::default();
        let flow = Flow { id: seen.id, first: seen.src, packets: 0, bytes: 0, stage, asked };
        let (place, displaced) = self.flows.insert(flow);
        if let Some(Flow { packets, bytes, stage: Stage::Looking(_), .. }) = displaced {
            self.tally.displaced += 1;
            self.tally.packets(AppId::UNKNOWN, packets, bytes);
            self.tally.flow(AppId::UNKNOWN, KnownBy::Nothing);
        }
        place
    }

    /// Adds a packet to what is kept of its flow. Returns what the content tells, if it does.
    fn look(&mut self, place: usize, seen: &Seen<'_>, now_ns: u64) -> Look {
        let is_dns = seen.is_dns();
        if seen.id.protocol == protocol::UDP && is_dns {
            return match Message::parse(seen.payload) {
                Some(message) => Look::Content(self.dns(seen, &message, now_ns)),
                None => Look::Strange,
            };
        }
        enum Found {
            Tcp(Told),
            Udp(Quic),
        }
        let [lesser, _] = seen.id.ends();
        let direction = usize::from(seen.src != *lesser);
        let found = self.flows.with(place, |flow| {
            let Stage::Looking(looking) = &mut flow.stage else { return None };
            Some(match &mut **looking {
                Looking::Tcp(streams) => {
                    let stream = streams.get_mut(direction)?;
                    stream.segment(seen.sequence, seen.payload);
                    Found::Tcp(stream.tells(is_dns))
                }
                Looking::Udp(client) => match client.datagram(seen.payload) {
                    // One of a client's later packets, or of the server's.
                    Quic::No if client.footprint() > 0 => Found::Udp(Quic::Begun),
                    found => Found::Udp(found),
                },
            })
        });
        let Some(found) = found.flatten() else { return Look::Begun };
        let (client, server) = (seen.src, seen.dst);
        let content =
            |host, otherwise, known_by| Content { client, server, host, otherwise, known_by };
        Look::Content(match found {
            Found::Tcp(Told::Tls(hello)) => self.hello(seen, hello, AppId::TLS),
            Found::Udp(Quic::Hello(hello)) => self.hello(seen, hello, AppId::QUIC),
            Found::Tcp(Told::Http(Some(host))) => content(Some(host), AppId::HTTP, KnownBy::Http),
            Found::Tcp(Told::Http(None)) => content(None, AppId::HTTP, KnownBy::Protocol),
            Found::Tcp(Told::Dns(message)) => self.dns(seen, &message, now_ns),
            Found::Tcp(Told::Nothing) | Found::Udp(Quic::Begun) => return Look::Begun,
            Found::Tcp(Told::Other) | Found::Udp(Quic::No) => return Look::Strange,
        })
    }

    /// Shows a packet to the second classifier, or keeps it for that. A flow that an answer of a name server or earlier flows tell
    /// is not asked about.
    fn ask(&mut self, place: usize, seen: &Seen<'_>, packet: (u64, &[u8]), is_strange: bool) {
        let Some(second) = &mut self.second else { return };
        let is_asked = is_strange
            && self.hints.likely(seen.id.protocol, seen.src, seen.dst, packet.0).is_none();
        self.flows.with(place, |flow| {
            if flow.packets <= MOST_PACKETS {
                let is_last = flow.packets == MOST_PACKETS;
                second.packet((flow.id, &mut flow.asked), packet, is_asked, is_last);
            }
        });
    }

    /// True if a flow has told nothing for long enough, and nobody may tell more.
    fn is_enough(&mut self, place: usize) -> bool {
        let Some(flow) = self.flows.get_mut(place) else { return true };
        let most = match &flow.stage {
            Stage::Looking(looking) => match &**looking {
                Looking::Udp(client)
                    if client.footprint() == 0 && !matches!(flow.asked, Asked::Open { .. }) =>
                {
                    MOST_DATAGRAMS
                }
                _ => MOST_PACKETS,
            },
            Stage::Decided(_) => MOST_PACKETS,
        };
        let may_answer = self.second.as_ref().is_some_and(|second| second.may_answer(&flow.asked));
        flow.packets >= most && !may_answer
    }

    /// Has a second classifier asked from now on about flows that tell nothing here.
    pub fn ask_another(&mut self) {
        self.second.get_or_insert_default();
    }

    /// The next packet to show to the second classifier, if there is one.
    pub fn question(&mut self) -> Option<Question> {
        self.second.as_mut()?.question()
    }

    /// Takes the second classifier's answer to one packet of the flow with this number. Returns the verdict if that decides the flow.
    pub fn answered(
        &mut self,
        now_ns: u64,
        number: u32,
        application: Option<AppId>,
    ) -> Option<Verdict> {
        let id = self.second.as_ref()?.flow(number)?;
        let place = self.flows.find(&id)?;
        let flow = self.flows.get_mut(place)?;
        match &mut flow.asked {
            Asked::Open { number: asked, unanswered } if *asked == number => {
                *unanswered = unanswered.saturating_sub(1);
            }
            _ => return None,
        }
        if matches!(flow.stage, Stage::Decided(_)) {
            return None;
        }
        let verdict = match application {
            Some(application) => {
                let (client, host, known_by) = (flow.first, None, KnownBy::Ndpi);
                Verdict { flow: id, client, application, host, known_by }
            }
            None if self.is_enough(place) => self.give_up(place, now_ns)?,
            None => return None,
        };
        self.decide(place, &verdict, now_ns);
        Some(verdict)
    }

    /// The second classifier is gone, and answers nothing that it was asked so far. Returns verdicts on flows that have waited for
    /// it.
    pub fn unanswered(&mut self, now_ns: u64) -> Vec<Verdict> {
        let asked = self.second.as_mut().map_or_else(Vec::new, Second::forget);
        let mut verdicts = Vec::new();
        for id in asked {
            let Some(place) = self.flows.find(&id) else { continue };
            let is_open = self.flows.with(place, |flow| {
                let is_open = matches!(flow.asked, Asked::Open { .. });
                if is_open {
                    flow.asked = Asked::Over;
                }
                is_open && matches!(flow.stage, Stage::Looking(_))
            });
            if is_open == Some(true)
                && self.is_enough(place)
                && let Some(verdict) = self.give_up(place, now_ns)
            {
                self.decide(place, &verdict, now_ns);
                verdicts.push(verdict);
            }
        }
        verdicts
    }

    /// Finding from a ClientHello.
    fn hello(&self, seen: &Seen<'_>, hello: ClientHello, of: AppId) -> Content {
        let ClientHello { host, has_ech, .. } = hello;
        let (client, server) = (seen.src, seen.dst);
        // With the host's own name it is GREASE: the extension says nothing (RFC 9849 §6.2).
        let is_public = |name: &Name| self.public_names.contains(name);
        let (otherwise, known_by) = match host.as_ref() {
            name if has_ech && name.is_none_or(is_public) => (AppId::HIDDEN, KnownBy::Hidden),
            None => (of, KnownBy::Protocol),
            Some(_) if of == AppId::QUIC => (of, KnownBy::Quic),
            Some(_) => (of, KnownBy::Tls),
        };
        Content { client, server, host, otherwise, known_by }
    }

    /// Finding from a DNS message about its own flow; an answer to a question that was seen is believed.
    fn dns(&mut self, seen: &Seen<'_>, message: &Message, now_ns: u64) -> Content {
        let (client, server) = match message.is_response {
            true => (seen.dst, seen.src),
            false => (seen.src, seen.dst),
        };
        let host = message.question.host();
        if !message.is_response {
            self.queries.ask(seen.id.protocol, client, server, message, now_ns);
        } else if self.queries.is_answer(seen.id.protocol, client, server, message, now_ns) {
            self.tally.answers += 1;
            self.believe(client, host.as_ref(), message, now_ns);
        } else {
            self.tally.strange_answers += 1;
        }
        Content { client, server, host, otherwise: AppId::DNS, known_by: KnownBy::Dns }
    }

    /// Further messages of a flow to a name server.
    fn dns_again(&mut self, seen: &Seen<'_>, now_ns: u64) {
        let bytes = match seen.id.protocol {
            protocol::TCP => seen.payload.get(2..).unwrap_or_default(),
            _ => seen.payload,
        };
        if let Some(message) = Message::parse(bytes) {
            self.dns(seen, &message, now_ns);
        }
    }

    /// Learns the addresses of an answer.
    fn believe(&mut self, client: End, host: Option<&Name>, message: &Message, now_ns: u64) {
        let Some(host) = host else { return };
        for name in &message.answer.public_names {
            if name != host && !self.public_names.contains(name) {
                if self.public_names.len() >= MOST_PUBLIC_NAMES {
                    // The first is built in.
                    self.public_names.remove(1);
                }
                self.public_names.push_back(name.clone());
            }
        }
        let app = self.catalogue.of_host(host).unwrap_or(AppId::UNKNOWN);
        let client = (!is_in(&self.forwarders, client.addr)).then_some(client.addr);
        for address in &message.answer.addresses {
            self.hints.learn_answer((client, *address), app, now_ns, message.answer.ttl_s);
        }
    }

    /// The verdict that follows from a flow's content.
    fn verdict(&self, flow: FlowId, content: Content, now_ns: u64) -> Verdict {
        let Content { client, server, host, otherwise, mut known_by } = content;
        let by_host = match otherwise {
            AppId::DNS | AppId::HIDDEN => None,
            _ => host.as_ref().and_then(|host| self.catalogue.of_host(host)),
        };
        let mut application = by_host.unwrap_or(otherwise);
        if known_by == KnownBy::Protocol
            && let Some(likely) = self.hints.likely(flow.protocol, client, server, now_ns)
        {
            application = likely.application();
            known_by = by_of(likely);
        }
        Verdict { flow, client, application, host, known_by }
    }

    /// The verdict on a flow whose content has told nothing.
    fn give_up(&mut self, place: usize, now_ns: u64) -> Option<Verdict> {
        let flow = self.flows.get_mut(place)?;
        let Flow { id, first: client, .. } = *flow;
        let server = id.ends().iter().copied().find(|end| *end != client).unwrap_or(client);
        let Stage::Looking(looking) = &flow.stage else { return None };
        let (hello, of) = match &**looking {
            Looking::Tcp(streams) => (streams.iter().find_map(Stream::hello_so_far), AppId::TLS),
            Looking::Udp(side) => (side.begun(), AppId::QUIC),
        };
        // Initial packets that open are QUIC, with or without the part that names the host.
        let is_quic = matches!(&**looking, Looking::Udp(side) if side.footprint() > 0);
        let (host, is_hello) =
            (hello.as_ref().and_then(|hello| hello.host.clone()), hello.is_some() || is_quic);
        let (otherwise, known_by) = match (is_hello, &host) {
            (true, Some(_)) if of == AppId::QUIC => (of, KnownBy::Quic),
            (true, Some(_)) => (of, KnownBy::Tls),
            (true, None) => (of, KnownBy::Protocol),
            (false, _) => (AppId::UNKNOWN, KnownBy::Protocol),
        };
        let content = Content { client, server, host, otherwise, known_by };
        let mut verdict = self.verdict(id, content, now_ns);
        if verdict.application == AppId::UNKNOWN {
            verdict.known_by = KnownBy::Nothing;
        }
        Some(verdict)
    }

    /// Notes a verdict.
    fn decide(&mut self, place: usize, verdict: &Verdict, now_ns: u64) {
        let Verdict { flow: id, application, known_by, client, .. } = verdict;
        let counted = self.flows.with(place, |flow| {
            flow.stage = Stage::Decided(*application);
            if let Asked::Kept(_) = flow.asked {
                flow.asked = Asked::Over;
            }
            (flow.packets, flow.bytes)
        });
        if let Some((packets, bytes)) = counted {
            self.tally.packets(*application, packets, bytes);
        }
        self.tally.flow(*application, *known_by);
        self.hints.learn_flow(id, *application, now_ns);
        if known_by.is_content() {
            let server = id.ends().iter().find(|end| *end != client).unwrap_or(client);
            self.hints.learn_server(id.protocol, *server, *application, now_ns);
        }
    }

    /// Gives flows up while all together keep too much.
    fn bound(&mut self, now_ns: u64) {
        while let Some(place) = self.flows.oldest_beyond(MOST_MEMORY) {
            let Some(verdict) = self.give_up(place, now_ns) else { return };
            self.tally.displaced += 1;
            self.decide(place, &verdict, now_ns);
        }
    }
}

fn by_of(likely: Likely) -> KnownBy {
    match likely {
        Likely::Answer(_) => KnownBy::Answer,
        Likely::Earlier(_) => KnownBy::Earlier,
    }
}

/// A packet that is none to be looked at.
struct Odd;

/// A packet, if it has payload. It may be cut: names stand in front. Its headers were checked where it came from.
fn seen(packet: &[u8]) -> Result<Option<Seen<'_>>, Odd> {
    let h = wire::parse_quoted_ip(packet).map_err(|_| Odd)?;
    if h.fragment != Fragment::Whole {
        return Err(Odd);
    }
    let end = packet.len().min(h.total_len.into());
    let upper = packet.get(h.header_len.into()..end).ok_or(Odd)?;
    let (sequence, payload) = match h.protocol {
        protocol::TCP => {
            let tcp = TcpHeader::parse(upper).map_err(|_| Odd)?;
            (tcp.seq(), tcp.payload())
        }
        // Its own length counts if the packet is whole.
        protocol::UDP => match UdpHeader::parse(upper) {
            Ok(udp) => (0, udp.payload()),
            Err(_) => (0, upper.get(udp::HEADER_LEN..).ok_or(Odd)?),
        },
        _ => return Ok(None),
    };
    if payload.is_empty() {
        return Ok(None);
    }
    let (id, src, dst) = FlowId::of(&h);
    Ok(Some(Seen { id, src, dst, sequence, payload, len: h.total_len.into() }))
}

impl Seen<'_> {
    fn is_dns(&self) -> bool {
        self.src.port == DNS_PORT || self.dst.port == DNS_PORT
    }
}
