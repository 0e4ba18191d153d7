//! Which answer goes to whom.

use super::answers::Answers;
use super::files;
use super::gate::Gate;
use crate::command::http::{Answer, Fault, Head, Names, Site, Status};

/// The site: its files, answers, and the gate.
pub struct Page {
    pub names: Names,
    pub gate: Gate,
    pub answers: Answers,
}

impl Site for Page {
    /// Files are for everybody who comes by the right name; what the daemon says is for those with the token.
    fn answer(&self, head: &Head) -> Result<Answer, Fault> {
        self.names.check(&head.host)?;
        if let Some(file) = files::find(&head.path) {
            return Ok(Answer::Text { content_type: file.content_type, text: file.text.into() });
        }
        let Some(what) = head.path.strip_prefix("/api/") else {
            return Err(Fault::new(Status::NOT_FOUND, "there is no such page"));
        };
        if !self.gate.knows_token(&head.authorization) {
            return Err(Fault::new(Status::NO_TOKEN, "the token is missing, or is another one"));
        }
        self.answers.find(what, &head.query)
    }
}
