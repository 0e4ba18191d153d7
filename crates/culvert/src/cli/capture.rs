//! Arguments of `culvert capture`.

use std::path::PathBuf;

use clap::Args;

use super::FilterArgs;

/// Below the help.
pub const EXAMPLES: &str = "Examples:\n  \
    culvert capture -w tunnel.pcapng --host 10.2.0.9\n  \
    culvert capture -w drops.pcapng --drops --rotate-size 100M --files 10\n  \
    ssh gw culvert capture -w - | wireshark -k -i -";

/// Arguments of `culvert capture`.
#[derive(Debug, Args)]
pub struct CaptureArgs {
    /// The file; `-` is standard output.
    #[arg(long, short = 'w', value_name = "FILE")]
    pub write: PathBuf,
    /// End after so many packets.
    #[arg(long, short = 'c', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// End after so many seconds.
    #[arg(long, value_name = "SECONDS")]
    pub duration: Option<u64>,
    /// Keep so many bytes of each packet at most.
    #[arg(long, short = 's', value_name = "BYTES", default_value_t = SNAP_LEN,
        value_parser = clap::value_parser!(u32).range(1..=65535))]
    pub snaplen: u32,
    /// Begin another file when one would be longer than this: bytes, or with k, M or G. The files are numbered:
    /// FILE-00001, before its ending.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub rotate_size: Option<u64>,
    /// Keep the newest so many files, and remove the others.
    #[arg(long, value_name = "N", requires = "rotate_size",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub files: Option<u32>,
    /// Write the keys of all SAs of ESP to this file too, as Wireshark's table esp_sa has them, and those of SAs
    /// that come meanwhile. They are secret: with them the traffic can be read.
    #[arg(long, value_name = "FILE")]
    pub show_keys: Option<PathBuf>,
    #[command(flatten)]
    pub filter: FilterArgs,
}

impl CaptureArgs {
    /// All of the packets that match, to a file.
    pub fn to(write: PathBuf, filter: FilterArgs) -> CaptureArgs {
        let (count, duration, rotate_size, files, show_keys) = (None, None, None, None, None);
        CaptureArgs {
            write,
            count,
            duration,
            snaplen: SNAP_LEN,
            rotate_size,
            files,
            show_keys,
            filter,
        }
    }
}

/// Bytes of a packet that are kept: all.
const SNAP_LEN: u32 = 65535;

/// A size in bytes.
fn size(text: &str) -> Result<u64, String> {
    let wrong = || "a size such as 500k, 100M or 1G".to_owned();
    let (number, unit) = match text.strip_suffix(['k', 'M', 'G']) {
        Some(number) => (number, text.get(number.len()..).unwrap_or_default()),
        None => (text, ""),
    };
    let shift = match unit {
        "k" => 10,
        "M" => 20,
        "G" => 30,
        _ => 0,
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let size = number.checked_mul(1 << shift).filter(|size| *size > 0);
    size.ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let sizes = ["7", "500k", "100M", "1G"].map(size);
        assert_eq!(sizes, [Ok(7), Ok(500 << 10), Ok(100 << 20), Ok(1 << 30)]);
        for wrong in ["", "k", "0", "1T", "-1", "99999999999999999999", "99999999999G"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
