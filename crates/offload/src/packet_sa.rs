//! The session of an SA that a device has as a whole.

use std::sync::Arc;

use crypto::{Session, Suite};

use crate::handle::SaHandle;

/// Session of an SA that a device has (packet offload). It has no keys: no engine works with it,
/// so software never seals or opens a packet in the device's place.
#[derive(Debug)]
pub struct PacketSa {
    device: u8,
    name: Arc<str>,
    sa: SaHandle,
}

impl PacketSa {
    /// The session of an SA in the device of this number and name.
    pub fn session(device: u8, name: Arc<str>, sa: SaHandle, suite: Suite) -> Session {
        Session::new(suite, Box::new(PacketSa { device, name, sa }))
    }

    /// The SA that a session stands for, if it is such a session.
    pub fn of(session: &Session) -> Option<&PacketSa> {
        session.state()
    }

    /// The number of the device that has the SA.
    pub fn device(&self) -> u8 {
        self.device
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The SA in the device.
    pub fn sa(&self) -> SaHandle {
        self.sa
    }
}
