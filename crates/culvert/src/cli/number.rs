//! 32-bit numbers in hexadecimal (0x...) or decimal.

use std::num::ParseIntError;

/// Parses an SPI, decimal or hexadecimal.
pub fn spi(text: &str) -> Result<u32, String> {
    parse(text).map_err(|e| format!("{e}; an SPI is a 32-bit number, such as 0xc1a2b3d4"))
}

/// Parses a mark, decimal or hexadecimal.
pub fn mark(text: &str) -> Result<u32, String> {
    parse(text).map_err(|e| format!("{e}; a mark is a 32-bit number, such as 0x10"))
}

fn parse(text: &str) -> Result<u32, ParseIntError> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => text.parse(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_bases() {
        assert_eq!(spi("0xff"), Ok(255));
        assert_eq!(spi("255"), Ok(255));
        assert!(spi("0x1ffffffff").is_err());
        assert!(mark("ten").is_err_and(|error| error.ends_with("such as 0x10")));
    }
}
