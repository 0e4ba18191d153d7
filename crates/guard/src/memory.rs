//! A guard over a kernel in memory, for tests of its owners: no root, no namespace, no `nft`.

use std::net::IpAddr;
use std::path::Path;

use policy::Direction;

use crate::barrier::direction_number;
use crate::fakes::{FakeKernel, FakeNft, Packet, World};
use crate::kernel::Tag;
use crate::list::List;
use crate::netfilter::Netfilter;
use crate::{Guard, GuardError};

/// The kernel in memory.
#[derive(Clone, Debug)]
pub struct Memory(World);

impl Memory {
    /// A kernel without policies, and the guard of an instance over it, which keeps its list in `directory`.
    ///
    /// # Errors
    /// As [`Guard::open`].
    pub fn open(
        instance: &str,
        tun: &str,
        directory: &Path,
    ) -> Result<(Guard, Memory), GuardError> {
        let path = directory.join("guard.json");
        let opened =
            List::open(path.clone()).map_err(|source| GuardError::List { path, source })?;
        let (world, tag) = (World::new(), Tag::of(instance));
        let netfilter = Netfilter::new(instance, tun, Box::new(FakeNft(world.clone())));
        let kernel = Box::new(FakeKernel(world.clone(), tag));
        Ok((Guard::with(opened, kernel, tag, netfilter), Memory(world)))
    }

    /// Has the kernel refuse policies of a priority, or take them again.
    pub fn refuse(&self, priority: u32, is_refused: bool) {
        self.0.set_moods(|moods| {
            match is_refused {
                true => moods.priorities.insert(priority),
                false => moods.priorities.remove(&priority),
            };
        });
    }

    /// Takes all policies away, as `ip xfrm policy flush` does.
    pub fn flush(&self) {
        self.0.flush_policies();
    }

    /// True if a packet of UDP between these ends passes, which does not come or go by the private interface.
    pub fn passes(&self, direction: Direction, src: IpAddr, dst: IpAddr) -> bool {
        let direction = direction_number(direction);
        let packet =
            Packet { direction, src, dst, protocol: 17, ports: (4000, 4000), ifindex: 0, mark: 0 };
        self.0.passes(&packet)
    }
}
