//! Facts about this machine that a configuration depends on.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use config::{Config, DataPlane, EngineChoice, MemifRole, PortConfig};
use report::client;
use report::paths;
use steer::device::Device;

use super::running::Running;
use crate::applications::probe_ndpi;
use crate::layout;
use crate::limits::Memory;
use crate::nat::Nat;
use crate::paths::read_key;
use crate::ports::rings::queues_of;

/// The driver of TUN and TAP devices.
pub(super) const TUN: &str = "tun";

/// Facts by which a plan judges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The cores that the daemon may use.
    pub cores: Vec<usize>,
    /// The interfaces that the configuration names, as far as they are there.
    pub devices: BTreeMap<String, Device>,
    /// All interfaces of this network namespace.
    pub names: Vec<String>,
    /// Owner of the private interface's name, where it may not be made.
    pub private_is: Option<String>,
    /// Directories of memif sockets that are not there, by interface.
    pub lost_sockets: Vec<String>,
    /// Why the engine of the configuration cannot be made.
    pub lacks_engine: Option<String>,
    /// Why connection tracking cannot be asked.
    pub lacks_conntrack: Option<String>,
    /// Files of keys that cannot be read, or have none in them: the key that names each, the file, and why.
    pub lacks_keys: Vec<(String, String, String)>,
    /// Why nDPI cannot be asked, where it is to be.
    pub lacks_ndpi: Option<String>,
    /// Reason that the socket of `bfd.dataplane` cannot be used as it is, and what helps.
    pub lacks_bfdd: Option<(String, String)>,
    /// Memory that there is, and that saved state takes.
    pub memory: Memory,
    /// True if a daemon has this name: its memory is in use already.
    pub is_instance_running: bool,
    /// True for a run without ports and BPF.
    pub is_unprivileged: bool,
}

/// Looks at a machine: at this one, or in tests at one that is made up.
pub trait Look {
    /// The facts that matter to a configuration. What a running daemon has already is not tried again.
    fn look(&self, running: &Running, wanted: &Config) -> Machine;
}

/// Looks at this machine.
#[derive(Clone, Debug)]
pub struct Looker {
    /// The cores that the daemon may use.
    pub cores: Vec<usize>,
    /// True for a run without ports and BPF.
    pub is_unprivileged: bool,
}

impl Looker {
    /// This process, of whose threads none is pinned yet.
    pub fn new(is_unprivileged: bool) -> Looker {
        Looker { cores: layout::cores(), is_unprivileged }
    }
}

impl Look for Looker {
    fn look(&self, running: &Running, wanted: &Config) -> Machine {
        let named = wanted.ports.iter().map(|port| &port.interface);
        let named = named.chain(wanted.memifs.iter().map(|memif| &memif.interface));
        let named = named.chain(wanted.tunnels.iter().map(|tunnel| &tunnel.interface));
        let named = named.chain([&wanted.tun.interface]);
        let devices: BTreeMap<_, _> =
            named.filter_map(|name| Some((name.clone(), Device::look(name).ok()?))).collect();
        let lost = wanted.memifs.iter().filter(|memif| {
            let directory = memif.socket.parent().unwrap_or(Path::new("/"));
            memif.role == MemifRole::Server && !directory.is_dir()
        });
        let before = running.config.as_ref();
        let is_start = before.is_none();
        let private = devices.get(&wanted.tun.interface).filter(|_| is_start);
        let is_other_engine =
            before.is_none_or(|before| before.crypto.engine != wanted.crypto.engine);
        let asks_nat = is_start && wanted.nat.is_on() && rustix::process::geteuid().is_root();
        Machine {
            cores: self.cores.clone(),
            names: interface_names(),
            private_is: private.and_then(|there| owner(wanted, there)),
            lost_sockets: lost.map(|memif| memif.interface.clone()).collect(),
            lacks_engine: is_other_engine.then(|| lack_of(wanted.crypto.engine)).flatten(),
            lacks_conntrack: asks_nat
                .then(|| Nat::begin().err().map(|error| error.to_string()))
                .flatten(),
            lacks_keys: lacking_keys(wanted),
            lacks_ndpi: lack_of_ndpi(wanted, is_start),
            lacks_bfdd: lacking_bfdd(wanted),
            memory: Memory::look(&wanted.name),
            is_instance_running: is_start && client::is_running(&wanted.name),
            is_unprivileged: self.is_unprivileged,
            devices,
        }
    }
}

/// Why nDPI cannot be asked. A daemon that runs does not wait to hear it.
fn lack_of_ndpi(wanted: &Config, is_start: bool) -> Option<String> {
    let is_asked = is_start && wanted.applications.enabled && wanted.applications.ndpi;
    is_asked.then(probe_ndpi)?.err()
}

