//! The socket that is served at.

use std::error::Error;
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use socket2::{Domain, SockAddr, Socket, Type};

use crate::cli::Listen;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// Makes a socket that listens at a place.
pub fn listen(place: &Listen) -> Result<Socket, Box<dyn Error>> {
    let socket = match place {
        Listen::Tcp(address) => {
            let socket = Socket::new(Domain::for_address(*address), Type::STREAM, None)?;
            socket.set_reuse_address(true)?;
            socket
                .bind(&(*address).into())
                .map_err(|error| format!("--listen {address}: {error}"))?;
            socket
        }
        Listen::Unix(path) => {
            let failed = |error| format!("--listen {}: {error}", path.display());
            remove_left_over(path)?;
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
            socket.bind(&SockAddr::unix(path).map_err(failed)?).map_err(failed)?;
            // Nobody can connect before it listens.
            fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
            socket
        }
    };
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// Removes a socket that nobody listens at any more, and nothing else.
fn remove_left_over(path: &Path) -> Result<(), Box<dyn Error>> {
    let shown = path.display();
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(format!("--listen {shown}: {error}").into()),
        Ok(file) if !file.file_type().is_socket() => {
            Err(format!("--listen {shown}: is no socket").into())
        }
        Ok(_) if UnixStream::connect(path).is_ok() => {
            Err(format!("--listen {shown}: somebody listens there").into())
        }
        Ok(_) => Ok(fs::remove_file(path)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unix_socket_is_its_owners_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("web.sock");
        let place = Listen::Unix(path.clone());
        let first = listen(&place).expect("listens");
        let mode = fs::metadata(&path).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(listen(&place).is_err_and(|error| error.to_string().contains("somebody listens")));
        drop(first);
        listen(&place).expect("takes the place of one that is gone");
    }

    #[test]
    fn a_file_stays() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("precious");
        fs::write(&path, "text").expect("written");
        assert!(listen(&Listen::Unix(path.clone())).is_err());
        assert_eq!(fs::read_to_string(path).expect("read"), "text");
    }
}
