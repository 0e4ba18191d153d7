//! Where an instance keeps its sockets and its state.

use std::path::PathBuf;

/// Where instances have their runtime directories, by name.
pub const RUNTIME: &str = "/run/culvert";

/// The runtime directory of an instance; root only.
pub fn runtime_dir(name: &str) -> PathBuf {
    PathBuf::from(RUNTIME).join(name)
}

/// The socket that serves XFRM netlink to programs started by `culvert exec`.
pub fn xfrm_socket(name: &str) -> PathBuf {
    runtime_dir(name).join("xfrm.sock")
}

/// The socket that commands talk to.
pub fn control_socket(name: &str) -> PathBuf {
    runtime_dir(name).join("control.sock")
}

/// Where instances have the sockets of those who only read. Everybody may look there: a socket says who may ask.
pub const READING: &str = "/run/culvert-read";

/// The socket that those talk to who only read.
pub fn reading_socket(name: &str) -> PathBuf {
    PathBuf::from(READING).join(format!("{name}.sock"))
}

/// The private interface's name, for programs started by `culvert exec`.
pub fn interface_file(name: &str) -> PathBuf {
    runtime_dir(name).join("interface")
}

/// The ports with an offload device, for programs started by `culvert exec`: a line each.
pub fn offload_file(name: &str) -> PathBuf {
    runtime_dir(name).join("offload")
}

/// Folder of the state that outlives the daemon: SAs, policies, sequence numbers.
pub fn vault_dir(name: &str) -> PathBuf {
    runtime_dir(name).join("vault")
}
