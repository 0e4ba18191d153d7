//! The model against the contract of offload devices.

use nic::NicDevice;

#[test]
fn the_nic_keeps_the_contract() {
    offload::contract::check(&mut NicDevice::new("nic0").unwrap());
}
