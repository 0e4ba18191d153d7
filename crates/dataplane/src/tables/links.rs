//! Links between the two SAs of a pair (RFC 9347, section 3): what arrives by the one, the other reports.
//!
//! The homes of the two may be two workers. They share a lock that no packet waits for: who finds it taken has something
//! newer to tell, or to hear, with the next payload. It is waited for once for each SA, where that begins.

use core::net::IpAddr;
use core::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use iptfs::congestion::{Report, Sender};
use policy::SaConfig;

/// The links of all pairs that have one.
#[derive(Debug, Default)]
pub struct Links(Mutex<HashMap<Ends, Weak<Link>, ahash::RandomState>>);

/// Key of a pair's SAs, which those have too that take their places at a rekey.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ends {
    here: IpAddr,
    there: IpAddr,
    reqid: u32,
    if_id: u32,
}

impl Links {
    /// The link of an SA by which packets come.
    pub(crate) fn of_inbound(&self, config: &SaConfig) -> Arc<Link> {
        self.of(config, config.params.dst, config.params.src)
    }

    /// The link of an SA by which packets leave.
    pub(crate) fn of_outbound(&self, config: &SaConfig) -> Arc<Link> {
        self.of(config, config.params.src, config.params.dst)
    }

    fn of(&self, config: &SaConfig, here: IpAddr, there: IpAddr) -> Arc<Link> {
        let ends = Ends { here, there, reqid: config.reqid, if_id: config.if_id };
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = links.get(&ends).and_then(Weak::upgrade) {
            return link;
        }
        links.retain(|_, link| link.strong_count() > 0);
        let link = Arc::default();
        links.insert(ends, Arc::downgrade(&link));
        link
    }
}

/// Between a pair's receiver and its sender.
#[derive(Debug, Default)]
pub(crate) struct Link {
    told: Mutex<Told>,
    /// Counts what the receiver has told.
    version: AtomicU64,
    /// Senders that report.
    senders: AtomicUsize,
}

#[derive(Debug, Default)]
struct Told {
    report: Report,
    /// The number of the last receiver: the others are of SAs that are on their way out.
    receiver: u64,
    /// Where the rate stands.
    sender: Option<Sender>,
}

impl Link {
    /// Another receiver, whose word counts from now on: its number, and the loss event rate so far.
    pub(crate) fn add_receiver(&self) -> (u64, u32) {
        let mut told = self.wait();
        told.receiver += 1;
        (told.receiver, told.report.loss_event_rate)
    }

    /// Tells the sender.
    pub(crate) fn tell(&self, receiver: u64, report: Report) {
        if let Ok(mut told) = self.told.try_lock()
            && told.receiver == receiver
        {
            told.report = report;
            self.version.store(self.version.load(Relaxed).wrapping_add(1), Release);
        }
    }

    /// True if there is a newer report than this version.
    #[inline]
    pub(crate) fn has_news(&self, version: u64) -> bool {
        self.version.load(Acquire) != version
    }

    /// The receiver's last report, and its version. `None` while it writes one.
    pub(crate) fn report(&self) -> Option<(Report, u64)> {
        let told = self.told.try_lock().ok()?;
        Some((told.report, self.version.load(Relaxed)))
    }

    /// Another sender that reports: where the one before has left the rate, if there was one.
    pub(crate) fn add_sender(&self) -> Option<Sender> {
        self.senders.fetch_add(1, Relaxed);
        self.wait().sender
    }

    pub(crate) fn remove_sender(&self) {
        self.senders.fetch_sub(1, Relaxed);
    }

    /// True if some receiver makes reports.
    #[inline]
    pub(crate) fn has_sender(&self) -> bool {
        self.senders.load(Relaxed) > 0
    }

    /// Notes where the rate stands, for a sender to come.
    pub(crate) fn note(&self, sender: &Sender) {
        if let Ok(mut told) = self.told.try_lock() {
            told.sender = Some(*sender);
        }
    }

    /// For what is done once for an SA. Nothing panics with the lock.
    fn wait(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use esp::SaParams;

    use super::*;

    fn config(here: u8, there: u8, reqid: u32) -> SaConfig {
        let ends = ([192, 0, 2, here].into(), [192, 0, 2, there].into());
        SaConfig { reqid, ..SaConfig::plain(SaParams::tunnel(crypto::Suite::None, 1, ends)) }
    }

    #[test]
    fn a_pair_has_one_link() {
        let links = Links::default();
        let out = links.of_outbound(&config(1, 2, 5));
        assert!(Arc::ptr_eq(&out, &links.of_inbound(&config(2, 1, 5))));
        for other in [config(2, 1, 6), config(1, 2, 5), config(3, 1, 5)] {
            assert!(!Arc::ptr_eq(&out, &links.of_inbound(&other)));
        }
        drop(out);
        links.of_outbound(&config(1, 9, 5));
        assert_eq!(links.0.lock().unwrap().len(), 1, "what nobody has is forgotten");
    }

    #[test]
    fn the_last_receiver_s_word_counts() {
        let link = Link::default();
        let (old, inherited) = link.add_receiver();
        assert_eq!(inherited, 0);
        let of = |loss_event_rate| Report { loss_event_rate, ..Report::default() };
        link.tell(old, of(70));
        assert!(link.has_news(0));
        let (new, inherited) = link.add_receiver();
        assert_eq!(inherited, 70);
        link.tell(new, of(50));
        link.tell(old, of(60));
        let (report, version) = link.report().expect("nobody tells anything");
        assert_eq!((report, link.has_news(version)), (of(50), false));
    }
}
