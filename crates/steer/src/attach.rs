//! Attaches the program to an interface.

use aya::programs::links::FdLink;
use aya::programs::xdp::XdpMode;
use aya::programs::{ProgramError, Xdp};

use crate::config::{Attached, Mode};
use crate::error::{SteerError, chain};

/// Attaches it by a link, and says where.
pub(crate) fn attach(
    xdp: &mut Xdp,
    interface: &str,
    mode: Mode,
) -> Result<(FdLink, Attached), SteerError> {
    let tries: &[Attached] = match mode {
        Mode::Auto => &[Attached::Native, Attached::Generic],
        Mode::Native => &[Attached::Native],
        Mode::Generic => &[Attached::Generic],
    };
    let (mut last, mut tried) = (String::new(), Attached::Native);
    let mut code = None;
    for &attached in tries {
        let flags = match attached {
            Attached::Native => XdpMode::Driver,
            Attached::Generic | Attached::Tcx => XdpMode::Skb,
        };
        tried = attached;
        let error = match xdp.attach(interface, flags) {
            Ok(id) => {
                let link = xdp.take_link(id).ok().and_then(|link| FdLink::try_from(link).ok());
                if let Some(link) = link {
                    if mode == Mode::Auto && attached == Attached::Generic {
                        tracing::warn!(
                            interface,
                            reason = last,
                            "the driver does not take the XDP program; attached in generic mode, \
                             which is slower"
                        );
                    }
                    return Ok((link, attached));
                }
                "the kernel has no links for XDP".to_owned()
            }
            Err(error) => {
                code = errno(&error);
                chain(&error)
            }
        };
        // EEXIST: a program in the other mode. Either way another program is attached.
        if matches!(code, Some(libc::EBUSY | libc::EEXIST)) {
            return Err(SteerError::Foreign { interface: interface.to_owned() });
        }
        last = error;
    }
    let hint = match code {
        Some(libc::EPERM | libc::EACCES) => "run as root or with CAP_NET_ADMIN and CAP_BPF",
        Some(libc::ENODEV) => "no such interface: see ip link",
        Some(libc::EOPNOTSUPP) => "the driver has no XDP: use generic mode",
        Some(libc::ERANGE | libc::EINVAL) => {
            "the MTU may be too large for the driver: lower it, or set frags"
        }
        _ if last.contains("unknown network interface") => "see ip link for the interfaces",
        _ => "Linux 5.9 or later is needed; see the kernel's log",
    };
    let interface = interface.to_owned();
    Err(SteerError::Attach { interface, mode: tried, reason: last, hint })
}

fn errno(error: &ProgramError) -> Option<i32> {
    match error {
        ProgramError::SyscallError(call) => call.io_error.raw_os_error(),
        _ => None,
    }
}
