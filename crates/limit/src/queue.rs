//! Queues of packets that wait for tokens, in memory that many of them share.
//!
//! A [`Queue`] is a list for each class. What is in the lists lies in a [`Store`], which is as large as all queues of a worker
//! together may be: so a packet that waits costs no allocation, and there is one bound for all beside each queue's own.

use crate::class::{CLASSES, Class};

/// Bounds of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Packets at most.
    pub packets: u32,
    /// Bytes of IP packets.
    pub bytes: u32,
}

/// One that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting<T> {
    /// The packet itself.
    pub item: T,
    /// Length of the packet in bytes.
    pub len: u32,
    /// DSCP of the packet.
    pub dscp: u8,
    /// Time at which it began to wait.
    pub since_ns: u64,
}

/// Room for what waits in many queues.
#[derive(Debug)]
pub struct Store<T> {
    nodes: Vec<Node<T>>,
    free: u32,
    most: usize,
}

#[derive(Debug)]
struct Node<T> {
    waiting: Option<Waiting<T>>,
    next: u32,
}

/// One limiter's queue: by classes, each in the order of arrival.
#[derive(Debug)]
pub struct Queue {
    lists: [List; CLASSES],
    packets: u32,
    bytes: u32,
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

/// The end of a list.
const NONE: u32 = u32::MAX;

impl Default for Queue {
    fn default() -> Queue {
        Queue { lists: [List { first: NONE, last: NONE }; CLASSES], packets: 0, bytes: 0 }
    }
}

impl Queue {
    /// How many wait.
    pub const fn packets(&self) -> u32 {
        self.packets
    }

    /// Bytes of all packets in the queue.
    pub const fn bytes(&self) -> u32 {
        self.bytes
    }

    /// True if no packet waits.
    pub const fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// The first class of which some wait.
    pub fn first(&self) -> Option<Class> {
        Class::ALL.into_iter().find(|class| self.has(*class))
    }

    /// The last class of which some wait, if that is behind another class.
    pub fn last_behind(&self, class: Class) -> Option<Class> {
        Class::ALL.into_iter().rev().take_while(|last| *last > class).find(|last| self.has(*last))
    }

    fn has(&self, class: Class) -> bool {
        self.lists.get(class as usize).is_some_and(|list| list.first != NONE)
    }
}

impl<T> Store<T> {
    /// Room for so many. Its memory is taken here.
    pub fn new(most: usize) -> Store<T> {
        let most = most.min(NONE as usize);
        Store { nodes: Vec::with_capacity(most), free: NONE, most }
    }

    /// True if a queue has room for one more packet of this length.
    pub fn has_room(&self, queue: &Queue, bounds: Bounds, len: u32) -> bool {
        queue.packets < bounds.packets
            && queue.bytes.saturating_add(len) <= bounds.bytes
            && (self.free != NONE || self.nodes.len() < self.most)
    }

    /// Puts one behind the others of its class. Its bounds are [`Store::has_room`]'s.
    ///
    /// # Errors
    /// There is no room in the store; it comes back.
    pub fn push(
        &mut self,
        queue: &mut Queue,
        class: Class,
        waiting: Waiting<T>,
    ) -> Result<(), Waiting<T>> {
        let len = waiting.len;
        let (free, end) = (self.free, self.nodes.len());
        let at = if let Some(node) = self.nodes.get_mut(free as usize) {
            self.free = node.next;
            *node = Node { waiting: Some(waiting), next: NONE };
            free
        } else if end < self.most {
            self.nodes.push(Node { waiting: Some(waiting), next: NONE });
            end as u32 // below NONE
        } else {
            return Err(waiting);
        };
        if let Some(list) = queue.lists.get_mut(class as usize) {
            match self.nodes.get_mut(list.last as usize) {
                Some(last) => last.next = at,
                None => list.first = at,
            }
            list.last = at;
        }
        queue.packets += 1;
        queue.bytes += len;
        Ok(())
    }

    /// The one of a class that has waited longest.
    pub fn front(&self, queue: &Queue, class: Class) -> Option<&Waiting<T>> {
        let list = queue.lists.get(class as usize)?;
        self.nodes.get(list.first as usize)?.waiting.as_ref()
    }

    /// Takes it out.
    pub fn pop(&mut self, queue: &mut Queue, class: Class) -> Option<Waiting<T>> {
        let list = queue.lists.get_mut(class as usize)?;
        let at = list.first;
        let node = self.nodes.get_mut(at as usize)?;
        let waiting = node.waiting.take()?;
        list.first = core::mem::replace(&mut node.next, self.free);
        if list.first == NONE {
            list.last = NONE;
        }
        self.free = at;
        queue.packets -= 1;
        queue.bytes -= waiting.len;
        Some(waiting)
    }
}
