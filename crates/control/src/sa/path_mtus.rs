//! Path MTUs: what routers have reported is believed for a while.

use std::net::IpAddr;

use config::PathMtuConfig;
use forward::MtuPath;
use forward::path_mtu::PathMtuTable;
use policy::SaId;
use report::Occurrence;

use super::Sas;
use crate::clock::Now;
use crate::sa::lifetime_ns;

impl Sas {
    /// A router says what the path of an SA carries. An event, if that is news.
    pub(crate) fn learn_path_mtu(
        &mut self,
        now: Now,
        sa: &SaId,
        dst: IpAddr,
        mtu: u32,
    ) -> Option<Occurrence> {
        self.source.databases().sa(sa)?;
        self.note_path_mtu(now, dst.into(), dst, mtu)
    }

    /// A router says what a path through segments carries. An event, if that is news.
    pub(crate) fn learn_segments_mtu(
        &mut self,
        now: Now,
        path: MtuPath,
        mtu: u32,
    ) -> Option<Occurrence> {
        let dst = match &path {
            MtuPath::To(dst) => *dst,
            MtuPath::Bare(dst) => IpAddr::V6(*dst),
            MtuPath::Through(stops) => IpAddr::V6(*stops.as_slice().last()?),
        };
        self.note_path_mtu(now, path, dst, mtu)
    }

    fn note_path_mtu(
        &mut self,
        now: Now,
        path: MtuPath,
        dst: IpAddr,
        mtu: u32,
    ) -> Option<Occurrence> {
        self.path_mtus.report(path, mtu, now.at_ns).then_some(Occurrence::PathMtu { dst, mtu })
    }

    /// Forgets what was learnt long ago, and is true if anything was: paths that have become wider are found out by
    /// trying again.
    pub(super) fn forget_path_mtus(&mut self, now: Now) -> bool {
        !self.path_mtus.is_empty() && self.path_mtus.expire(now.at_ns)
    }

    /// Forgets what was learnt under other settings.
    pub(crate) fn follow_path_mtu_config(&mut self, config: &PathMtuConfig) {
        self.path_mtus = PathMtuTable::new(lifetime_ns(config));
    }
}
