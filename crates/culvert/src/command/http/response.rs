//! Heads of answers, and answers that are errors.

use std::io::{self, Write};

use report::client::ClientError;

/// A status of RFC 9110, §15.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u16);

impl Status {
    pub const OK: Status = Status(200);
    pub const BAD: Status = Status(400);
    pub const NO_TOKEN: Status = Status(401);
    pub const FORBIDDEN: Status = Status(403);
    pub const NOT_FOUND: Status = Status(404);
    pub const NOT_ALLOWED: Status = Status(405);
    pub const TIMEOUT: Status = Status(408);
    pub const TOO_LARGE: Status = Status(413);
    pub const MISDIRECTED: Status = Status(421);
    /// The request is understood, and makes no sense here (RFC 9110, §15.5.21).
    pub const REFUSED: Status = Status(422);
    pub const TOO_MANY: Status = Status(429);
    /// RFC 6585, §5.
    pub const TOO_LONG: Status = Status(431);
    pub const NO_DAEMON: Status = Status(503);
}

/// Something that is wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub status: Status,
    pub error: String,
    /// The parameter that is wrong, if one is.
    pub field: Option<String>,
}

impl Fault {
    /// Said to people.
    pub fn new(status: Status, error: impl Into<String>) -> Fault {
        Fault { status, error: error.into(), field: None }
    }

    /// Of a parameter.
    pub fn of(self, field: impl Into<Option<String>>) -> Fault {
        Fault { field: field.into(), ..self }
    }

    /// `{"error": …}`, as the daemon says what it refuses, with the parameter as `field` where one is wrong.
    pub fn body(&self) -> String {
        let mut body = serde_json::json!({ "error": self.error });
        if let Some(field) = &self.field {
            body["field"] = field.as_str().into();
        }
        body.to_string()
    }
}

/// Why the daemon says nothing.
impl From<ClientError> for Fault {
    fn from(error: ClientError) -> Fault {
        let status = match error {
            ClientError::NotAllowed(_) => Status::FORBIDDEN,
            _ => Status::NO_DAEMON,
        };
        Fault::new(status, error.to_string())
    }
}

pub const JSON: &str = "application/json";

/// How long a body is.
#[derive(Clone, Copy)]
pub enum Length {
    /// So many bytes.
    Known(usize),
    /// Chunks follow, with their lengths (RFC 9112, §7.1).
    Chunks,
}

/// Writes the head of an answer.
pub fn head(
    to: &mut impl Write,
    status: Status,
    content_type: &str,
    length: Length,
    extra: &str,
) -> io::Result<()> {
    let length = match length {
        Length::Known(len) => format!("Content-Length: {len}"),
        Length::Chunks => "Transfer-Encoding: chunked".into(),
    };
    let more = match status {
        Status::NO_TOKEN => "WWW-Authenticate: Bearer\r\n",
        Status::NOT_ALLOWED => "Allow: GET, HEAD\r\n",
        _ => "",
    };
    let code = status.0;
    let text = format!(
        "HTTP/1.1 {code} \r\nContent-Type: {content_type}\r\n{length}\r\nConnection: close\r\n{more}{extra}{FIELDS}\r\n"
    );
    to.write_all(text.as_bytes())
}

/// In every answer: nothing but this page's own files runs in it, nobody frames it, it is kept nowhere, and nobody is
/// told where a link was followed from.
const FIELDS: &str = "\
    Content-Security-Policy: default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\
    X-Content-Type-Options: nosniff\r\n\
    Referrer-Policy: no-referrer\r\n\
    Cross-Origin-Opener-Policy: same-origin\r\n\
    Cross-Origin-Resource-Policy: same-origin\r\n\
    Cache-Control: no-store\r\n";
