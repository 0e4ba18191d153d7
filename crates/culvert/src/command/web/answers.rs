//! Answers of the daemon, byte for byte as `--json` prints them.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::Parser;
use outcome::DropReason;
use report::client::{Client, ClientError};
use report::{self, MeasuredPaths, Request, WhyAnswer};
use serde_json::json;

use super::capture::Captures;
use crate::cli::{EventsQuery, NoQuery, QueryError, SaQuery, WebArgs, WhyQuery, parse_query};
use crate::cli::{MOST_PACKETS, MOST_SECONDS};
use crate::command::http::{Answer, Fault, JSON, Status};
use crate::command::why::{self, NoPacket};

/// How long an answer is good for everybody who asks the same: however many look at the page, the daemon is asked as
/// often as by one.
const FRESH: Duration = Duration::from_millis(500);

/// Asks the daemon.
pub struct Answers {
    name: String,
    daemon: Client,
    max_sas: usize,
    max_policies: usize,
    /// None if they are not allowed.
    captures: Option<Captures>,
    known: Mutex<HashMap<&'static str, (Instant, String)>>,
}

impl Answers {
    /// Of an instance.
    pub fn new(name: &str, args: &WebArgs) -> Answers {
        Answers {
            name: name.to_owned(),
            daemon: Client::reading(name),
            max_sas: args.max_sas,
            max_policies: args.max_policies,
            captures: args.capture.then(Captures::default),
            known: Mutex::default(),
        }
    }

    /// The answer of `/api/WHAT`.
    ///
    /// # Errors
    /// The fault of the question, or of the daemon's answer.
    pub fn find(&self, what: &str, query: &str) -> Result<Answer, Fault> {
        let text = match what {
            "about" => {
                parse::<NoQuery>(query)?;
                self.about()
            }
            "status" => self.whole("status", query, Request::Status)?,
            "port" => self.whole("port", query, Request::Port)?,
            "device" => self.whole("device", query, Request::Device)?,
            "stats" => self.whole("stats", query, Request::Stats)?,
            "drops" => self.whole("drops", query, Request::Drops)?,
            "policy" => {
                self.bound("policies", self.max_policies, |status| status.policies)?;
                self.whole("policy", query, Request::Policy)?
            }
            "path" => {
                parse::<NoQuery>(query)?;
                self.fresh("path", Request::Path, few_paths)?
            }
            "app" => self.whole("app", query, Request::App { recent: 0 })?,
            "steer" => self.whole("steer", query, Request::Steer)?,
            "sa" => self.sa(query)?,
            "why" => self.why(query)?,
            "events" => {
                let EventsQuery { after, run } = parse(query)?;
                self.ask(Request::Events { after, run })?
            }
            "capture" => {
                let captures = self.captures.as_ref().ok_or_else(|| {
                    Fault::new(
                        Status::FORBIDDEN,
                        "captures are off; culvert web --capture offers them",
                    )
                })?;
                let begun = captures.begin(&self.daemon, &parse(query)?)?;
                return Ok(Answer::Stream(Box::new(begun)));
            }
            _ => return Err(Fault::new(Status::NOT_FOUND, "there is no such answer")),
        };
        Ok(Answer::Text { content_type: JSON, text: text.into() })
    }

    fn sa(&self, query: &str) -> Result<String, Fault> {
        // Keys are never told here.
        let request = |spi| Request::Sa { show_keys: false, spi };
        match parse::<SaQuery>(query)?.spi {
            Some(spi) => self.ask(request(Some(spi))),
            None => {
                self.bound("SAs", self.max_sas, |status| status.sas)?;
                self.whole("sa", "", request(None))
            }
        }
    }

    fn why(&self, query: &str) -> Result<String, Fault> {
        let args = parse::<WhyQuery>(query)?.args;
        let request = why::request(&args).map_err(|NoPacket { field, text }| {
            Fault::new(Status::BAD, text).of(field.to_owned())
        })?;
        let text = self.ask(Request::Why(request))?;
        match serde_json::from_str(&text) {
            Ok(WhyAnswer::Refused { error }) => Err(refused(&error)),
            _ => Ok(text),
        }
    }

    /// Facts about this process for the page, and the meaning of drop reasons.
    fn about(&self) -> String {
        let reasons = DropReason::ALL.iter().map(|reason| {
            json!({ "reason": reason.name(), "meaning": reason.text(), "xfrm_stat": reason.kernel_name() })
        });
        let capture = self
            .captures
            .as_ref()
            .map(|_| json!({ "seconds": MOST_SECONDS, "packets": MOST_PACKETS }));
        json!({ "instance": self.name, "capture": capture, "reasons": reasons.collect::<Vec<_>>() })
            .to_string()
    }

