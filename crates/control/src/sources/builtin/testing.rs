//! Support that tests of the daemon share.

use std::path::Path;
use std::time::{Duration, Instant};

use vault::{Record, Vault, VaultError};

/// Opens a vault that this process may have let go of a moment ago. The child of another test,
/// between fork and exec, may hold on to it a little longer.
pub(super) fn open_vault(dir: &Path) -> (Vault, Vec<Record>) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match Vault::open(dir) {
            Err(VaultError::InUse { .. }) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            other => return other.unwrap(),
        }
    }
}
