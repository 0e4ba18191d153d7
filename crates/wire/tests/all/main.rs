//! Parsers on packets that were captured, and on noise, in one program: it is linked once.

mod captured;
mod noise;
mod parse;
