//! An event device: a scheduler in hardware, or in software as `event_sw`.

use core::marker::PhantomData;
use std::ffi::CString;

use super::raw;

/// How items come to workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// To any, and they come out in the order in which they went in: as `dispatch::ordered`.
    Ordered,
    /// Events of a flow to one worker at a time: as `dispatch::atomic`.
    Atomic,
}

/// An item that a worker has.
#[derive(Debug)]
pub struct Taken {
    words: [u64; 2],
}

impl Taken {
    /// The item that was put.
    pub fn item(&self) -> u64 {
        self.words[1]
    }
}

/// A queue of items that workers take, and that come out finished. All its ends belong to the thread that made it,
/// which also does the scheduling: to see what such a device does, not for traffic.
pub struct Events {
    id: u8,
    service: u32,
    order: Order,
    workers: u8,
    _not_send: PhantomData<*mut ()>,
}

impl Events {
    /// The event device of this name, for so many workers, at most 32.
    ///
    /// # Errors
    /// The library's errno.
    pub fn open(name: &str, order: Order, workers: u8) -> Result<Events, i32> {
        let text = CString::new(name).map_err(|_| 0)?;
        let (is_atomic, mut service) = (i32::from(order == Order::Atomic), 0);
        let workers = workers.min(32);
        // SAFETY: a string, and a number that is ours to write.
        let id = unsafe {
            raw::culvert_cd_events_open(text.as_ptr(), is_atomic, workers, &raw mut service)
        };
        let id = u8::try_from(id).map_err(|_| -id)?;
        Ok(Events { id, service, order, workers, _not_send: PhantomData })
    }

    /// Puts an item of a flow in; false if there is no room.
    pub fn put(&mut self, flow: u32, item: u64) -> bool {
        let is_atomic = i32::from(self.order == Order::Atomic);
        // SAFETY: the device is ours, and runs.
        unsafe { raw::culvert_cd_events_put(self.id, is_atomic, flow, item) != 0 }
    }

    /// The events that a worker gets now, at most so many.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn take(&mut self, worker: u8, most: usize) -> Vec<Taken> {
        assert!(worker < self.workers, "one of the workers");
        self.dequeue(worker + 1, most)
    }

    /// A worker is done with an item; it is to be so in the order in which it took them. False if there is no room.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn finish(&mut self, worker: u8, taken: Taken) -> bool {
        assert!(worker < self.workers, "one of the workers");
        // SAFETY: the device is ours and has that port; two words.
        unsafe { raw::culvert_cd_events_finish(self.id, worker + 1, taken.words.as_ptr()) != 0 }
    }

    /// The items that have come out.
    pub fn finished(&mut self) -> Vec<u64> {
        self.dequeue(self.workers + 1, 64).into_iter().map(|taken| taken.item()).collect()
    }

    /// Schedules: moves items between ports.
    pub fn schedule(&mut self) {
        // SAFETY: the service is this device's, and the thread known to the library.
        unsafe { raw::culvert_cd_events_schedule(self.service) };
    }

    fn dequeue(&mut self, port: u8, most: usize) -> Vec<Taken> {
        let mut words = [[0; 2]; 64];
        let most = most.min(words.len()) as u16;
        // SAFETY: the device is ours and has that port; there is room for as many as are asked for.
        let count = unsafe { raw::culvert_cd_events_take(self.id, port, words.as_mut_ptr(), most) };
        words.into_iter().take(count.into()).map(|words| Taken { words }).collect()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // SAFETY: the device is ours.
        unsafe { raw::culvert_cd_events_close(self.id) };
    }
}
