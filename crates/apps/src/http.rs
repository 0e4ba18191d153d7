//! HTTP/1: the request line, and the host that is asked for (RFC 9112 §3).

use crate::name::Name;

/// Result of reading a request from the beginning of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A request, with its host if it names one.
    Whole(Option<Name>),
    /// It begins like one; more bytes have to come.
    Begun,
    /// The bytes are something else.
    No,
}

/// Methods that there are, in so far as clients use them (RFC 9110 §9, RFC 5789, RFC 4918).
const METHODS: [&[u8]; 16] = [
    b"GET",
    b"POST",
    b"HEAD",
    b"PUT",
    b"DELETE",
    b"CONNECT",
    b"OPTIONS",
    b"TRACE",
    b"PATCH",
    b"PROPFIND",
    b"PROPPATCH",
    b"MKCOL",
    b"COPY",
    b"MOVE",
    b"LOCK",
    b"REPORT",
];

/// Reads the head of a request up to its host.
pub fn request(stream: &[u8]) -> Request {
    let Some(method) = METHODS.iter().find(|method| agrees(stream, method)) else {
        return Request::No;
    };
    let Some((line, mut rest)) = split_line(stream) else {
        return match stream.get(method.len()) {
            None | Some(b' ') => Request::Begun,
            Some(_) => Request::No,
        };
    };
    // With more spaces than one between words, as servers may take it (RFC 9112 §3).
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    // A target with spaces is wrong, and servers take it: the version stands last.
    let (first, target, version) = (words.next(), words.next(), words.next_back());
    let is_http = version.is_some_and(|v| v.starts_with(b"HTTP/1."));
    if first != Some(*method) || !is_http {
        return Request::No;
    }
    let of_target = target.and_then(|target| authority(target, *method == b"CONNECT"));
    loop {
        let Some((line, after)) = split_line(rest) else { return Request::Begun };
        if line.is_empty() {
            return Request::Whole(of_target);
        }
        if let Some(at) = line.iter().position(|byte| *byte == b':')
            && let Some((name, value)) = line.split_at_checked(at)
            && name.eq_ignore_ascii_case(b"host")
        {
            let host = value.get(1..).unwrap_or_default().trim_ascii();
            // A target with an authority wins (RFC 9112 §3.2.2).
            return Request::Whole(of_target.or_else(|| host_of(host)));
        }
        rest = after;
    }
}

/// True if the stream begins with a method, as far as it goes.
fn agrees(stream: &[u8], method: &[u8]) -> bool {
    let len = stream.len().min(method.len());
    stream.get(..len) == method.get(..len)
}

/// A line without its end, and what is behind it.
fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|byte| *byte == b'\n')?;
    let (line, rest) = bytes.split_at_checked(at)?;
    Some((line.strip_suffix(b"\r").unwrap_or(line), rest.get(1..)?))
}

/// The host of a target in absolute form, or of CONNECT.
fn authority(target: &[u8], is_connect: bool) -> Option<Name> {
    if is_connect {
        return host_of(target);
    }
    let (scheme, rest) = target.split_at_checked(7)?;
    if !scheme.eq_ignore_ascii_case(b"http://") {
        return None;
    }
    host_of(rest.split(|byte| matches!(byte, b'/' | b'?')).next()?)
}

/// The host of an authority, without user and port.
fn host_of(authority: &[u8]) -> Option<Name> {
    let host = authority.rsplit(|byte| *byte == b'@').next()?;
    Name::new(host.split(|byte| *byte == b':').next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Request {
        Request::Whole(Name::new(text.as_bytes()))
    }

    #[test]
    fn the_host_of_a_request() {
        let cases: [(&[u8], Request); 11] = [
            (b"GET /a b|c HTTP/1.1\r\nHost: a.example\r\n", host("a.example")),
            (b"GET   /a   HTTP/1.1\r\nHost: a.example\r\n", host("a.example")),
            (b"GET / HTTP/1.1\r\nHost: www.Example.com\r\n", host("www.example.com")),
            (b"POST /a HTTP/1.1\r\nA: b\r\nhOsT:10.0.0.1:8080\r\n", host("10.0.0.1")),
            (b"GET http://a.example:80/x HTTP/1.1\nHost: b.example\n", host("a.example")),
            (b"CONNECT c.example:443 HTTP/1.1\r\n\r\n", host("c.example")),
            (b"GET / HTTP/1.0\r\n\r\n", Request::Whole(None)),
            (b"GET / HTTP/1.1\r\nHost: [::1]\r\n", Request::Whole(None)),
            (b"GET / HTTP/1.1\r\nHost: a.exam", Request::Begun),
            (b"GET / RTSP/1.0\r\nHost: a.example\r\n", Request::No),
            (b"SSH-2.0-OpenSSH_9\r\n", Request::No),
        ];
        for (stream, expected) in cases {
            assert_eq!(request(stream), expected, "{}", stream.escape_ascii());
        }
    }

    #[test]
    fn a_cut_changes_nothing_but_the_wait() {
        let stream = b"PROPFIND /dav HTTP/1.1\r\nAccept: */*\r\nHost: dav.example\r\n\r\n";
        let at = (0..=stream.len()).find(|len| request(&stream[..*len]) != Request::Begun);
        let at = at.expect("an end");
        assert_eq!(request(&stream[..at]), host("dav.example"));
        assert_eq!(request(stream), host("dav.example"));
    }
}
