//! Linux's tables, followed and asked, in one program: it is linked once.

mod common;
mod control;
mod follow;
mod noise;
mod overrun;
