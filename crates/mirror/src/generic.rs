//! Generic netlink: families that are numbered at run time, one attribute of one answer, and all that a family has.

use std::io;

use netlink::attribute::{as_text, as_u32, u16_at};
use netlink::{Attributes, Connection, Dump, Fault, MessageWriter, Protocol};

/// Number of a family, and those of its multicast groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Family {
    pub(crate) name: String,
    /// Kind of its messages.
    pub(crate) number: u16,
    pub(crate) groups: Vec<(String, u32)>,
}

/// A family of the kernel's, in the network namespace of the thread that opened it.
pub(crate) struct Generic {
    connection: Connection,
    number: u16,
}

impl Generic {
    /// Asks for a family by its name, which ends with a zero. Linux loads a module that has the family.
    ///
    /// # Errors
    /// The system has no generic netlink, or no such family.
    pub(crate) fn open(name: &[u8]) -> io::Result<Generic> {
        let mut controller = Generic::controller()?;
        let number = controller.ask(
            CTRL_CMD_GETFAMILY,
            Some((CTRL_ATTR_FAMILY_NAME, name)),
            CTRL_ATTR_FAMILY_ID,
        )?;
        let number = number.and_then(|id| u16_at(&id, 0)).ok_or_else(unknown)?;
        Ok(Generic { number, ..controller })
    }

    /// The family that all others are asked of.
    ///
    /// # Errors
    /// The system has no generic netlink.
    pub(crate) fn controller() -> io::Result<Generic> {
        Ok(Generic { connection: Connection::open(Protocol::Generic)?, number: CONTROLLER })
    }

    /// A family by its name, if Linux has it. No module is loaded for it.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn family(&mut self, name: &str) -> Result<Option<Family>, Fault> {
        let mut found = None;
        self.dump(CONTROLLER, CTRL_CMD_GETFAMILY, |body| {
            found = found.take().or_else(|| family(body).filter(|family| family.name == name));
        })?;
        Ok(found)
    }

    /// Hands all that a family, by its number, lists at a command to `each`: what follows the netlink header.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn dump(
        &mut self,
        family: u16,
        command: u8,
        mut each: impl FnMut(&[u8]),
    ) -> Result<Dump, Fault> {
        let mut request = MessageWriter::request(family, 0);
        request.raw(&[command, VERSION, 0, 0]);
        self.connection.dump(request, |_, body| each(body))
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
        Ok(attributes(&answer).find(wanted).map(<[u8]>::to_vec))
    }
}

/// The attributes of a message, from behind its netlink header.
pub(crate) fn attributes(body: &[u8]) -> Attributes<'_> {
    Attributes::new(body.get(HEADER_LEN..).unwrap_or_default())
}

/// The family that a message of the controller is about.
pub(crate) fn family(body: &[u8]) -> Option<Family> {
    let about = attributes(body);
    let groups = about.within(CTRL_ATTR_MCAST_GROUPS).filter_map(|(_, group)| {
        let group = Attributes::new(group);
        let id = group.find(CTRL_ATTR_MCAST_GRP_ID).and_then(as_u32)?;
        Some((group.find(CTRL_ATTR_MCAST_GRP_NAME).map(as_text)?, id))
    });
    Some(Family {
        name: about.find(CTRL_ATTR_FAMILY_NAME).map(as_text)?,
        number: u16_at(about.find(CTRL_ATTR_FAMILY_ID)?, 0)?,
        groups: groups.collect(),
    })
}

/// An answer that says something else than was asked.
pub(crate) fn unknown() -> io::Error {
    io::Error::from_raw_os_error(libc::EPROTO)
}

/// Kind of the controller's messages, and number of the group in which it tells of families that come and go.
pub(crate) const CONTROLLER: u16 = libc::GENL_ID_CTRL as u16;

/// Length of `struct genlmsghdr`.
const HEADER_LEN: usize = 4;
const VERSION: u8 = 1;
const CTRL_CMD_GETFAMILY: u8 = libc::CTRL_CMD_GETFAMILY as u8;
const CTRL_ATTR_FAMILY_ID: u16 = libc::CTRL_ATTR_FAMILY_ID as u16;
const CTRL_ATTR_FAMILY_NAME: u16 = libc::CTRL_ATTR_FAMILY_NAME as u16;
const CTRL_ATTR_MCAST_GROUPS: u16 = libc::CTRL_ATTR_MCAST_GROUPS as u16;
const CTRL_ATTR_MCAST_GRP_NAME: u16 = libc::CTRL_ATTR_MCAST_GRP_NAME as u16;
const CTRL_ATTR_MCAST_GRP_ID: u16 = libc::CTRL_ATTR_MCAST_GRP_ID as u16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controller_has_itself_and_its_group() {
        let mut controller = Generic::controller().expect("generic netlink");
        let found = controller.family("nlctrl").expect("a dump").expect("itself");
        assert_eq!(found.number, CONTROLLER);
        assert_eq!(found.groups, [("notify".to_owned(), u32::from(CONTROLLER))]);
        assert_eq!(controller.family("nobody-has-this").expect("a dump"), None);
    }
}
