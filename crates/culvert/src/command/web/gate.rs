//! Who is told what the daemon says.

use super::token::Token;

/// Opens for those who have the token.
pub struct Gate(Token);

impl Gate {
    /// For this token.
    pub fn new(token: Token) -> Gate {
        Gate(token)
    }

    /// True if a field `Authorization` has the token (RFC 6750, §2.1).
    ///
    /// It is no cookie, as a browser gives cookies of one port to every other of the same address.
    pub fn knows_token(&self, authorization: &[u8]) -> bool {
        let Some((scheme, token)) = authorization.split_at_checked(SCHEME.len()) else {
            return false;
        };
        scheme.eq_ignore_ascii_case(SCHEME) && self.0.is(token)
    }
}

const SCHEME: &[u8] = b"Bearer ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_a_bearers() {
        let gate = Gate::new(Token::new().expect("a token"));
        let token = gate.0.to_string();
        let knows = |text: String| gate.knows_token(text.as_bytes());
        assert!(knows(format!("Bearer {token}")) && knows(format!("bearer {token}")));
        for wrong in [
            String::new(),
            "Bearer".into(),
            "Bearer ".into(),
            token.clone(),
            format!("Basic {token}"),
        ] {
            assert!(!knows(wrong.clone()), "{wrong}");
        }
    }
}
