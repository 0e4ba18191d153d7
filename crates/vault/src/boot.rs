//! Which boot of the machine a vault is of.
//!
//! The page cache outlives the process, not the machine. What a disk has of a vault after a reboot
//! may be older than what was written: a live number could be one that was used. So the vault keeps
//! the kernel's boot id, and one of another boot is discarded, numbers and keys alike. On a tmpfs the
//! reboot itself has done that.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use crate::directory::{BOOT, Directory, FILES, open_private};
use crate::error::VaultError;
use crate::zero;

/// The kernel's id of this boot.
pub(crate) fn current() -> Result<String, VaultError> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let id = fs::read_to_string(path).map_err(VaultError::io(path, "cannot read"))?;
    Ok(id.trim().to_owned())
}

/// Discards what a vault of another boot has left, and notes the boot. Returns whether there was one.
///
/// A vault without a boot is of an earlier version. It is taken for one of this boot where no other
/// could have left it.
pub(crate) fn begin(directory: &Directory, boot: &str) -> Result<bool, VaultError> {
    let path = directory.file(BOOT);
    let failed = |doing| VaultError::io(&path, doing);
    let mut file = open_private(&path, false)?;
    let mut noted = String::new();
    // Bytes that are no text name no boot.
    match file.read_to_string(&mut noted) {
        Err(e) if e.kind() != io::ErrorKind::InvalidData => return Err(failed("cannot read")(e)),
        _ => {}
    }
    if noted == boot {
        return Ok(false);
    }
    let is_older = !noted.is_empty() || directory.is_on_disk()?;
    let mut is_discarded = false;
    for name in FILES.iter().filter(|name| is_older && **name != BOOT) {
        let path = directory.file(name);
        is_discarded |= path.exists();
        zero::remove(&path)
            .map_err(VaultError::io(&path, "cannot remove what another boot left"))?;
    }
    // Last: a start that dies before this line leaves the rest to the next start.
    drop(file);
    let mut file = open_private(&path, true)?;
    file.write_all(boot.as_bytes()).map_err(failed("cannot write"))?;
    Ok(is_discarded)
}
