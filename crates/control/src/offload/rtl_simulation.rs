//! The gateway in hardware, simulated, as an offload device: in builds with the feature `rtl`.

use dataplane::DevicePacket;
use offload::Device;

/// The device. The configuration's check lets its kind pass where the build has it alone.
#[cfg(feature = "rtl")]
pub fn make(name: &str) -> Option<Box<dyn Device<DevicePacket>>> {
    use std::sync::{Arc, Mutex};

    let gateway = Arc::new(Mutex::new(rtl::Simulation::new()));
    match rtl::GatewayDevice::new(gateway, |_| false) {
        Ok(device) => Some(Box::new(device.named(name).one_by_one())),
        Err(error) => {
            tracing::warn!(device = %name, %error, "no offload by this device");
            None
        }
    }
}

#[cfg(not(feature = "rtl"))]
pub fn make(_: &str) -> Option<Box<dyn Device<DevicePacket>>> {
    None
}
