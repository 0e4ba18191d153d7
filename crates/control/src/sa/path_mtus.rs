//! Path MTUs: what routers have reported is believed for a while.

use std::net::IpAddr;

use config::PathMtuConfig;
use forward::Path;
use forward::path_mtu::PathMtuTable;
use policy::SaId;
use report::Occurrence;

use crate::Daemon;
use crate::clock::Now;

/// How long what was learnt of paths is believed.
pub(crate) fn lifetime_ns(config: &PathMtuConfig) -> u64 {
    u64::from(config.lifetime_s) * 1_000_000_000
}

impl Daemon {
    /// A router says what the path of an SA carries.
    pub(crate) fn learn_path_mtu(&mut self, now: Now, sa: &SaId, dst: IpAddr, mtu: u32) {
        if !self.config.path_mtu.learn || self.sa.source.databases().sa(sa).is_none() {
            return;
        }
        self.note_path_mtu(now, dst.into(), dst, mtu);
    }

    /// A router says what a path through segments carries.
    pub(crate) fn learn_segments_mtu(&mut self, now: Now, path: Path, mtu: u32) {
        let dst = match &path {
            Path::To(dst) => *dst,
            Path::Bare(dst) => IpAddr::V6(*dst),
            Path::Through(stops) => match stops.as_slice() {
                [.., last] => IpAddr::V6(*last),
                [] => return,
            },
        };
        if self.config.path_mtu.learn {
            self.note_path_mtu(now, path, dst, mtu);
        }
    }

    fn note_path_mtu(&mut self, now: Now, path: Path, dst: IpAddr, mtu: u32) {
        let now_ns = now.at_ns;
        if self.sa.path_mtus.report(path, mtu, now_ns) {
            self.shows.event_log.add(now, Occurrence::PathMtu { dst, mtu });
            self.wants.path_mtus = true;
        }
    }

    /// Paths that have become wider are found out by trying again.
    pub(crate) fn forget_path_mtus(&mut self, now: Now) {
        let now_ns = now.at_ns;
        if !self.sa.path_mtus.is_empty() && self.sa.path_mtus.expire(now_ns) {
            self.wants.path_mtus = true;
        }
    }

    /// Forgets what was learnt under other settings.
    pub(crate) fn follow_path_mtu_config(&mut self, next: PathMtuConfig) {
        self.sa.path_mtus = PathMtuTable::new(lifetime_ns(&next));
        self.config.path_mtu = next;
        self.wants.path_mtus = true;
    }
}
