//! Generic netlink, as far as it is asked here: one attribute of one answer.

use std::io;

use netlink_sys::protocols::NETLINK_GENERIC;
use netlink_sys::{Socket, SocketAddr};

use crate::attribute::{Attributes, Request, u16_at};
use crate::connection::{BUFFER_LEN, receive_datagram};
use crate::uapi::NLMSG_HEADER_LEN;

/// A family of the kernel's, in the network namespace of the thread that opened it.
pub(crate) struct Generic {
    socket: Socket,
    number: u16,
}

impl Generic {
    /// Asks for a family by its name, which ends with a zero.
    ///
    /// # Errors
    /// The system has no generic netlink, or no such family.
    pub(crate) fn open(name: &[u8]) -> io::Result<Generic> {
        let mut socket = Socket::new(NETLINK_GENERIC)?;
        socket.bind_auto()?;
        // Connected to the kernel: nobody else's messages are received.
        socket.connect(&SocketAddr::new(0, 0))?;
        let controller = Generic { socket, number: libc::GENL_ID_CTRL as u16 };
        let number = controller.ask(
            CTRL_CMD_GETFAMILY,
            Some((CTRL_ATTR_FAMILY_NAME, name)),
            CTRL_ATTR_FAMILY_ID,
        )?;
        let number = number.and_then(|id| u16_at(&id, 0)).ok_or_else(unknown)?;
        Ok(Generic { number, ..controller })
    }

    /// An attribute of the answer to a command, which has one attribute or none.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn ask(
        &self,
        command: u8,
        about: Option<(u16, &[u8])>,
        wanted: u16,
    ) -> io::Result<Option<Vec<u8>>> {
        let mut request = Request::new(self.number, 0, &[command, VERSION, 0, 0]);
        if let Some((kind, value)) = about {
            request = request.attribute(kind, value);
        }
        self.socket.send(&request.finish(1), 0)?;
        let mut buffer = Vec::with_capacity(BUFFER_LEN);
        receive_datagram(&self.socket, &mut buffer, 0)?;
        let payload = buffer.get(NLMSG_HEADER_LEN..).unwrap_or_default();
        if u16_at(&buffer, 4) == Some(libc::NLMSG_ERROR as u16) {
            // The negative of an errno.
            let errno = payload.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
            return Err(io::Error::from_raw_os_error(-errno));
        }
        let attributes = Attributes::new(payload.get(HEADER_LEN..).unwrap_or_default());
        Ok(attributes.find(wanted).map(<[u8]>::to_vec))
    }
}

/// An answer that says something else than was asked.
pub(crate) fn unknown() -> io::Error {
    io::Error::from_raw_os_error(libc::EPROTO)
}

/// `struct genlmsghdr`.
const HEADER_LEN: usize = 4;
const VERSION: u8 = 1;
const CTRL_CMD_GETFAMILY: u8 = libc::CTRL_CMD_GETFAMILY as u8;
const CTRL_ATTR_FAMILY_ID: u16 = libc::CTRL_ATTR_FAMILY_ID as u16;
const CTRL_ATTR_FAMILY_NAME: u16 = libc::CTRL_ATTR_FAMILY_NAME as u16;
