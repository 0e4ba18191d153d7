//! `culvert extcap`: Wireshark asks for interfaces and options, and captures.
//!
//! Each question and answer is a line of text, as Wireshark's manual page extcap(4) has them.

use std::error::Error;

use control::pcapng::LINK_RAW;
use report::client::running;

use super::capture::{Teller, capture};
use crate::cli::{CaptureArgs, ExtcapArgs};

/// Prefix of an interface's name, before the daemon's name.
const PREFIX: &str = "culvert-";

/// Options for Wireshark: the option, its name and its meaning. One without a value is a flag.
const OPTIONS: [(&str, &str, &str, &str); 10] = [
    ("--host", "Address", "An address or a prefix, of what is inside too", "string"),
    ("--proto", "Protocol", "tcp, udp, icmp, icmpv6, sctp, gre, esp, ah, or a number", "string"),
    ("--port", "Port", "Source or destination port", "string"),
    ("--tap", "Tap", "wire (encrypted), plain (in clear) or frame (no IP packet)", "string"),
    ("--interface", "Interface", "It came in or left by this one", "string"),
    ("--spi", "SPI", "Of its SA, in hexadecimal (0x...) or decimal", "string"),
    ("--reqid", "Reqid", "Of its SA", "string"),
    ("--policy", "Policy", "The index of the policy that decides", "string"),
    ("--drops", "Dropped", "Dropped packets alone", "boolflag"),
    (
        "--reason",
        "Reason",
        "Dropped for this reason, as `culvert drops --all` names them",
        "string",
    ),
];

/// Runs `culvert extcap`: answers Wireshark.
pub fn extcap(args: &ExtcapArgs) -> Result<String, Box<dyn Error>> {
    if args.extcap_interfaces {
        return Ok(interfaces(&running()));
    }
    let interface = args.extcap_interface.as_deref();
    let name = interface.and_then(|interface| interface.strip_prefix(PREFIX));
    let Some(name) = name.filter(|name| config::valid_name(name)) else {
        return Err("Wireshark calls this: see docs/guides/capture.md".into());
    };
    let filter = args.extcap_capture_filter.as_deref().unwrap_or_default();
    if !filter.is_empty() {
        // Wireshark asks so whether it is right, before it captures.
        return Err("capture filters are not understood here: use the interface's options".into());
    }
    if args.extcap_dlts {
        return Ok(format!(
            "dlt {{number={LINK_RAW}}}{{name=RAW}}{{display=IP before and after IPsec}}"
        ));
    }
    if args.extcap_config {
        return Ok(options());
    }
    if let (true, Some(fifo)) = (args.capture, &args.fifo) {
        let args = CaptureArgs::to(fifo.clone(), args.filter.clone());
        capture(name, &args, Teller::Wireshark)?;
    }
    Ok(String::new())
}

fn interfaces(names: &[String]) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!("extcap {{version={version}}}{{display=culvert}}\n");
    for name in names {
        text += &format!(
            "interface {{value={PREFIX}{name}}}{{display=culvert {name}: before and after IPsec}}\n"
        );
    }
    text
}

fn options() -> String {
    let options = OPTIONS.iter().enumerate().map(|(number, (call, display, tooltip, kind))| {
        format!(
            "arg {{number={number}}}{{call={call}}}{{display={display}}}{{tooltip={tooltip}}}\
             {{type={kind}}}\n"
        )
    });
    options.collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_option_is_one_of_the_commands() {
        let command = crate::cli::Cli::command();
        let extcap = command.find_subcommand("extcap").expect("the command");
        for (call, ..) in OPTIONS {
            let name = call.strip_prefix("--");
            assert!(extcap.get_arguments().any(|arg| arg.get_long() == name), "{call}");
        }
    }

    #[test]
    fn wireshark_is_told_the_daemons() {
        let text = interfaces(&["gw".to_owned()]);
        assert!(text.starts_with("extcap {version="), "{text}");
        assert!(text.contains("\ninterface {value=culvert-gw}{display=culvert gw: "), "{text}");
    }
}
