//! The head of an HTTP request, within bounds.

use std::io::{ErrorKind, Read};

use super::response::{Fault, Status};

/// The longest head, in bytes.
pub const MAX_LEN: usize = 8192;

/// The most fields of one.
const MAX_FIELDS: usize = 64;

/// Head of a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Head {
    /// `HEAD`: the answer's head alone.
    pub is_head: bool,
    /// Without the query.
    pub path: String,
    /// Query: the part behind `?`.
    pub query: String,
    /// The host that the client means.
    pub host: String,
    /// The field `Authorization`, empty if there is none.
    pub authorization: Vec<u8>,
    /// The fields `Accept`, empty if there is none.
    pub accept: Vec<u8>,
}

impl Head {
    /// Reads one.
    ///
    /// # Errors
    /// The answer to give; `None` where there is nobody to answer, or nothing was asked.
    pub fn read(stream: &mut impl Read) -> Result<Head, Option<Fault>> {
        let mut bytes = Vec::new();
        let mut piece = [0; 2048];
        loop {
            let len = match stream.read(&mut piece) {
                Ok(0) => return Err(None),
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if is_late(error.kind()) && !bytes.is_empty() => {
                    return Err(Some(Fault::new(Status::TIMEOUT, "the request takes too long")));
                }
                Err(_) => return Err(None),
            };
            bytes.extend_from_slice(piece.get(..len).unwrap_or_default());
            if let Some(head) = parse(&bytes)? {
                return Ok(head);
            }
            if bytes.len() > MAX_LEN {
                return Err(Some(Fault::new(Status::TOO_LONG, "a request has 8192 bytes at most")));
            }
        }
    }
}

/// A head, once all of it is there.
fn parse(bytes: &[u8]) -> Result<Option<Head>, Fault> {
    let bad = |what: &str| Fault::new(Status::BAD, what);
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(len)) if len <= MAX_LEN => {}
        Ok(httparse::Status::Complete(_)) | Err(httparse::Error::TooManyHeaders) => {
            return Err(Fault::new(
                Status::TOO_LONG,
                "a request has 8192 bytes and 64 fields at most",
            ));
        }
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(bad(&format!("this is no HTTP: {error}"))),
    }
    let is_head = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(Fault::new(Status::NOT_ALLOWED, "this is only read: GET and HEAD")),
    };
    let values = |name: &'static str| {
        request.headers.iter().filter(move |f| f.name.eq_ignore_ascii_case(name)).map(|f| f.value)
    };
    if values("Transfer-Encoding").next().is_some()
        || values("Content-Length").any(|len| len != b"0")
    {
        return Err(Fault::new(Status::TOO_LARGE, "no request has a body"));
    }
    // RFC 9112, §3.2: exactly one.
    let mut hosts = values("Host");
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(bad("a request names one host"));
    };
    let host = std::str::from_utf8(host).map_err(|_| bad("the host is no text"))?;
    let (path, query) = request
        .path
        .and_then(|path| path.split_once('?'))
        .unwrap_or((request.path.unwrap_or(""), ""));
    Ok(Some(Head {
        is_head,
        path: path.to_owned(),
        query: query.to_owned(),
        host: host.to_owned(),
        authorization: values("Authorization").next().unwrap_or_default().to_vec(),
        accept: values("Accept").collect::<Vec<_>>().join(&b','),
    }))
}

/// True if a read ended because nothing came in time.
fn is_late(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Head, Option<u16>> {
        Head::read(&mut text.as_bytes()).map_err(|fault| fault.map(|fault| fault.status.0))
    }

    /// Gives a byte at a time.
    struct Slow<'t>(&'t [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
            let len = self.0.len().min(1);
            self.0.read(&mut to[..len])
        }
    }

    #[test]
    fn a_head_has_path_query_host_and_token() {
        let text = "GET /api/why?from=10.1.0.5 HTTP/1.1\r\nhost: localhost:9634\r\nAuthorization: Bearer x\r\nAccept: text/plain\r\naccept: */*\r\n\r\n";
        let head = Head {
            is_head: false,
            path: "/api/why".into(),
            query: "from=10.1.0.5".into(),
            host: "localhost:9634".into(),
            authorization: b"Bearer x".to_vec(),
            accept: b"text/plain,*/*".to_vec(),
        };
        assert_eq!(read(text).as_ref(), Ok(&head));
        assert_eq!(Head::read(&mut Slow(text.as_bytes())).expect("read"), head);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let of = |line: &str, fields: &str| read(&format!("{line} HTTP/1.1\r\n{fields}\r\n"));
        assert_eq!(of("POST /", "Host: localhost\r\n"), Err(Some(405)));
        assert_eq!(of("GET /", ""), Err(Some(400)));
        assert_eq!(of("GET /", "Host: localhost\r\nHost: evil.example\r\n"), Err(Some(400)));
        assert_eq!(of("GET /", "Host: localhost\r\nContent-Length: 5\r\n"), Err(Some(413)));
        assert_eq!(
            of("GET /", "Host: localhost\r\nTransfer-Encoding: chunked\r\n"),
            Err(Some(413))
        );
        assert_eq!(read("\u{1}\u{2}\r\n\r\n"), Err(Some(400)));
        assert_eq!(read("GET / HT"), Err(None));
        assert_eq!(read(""), Err(None));
    }

    #[test]
    fn a_head_is_bounded() {
        let long = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(MAX_LEN));
        assert_eq!(read(&long), Err(Some(431)));
        let endless = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(10 * MAX_LEN));
        assert_eq!(read(&endless), Err(Some(431)));
        let fields = "X: y\r\n".repeat(MAX_FIELDS);
        assert_eq!(
            read(&format!("GET / HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")),
            Err(Some(431))
        );
    }
}
