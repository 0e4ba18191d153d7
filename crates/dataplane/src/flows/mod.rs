//! The flow cache: plans of the flows seen last.

mod bundles;
mod cache;
pub(crate) mod headends;
pub(crate) mod plan;
pub(crate) mod queues;
pub(crate) mod rates;
pub(crate) mod translations;

pub(crate) use bundles::Bundles;
pub(crate) use cache::FlowCache;
pub(crate) use headends::Headends;
pub(crate) use rates::Rates;
pub(crate) use translations::Translations;

/// What plans have no room for.
#[derive(Default)]
pub(crate) struct Details {
    /// How several SAs protect flows.
    pub(crate) bundles: Bundles,
    /// How flows are translated.
    pub(crate) translations: Translations,
    /// Which rate limits flows are under.
    pub(crate) rates: Rates,
    /// A burst of helpers is at hand: no plan of a step of SRv6 holds, as what leaves it goes on behind the burst.
    pub(crate) is_with_helpers: bool,
    /// What is done to the packets that headends make.
    pub(crate) headends: Headends,
}