/// Files of keys without one. Who is not root does not know.
fn lacking_keys(config: &Config) -> Vec<(String, String, String)> {
    let of_paths =
        config.paths.iter().enumerate().filter_map(|(at, path)| {
            Some((format!("path[{at}].key_file"), path.key_file.as_ref()?))
        });
    let options = &config.path_options;
    let of_reflector = options.key_files.iter().enumerate().filter(|_| options.reflector);
    let of_reflector = of_reflector.map(|(at, file)| (format!("paths.key_files[{at}]"), file));
    let in_clear = options.clear.iter().flat_map(|clear| clear.key_files.iter().enumerate());
    let in_clear = in_clear.map(|(at, file)| (format!("paths.clear.key_files[{at}]"), file));
    let named = of_paths
        .chain(of_reflector)
        .chain(in_clear)
        .filter(|_| rustix::process::geteuid().is_root());
    let wrong = named.filter_map(|(key, file)| {
        let error = read_key(file).err()?;
        Some((key, file.display().to_string(), error.to_string()))
    });
    wrong.collect()
}

/// Reason that the socket of a `bfdd` cannot be used as it is, and what helps: a daemon has no right to pass over its mode.
fn lacking_bfdd(config: &Config) -> Option<(String, String)> {
    let Some(DataPlane::Unix(path)) = &config.bfd.dataplane else { return None };
    let start =
        format!("start bfdd with --dplaneaddr unix:{}; it is tried every 3 s", path.display());
    let say = |wrong: &str, remedy: String| Some((wrong.to_owned(), remedy));
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            say("there is no such socket, so bfdd is not asked yet", start)
        }
        Err(error) => Some((format!("it cannot be looked at: {error}"), start)),
        Ok(found) if !found.file_type().is_socket() => say("it is no socket", start),
        // By an ACL as well the group's bits have what is allowed.
        Ok(found) if found.uid() != 0 && found.mode() & 0o022 == 0 => say(
            "its owner alone may connect, and the daemon is root without CAP_DAC_OVERRIDE",
            "ipv4:127.0.0.1:50700 at both, or an ACL of the folder: setfacl -d -m u:root:rw".into(),
        ),
        Ok(_) => None,
    }
}

impl Machine {
    /// Queues to take of a port; at least one for an interface that is not there.
    pub fn queues_of(&self, port: &PortConfig) -> u32 {
        queues_of(port, self.devices.get(&port.interface).map(|device| device.rx_queues))
    }

    /// Queues of all ports, which share the packet buffers.
    pub fn queues_in_all(&self, config: &Config) -> u32 {
        config.ports.iter().map(|port| self.queues_of(port)).sum()
    }
}

/// Behind two lines of headings, each interface has one that begins with its name.
fn interface_names() -> Vec<String> {
    let table = fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let names = table.lines().skip(2).filter_map(|line| Some(line.split_once(':')?.0.trim()));
    names.map(str::to_owned).collect()
}

/// Owner of an interface that has the private one's name. `None` if this instance's daemon has it,
/// or had it a moment ago.
fn owner(config: &Config, there: &Device) -> Option<String> {
    let name = config.tun.interface.as_str();
    if there.driver != TUN {
        return Some("an interface of another kind has this name".into());
    }
    let claims = |instance: &str| {
        fs::read_to_string(paths::interface_file(instance)).is_ok_and(|text| text.trim() == name)
    };
    if claims(&config.name) {
        return None;
    }
    let other = client::running().into_iter().find(|instance| claims(instance));
    Some(match other {
        Some(instance) => format!("the instance {instance} has an interface of this name"),
        None => "another program has an interface of this name".into(),
    })
}

fn lack_of(choice: EngineChoice) -> Option<String> {
    match choice {
        EngineChoice::IpsecMb => ipsec_mb::IpsecMbProvider::new().err().map(|e| e.to_string()),
        EngineChoice::Openssl => {
            engine_openssl::OpensslProvider::new().err().map(|error| error.to_string())
        }
        // Which of them there are the log says.
        EngineChoice::Auto => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn sockets_of_bfdd_say_why_they_cannot_be_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("dplane.sock");
        let lacks = || {
            let text = format!("[bfd]\ndataplane = \"unix:{}\"\n", path.display());
            lacking_bfdd(&Config::parse(&text, Path::new("culvert.toml")).expect("a configuration"))
        };
        assert!(
            lacks()
                .is_some_and(|(why, how)| why.contains("no such") && how.contains("--dplaneaddr"))
        );
        fs::write(&path, "").expect("written");
        assert!(lacks().is_some_and(|(why, _)| why.contains("no socket")));
        fs::remove_file(&path).expect("removed");
        let _bfdd = UnixListener::bind(&path).expect("a socket");
        assert_eq!(lacks(), None, "it is ours");
    }
}
