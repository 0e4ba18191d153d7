//! Another configuration for a running daemon: all of it, or nothing.
//!
//! The file is examined and planned as before a start ([`plan_file`]); with anything wrong it is refused there, and nothing is
//! done. The [plan](super::plan) is carried out as at a start. What a driver or Linux refuses halfway is taken back.

use config::{Listed, Problem};
use report::{Occurrence, Reloaded};
use tracing::{error, info, warn};

use super::Daemon;
use super::clock::Now;
use super::plan::examine::plan_file;
use super::plan::failure::{Failure, StepError};
use super::reloads::in_a_line;

impl Daemon {
    /// Reads the file again and follows it, or says why not. The last line of the log is the verdict.
    pub(super) fn reload(&mut self, now: Now) -> Reloaded {
        let path = self.life.config_path.clone();
        let planned = plan_file(&path, &self.running(), &*self.life.look);
        let answer = Reloaded {
            file: path.display().to_string(),
            warnings: planned.examined.warnings.clone(),
            ..Reloaded::default()
        };
        let plan = match planned.accept(&path) {
            Ok((plan, _)) => plan,
            Err(refusal) => return self.refuse(now, answer, refusal.problems),
        };
        for warning in &answer.warnings {
            warn!("{}", Listed { path: &path, problems: std::slice::from_ref(warning) });
        }
        let waiting = plan.waits_for_restart.clone();
        if !waiting.is_empty() {
            warn!("keys that take effect only with a restart: {}", waiting.join(", "));
        }
        let why = match self.carry_out_plan(now, plan) {
            Ok(()) => {
                self.life.reloads.take(now, waiting.clone());
                let waits_for_restart = waiting.clone();
                self.shows.event_log.add(now, Occurrence::Reloaded { waits_for_restart });
                info!(path = %path.display(), "configuration reloaded");
                return Reloaded { reloaded: true, waits_for_restart: waiting, ..answer };
            }
            Err(stopped) => match stopped.failure {
                Failure::Refused(why) => {
                    self.take_back(now, &stopped.done, *stopped.before);
                    in_one_line(&why)
                }
                Failure::Lost(lost) => {
                    self.life.ending = Some(lost.into());
                    "the workers are lost, and the daemon ends".to_owned()
                }
            },
        };
        let number = self.life.reloads.number();
        error!("configuration not reloaded: {why}; everything is as before (reload {number})");
        self.life.reloads.refuse(now, why.clone());
        self.shows.event_log.add(now, Occurrence::ReloadRefused { why: why.clone() });
        Reloaded { failed: Some(why), ..answer }
    }

    /// Says what is wrong with the file.
    fn refuse(&mut self, now: Now, answer: Reloaded, problems: Vec<Problem>) -> Reloaded {
        let path = self.life.config_path.clone();
        let why = in_a_line(&path, &problems);
        let noun = if problems.len() == 1 { "problem" } else { "problems" };
        // One event, whose number keeps it from being left out as one that came a moment ago.
        error!(
            "{}\nconfiguration not reloaded: {} {noun}, nothing was changed (reload {})",
            Listed { path: &path, problems: &problems },
            problems.len(),
            self.life.reloads.number()
        );
        self.life.reloads.refuse(now, why.clone());
        self.shows.event_log.add(now, Occurrence::ReloadRefused { why });
        Reloaded { problems, ..answer }
    }
}

/// It is said in the middle of a sentence.
fn in_one_line(why: &StepError) -> String {
    why.to_string().lines().next().unwrap_or_default().to_owned()
}
