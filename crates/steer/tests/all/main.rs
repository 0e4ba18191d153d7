//! XDP programs of culvert on interfaces of Linux, in one program: it is linked once.

#[path = "../../../io/tests/all/common/mod.rs"]
mod common;
mod detour;
mod frames;
mod overlays;
mod packet;
mod sender;
mod tags;
mod verdicts;
