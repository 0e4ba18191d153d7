//! `culvert why`.

use std::error::Error;
use std::net::IpAddr;

use wire::protocol;

use crate::cli::WhyArgs;
use crate::client::ask_json;
use crate::report::{Request, Why, WhyAnswer, WhyPacket, WhyRequest};
use crate::table::pairs;

/// ICMP's and ICMPv6's protocol, and the type of their echo request.
const PING: (u8, u16) = (protocol::ICMP, 8);
const PING_V6: (u8, u16) = (protocol::ICMPV6, 128);

/// Ports of a packet that asks for none: an ephemeral one, and that of `discard`.
const PORTS: (u16, u16) = (40_000, 9);

/// Asks what would be done with a packet.
pub fn why(name: &str, json: bool, args: &WhyArgs) -> Result<String, Box<dyn Error>> {
    let answer = ask_json(name, Request::Why(request(args)))?;
    match serde_json::from_str(&answer)? {
        WhyAnswer::Refused { error } => Err(error.into()),
        WhyAnswer::Why(_) if json => Ok(answer),
        WhyAnswer::Why(why) => Ok(text(&why)),
    }
}

/// What arguments ask.
pub fn request(args: &WhyArgs) -> WhyRequest {
    let (ping, echo) = match args.to {
        IpAddr::V4(_) => PING,
        IpAddr::V6(_) => PING_V6,
    };
    let protocol = args.proto.unwrap_or(ping);
    let (src_port, dst_port) = match protocol {
        protocol::ICMP | protocol::ICMPV6 => (echo, 0),
        number if protocol::has_ports(number) => PORTS,
        _ => (0, 0),
    };
    let packet = WhyPacket {
        src: args.from,
        dst: args.to,
        protocol,
        src_port: args.sport.unwrap_or(src_port),
        dst_port: args.dport.unwrap_or(dst_port),
        len: args.len,
        dont_fragment: args.df,
        ttl: args.ttl,
        dscp: args.dscp,
    };
    WhyRequest { packet, interface: args.interface.clone(), spi: args.spi, mark: args.mark }
}

fn text(why: &Why) -> String {
    let steps = why.steps.iter().map(|step| (step.question.as_str(), step.answer.as_str()));
    let mut text = format!("{}, {}\n{}", why.packet, why.came, pairs(steps));
    text += &format!("\n=> {}", why.verdict);
    for hint in &why.hints {
        text += &format!("\n   {hint}");
    }
    text
}
