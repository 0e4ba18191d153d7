//! The keys of SAs, as Wireshark's table `esp_sa` has them.
//!
//! One line for each SA, eight quoted fields: family, source, destination, SPI, cipher and its key, integrity
//! algorithm and its key. Ciphers that are not in counter mode alone (RFC 3686, RFC 4106, RFC 7634) have a key
//! that ends with the salt.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};

use control::files::open_secret;
use report::client::ask;
use report::{Event, Events, Occurrence, Request, Sa, SaProtocol};

use super::events::newest;

/// The table of SAs that there were since it was begun.
pub struct Keys {
    name: String,
    path: PathBuf,
    /// Lines by source, destination and SPI.
    lines: BTreeMap<(String, String, String), String>,
    /// The last event that was looked at, and the run of the daemon that has counted it.
    after: (u64, u64),
}

impl Keys {
    /// Writes the SAs that there are.
    pub fn begin(name: &str, path: &Path) -> Result<Keys, Box<dyn Error>> {
        let (lines, after) = (BTreeMap::new(), newest(name)?);
        let mut keys = Keys { name: name.into(), path: path.into(), lines, after };
        keys.add()?;
        keys.write()?;
        Ok(keys)
    }

    /// Adds those that have come since; the others stay, as packets of them have been captured.
    pub fn follow(&mut self) -> Result<(), Box<dyn Error>> {
        if self.has_news()? && self.add()? {
            self.write()?;
        }
        Ok(())
    }

    /// True if an SA has come since the last call.
    fn has_news(&mut self) -> Result<bool, Box<dyn Error>> {
        let mut has_news = false;
        loop {
            let (after, run) = self.after;
            let Events { events, last, run: now, lost } =
                ask(&self.name, Request::Events { after, run })?;
            let is_new = |event: &Event| {
                matches!(event.what, Occurrence::SaUp(_) | Occurrence::SaRekeyed(_))
            };
            has_news |= now != run || lost > 0 || events.iter().any(is_new);
            self.after = (last, now);
            if events.is_empty() {
                return Ok(has_news);
            }
        }
    }

    /// Asks for the SAs; whether there are others than before.
    fn add(&mut self) -> Result<bool, Box<dyn Error>> {
        let sas: Vec<Sa> = ask(&self.name, Request::Sa { show_keys: true, spi: None })?;
        let before = self.lines.len();
        for sa in sas.iter().filter(|sa| sa.protocol == SaProtocol::Esp) {
            let key = (sa.src.clone(), sa.dst.clone(), sa.spi.clone());
            self.lines.entry(key).or_insert_with(|| line(sa));
        }
        Ok(self.lines.len() > before)
    }

    fn write(&self) -> Result<(), Box<dyn Error>> {
        let mut text = String::from("# With these keys the traffic can be read.\n");
        self.lines.values().for_each(|line| text += line);
        Ok(open_secret(&self.path)?.write_all(text.as_bytes())?)
    }
}

/// An SA's line; a comment where Wireshark has no word for its algorithms.
fn line(sa: &Sa) -> String {
    let known = sa.keys.as_ref().zip(names(&sa.suite));
    let Some((keys, (cipher, integrity))) = known else {
        return format!("# {} to {}: {} cannot be said here\n", sa.spi, sa.dst, sa.suite);
    };
    let hex = |text: String| if text.is_empty() { text } else { format!("0x{text}") };
    let key = |name: &str| keys.get(name).cloned().unwrap_or_default();
    let family = if sa.dst.contains(':') { "IPv6" } else { "IPv4" };
    let cipher_key = hex(key("cipher") + &key("salt"));
    let fields =
        [family, &sa.src, &sa.dst, &sa.spi, cipher, &cipher_key, integrity, &hex(key("auth"))];
    fields.map(|field| format!("\"{field}\"")).join(",") + "\n"
}

/// Wireshark's names of a suite's algorithms.
fn names(suite: &str) -> Option<(&'static str, &'static str)> {
    const NONE: &str = "NULL";
    if suite == "chacha20poly1305" {
        return Some(("ChaCha20 with Poly1305 [RFC7634]", NONE));
    }
    if let Some((_, icv)) = suite.split_once("gcm") {
        return Some(match icv {
            "8" => ("AES-GCM with 8 octet ICV [RFC4106]", NONE),
            "12" => ("AES-GCM with 12 octet ICV [RFC4106]", NONE),
            "16" => ("AES-GCM with 16 octet ICV [RFC4106]", NONE),
            _ => return None,
        });
    }
    let (cipher, integrity) = suite.split_once('-')?;
    let cipher = match cipher {
        "null" => NONE,
        "aes128" | "aes192" | "aes256" => "AES-CBC [RFC3602]",
        "aes128ctr" | "aes192ctr" | "aes256ctr" => "AES-CTR [RFC3686]",
        "3des" => "TripleDES-CBC [RFC2451]",
        "des" => "DES-CBC [RFC2405]",
        _ => return None,
    };
    let integrity = match integrity {
        "sha1" => "HMAC-SHA-1-96 [RFC2404]",
        "sha256_96" => "HMAC-SHA-256-96 [draft-ietf-ipsec-ciph-sha-256-00]",
        "sha256" => "HMAC-SHA-256-128 [RFC4868]",
        "sha384" => "HMAC-SHA-384-192 [RFC4868]",
        "sha512" => "HMAC-SHA-512-256 [RFC4868]",
        "md5" => "HMAC-MD5-96 [RFC2403]",
        "md5_128" => "ANY 128 bit authentication [no checking]",
        "aesxcbc" | "aescmac" => "ANY 96 bit authentication [no checking]",
        _ => return None,
    };
    Some((cipher, integrity))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sa(suite: &str, keys: &[(&str, &str)]) -> Sa {
        let keys = keys.iter().map(|(name, key)| ((*name).to_owned(), (*key).to_owned()));
        Sa {
            spi: "0x00000007".into(),
            src: "192.0.2.1".into(),
            dst: "192.0.2.2".into(),
            protocol: "esp".into(),
            suite: suite.into(),
            keys: Some(keys.collect()),
            ..Sa::default()
        }
    }

    #[test]
    fn lines_are_wiresharks() {
        let gcm = sa("aes128gcm16", &[("cipher", "00ff"), ("salt", "0102")]);
        let expected = "\"IPv4\",\"192.0.2.1\",\"192.0.2.2\",\"0x00000007\",\
             \"AES-GCM with 16 octet ICV [RFC4106]\",\"0x00ff0102\",\"NULL\",\"\"\n";
        assert_eq!(line(&gcm), expected);
        let cbc = line(&sa("aes256-sha256", &[("cipher", "aa"), ("auth", "bb")]));
        assert!(
            cbc.ends_with("[RFC3602]\",\"0xaa\",\"HMAC-SHA-256-128 [RFC4868]\",\"0xbb\"\n"),
            "{cbc}"
        );
        assert!(
            line(&sa("null-sha1", &[("auth", "bb")])).contains("\"NULL\",\"\",\"HMAC-SHA-1-96")
        );
    }

    #[test]
    fn what_wireshark_has_no_word_for_is_a_comment() {
        for suite in ["aes128ccm16", "aes128gmac", "camellia128-sha1", "aes128-sha1_160"] {
            assert!(line(&sa(suite, &[("cipher", "aa")])).starts_with("# 0x00000007"), "{suite}");
        }
        // The kernel's keys are not known.
        let unknown = Sa { keys: None, ..sa("aes128gcm16", &[]) };
        assert!(line(&unknown).starts_with('#'));
    }
}
