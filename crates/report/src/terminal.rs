//! The terminal that output goes to.

use std::io::IsTerminal;

/// True if output may have colours and bold text: on a terminal, unless the user wants none (`NO_COLOR`).
pub fn has_colours() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}