    /// Refuses what would be too long for a page.
    fn bound(
        &self,
        what: &str,
        most: usize,
        count: fn(&report::Status) -> usize,
    ) -> Result<(), Fault> {
        let text = self.fresh("status", Request::Status, Ok)?;
        let status: report::Status = serde_json::from_str(&text).map_err(ClientError::from)?;
        let count = count(&status);
        match count > most {
            true => Err(Fault::new(
                Status::REFUSED,
                format!("{count} {what} are more than {most}, so they are not listed"),
            )),
            false => Ok(()),
        }
    }

    /// Answer to a request without parameters.
    fn whole(&self, what: &'static str, query: &str, request: Request) -> Result<String, Fault> {
        parse::<NoQuery>(query)?;
        self.fresh(what, request, Ok)
    }

    /// An answer that is not older than [`FRESH`], as `shape` makes it.
    fn fresh(
        &self,
        what: &'static str,
        request: Request,
        shape: fn(String) -> Result<String, Fault>,
    ) -> Result<String, Fault> {
        // A thread that panics has put nothing half in.
        let mut known = self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((at, text)) = known.get(what)
            && at.elapsed() < FRESH
        {
            return Ok(text.clone());
        }
        let text = shape(self.ask(request)?)?;
        known.insert(what, (Instant::now(), text.clone()));
        Ok(text)
    }

    fn ask(&self, request: Request) -> Result<String, Fault> {
        Ok(self.daemon.ask_json(request)?)
    }
}

/// Paths that are told; of more the first, with a field that says how many are left out.
const MOST_PATHS: usize = 500;

/// Leaves out what would be too long for a page.
fn few_paths(text: String) -> Result<String, Fault> {
    let mut all: MeasuredPaths = serde_json::from_str(&text).map_err(ClientError::from)?;
    let left_out = all.paths.len().saturating_sub(MOST_PATHS);
    if left_out == 0 {
        return Ok(text);
    }
    all.paths.truncate(MOST_PATHS);
    let mut told = serde_json::to_value(&all).map_err(ClientError::from)?;
    told["left_out"] = left_out.into();
    Ok(told.to_string())
}

fn parse<Q: Parser>(query: &str) -> Result<Q, Fault> {
    parse_query(query).map_err(|QueryError { field, text }| Fault::new(Status::BAD, text).of(field))
}

/// Fault for a refusal of the daemon. It begins with the option that is wrong, where one is.
fn refused(error: &str) -> Fault {
    let option = error.strip_prefix("--").and_then(|rest| rest.split_once([' ', ':']));
    match option {
        Some((option, rest)) => {
            let text = format!("{option} {}", rest.trim_start());
            Fault::new(Status::REFUSED, text).of(option.to_owned())
        }
        None => Fault::new(Status::REFUSED, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_paths_the_first_are_told() {
        let told = |count: usize| {
            let of = |n| report::MeasuredPath { penalty: n, ..report::MeasuredPath::default() };
            let paths = (0..count as u64).map(of).collect();
            let all = MeasuredPaths { paths, ..MeasuredPaths::default() };
            let text = serde_json::to_string(&all).expect("JSON");
            let told = few_paths(text.clone()).unwrap_or_else(|_| panic!("{count} paths"));
            let value: serde_json::Value = serde_json::from_str(&told).expect("JSON");
            (told == text, value["paths"].as_array().map(Vec::len), value["left_out"].as_u64())
        };
        assert_eq!(told(2), (true, Some(2), None));
        assert_eq!(told(MOST_PATHS), (true, Some(MOST_PATHS), None));
        assert_eq!(told(MOST_PATHS + 7), (false, Some(MOST_PATHS), Some(7)));
    }

    #[test]
    fn what_the_daemon_refuses_names_its_parameter() {
        let fault = refused("--len 30: such a packet has 40 bytes at least");
        assert_eq!(fault.error, "len 30: such a packet has 40 bytes at least");
        assert_eq!(fault.field.as_deref(), Some("len"));
        let fault = refused("--mark: what wan receives has none");
        assert_eq!(
            (fault.error.as_str(), fault.field.as_deref()),
            ("mark what wan receives has none", Some("mark"))
        );
        assert_eq!(refused("no route leads to 10.1.0.5").field, None);
    }
}
