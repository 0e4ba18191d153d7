//! `culvert guard`: the guard without a daemon.

use std::collections::HashMap;
use std::error::Error;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, IsTerminal};
use std::time::Instant;

use config::{Config, TunConfig, valid_name};
use control::files;
use doctor::{confirm, orphans};
use guard::{Barrier, Effect, Guard, GuardError};
use report::paths;
use report::protocol;
use vault::Vault;
use xfrm::RecordKey;

use crate::table::table;

fn open(name: &str, tun: &str) -> Result<Guard, Box<dyn Error>> {
    let directory = paths::runtime_dir(name);
    files::runtime_directory(&directory)?;
    Ok(Guard::open(name, tun, &directory)?)
}

/// As [`open`], but leaves nothing behind.
fn look(name: &str) -> Result<Guard, GuardError> {
    Guard::open(name, &TunConfig::default().interface, &paths::runtime_dir(name))
}

/// Other instances that have barriers in this network namespace, and how many.
fn others(name: &str) -> Vec<(String, usize)> {
    let entries = fs::read_dir(paths::RUNTIME).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut others: Vec<_> = names
        .filter(|other| other != name && valid_name(other))
        // What cannot be read tells nothing.
        .filter_map(|other| {
            let mut guard = look(&other).ok().filter(|guard| guard.standing().len() > 0)?;
            Some((guard.present().ok()?, other))
        })
        .filter(|(count, _)| *count > 0)
        .map(|(count, other)| (other, count))
        .collect();
    others.sort_unstable();
    others
}

/// Text where an instance has no barriers, and these others have some.
fn none_text(name: &str, others: &[(String, usize)]) -> String {
    if others.is_empty() {
        return "no guard stands: the kernel would forward everything as it is".into();
    }
    let others = others.iter().map(|(name, count)| format!("{name} ({count})"));
    let others = others.collect::<Vec<_>>().join(", ");
    format!("no guard of instance {name:?} stands; barriers of: {others}. Name it with --name")
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
    let guard = look(name)?;
    if json {
        let barriers = guard.standing().map(in_words);
        return Ok(serde_json::Value::from(barriers.collect::<Vec<_>>()).to_string());
    }
    let mut barriers: Vec<_> = guard.standing().collect();
    if barriers.is_empty() {
        return Ok(none_text(name, &others(name)));
    }
    barriers.sort_by_key(|b| (b.priority(), b.to_string()));
    let rows = barriers.into_iter().map(|b| vec![effect(b).into(), b.to_string()]);
    Ok(table(&["EFFECT", "SELECTOR"], rows))
}

fn effect(barrier: &Barrier) -> &'static str {
    match barrier.effect() {
        Effect::Block if barrier.is_default() => "block by default",
        Effect::Block => "block",
        Effect::Pass => "pass",
    }
}

/// A barrier as JSON, in the words of `culvert policy --json`.
fn in_words(barrier: &Barrier) -> serde_json::Value {
    let selector = barrier.selector();
    let protocol = match selector.protocol {
        0 => "any".to_owned(),
        number => protocol::name(number),
    };
    let prefix = |prefix: policy::Prefix| format!("{}/{}", prefix.addr, prefix.len);
    let port = |port: policy::PortMask| (port.mask != 0).then_some(port.value);
    serde_json::json!({
        "effect": effect(barrier),
        "direction": barrier.way(),
        "src": prefix(selector.src),
        "dst": prefix(selector.dst),
        "protocol": protocol,
        "sport": port(selector.src_port),
        "dport": port(selector.dst_port),
        "priority": barrier.priority(),
        "selector": barrier.to_string(),
    })
}

/// Installs the barriers of the configured prefixes, and keeps those of policies.
pub fn apply(config: &Config) -> Result<String, Box<dyn Error>> {
    let mut guard = open(&config.name, &config.tun.interface)?;
    if !config.guard.enabled {
        return Err("guard.enabled = false in the configuration: nothing was done".into());
    }
    let _alone = alone(&config.name)?;
    let prefixes: Vec<_> = config.guard.prefixes.iter().map(|p| p.0).collect();
    guard.add_prefixes(&prefixes, Instant::now())?;
    Ok(format!("{} barriers stand", guard.standing().len()))
}

/// State that a daemon has saved for its next start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Saved {
    sas: usize,
    policies: usize,
}

impl Saved {
    /// By the journal's records, of which a later one takes the place of an earlier one with its key.
    fn in_journal(journal: &[u8]) -> Option<Saved> {
        let replay = vault::read_journal(journal).ok()?;
        let records = replay.frames.iter().map(|(_, frame)| (frame.key, frame.value.is_some()));
        let last: HashMap<&[u8], bool> = records.collect();
        let is = |sa| {
            let keys = last.iter().filter(|(_, is_there)| **is_there);
            keys.filter(|(key, _)| RecordKey::is_sa(key) == Some(sa)).count()
        };
        Some(Saved { sas: is(true), policies: is(false) })
    }

