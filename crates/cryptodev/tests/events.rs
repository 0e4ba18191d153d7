//! DPDK's event devices beside the queues of [`dispatch`]: `event_sw`, which is software, does the same steps.

use cryptodev::events::{Events, Order, Taken};
use cryptodev::{Settings, start};
use dispatch::ordered::Released;

/// All of one thread's, which DPDK has to know.
#[test]
fn event_devices_order_as_dispatch_does() {
    let eal = ["--no-huge", "-m", "256", "--vdev=event_sw0", "--vdev=event_sw1"].map(str::to_owned);
    let settings =
        Settings { driver: "crypto_null".into(), eal: eal.into(), ..Settings::default() };
    start(&[("events", &settings)]).unwrap();
    ordered();
    atomic();
}

/// Two workers take by turns, and the second is done first.
fn ordered() {
    let mut events = Events::open("event_sw0", Order::Ordered, 2).unwrap();
    let (mut submitter, worker, mut releaser) = dispatch::ordered::queue::<u64>(64);
    for item in 0..32 {
        // An event device orders within a flow.
        assert!(events.put(7, item));
        submitter.put(item).unwrap();
    }
    let (mut by_device, mut by_dispatch, mut overtaken) = (Vec::new(), Vec::new(), 0);
    while by_device.len() < 32 {
        events.schedule();
        let [first, second] = [events.take(0, 4), events.take(1, 4)];
        assert!(!first.is_empty() || !second.is_empty());
        // The first worker may have nothing left to take.
        let is_first_left = !first.is_empty();
        overtaken += usize::from(is_first_left && !second.is_empty());
        finish(&mut events, 1, second);
        events.schedule();
        let before = events.finished();
        assert!(before.is_empty() || !is_first_left, "what is earlier is not done: {before:?}");
        finish(&mut events, 0, first);
        events.schedule();
        by_device.extend(before);
        by_device.extend(events.finished());

        let [first, second] = [worker.take(4), worker.take(4)];
        if let Some(second) = second {
            second.finish();
            assert!(releaser.release().is_none(), "what is earlier is not done");
        }
        if let Some(first) = first {
            first.finish();
        }
        by_dispatch
            .extend(core::iter::from_fn(|| releaser.release()).filter_map(Released::finished));
    }
    assert!(overtaken > 1, "both worked at a time");
    assert_eq!(by_device, (0..32).collect::<Vec<_>>());
    assert_eq!(by_dispatch, by_device);
}

/// While a worker has a flow nobody else has anything of it.
fn atomic() {
    let mut events = Events::open("event_sw1", Order::Atomic, 2).unwrap();
    let (producer, consumer) = dispatch::atomic::queue::<u64>(16, 16);
    for item in 0..8 {
        assert!(events.put((item % 2) as u32, item));
        producer.put(item % 2, item).unwrap();
    }
    events.schedule();
    let [first, second] = [events.take(0, 64), events.take(1, 64)];
    let items = |taken: &[Taken]| taken.iter().map(Taken::item).collect::<Vec<_>>();
    let mut flows = [items(&first), items(&second)];
    flows.sort();
    // By dispatch likewise: two lanes, two consumers.
    let of_lane = |lane: &mut dispatch::atomic::Lane<'_, u64>| {
        core::iter::from_fn(|| lane.take()).collect::<Vec<_>>()
    };
    let [mut one, mut two] = [consumer.hold().unwrap(), consumer.hold().unwrap()];
    let mut lanes = [of_lane(&mut one), of_lane(&mut two)];
    lanes.sort();
    assert_eq!(flows, [vec![0, 2, 4, 6], vec![1, 3, 5, 7]]);
    assert_eq!(lanes, flows);
    finish(&mut events, 0, first);
    finish(&mut events, 1, second);
    events.schedule();
    assert_eq!(events.finished().len(), 8);
}

fn finish(events: &mut Events, worker: u8, taken: Vec<Taken>) {
    for taken in taken {
        assert!(events.finish(worker, taken));
    }
}
