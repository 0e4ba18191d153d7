//! Selection of paths over random histories of their quality, and of flows over the paths.

mod flows;
mod histories;
