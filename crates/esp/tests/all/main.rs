//! ESP, AH and IPComp from outside, in one program: it is linked once.

mod ah;
mod ceiling;
mod common;
mod drops;
mod hostile;
mod ipcomp;
mod iv_salt;
mod outer;
mod restart;
mod resync;
mod round_trip;
mod scapy;
