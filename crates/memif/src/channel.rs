//! The control channel: a SEQPACKET socket that carries one message and at most one descriptor at a time.

use core::mem::MaybeUninit;
use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind,
    connect, listen, recvmsg, sendmsg, socket_with,
};

use crate::message::{LEN, Message, MessageError};

/// Why nothing more comes by a channel.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The peer has closed it, or has died.
    #[error("the peer has gone")]
    Closed,
    /// The peer sent what is no message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The peer takes no messages.
    #[error("the peer does not read its messages")]
    Full,
    /// A system call failed.
    #[error("{call}: {source}")]
    System {
        /// Name of the system call.
        call: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl ChannelError {
    fn of(call: &'static str, errno: Errno) -> Self {
        match errno {
            Errno::CONNRESET | Errno::PIPE | Errno::NOTCONN => Self::Closed,
            Errno::AGAIN => Self::Full,
            _ => Self::System { call, source: errno.into() },
        }
    }
}

/// One end of a channel. Never waits.
#[derive(Debug)]
pub struct Channel(OwnedFd);

const NEW: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

impl Channel {
    /// A socket that is connected, and does not wait.
    pub fn new(socket: OwnedFd) -> Self {
        Self(socket)
    }

    /// Connects to a server.
    ///
    /// # Errors
    /// Nobody listens there, or no socket can be made.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, NEW, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Self(socket))
    }

    /// Two that are connected to each other.
    ///
    /// # Errors
    /// No sockets can be made.
    pub fn pair() -> io::Result<(Self, Self)> {
        let kind = SocketType::SEQPACKET;
        let (one, other) = rustix::net::socketpair(AddressFamily::UNIX, kind, NEW, None)?;
        Ok((Self(one), Self(other)))
    }

    /// Sends a message.
    ///
    /// # Errors
    /// [`ChannelError`], also where the peer lets messages pile up.
    pub fn send(&self, message: &Message, fd: Option<BorrowedFd<'_>>) -> Result<(), ChannelError> {
        let bytes = message.emit();
        let fds = fd.map(|fd| [fd]);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if let Some(fds) = &fds {
            control.push(SendAncillaryMessage::ScmRights(fds));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let result = sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut control, flags);
        result.map(drop).map_err(|errno| ChannelError::of("sendmsg", errno))
    }

    /// Takes the next message, if there is one. Further descriptors of one message are closed.
    ///
    /// # Errors
    /// [`ChannelError`]: nothing more will come.
    pub fn receive(&self) -> Result<Option<(Message, Option<OwnedFd>)>, ChannelError> {
        // One byte more, so that a message that is too long is told from one that is not.
        let mut bytes = [0; LEN + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let len = match recvmsg(&self.0, &mut parts, &mut control, flags) {
            Ok(received) if received.bytes == 0 => return Err(ChannelError::Closed),
            Ok(received) => received.bytes,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(errno) => return Err(ChannelError::of("recvmsg", errno)),
        };
        let mut fd = None;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                fds.for_each(|one| fd = Some(one));
            }
        }
        Ok(Some((Message::parse(bytes.get(..len).unwrap_or_default())?, fd)))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A socket at which clients connect. Its file goes with it.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    path: PathBuf,
}

/// Clients that may wait to be taken.
const BACKLOG: i32 = 8;

impl Listener {
    /// Listens at a path, for root alone. A socket that an earlier process has left there is replaced.
    ///
    /// # Errors
    /// Something else is there, or its folder is not.
    pub fn new(path: &Path) -> io::Result<Self> {
        if fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket()) {
            fs::remove_file(path)?;
        }
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, NEW, None)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        let listener = Self { socket, path: path.into() };
        // Nobody can connect before it listens.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        listen(&listener.socket, BACKLOG)?;
        Ok(listener)
    }

    /// Takes the next client, if there is one.
    pub fn accept(&self) -> Option<Channel> {
        accept_with(&self.socket, NEW).ok().map(Channel)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // One that is gone already is as good.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Name;
    use std::io::Write;

    #[test]
    fn messages_and_descriptors_arrive() {
        let (one, other) = Channel::pair().unwrap();
        assert!(one.receive().unwrap().is_none());
        let (mut reader, writer) = std::io::pipe().unwrap();
        let region = Message::AddRegion { index: 0, size: 4096 };
        other.send(&region, Some(writer.as_fd())).unwrap();
        other.send(&Message::Ack, None).unwrap();
        drop(writer);
        let (message, fd) = one.receive().unwrap().unwrap();
        assert_eq!(message, region);
        let mut file = fs::File::from(fd.unwrap());
        file.write_all(b"x").unwrap();
        drop(file);
        assert_eq!(std::io::read_to_string(&mut reader).unwrap(), "x");
        assert!(matches!(one.receive().unwrap(), Some((Message::Ack, None))));
        drop(other);
        assert!(matches!(one.receive(), Err(ChannelError::Closed)));
        assert!(matches!(one.send(&Message::Ack, None), Err(ChannelError::Closed)));
    }

    #[test]
    fn what_is_too_long_is_no_message() {
        let (one, other) = Channel::pair().unwrap();
        rustix::io::write(&other.0, &[1; LEN + 1]).unwrap();
        let error = one.receive().unwrap_err();
        assert!(matches!(error, ChannelError::Message(MessageError::Length(_))), "{error}");
    }

    #[test]
    fn a_peer_that_does_not_read_is_noticed() {
        let (one, _other) = Channel::pair().unwrap();
        let message = Message::Connect { name: Name::new("n") };
        let error = (0..100_000).find_map(|_| one.send(&message, None).err());
        assert!(matches!(error, Some(ChannelError::Full)));
    }

    #[test]
    fn a_listener_is_there_and_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.sock");
        let left = Listener::new(&path).unwrap();
        core::mem::forget(left);
        let listener = Listener::new(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(listener.accept().is_none());
        let client = Channel::connect(&path).unwrap();
        let server = listener.accept().unwrap();
        server.send(&Message::Ack, None).unwrap();
        assert!(client.receive().unwrap().is_some());
        drop(listener);
        assert!(!path.exists() && Channel::connect(&path).is_err());
        fs::write(&path, "a file").unwrap();
        assert!(Listener::new(&path).is_err(), "it is not a socket's");
    }
}
