//! Which packets `culvert capture` and `culvert trace` are about.

use clap::{Args, ValueEnum};
use outcome::DropReason;
use report::protocol;
use report::{Network, PacketFilter};

use super::number;

/// Conditions on a packet. All that are given have to hold; without any, every packet is meant.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Which packets (all that is given has to hold)")]
pub struct FilterArgs {
    /// At this tap alone: wire (what SAs protect, encrypted), plain (in clear), frame (no IP packet for this
    /// host).
    #[arg(long, value_name = "TAP")]
    pub tap: Option<Tap>,
    /// On its way out to peers, or in from them.
    #[arg(long, value_name = "WAY")]
    pub direction: Option<Way>,
    /// It came in or left by this interface. May be given several times.
    #[arg(long = "interface", short = 'i', value_name = "INTERFACE")]
    pub interfaces: Vec<String>,
    /// An SA of this SPI protects it.
    #[arg(long, value_name = "SPI", value_parser = number::spi)]
    pub spi: Option<u32>,
    /// An SA of this reqid protects it.
    #[arg(long, value_name = "REQID")]
    pub reqid: Option<u32>,
    /// This policy decides: its index, as `culvert why` names it.
    #[arg(long, value_name = "INDEX")]
    pub policy: Option<u32>,
    /// It comes from this address or prefix. Of what is encrypted, addresses, protocol and ports may as well be
    /// those of what is inside.
    #[arg(long, value_name = "ADDRESS[/LENGTH]")]
    pub from: Option<Network>,
    /// It goes there.
    #[arg(long, value_name = "ADDRESS[/LENGTH]")]
    pub to: Option<Network>,
    /// It comes from there or goes there.
    #[arg(long, value_name = "ADDRESS[/LENGTH]")]
    pub host: Option<Network>,
    /// Its protocol: tcp, udp, icmp, icmpv6, sctp, gre, esp, ah, or a number.
    #[arg(long, value_name = "PROTOCOL", value_parser = protocol::parse)]
    pub proto: Option<u8>,
    /// Its source port; of ICMP the type.
    #[arg(long, value_name = "PORT")]
    pub sport: Option<u16>,
    /// Its destination port; of ICMP the code.
    #[arg(long, value_name = "PORT")]
    pub dport: Option<u16>,
    /// One of its ports.
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// It is dropped.
    #[arg(long)]
    pub drops: bool,
    /// It is dropped for this reason, as `culvert drops --all` names them.
    #[arg(long, value_name = "REASON", value_parser = reason)]
    pub reason: Option<String>,
}

/// Where packets are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tap {
    /// Packets that SAs protect, encrypted.
    Wire,
    /// Packets in clear.
    Plain,
    /// Frames that are no IP packet for this host.
    Frame,
}

/// Which way packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// In from peers.
    In,
    /// Out to peers.
    Out,
}

impl FilterArgs {
    /// As the daemon is asked.
    pub fn filter(&self) -> PacketFilter {
        PacketFilter {
            tap: self.tap.and_then(|tap| Some(tap.to_possible_value()?.get_name().into())),
            is_outbound: self.direction.map(|way| way == Way::Out),
            interfaces: self.interfaces.clone(),
            spi: self.spi,
            reqid: self.reqid,
            policy: self.policy,
            src: self.from,
            dst: self.to,
            host: self.host,
            protocol: self.proto,
            src_port: self.sport,
            dst_port: self.dport,
            port: self.port,
            drops: self.drops,
            reason: self.reason.clone(),
        }
    }
}

/// A drop reason's name.
fn reason(text: &str) -> Result<String, String> {
    match DropReason::ALL.iter().any(|reason| reason.name() == text) {
        true => Ok(text.to_owned()),
        false => Err("no such reason: `culvert drops --all` lists them".into()),
    }
}
