//! Arguments of `culvert web`.

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Args, Parser};

use super::{FilterArgs, WhyArgs};

/// Below the help.
pub const EXAMPLES: &str = "Examples:\n  \
    culvert web                                         on 127.0.0.1:9634; open the URL that it prints\n  \
    ssh -t -L 9634:localhost:9634 root@gw culvert web   the same from another machine\n  \
    culvert web --listen /run/culvert-web.sock          for a proxy on this machine";

/// Arguments of `culvert web`.
#[derive(Debug, Args)]
pub struct WebArgs {
    /// Where to serve it: an address with a port, or the path of a Unix socket, which is made for its owner alone.
    #[arg(long, value_name = "ADDRESS:PORT|PATH", default_value = "127.0.0.1:9634")]
    pub listen: Listen,
    /// The token is in this file, which is made with a new one if it is not there. Without it each start has a
    /// token of its own.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Allow an address that other hosts reach. The page is not encrypted: everyone on the way reads it, and the
    /// token with it.
    #[arg(long)]
    pub expose: bool,
    /// Answer to this name too, as where a proxy is in front. Without it: to localhost and addresses of loopback
    /// alone, so that no page of another site can ask under a name of its own.
    #[arg(long = "host", value_name = "NAME")]
    pub hosts: Vec<String>,
    /// Offer captures for download, where the daemon's `security.reader_captures` allows them. Packets are in them in
    /// clear, and while one runs helpers (worker.crypto_cpus) rest.
    #[arg(long)]
    pub capture: bool,
    /// Become this user, when root starts it. The daemon answers to the one that its `security.reader` names.
    #[arg(long, value_name = "USER", default_value = "culvert")]
    pub user: String,
    /// With more SAs than this they are not listed.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub max_sas: usize,
    /// The same for policies.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub max_policies: usize,
}

/// Where the page is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A TCP port of an address.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl Listen {
    /// The address, if it is one that other hosts reach.
    pub fn exposed(&self) -> Option<IpAddr> {
        match self {
            Listen::Tcp(address) if !address.ip().is_loopback() => Some(address.ip()),
            _ => None,
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        if text.starts_with('/') {
            return Ok(Listen::Unix(text.into()));
        }
        let wrong =
            || "an address with a port, such as 127.0.0.1:9634, or a path that begins with /";
        text.parse().map(Listen::Tcp).map_err(|_| wrong().to_owned())
    }
}

/// Parameters of the page's form, in the words of `culvert why`.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub struct WhyQuery {
    #[command(flatten)]
    pub args: WhyArgs,
}

/// The same of `culvert capture`, with bounds.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub struct CaptureQuery {
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=MOST_SECONDS))]
    pub duration: u64,
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=MOST_PACKETS))]
    pub count: u64,
    #[arg(long, value_name = "BYTES", default_value_t = 65535, value_parser = clap::value_parser!(u32).range(1..=65535))]
    pub snaplen: u32,
    #[command(flatten)]
    pub filter: FilterArgs,
}

/// One SA alone, as `culvert sa --spi`.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub struct SaQuery {
    #[arg(long, value_name = "SPI", value_parser = super::number::spi)]
    pub spi: Option<u32>,
}

/// Events after one of a run, as [`Request::Events`](report::Request::Events) asks for them.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub struct EventsQuery {
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub after: u64,
    #[arg(long, value_name = "RUN", default_value_t = 0)]
    pub run: u64,
}

/// Parameters of a request that has none.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub struct NoQuery {}

/// The longest capture, in seconds.
pub const MOST_SECONDS: u64 = 60;

/// The longest capture, in packets.
pub const MOST_PACKETS: u64 = 100_000;

/// A parameter of a URL that is wrong, or missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryError {
    /// The parameter, where it is one.
    pub field: Option<String>,
    /// The mistake, for people.
    pub text: String,
}

