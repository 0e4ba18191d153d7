//! SRv6 from outside, in one program: it is linked once.

mod quoted;
mod rfc9800;
mod segments;
