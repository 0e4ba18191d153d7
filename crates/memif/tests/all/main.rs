//! Two ends of a memif, and hostile ones, in one program: it is linked once.

mod hostile;
mod loopback;
