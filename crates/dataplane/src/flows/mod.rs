//! The flow cache: plans of the flows seen last.

mod cache;
pub(crate) mod plan;

pub(crate) use cache::FlowCache;

use crate::features::bundle::Bundles;
use crate::features::limit::Rates;
use crate::features::segments::headends::Headends;
use crate::features::translate::Translations;

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
