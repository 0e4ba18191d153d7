//! `culvert device`: offload devices, their tables, and what they have done.

use report::client::{ClientError, ask, ask_json};
use report::units::si;
use report::{Device, DeviceMove, Refused, Request};

use crate::cli::DeviceArgs;
use crate::table::table;

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
    if let Some([device, fault]) = args.fault.as_deref() {
        let (device, fault) = (device.clone(), fault.clone());
        let done = format!("{device}: {fault}");
        let refused: Option<Refused> = ask(name, Request::DeviceFault { device, fault })?;
        return refused.map_or(Ok(done), |refused| Err(refused.error.into()));
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
    let moves: Vec<String> = devices.iter().flat_map(moves).collect();
    let rows = devices.into_iter().map(|d| {
        let tables = d.tables.iter().map(|t| format!("{} {}/{}", t.name, t.used, t.most));
        vec![
            d.name,
            d.kind.to_string(),
            d.port,
            d.placement.to_string(),
            d.has,
            d.state.to_string(),
            tables.collect::<Vec<_>>().join(", "),
            si(d.sealed),
            si(d.opened),
            si(d.wrong_icv),
            si(d.refused),
            si(d.in_software),
            si(d.compared),
            d.resets.to_string(),
        ]
    });
    let head = [
        "DEVICE",
        "KIND",
        "PORT",
        "DOES",
        "HAS",
        "STATE",
        "TABLES",
        ">SEALED",
        ">OPENED",
        ">ICV",
        ">REFUSED",
        ">SOFTWARE",
        ">CHECKED",
        ">RESETS",
    ];
    let mut text = table(&head, rows);
    if !moves.is_empty() {
        text.push_str("\n\nlast moves:\n");
        text.push_str(&moves.join("\n"));
    }
    Ok(text)
}

/// Moves of a device and its SAs, a line each.
fn moves(device: &Device) -> Vec<String> {
    let line = |step: &DeviceMove| {
        let ago = step.age_s;
        let to = step.to.as_deref().unwrap_or_default();
        let sa = step.spi.as_ref().map(|spi| {
            let dst = step.dst.as_deref().unwrap_or_default();
            format!("{spi} to {dst} into {to}: ")
        });
        format!("{}, {ago} s ago: {}{}", device.name, sa.unwrap_or_default(), step.why)
    };
    device.moves.iter().map(line).collect()
}
