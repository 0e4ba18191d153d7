//! Routes, neighbours and reports from outside, in one program: it is linked once.

mod fib;
mod fragment;
mod icmp;
mod icmp_linux;
mod no_alloc;
