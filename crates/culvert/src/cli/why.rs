//! Arguments of `culvert why`.

use std::net::IpAddr;

use clap::Args;
use report::protocol;

use super::number;

/// Below the help.
pub const EXAMPLES: &str = "Examples:\n  \
    culvert why --from 10.1.0.5 --to 10.2.0.9 --proto tcp --dport 443\n  \
    culvert why --from 10.1.0.5 --to 10.2.0.9 --in lan --len 1500 --df\n  \
    culvert why --from 10.1.0.5 --to 10.2.0.9 --in lan --dscp EF\n  \
    culvert why --from 10.2.0.9 --to 10.1.0.5 --spi 0xc1a2b3d4";

/// Arguments of `culvert why`.
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// The packet's source.
    #[arg(long, value_name = "ADDRESS")]
    pub from: IpAddr,
    /// The packet's destination.
    #[arg(long, value_name = "ADDRESS")]
    pub to: IpAddr,
    /// Its protocol: tcp, udp, icmp, icmpv6, sctp, gre, esp, ah, or a number. Without it and without ports: an echo
    /// request (ping).
    #[arg(long, value_name = "PROTOCOL", value_parser = protocol::parse)]
    pub proto: Option<u8>,
    /// Its source port, of a protocol that has ports (--proto); of ICMP the type.
    #[arg(long, value_name = "PORT")]
    pub sport: Option<u16>,
    /// Its destination port, likewise; of ICMP the code.
    #[arg(long, value_name = "PORT")]
    pub dport: Option<u16>,
    /// The interface that it comes in by. Without it: from this host if the source is an address of it,
    /// else the interface that the route to the source leads to.
    #[arg(long = "in", value_name = "INTERFACE", conflicts_with = "spi")]
    pub interface: Option<String>,
    /// It was decrypted by the inbound SA with this SPI.
    #[arg(long, value_name = "SPI", value_parser = number::spi)]
    pub spi: Option<u32>,
    /// Its mark, of a packet that Linux sends.
    #[arg(long, value_name = "MARK", default_value = "0", value_parser = number::mark)]
    pub mark: u32,
    /// Its length in bytes, with the IP header.
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    pub len: u16,
    /// IPv4: it must not be fragmented (DF).
    #[arg(long)]
    pub df: bool,
    /// Its TTL or hop limit.
    #[arg(long, value_name = "TTL", default_value_t = 64)]
    pub ttl: u8,
    /// Its DSCP: 0 to 63, or a class such as EF.
    #[arg(long, value_name = "DSCP", default_value = "0", value_parser = number::dscp)]
    pub dscp: u8,
}
