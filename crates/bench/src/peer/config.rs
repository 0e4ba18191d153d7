//! Input of the peer: a configuration, and a capture to receive again and again.

use core::fmt::Write as _;
use core::time::Duration;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use crypto::Suite;
use io::pcap::{LinkType, PcapWriter};

use crate::error::BenchError;
use crate::options::Direction;
use crate::traffic::{LOCAL_LEN, REMOTE_LEN, remote_network};
use crate::world;

/// A directory of files for one run of the peer; removed when dropped.
pub(crate) struct Files {
    directory: PathBuf,
    suite: Suite,
}

impl Files {
    /// Writes the configuration for one suite, and the frames that are to be received.
    pub(crate) fn write(
        suite: Suite,
        direction: Direction,
        frames: &[Vec<u8>],
    ) -> Result<Files, BenchError> {
        let name = format!("culvert-bench-peer-{}", std::process::id());
        let files = Files { directory: std::env::temp_dir().join(name), suite };
        // Made anew, so that it is nobody else's.
        match fs::create_dir(&files.directory) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                let what = format!("{} is there already", files.directory.display());
                core::mem::forget(files);
                return Err(BenchError::System { what, source: e });
            }
            result => result.map_err(BenchError::system("make a directory for the peer"))?,
        }
        let failed = "write a file for the peer";
        fs::write(files.configuration(), configuration(suite, direction))
            .map_err(BenchError::system(failed))?;
        let file = File::create(files.capture()).map_err(BenchError::system(failed))?;
        let file = BufWriter::new(file);
        let mut pcap = PcapWriter::new(file, LinkType::Ethernet, 65_535)
            .map_err(BenchError::system(failed))?;
        for frame in frames {
            pcap.packet(Duration::ZERO, frame).map_err(BenchError::system(failed))?;
        }
        pcap.finish().map_err(BenchError::system(failed))?;
        Ok(files)
    }

    /// True if the peer runs fastest by DPDK's IPsec library and calls the cipher itself (GCM).
    /// False if by its own code and a crypto device (CBC).
    pub(crate) const fn uses_library(&self) -> bool {
        by_library(self.suite)
    }

    pub(crate) fn configuration(&self) -> PathBuf {
        self.directory.join("secgw.cfg")
    }

    pub(crate) fn capture(&self) -> PathBuf {
        self.directory.join("packets.pcap")
    }

    /// Path of the peer's log.
    pub(crate) fn log(&self) -> PathBuf {
        self.directory.join("log")
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let directory: &Path = &self.directory;
        // Nothing to be done about it, and no reason to fail for.
        let _ = fs::remove_dir_all(directory);
    }
}

const fn by_library(suite: Suite) -> bool {
    matches!(suite, Suite::AesGcm { .. })
}

/// The peer's configuration: the SA pair of tunnel 0, its policies, and the route that the
/// direction needs. Port 0 receives, port 1 sends.
fn configuration(suite: Suite, direction: Direction) -> String {
    let mut text = String::new();
    let remote = format!("{}/{REMOTE_LEN}", remote_network(0));
    let local = format!("{}/{LOCAL_LEN}", world::LOCAL);
    for (way, network, direction) in
        [("out", &remote, Direction::Outbound), ("in", &local, Direction::Inbound)]
    {
        let spi = world::sa_config(suite, direction, 0, 0).params.spi;
        let (src, dst) = world::ends(direction, 0);
        let algorithms = algorithms(suite, direction);
        // A String takes everything: the results say nothing.
        let _ = writeln!(
            text,
            "sp ipv4 {way} esp protect {spi} pri 1 dst {network} sport 0:65535 dport 0:65535"
        );
        let kind = if by_library(suite) { " type cpu-crypto" } else { "" };
        let _ = writeln!(
            text,
            "sa {way} {spi} {algorithms} mode ipv4-tunnel src {src} dst {dst}{kind}"
        );
    }
    let (_, peer) = world::ends(Direction::Outbound, 0);
    let _ = match direction {
        Direction::Outbound => writeln!(text, "rt ipv4 dst {peer}/32 port 1"),
        Direction::Inbound => writeln!(text, "rt ipv4 dst {local} port 1"),
    };
    text
}

/// The algorithms and keys of an SA.
fn algorithms(suite: Suite, direction: Direction) -> String {
    let keys = world::keys(suite, direction, 0);
    let hex = |parts: &[&[u8]]| {
        let bytes: Vec<String> = parts.concat().iter().map(|b| format!("{b:02x}")).collect();
        bytes.join(":")
    };
    match suite {
        Suite::AesGcm { .. } => {
            format!("aead_algo aes-128-gcm aead_key {}", hex(&[&keys.cipher, &keys.salt]))
        }
        _ => format!(
            "cipher_algo aes-128-cbc cipher_key {} auth_algo sha1-hmac auth_key {}",
            hex(&[&keys.cipher]),
            hex(&[&keys.auth])
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::suite_by_name;

    #[test]
    fn keys_addresses_and_spis_are_those_of_the_gateway() {
        let suite = suite_by_name("aes128gcm16").unwrap();
        let text = configuration(suite, Direction::Outbound);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5);
        let spi = world::sa_config(suite, Direction::Outbound, 0, 0).params.spi;
        assert!(i32::try_from(spi).is_ok(), "the peer reads SPIs as signed numbers");
        assert!(
            lines[0].starts_with(&format!("sp ipv4 out esp protect {spi} pri 1 dst 10.128.0.0/26"))
        );
        assert!(lines[1].contains("src 192.0.2.1 dst 172.16.0.1 type cpu-crypto"));
        let key = lines[1].split(' ').nth(6).unwrap();
        assert_eq!(key.split(':').count(), 20);
        assert_eq!(lines[4], "rt ipv4 dst 172.16.0.1/32 port 1");
        let back = configuration(suite, Direction::Inbound);
        assert!(back.ends_with("rt ipv4 dst 10.1.0.0/16 port 1\n"));
        let cbc = configuration(suite_by_name("aes128-sha1").unwrap(), Direction::Inbound);
        assert!(cbc.contains("auth_algo sha1-hmac") && !cbc.contains("cpu-crypto"));
    }

    #[test]
    fn files_go_with_their_owner() {
        let suite = suite_by_name("aes128-sha1").unwrap();
        let files = Files::write(suite, Direction::Outbound, &[vec![1; 60], vec![2; 60]]).unwrap();
        let (configuration, capture) = (files.configuration(), files.capture());
        assert_eq!(fs::metadata(&capture).unwrap().len(), 24 + 2 * (16 + 60));
        assert!(configuration.exists());
        drop(files);
        assert!(!capture.exists() && !configuration.exists());
    }
}