    /// The loss, in words. `None` where nothing is saved.
    fn loss(self, name: &str) -> Option<String> {
        let Saved { sas, policies } = self;
        (sas + policies > 0).then(|| {
            format!(
                "{sas} SAs and {policies} policies of instance {name:?} are saved: `culvert run` would take them up, and \
                 their tunnels would go on. Forgotten, the IKE daemon has to negotiate anew, and until then what they \
                 protect can leave in clear"
            )
        })
    }
}

/// The loss of an instance's saved state, in words. `None` if it has none.
fn loss(name: &str) -> Option<String> {
    let [journal, ..] = Vault::files(&paths::vault_dir(name));
    let bytes = fs::read(journal).ok()?;
    match Saved::in_journal(&bytes) {
        Some(saved) => saved.loss(name),
        None => Some(format!("what instance {name:?} has saved cannot be read: it may have SAs")),
    }
}

/// Removes the barriers, the saved state and the routing rules of an instance that no longer runs. `yes`: SAs are
/// forgotten without a question.
///
/// # Errors
/// There is nothing of such an instance: most likely another one is meant. Or something is saved, and nobody agrees
/// that it is forgotten.
pub fn clear(name: &str, yes: bool) -> Result<String, Box<dyn Error>> {
    if !paths::runtime_dir(name).exists() {
        let others = others(name);
        return Err(match others.is_empty() {
            true => format!(
                "instance {name:?} has no barriers and nothing saved here: nothing was done"
            )
            .into(),
            false => none_text(name, &others).into(),
        });
    }
    let _alone = alone(name)?;
    if let Some(loss) = loss(name).filter(|_| !yes) {
        agreed(&loss, io::stdin().is_terminal(), confirm)?;
    }
    let interface = fs::read_to_string(paths::interface_file(name)).ok();
    let tun = TunConfig::default();
    let interface = interface.map_or(tun.interface, |name| name.trim().to_owned());
    let mut guard = open(name, &interface)?;
    let count = guard.standing().len();
    guard.clear(Instant::now())?;
    drop(guard);
    // Nobody restores the saved SAs any more: their keys are removed with them.
    match fs::remove_dir_all(paths::runtime_dir(name)) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let rules = orphans::remove();
    let rules = match rules {
        0 => String::new(),
        n => format!("; {n} routing rules of a daemon that was killed removed"),
    };
    Ok(format!("{count} barriers taken down; saved SAs and policies of {name} forgotten{rules}"))
}

/// Asks whether something may be lost.
fn agreed(
    loss: &str,
    is_terminal: bool,
    ask: impl FnOnce() -> io::Result<bool>,
) -> Result<(), Box<dyn Error>> {
    if !is_terminal {
        return Err(format!("{loss}\n  nothing was done; --yes forgets them").into());
    }
    eprintln!("culvert: {loss}");
    if ask()? { Ok(()) } else { Err("nothing was done".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barriers_of_others_are_no_all_clear() {
        let clear = "no guard stands: the kernel would forward everything as it is";
        assert_eq!(none_text("default", &[]), clear);
        let others = [("nc-gwa".to_owned(), 12), ("nc-gwb".to_owned(), 3)];
        assert_eq!(
            none_text("default", &others),
            "no guard of instance \"default\" stands; barriers of: nc-gwa (12), nc-gwb (3). Name it with --name"
        );
    }

    #[test]
    fn saved_sas_are_forgotten_only_if_somebody_agrees() {
        let loss = Saved { sas: 2, policies: 6 }.loss("gwa").expect("a loss");
        assert!(loss.starts_with("2 SAs and 6 policies of instance \"gwa\" are saved"), "{loss}");
        let never = || unreachable!("asked without a terminal");
        let error = agreed(&loss, false, never).expect_err("refused").to_string();
        assert!(error.contains("2 SAs") && error.ends_with("--yes forgets them"), "{error}");
        assert!(agreed(&loss, true, || Ok(true)).is_ok());
        assert!(agreed(&loss, true, || Ok(false)).is_err());
        assert_eq!(Saved::default().loss("gwa"), None);
    }

    #[test]
    fn what_is_saved_is_counted_by_the_journal() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("vault");
        let (mut vault, _) = Vault::open(&path).expect("a vault");
        let policy = RecordKey::Policy(17).to_bytes();
        vault.put(&policy, b"one").expect("put");
        vault.put(&policy, b"two").expect("put");
        vault.put(&RecordKey::Policy(25).to_bytes(), b"x").expect("put");
        vault.put(&RecordKey::Defaults.to_bytes(), b"x").expect("put");
        vault.remove(&RecordKey::Policy(25).to_bytes()).expect("remove");
        let [journal, ..] = Vault::files(&path);
        let saved = Saved::in_journal(&fs::read(journal).expect("a journal"));
        assert_eq!(saved, Some(Saved { sas: 0, policies: 1 }));
        assert_eq!(Saved::in_journal(b"something else"), None);
    }

    #[test]
    fn nothing_is_cleared_of_an_instance_that_has_nothing() {
        let error = clear("no-such-instance", true).expect_err("nothing is there").to_string();
        assert!(error.contains("\"no-such-instance\""), "{error}");
        assert!(!paths::runtime_dir("no-such-instance").exists());
    }
}
