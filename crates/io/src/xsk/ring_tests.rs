//! A producer and a consumer on the same memory make a queue: that they agree shows that each
//! keeps its side of the kernel's protocol.

use std::collections::VecDeque;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use proptest::prelude::*;

use super::*;

const SLOTS_AT: u64 = 256;

/// Shared memory in place of a socket, laid out as a ring of `size` slots of 8 bytes whose indices
/// start at `start`.
fn pair(size: u32, start: u32) -> (Producer<u64>, Consumer<u64>) {
    // SAFETY: the name is a terminated string.
    let fd = unsafe { libc::memfd_create(c"ring".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(fd >= 0, "memfd: {}", io::Error::last_os_error());
    // SAFETY: the descriptor is new.
    let memory = unsafe { OwnedFd::from_raw_fd(fd) };
    let file = std::fs::File::from(memory);
    file.set_len(SLOTS_AT + u64::from(size) * 8).expect("memory");
    for at in [0, 64] {
        use std::os::unix::fs::FileExt;
        file.write_all_at(&start.to_ne_bytes(), at).expect("memory");
    }
    let offsets = libc::xdp_ring_offset { producer: 0, consumer: 64, flags: 128, desc: SLOTS_AT };
    let layout = Layout { offsets, page_offset: 0 };
    let mut producer = Producer::new(file.as_fd(), &layout, size).expect("maps");
    let mut consumer = Consumer::new(file.as_fd(), &layout, size).expect("maps");
    (producer.next, producer.seen) = (start, start);
    (consumer.next, consumer.seen) = (start, start);
    (producer, consumer)
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Push(u32),
    Publish,
    Pop(u32),
    Release,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1_u32..10).prop_map(Step::Push),
        Just(Step::Publish),
        (1_u32..10).prop_map(Step::Pop),
        Just(Step::Release),
    ]
}

proptest! {
    /// Against a plain queue, also where the indices wrap.
    #[test]
    fn behaves_like_a_queue(
        start in prop_oneof![Just(0_u32), Just(u32::MAX - 5), any::<u32>()],
        steps in prop::collection::vec(any_step(), 1..200),
    ) {
        let (mut producer, mut consumer) = pair(8, start);
        let (mut pushed, mut visible) = (VecDeque::new(), VecDeque::new());
        let (mut held, mut value) = (0, 0_u64);
        for step in steps {
            match step {
                Step::Push(count) => {
                    let free = 8 - (pushed.len() + visible.len()) as u32 - held;
                    prop_assert_eq!(producer.room(u32::MAX), free);
                    prop_assert!(producer.room(count) >= count.min(free));
                    for _ in 0..count.min(free) {
                        value += 1;
                        producer.push(value);
                        pushed.push_back(value);
                    }
                }
                Step::Publish => {
                    producer.publish();
                    visible.append(&mut pushed);
                }
                Step::Pop(count) => {
                    for _ in 0..count {
                        let expected = visible.pop_front();
                        held += u32::from(expected.is_some());
                        prop_assert_eq!(consumer.pop(), expected);
                    }
                }
                Step::Release => {
                    consumer.release();
                    held = 0;
                }
            }
        }
        producer.publish();
        consumer.release();
        visible.append(&mut pushed);
        prop_assert_eq!(producer.is_pending(), !visible.is_empty());
        prop_assert_eq!(producer.pending().collect::<Vec<_>>(), Vec::from(visible));
    }
}

#[test]
fn carries_values_between_threads() {
    let (mut producer, mut consumer) = pair(16, u32::MAX - 100);
    const COUNT: u64 = 20_000;
    let sender = std::thread::spawn(move || {
        let mut next = 0;
        while next < COUNT {
            let room = u64::from(producer.room(1)).min(COUNT - next);
            for _ in 0..room {
                producer.push(next);
                next += 1;
            }
            producer.publish();
            std::thread::yield_now();
        }
    });
    let mut expected = 0;
    while expected < COUNT {
        while let Some(value) = consumer.pop() {
            assert_eq!(value, expected);
            expected += 1;
        }
        consumer.release();
        std::thread::yield_now();
    }
    sender.join().expect("sender");
}

#[test]
fn a_layout_outside_the_mapping_is_refused() {
    let file = std::fs::File::options().read(true).write(true).open("/dev/zero").expect("exists");
    let layout = |producer| {
        let offsets = libc::xdp_ring_offset { producer, consumer: 64, flags: 128, desc: 256 };
        Layout { offsets, page_offset: 0 }
    };
    assert!(Producer::<u64>::new(file.as_fd(), &layout(0), 8).is_ok());
    for (producer, size) in [(u64::MAX, 8), (1 << 20, 8), (2, 8), (0, 7), (0, 0)] {
        assert!(Producer::<u64>::new(file.as_fd(), &layout(producer), size).is_err(), "{producer}");
    }
}
