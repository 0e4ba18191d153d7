//! IP-TFS between two ends, in one program: it is linked once.

mod congestion;
mod round_trip;
