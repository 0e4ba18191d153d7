//! Per-interface settings below `/proc/sys/net`.
//!
//! In a container `/proc/sys` is read-only, and no runtime lets anything be mounted there. The environment's
//! `CULVERT_PROC_SYS` names a folder where `net` of it is mounted to be written; settings are read there too.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::error::Error;
use crate::model::Family;

/// Reads `net.<family>.conf.<interface>.<name>` in the network namespace of the calling thread.
///
/// # Errors
/// [`Error::Setting`] with the file's path.
pub fn interface_setting(family: Family, interface: &str, name: &str) -> Result<i64, Error> {
    let path = path_of(family, interface, name)?;
    let failed = |source| Error::Setting { path: path.clone(), source };
    let text = fs::read_to_string(&path).map_err(failed)?;
    text.trim().parse().map_err(|e| failed(io::Error::new(io::ErrorKind::InvalidData, e)))
}

/// Writes `net.<family>.conf.<interface>.<name>` in the network namespace of the calling thread
/// (`disable_xfrm`, `disable_policy`, `rp_filter`, `accept_ra`, …).
///
/// # Errors
/// [`Error::Setting`] with the file's path: `ENOENT` where the kernel or the interface does not
/// have the setting.
pub fn set_interface_setting(
    family: Family,
    interface: &str,
    name: &str,
    value: i64,
) -> Result<(), Error> {
    let path = path_of(family, interface, name)?;
    fs::write(&path, format!("{value}\n")).map_err(|source| Error::Setting { path, source })
}

fn proc_sys() -> PathBuf {
    std::env::var_os("CULVERT_PROC_SYS").map_or_else(|| "/proc/sys".into(), PathBuf::from)
}

fn path_of(family: Family, interface: &str, name: &str) -> Result<PathBuf, Error> {
    let family = match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    };
    let path = proc_sys().join("net").join(family).join("conf").join(interface).join(name);
    // Both are single names: nothing else below /proc is reached.
    let is_name = |s: &str| !s.is_empty() && s != "." && s != ".." && !s.contains(['/', '\0']);
    if is_name(interface) && is_name(name) {
        Ok(path)
    } else {
        Err(Error::Setting { path, source: io::ErrorKind::InvalidInput.into() })
    }
}
