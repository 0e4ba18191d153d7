//! The program `culvert`: its command line, and the commands.
//!
//! | module | what it is |
//! | --- | --- |
//! | `cli` | the command line, defined once: help, man pages and completion come from it |
//! | `command` | a file for each group of commands |
//! | `table` | tables for people |
//!
//! `culvert run`, the daemon, is crate `control`, `culvert doctor` crate `doctor`, the configuration crate `config`, and
//! what commands and the daemon say to one another crate `report`.
#![forbid(unsafe_code)]

mod cli;
mod command;
mod table;

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use config::Config;

use crate::cli::{Cli, Command, GuardCommand};
use crate::command::{
    app, bfd, capture, check, device, docs, events, exec, extcap, flows, guard, limit, metrics,
    nat, path, reload, show, steer, top, trace, web, why,
};

/// The program: does what its command line says, and gives the status to end with.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help is none.
        Err(error) if error.use_stderr() && asks_for_json() => {
            let text = error.render().to_string();
            eprintln!("{}", error_json(text.trim().trim_start_matches("error: ")));
            return ExitCode::from(USAGE);
        }
        Err(error) => error.exit(),
    };
    match dispatch(&cli) {
        Ok((output, status)) => print(&output, status),
        Err(error) if cli.json => {
            eprintln!("{}", error_json(&error.to_string()));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("culvert: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The status after a command line that is not understood, as clap has it.
const USAGE: u8 = 2;

/// True where the command line has `--json`, understood or not.
fn asks_for_json() -> bool {
    std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json")
}

/// An error with `--json`. It goes to standard error: what is read as an answer, or as packets, has none in it.
fn error_json(text: &str) -> String {
    serde_json::json!({ "error": text }).to_string()
}

/// Result of a command, for people or as JSON.
fn done(text: String, json: bool) -> String {
    if json { serde_json::json!({ "done": text }).to_string() } else { text }
}

/// Runs a command; the caller prints its output and ends with its status.
fn dispatch(cli: &Cli) -> Result<(String, ExitCode), Box<dyn Error>> {
    let (name, json) = (cli.name.as_str(), cli.json);
    if !config::valid_name(name) {
        let rule = "a name has 1 to 64 letters, digits, '-' and '_'";
        return Err(format!("--name {name:?}: {rule}").into());
    }
    let output = match &cli.command {
        Command::Run(args) => {
            control::run(&args.options(), name)?;
            String::new()
        }
        Command::Check(args) => return Ok(check::run(name, json, args)),
        Command::Reload(args) => return reload::run(name, json, args),
        Command::Status(args) => show::status(name, json, args.verbose)?,
        Command::Sa(args) => show::sa(name, json, args.show_keys, args.spi)?,
        Command::Policy => show::policy(name, json)?,
        Command::Port(args) => show::port(name, json, args.queues)?,
        Command::Device(args) => device::device(name, json, args)?,
        Command::Nat(args) => nat::nat(name, json, args)?,
        Command::App(args) => app::app(name, json, args)?,
        Command::Limit(command) => limit::limit(name, json, command)?,
        Command::Path(args) => path::path(name, json, args)?,
        Command::Bfd => bfd::bfd(name, json)?,
        Command::Steer => steer::steer(name, json)?,
        Command::Route => show::route(name, json)?,
        Command::Stats(args) if args.xfrm => show::xfrm_stats(name, json)?,
        Command::Stats(args) => show::stats(name, json, args.workers)?,
        Command::Drops(args) => show::drops(name, json, args.all)?,
        Command::Why(args) => why::why(name, json, args)?,
        Command::Capture(args) => {
            capture::capture(name, args, capture::Teller::Person)?;
            String::new()
        }
        Command::Extcap(args) => extcap::extcap(args)?,
        Command::Trace(args) => {
            trace::trace(name, json, args)?;
            String::new()
        }
        Command::Flows(args) => {
            flows::flows(name, json, args)?;
            String::new()
        }
        Command::Events(args) => {
            events::events(name, json, args)?;
            String::new()
        }
        Command::Top(args) => top::top(name, json, args)?,
        Command::Metrics(args) => metrics::metrics(name, json, args)?,
        Command::Web(args) => web::web(name, json, args)?,
        Command::Exec(args) => return Err(exec::exec(name, args).into()),
        Command::Guard(GuardCommand::Show) => guard::show(name, json)?,
        Command::Guard(GuardCommand::Apply(args)) => {
            done(guard::apply(&Config::load(&args.config)?)?, json)
        }
        Command::Guard(GuardCommand::Clear(args)) => done(guard::clear(name, args.yes)?, json),
        Command::Doctor(args) => {
            return doctor::run(name, json, &args.options(exec::named_library()));
        }
        Command::Ndpi => {
            ndpi::serve()?;
            String::new()
        }
        Command::Docs { directory } => {
            docs::write(directory)?;
            String::new()
        }
    };
    Ok((output, ExitCode::SUCCESS))
}

/// Prints, and takes a closed pipe (`| head`) for what it is.
fn print(output: &str, status: ExitCode) -> ExitCode {
    if output.is_empty() {
        return status;
    }
    match writeln!(std::io::stdout(), "{}", output.trim_end()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => status,
    }
}
