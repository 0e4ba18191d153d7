//! The token that a browser has to know to be answered.

use std::error::Error;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use openssl::memcmp;

/// Bytes of chance in a token.
const RANDOM_LEN: usize = 32;

/// Lengths of a token in a file. The shortest has 128 bits as hexadecimal digits.
const LENGTHS: std::ops::RangeInclusive<usize> = 32..=256;

/// A secret that is good in a URL.
pub struct Token(String);

impl Token {
    /// A new one.
    ///
    /// # Errors
    /// When the kernel gives no random bytes.
    pub fn new() -> Result<Token, Box<dyn Error>> {
        let mut bytes = [0; RANDOM_LEN];
        getrandom::fill(&mut bytes)?;
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The token in a file, or a new one with which the file is made.
    ///
    /// # Errors
    /// When others can read the file, or what is in it is too short or no token.
    pub fn of_file(path: &Path) -> Result<Token, Box<dyn Error>> {
        let shown = path.display();
        let file = match OpenOptions::new().read(true).open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Token::into_new_file(path),
            opened => opened.map_err(|error| format!("--token-file {shown}: {error}"))?,
        };
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            return Err(
                format!("--token-file {shown}: others can read it; chmod 600 {shown}").into()
            );
        }
        let mut text = String::new();
        file.take(4096).read_to_string(&mut text)?;
        let token = text.trim();
        let is_right = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
        if !LENGTHS.contains(&token.len()) || !token.chars().all(is_right) {
            return Err(format!(
                "--token-file {shown}: a token has {} to {} letters, digits, '-', '.', '_' and '~'; remove the file \
                 to have one made",
                LENGTHS.start(),
                LENGTHS.end()
            )
            .into());
        }
        Ok(Token(token.to_owned()))
    }

    fn into_new_file(path: &Path) -> Result<Token, Box<dyn Error>> {
        let token = Token::new()?;
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let mut file =
            opened.map_err(|error| format!("--token-file {}: {error}", path.display()))?;
        writeln!(file, "{token}")?;
        Ok(token)
    }

    /// True if the bytes are the token. The time taken tells its length at most.
    pub fn is(&self, other: &[u8]) -> bool {
        let token = self.0.as_bytes();
        token.len() == other.len() && memcmp::eq(token, other)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    #[test]
    fn it_alone_is_right() {
        let (token, other) = (Token::new().expect("a token"), Token::new().expect("a token"));
        let text = token.to_string();
        assert!(token.is(text.as_bytes()) && text.len() == 64);
        assert!(!token.is(other.to_string().as_bytes()));
        assert!(
            !token.is(b"")
                && !token.is(&text.as_bytes()[1..])
                && !token.is(format!("{text}0").as_bytes())
        );
    }

    #[test]
    fn a_file_keeps_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("token");
        let made = Token::of_file(&path).expect("made");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert!(made.is(Token::of_file(&path).expect("read").to_string().as_bytes()));
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("set");
        assert!(Token::of_file(&path).is_err_and(|error| error.to_string().contains("chmod 600")));
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("set");
        for wrong in [
            "short",
            &"ü".repeat(20),
            &"a".repeat(257),
            &format!("{} {}", "a".repeat(20), "b".repeat(20)),
        ] {
            fs::write(&path, wrong).expect("written");
            assert!(Token::of_file(&path).is_err(), "{wrong}");
        }
    }
}
