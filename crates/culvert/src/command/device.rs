//! `culvert device`: offload devices, their tables, and what they have done.

use crate::cli::DeviceArgs;
use crate::client::{ClientError, ask, ask_json};
use crate::report::{Device, Refused, Request};
use crate::table::{si, table};

/// Shows the devices, or resets one.
///
/// # Errors
/// No daemon answers, or it cannot reset the device.
pub fn device(
    name: &str,
    json: bool,
    args: &DeviceArgs,
) -> Result<String, Box<dyn std::error::Error>> {
    if let Some(device) = &args.reset {
        let request = Request::DeviceReset { device: device.clone() };
        let refused: Option<Refused> = ask(name, request)?;
        return match refused {
            Some(refused) => Err(refused.error.into()),
            None if json => Ok(format!("{{\"reset\":\"{device}\"}}")),
            None => Ok(format!("{device}: reset, and loaded again")),
        };
    }
    match json {
        true => Ok(ask_json(name, Request::Device)?),
        false => Ok(text(name)?),
    }
}

fn text(name: &str) -> Result<String, ClientError> {
    let devices: Vec<Device> = ask(name, Request::Device)?;
    if devices.is_empty() {
        return Ok("no offload devices; [device.NAME] of the configuration names them".into());
    }
    let rows = devices.into_iter().map(|d| {
        let tables = d.tables.iter().map(|t| format!("{} {}/{}", t.name, t.used, t.most));
        vec![
            d.name,
            d.kind,
            d.port,
            d.placement,
            tables.collect::<Vec<_>>().join(", "),
            si(d.sealed),
            si(d.opened),
            si(d.wrong_icv),
            si(d.refused),
            si(d.in_software),
            d.resets.to_string(),
        ]
    });
    let head = [
        "DEVICE",
        "KIND",
        "PORT",
        "DOES",
        "TABLES",
        ">SEALED",
        ">OPENED",
        ">ICV",
        ">REFUSED",
        ">SOFTWARE",
        ">RESETS",
    ];
    Ok(table(&head, rows))
}
