//! `culvert web`: a page that shows what the daemon does.
//!
//! A client of the daemon's as every other command: the daemon itself speaks no HTTP. Nothing here changes anything,
//! and the process gives up all that serving does not need before it reads a byte from
//! anybody.
//!
//! | file | what it has |
//! | --- | --- |
//! | `page` | which answer goes to whom |
//! | `gate` | who may ask: the token |
//! | `token` | where the token comes from |
//! | `files` | the page itself |
//! | `answers` | what the daemon says, as `--json` prints it |
//! | `capture` | packets for download |
//!
//! Connections, heads and bounds are those of `command::http`.

mod answers;
mod capture;
mod files;
mod gate;
mod page;
mod token;

use std::error::Error;
use std::sync::Arc;

use super::http;
use crate::cli::{Listen, WebArgs};
use answers::Answers;
use gate::Gate;
use page::Page;
use token::Token;

/// Serves the page until the process is ended.
pub fn web(name: &str, json: bool, args: &WebArgs) -> Result<String, Box<dyn Error>> {
    if let Some(address) = args.listen.exposed()
        && !args.expose
    {
        return Err(format!(
            "--listen {address}: the page tells addresses of tunnels and networks, and neither it nor its token is \
             encrypted on the way; listen on 127.0.0.1 and come by ssh -L, put a proxy with TLS in front, or add \
             --expose"
        )
        .into());
    }
    let token = match &args.token_file {
        Some(path) => Token::of_file(path)?,
        None => Token::new()?,
    };
    let socket = http::listen(&args.listen)?;
    let place = match &args.listen {
        Listen::Tcp(_) => match socket.local_addr()?.as_socket() {
            Some(address) => format!("http://{address}/"),
            None => String::new(),
        },
        Listen::Unix(path) => path.display().to_string(),
    };
    // Standard output of a service is kept in a journal, which more people read than the file.
    match &args.token_file {
        _ if json => {
            let token = args.token_file.is_none().then(|| token.to_string());
            println!(
                "{}",
                serde_json::json!({ "url": place, "token": token, "token_file": args.token_file })
            );
        }
        Some(path) => {
            println!("culvert web: {place}, with the token in {} behind #", path.display())
        }
        None if matches!(args.listen, Listen::Tcp(_)) => println!("culvert web: {place}#{token}"),
        None => println!("culvert web: {place}, token {token}"),
    }
    http::become_server("web", &args.user)?;
    let page = Page {
        names: http::Names::new(args.hosts.clone(), args.expose),
        gate: Gate::new(token),
        answers: Answers::new(name, args),
    };
    http::serve("web", &socket, &Arc::new(page))
}
