//! Numbers: of 32 bits in hexadecimal (0x...) or decimal, and DSCPs.

use std::num::ParseIntError;

/// Parses an SPI, decimal or hexadecimal.
pub fn spi(text: &str) -> Result<u32, String> {
    parse(text).map_err(|e| format!("{e}; an SPI is a 32-bit number, such as 0xc1a2b3d4"))
}

/// Parses a mark, decimal or hexadecimal.
pub fn mark(text: &str) -> Result<u32, String> {
    parse(text).map_err(|e| format!("{e}; a mark is a 32-bit number, such as 0x10"))
}

/// Parses a DSCP, by its number or its class.
pub fn dscp(text: &str) -> Result<u8, String> {
    text.parse().map(|config::Dscp(dscp)| dscp)
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
        assert_eq!((dscp("EF"), dscp("46"), dscp("af41")), (Ok(46), Ok(46), Ok(34)));
        assert!(dscp("EE").is_err_and(|error| error.contains("0 to 63, or a class")));
        assert!(mark("ten").is_err_and(|error| error.ends_with("such as 0x10")));
    }
}
