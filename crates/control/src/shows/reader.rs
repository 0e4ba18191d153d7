//! The socket for those who only read: `culvert web` and `culvert metrics`, which run as a user of their own.
//!
//! An intruder in one of them has a user who may ask what they ask, and nothing else: no keys, no settings, and
//! captures where the configuration allows them. It has a thread and a turn of its own, so it keeps no command of
//! root's waiting.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use config::{Config, SecurityConfig};
use report::Request;
use report::paths;
use rustix::process::{Uid, geteuid};
use tracing::info;

use crate::confinement::Confinement;
use crate::control::{Control, Door, Listening};
use crate::users;

/// Rules of the socket for users who only read.
struct Reader {
    user: String,
    may_capture: bool,
}

/// Listens, if a user is named. Without that socket root asks by the other one.
pub fn listen(config: &Config, control: &Control, confinement: Confinement) -> Option<Listening> {
    let SecurityConfig { reader, reader_captures, .. } = &config.security;
    if reader.is_empty() {
        return None;
    }
    let door = Reader { user: reader.clone(), may_capture: *reader_captures };
    let path = paths::reading_socket(&config.name);
    let listening = make_directory(Path::new(paths::READING)).and_then(|()| {
        control.listen_too("culvert-read", &path, 0o666, Box::new(door), confinement)
    });
    match listening {
        Ok(listening) => Some(listening),
        Err(error) => {
            let socket = path.display();
            info!(%error, %socket, "only root can ask: culvert web and culvert metrics stay root's");
            None
        }
    }
}

/// Everybody may look into it, and nobody else may write there: a socket of another one would be asked in place of ours.
fn make_directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o755).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() || found.uid() != geteuid().as_raw() {
        let why = format!("{} is no directory of this user's", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

impl Door for Reader {
    fn admits(&self, uid: Uid) -> bool {
        // Looked up each time: the user may come with a package that is installed later.
        let is_reader = || {
            users::find(&self.user).is_ok_and(|user| user.is_some_and(|u| u.uid == uid.as_raw()))
        };
        uid.is_root() || is_reader()
    }

    fn answers(&self, request: &Request) -> Result<(), &'static str> {
        match request {
            Request::Status
            | Request::Sa { show_keys: false, .. }
            | Request::Policy
            | Request::Port
            | Request::Limits
            // Not which hosts are asked for.
            | Request::App { recent: 0 }
            | Request::Path
            | Request::Bfd
            | Request::Steer
            | Request::Stats
            | Request::Drops
            | Request::Device
            | Request::Why(_)
            | Request::Events { .. } => Ok(()),
            Request::Capture(_) if self.may_capture => Ok(()),
            Request::Capture(_) => {
                Err("captures need security.reader_captures = true in the daemon's configuration")
            }
            Request::Sa { show_keys: true, .. }
            | Request::Nat { .. }
            | Request::App { .. }
            | Request::LimitSet(_)
            | Request::Route
            | Request::DeviceReset { .. }
            | Request::DeviceFault { .. }
            | Request::Flows(_)
            | Request::Reload
            | Request::Trace(_) => Err("only root may ask this"),
        }
    }

    fn refusal(&self) -> String {
        format!("only root and {} may ask (security.reader)", self.user)
    }
}

#[cfg(test)]
mod tests {
    use report::{CaptureRequest, LimitSet, PacketFilter};

    use super::*;

    fn reader(may_capture: bool) -> Reader {
        Reader { user: "nobody".into(), may_capture }
    }

    #[test]
    fn root_and_one_user_are_admitted() {
        let nobody = users::find("nobody").unwrap().unwrap().uid;
        let reader = reader(false);
        assert!(reader.admits(Uid::ROOT) && reader.admits(Uid::from_raw(nobody)));
        assert!(!reader.admits(Uid::from_raw(1)) && !reader.admits(Uid::from_raw(1000)));
        let gone = Reader { user: "no-such-user".into(), may_capture: false };
        assert!(gone.admits(Uid::ROOT) && !gone.admits(Uid::from_raw(nobody)));
    }

    #[test]
    fn neither_keys_nor_settings() {
        let reader = reader(false);
        for read in [Request::Status, Request::Sa { show_keys: false, spi: None }, Request::Policy]
        {
            assert_eq!(reader.answers(&read), Ok(()));
        }
        for other in [
            Request::Sa { show_keys: true, spi: None },
            Request::LimitSet(LimitSet::default()),
            Request::DeviceReset { device: "nic0".into() },
            Request::DeviceFault { device: "nic0".into(), fault: "none".into() },
        ] {
            assert_eq!(reader.answers(&other), Err("only root may ask this"), "{other:?}");
        }
    }

    #[test]
    fn captures_are_a_right_of_their_own() {
        let capture = Request::Capture(CaptureRequest {
            filter: PacketFilter::default(),
            snap_len: 64,
            count: None,
            seconds: None,
        });
        assert!(reader(false).answers(&capture).is_err_and(|why| why.contains("reader_captures")));
        assert_eq!(reader(true).answers(&capture), Ok(()));
    }

    #[test]
    fn a_directory_of_somebody_elses_is_not_taken() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("read");
        make_directory(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        make_directory(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o755);
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(make_directory(&link).is_err());
        if geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
            assert!(make_directory(&path).is_err());
        }
    }
}
