//! `culvert guard`: the guard without a daemon.

use std::error::Error;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;

use guard::{Effect, Guard};

use crate::config::{Config, TunConfig};
use crate::paths;
use crate::table::table;

fn open(name: &str, tun: &str) -> Result<Guard, Box<dyn Error>> {
    let directory = paths::runtime_dir(name);
    let result = fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory);
    result.map_err(|e| format!("{}: {e}", directory.display()))?;
    Ok(Guard::open(name, tun, &directory)?)
}

/// Makes sure that no daemon runs, not even one that is starting and has no socket yet, and that
/// none starts while the value lives. A vault too damaged to be opened is no hindrance.
fn alone(name: &str) -> Result<Option<File>, Box<dyn Error>> {
    let vault = match File::open(paths::vault_dir(name)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    match vault.try_lock() {
        Ok(()) => Ok(Some(vault)),
        Err(TryLockError::WouldBlock) => {
            Err(format!("the daemon {name} runs; its guard goes with its policies").into())
        }
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// The installed barriers, by the list that daemon and commands keep.
pub fn show(name: &str, json: bool) -> Result<String, Box<dyn Error>> {
    let guard = open(name, &TunConfig::default().interface)?;
    if json {
        return Ok(serde_json::to_string(&guard.standing().collect::<Vec<_>>())?);
    }
    let mut barriers: Vec<_> = guard.standing().collect();
    if barriers.is_empty() {
        return Ok("no guard stands: the kernel would forward everything as it is".into());
    }
    barriers.sort_by_key(|b| (b.priority(), b.to_string()));
    let rows = barriers.into_iter().map(|b| {
        let effect = match b.effect() {
            Effect::Block => "block",
            Effect::Pass => "pass",
        };
        vec![effect.into(), b.to_string()]
    });
    Ok(table(&["EFFECT", "PACKETS"], rows))
}

/// Installs the barriers of the configured prefixes, and keeps those of policies.
pub fn apply(config: &Config) -> Result<String, Box<dyn Error>> {
    let mut guard = open(&config.name, &config.tun.interface)?;
    if !config.guard.enabled {
        return Err("guard.enabled = false in the configuration: nothing was done".into());
    }
    let _alone = alone(&config.name)?;
    let prefixes: Vec<_> = config.guard.prefixes.iter().map(|p| p.0).collect();
    guard.add_prefixes(&prefixes)?;
    Ok(format!("{} barriers stand", guard.standing().len()))
}

/// Removes the barriers and the saved state of an instance that no longer runs.
pub fn clear(name: &str) -> Result<String, Box<dyn Error>> {
    let _alone = alone(name)?;
    let mut guard = open(name, &TunConfig::default().interface)?;
    let count = guard.standing().len();
    guard.clear()?;
    drop(guard);
    // Nobody restores the saved SAs any more: their keys are removed with them.
    match fs::remove_dir_all(paths::runtime_dir(name)) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    Ok(format!("{count} barriers taken down; saved SAs and policies of {name} forgotten"))
}
