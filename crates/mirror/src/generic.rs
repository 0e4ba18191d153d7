//! Generic netlink, as far as it is asked here: one attribute of one answer.

use std::io;

use netlink::attribute::u16_at;
use netlink::{Attributes, Connection, MessageWriter, Protocol};

/// A family of the kernel's, in the network namespace of the thread that opened it.
pub(crate) struct Generic {
    connection: Connection,
    number: u16,
}

impl Generic {
    /// Asks for a family by its name, which ends with a zero.
    ///
    /// # Errors
    /// The system has no generic netlink, or no such family.
    pub(crate) fn open(name: &[u8]) -> io::Result<Generic> {
        let connection = Connection::open(Protocol::Generic)?;
        let mut controller = Generic { connection, number: libc::GENL_ID_CTRL as u16 };
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
        &mut self,
        command: u8,
        about: Option<(u16, &[u8])>,
        wanted: u16,
    ) -> io::Result<Option<Vec<u8>>> {
        let mut request = MessageWriter::request(self.number, 0);
        request.raw(&[command, VERSION, 0, 0]);
        if let Some((kind, value)) = about {
            request.attribute(kind, value);
        }
        let answer = self.connection.ask(request)?.unwrap_or_default();
        let attributes = Attributes::new(answer.get(HEADER_LEN..).unwrap_or_default());
        Ok(attributes.find(wanted).map(<[u8]>::to_vec))
    }
}

/// An answer that says something else than was asked.
pub(crate) fn unknown() -> io::Error {
    io::Error::from_raw_os_error(libc::EPROTO)
}

/// Length of `struct genlmsghdr`.
const HEADER_LEN: usize = 4;
const VERSION: u8 = 1;
const CTRL_CMD_GETFAMILY: u8 = libc::CTRL_CMD_GETFAMILY as u8;
const CTRL_ATTR_FAMILY_ID: u16 = libc::CTRL_ATTR_FAMILY_ID as u16;
const CTRL_ATTR_FAMILY_NAME: u16 = libc::CTRL_ATTR_FAMILY_NAME as u16;
