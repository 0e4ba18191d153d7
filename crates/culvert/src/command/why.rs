//! `culvert why`.

use std::error::Error;
use std::net::IpAddr;

use report::client::ask_json;
use report::{Request, Why, WhyAnswer, WhyPacket, WhyRequest};
use wire::protocol;

use crate::cli::WhyArgs;
use crate::table::pairs;

/// ICMP's and ICMPv6's protocol, and the type of their echo request.
const PING: (u8, u16) = (protocol::ICMP, 8);
const PING_V6: (u8, u16) = (protocol::ICMPV6, 128);

/// Ports of a packet that asks for none: an ephemeral one, and that of `discard`.
const PORTS: (u16, u16) = (40_000, 9);

/// Asks what would be done with a packet.
pub fn why(name: &str, json: bool, args: &WhyArgs) -> Result<String, Box<dyn Error>> {
    let answer = ask_json(name, Request::Why(request(args)?))?;
    match serde_json::from_str(&answer)? {
        WhyAnswer::Refused { error } => Err(error.into()),
        WhyAnswer::Why(_) if json => Ok(answer),
        WhyAnswer::Why(why) => Ok(text(&why)),
    }
}

/// Arguments that describe no packet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct NoPacket {
    /// The argument that is missing or wrong.
    pub field: &'static str,
    /// The mistake, and what would be right.
    pub text: String,
}

/// The request of these arguments.
///
/// # Errors
/// Ports without a protocol that has them.
pub fn request(args: &WhyArgs) -> Result<WhyRequest, NoPacket> {
    if let (None, Some((option, port))) = (args.proto, ports(args).next()) {
        let text = format!(
            "--{option} {port} says no protocol: add --proto tcp or --proto udp (with --proto icmp, --sport is the type \
             and --dport the code)"
        );
        return Err(NoPacket { field: "proto", text });
    }
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
    if protocol::is_icmp(protocol)
        && let Some((field, value)) = ports(args).find(|(_, value)| *value > u16::from(u8::MAX))
    {
        let what = if field == "sport" { "type" } else { "code" };
        let text = format!("--{field} {value}: an ICMP {what} is a number from 0 to 255");
        return Err(NoPacket { field, text });
    }
    Ok(WhyRequest { packet, interface: args.interface.clone(), spi: args.spi, mark: args.mark })
}

/// The ports that are given, with their options.
fn ports(args: &WhyArgs) -> impl Iterator<Item = (&'static str, u16)> {
    let ports = [("dport", args.dport), ("sport", args.sport)];
    ports.into_iter().filter_map(|(option, port)| Some((option, port?)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{WhyQuery, parse_query};

    fn asked(more: &str) -> Result<WhyPacket, NoPacket> {
        let query = parse_query::<WhyQuery>(&format!("from=10.1.0.5&to=10.2.0.9{more}"));
        request(&query.expect("understood").args).map(|request| request.packet)
    }

    #[test]
    fn a_port_wants_a_protocol() {
        for (more, option) in [("&dport=53", "--dport 53"), ("&sport=1000", "--sport 1000")] {
            let error = asked(more).expect_err("no protocol");
            assert!(
                error.text.starts_with(option) && error.text.contains("--proto udp"),
                "{error}"
            );
            assert_eq!(error.field, "proto");
        }
        let packet = asked("&dport=53&proto=udp").expect("a packet");
        assert_eq!((packet.protocol, packet.dst_port), (protocol::UDP, 53));
    }

    #[test]
    fn a_ping_is_the_default_and_icmp_has_type_and_code() {
        let ping = asked("").expect("a packet");
        assert_eq!((ping.protocol, ping.src_port, ping.dst_port), (protocol::ICMP, 8, 0));
        let unreachable = asked("&proto=icmp&sport=3&dport=4").expect("a packet");
        assert_eq!((unreachable.src_port, unreachable.dst_port), (3, 4));
        let error = asked("&proto=icmp&sport=300").expect_err("no type");
        assert_eq!(
            (error.field, error.text.as_str()),
            ("sport", "--sport 300: an ICMP type is a number from 0 to 255")
        );
    }
}
