//! A page for Prometheus to scrape.

use std::error::Error;
use std::io::Cursor;
use std::net::SocketAddr;

use tiny_http::{Header, Method, Response, Server};

/// OpenMetrics 1.0, §2.3.1 of its text format.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves `/metrics`, one client at a time, until the process is ended.
///
/// A scrape that fails, as while the daemon restarts, is answered with its reason, and 503.
pub fn serve(
    address: SocketAddr,
    scrape: impl Fn() -> Result<String, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let server = Server::http(address).map_err(|error| format!("--listen {address}: {error}"))?;
    eprintln!("culvert metrics: http://{address}/metrics");
    for request in server.incoming_requests() {
        let response = match (request.method(), request.url()) {
            (Method::Get, "/metrics") => match scrape() {
                Ok(text) => page(200, CONTENT_TYPE, text),
                Err(error) => page(503, PLAIN, format!("{error}\n")),
            },
            (Method::Get, _) => page(404, PLAIN, "there is /metrics alone\n".into()),
            _ => page(405, PLAIN, "GET /metrics\n".into()),
        };
        // An error means that the client has gone.
        let _ = request.respond(response);
    }
    Ok(())
}

const PLAIN: &str = "text/plain; charset=utf-8";

fn page(status: u16, content_type: &str, text: String) -> Response<Cursor<Vec<u8>>> {
    let response = Response::from_string(text).with_status_code(status);
    match Header::from_bytes("Content-Type", content_type) {
        Ok(header) => response.with_header(header),
        Err(()) => response,
    }
}