impl QueryError {
    fn new(error: &clap::Error) -> QueryError {
        let context = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => Some(text.as_str()),
            Some(ContextValue::Strings(texts)) => texts.first().map(String::as_str),
            _ => None,
        };
        // `--from <ADDRESS>`
        let field = context(ContextKind::InvalidArg)
            .and_then(|argument| argument.split(' ').next()?.strip_prefix("--"));
        let text = match (error.kind(), field) {
            (ErrorKind::MissingRequiredArgument, Some(field)) => format!("{field} is missing"),
            (ErrorKind::ValueValidation | ErrorKind::InvalidValue, Some(field)) => {
                let value = context(ContextKind::InvalidValue).unwrap_or_default();
                let why =
                    error.source().map_or_else(|| "no such value".into(), ToString::to_string);
                format!("{field}={value}: {why}")
            }
            _ => {
                let text = error.render().to_string();
                let lines = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
                let text = lines.collect::<Vec<_>>().join(" ");
                text.trim_start_matches("error: ").to_owned()
            }
        };
        QueryError { field: field.map(str::to_owned), text }
    }
}

/// Parses the parameters of a URL by the rules of the command line: `from=10.1.0.5` is `--from
/// 10.1.0.5`.
///
/// A parameter without a value is as good as none, as forms send what was left empty.
///
/// # Errors
/// The fault of the text.
pub fn parse_query<Q: Parser>(query: &str) -> Result<Q, QueryError> {
    let command = Q::command();
    let mut words = Vec::new();
    for (key, value) in form_urlencoded::parse(query.as_bytes()).filter(|(_, v)| !v.is_empty()) {
        let argument = command.get_arguments().find(|arg| arg.get_long() == Some(&*key));
        match argument.map(clap::Arg::get_action) {
            None => {
                let text = format!("there is no parameter {key:?} here");
                return Err(QueryError { field: None, text });
            }
            Some(ArgAction::SetTrue) => words.push(format!("--{key}")),
            Some(_) => words.push(format!("--{key}={value}")),
        }
    }
    Q::try_parse_from(words).map_err(|error| QueryError::new(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_or_a_path() {
        assert_eq!("/run/x.sock".parse(), Ok(Listen::Unix("/run/x.sock".into())));
        let exposed = |text: &str| text.parse::<Listen>().expect("right").exposed().is_some();
        assert!(!exposed("127.0.0.2:80") && !exposed("[::1]:80") && !exposed("/x"));
        assert!(exposed("0.0.0.0:80") && exposed("[::]:80") && exposed("192.0.2.1:80"));
        assert!("localhost:80".parse::<Listen>().is_err());
    }

    #[test]
    fn a_query_is_a_command_line() {
        let query = parse_query::<WhyQuery>("from=10.1.0.5&to=fd00%3A%3A1&proto=tcp&dport=&df=on");
        let args = query.expect("right").args;
        assert_eq!(
            (args.from.to_string(), args.to.to_string()),
            ("10.1.0.5".into(), "fd00::1".into())
        );
        assert_eq!((args.proto, args.dport, args.df, args.len), (Some(6), None, true, 100));
    }

    #[test]
    fn a_wrong_query_says_what_is_wrong() {
        let error = |query| {
            let error = parse_query::<WhyQuery>(query).expect_err("wrong");
            (error.field.unwrap_or_default(), error.text)
        };
        let said = |field: &str, text: &str| (field.to_owned(), text.to_owned());
        assert_eq!(error("from=10.1.0.5"), said("to", "to is missing"));
        let wrong = "from=lan: invalid IP address syntax";
        assert_eq!(error("from=lan&to=10.1.0.5"), said("from", wrong));
        assert_eq!(error("from=10.1.0.5&to=10.1.0.6&dport=x").0, "dport");
        assert_eq!(error("from=10.1.0.5&to=10.1.0.6&dscp=64").0, "dscp");
        assert_eq!(error("show-keys=1"), said("", "there is no parameter \"show-keys\" here"));
        // A value is one word, whatever is in it.
        assert_eq!(error("from=10.1.0.5+--df&to=10.1.0.6").0, "from");
    }

    #[test]
    fn captures_are_bounded() {
        let query = |query| parse_query::<CaptureQuery>(query);
        assert!(query("duration=60&count=100000&host=10.1.0.0/24&drops=on").is_ok());
        assert!(query("duration=61").is_err() && query("count=100001").is_err());
        assert!(query("duration=0").is_err() && query("count=0").is_err());
    }
}
