//! The model against the contract of offload devices.

use nic::{PacketNic, Sizes};
use offload::{Burst, Device, Event, Failure, Request, Status, Work};

#[test]
fn the_nic_keeps_the_contract() {
    let sizes = Sizes { sas: 24, policies: 24 };
    offload::contract::check(&mut PacketNic::new("nic0", sizes).unwrap());
}

#[test]
fn a_nic_that_is_pulled_out_gives_every_buffer_back() {
    let mut nic = PacketNic::new("nic0", Sizes::default()).unwrap();
    let cord = nic.cord();
    let device: &mut dyn Device<Vec<u8>> = &mut nic;
    let mut queue = device.queue().unwrap();
    let request = |work| Request { buffer: vec![0x45; 40], work };
    let mut requests: Burst<_> = [Work::Outbound, Work::Inbound].map(request).into_iter().collect();
    assert_eq!(queue.submit(&mut requests), 2);
    cord.pull();
    let mut completions = Burst::new();
    assert_eq!(queue.poll(&mut completions), 2);
    assert!(completions.iter().all(|completion| completion.status == Status::Lost));
    assert_eq!((device.event(), device.event()), (Some(Event::Gone), None));
    assert_eq!(device.check(), Err(Failure::Gone));
    assert!(device.queue().is_err());
}
