//! The parts that every feature works with beside its own state.

use crate::crypt::Crypt;
use crate::model::Turn;
use crate::out::Out;
use crate::view::View;

/// The view of the burst, the turn, the crypto stage, and the exit, lent for one call.
pub(crate) struct Hands<'a, O = Out> {
    pub(crate) view: &'a View,
    pub(crate) turn: Turn<'a>,
    pub(crate) crypt: &'a mut Crypt,
    pub(crate) out: &'a mut O,
}
