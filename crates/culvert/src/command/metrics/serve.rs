//! A page for Prometheus to scrape.

use std::sync::Mutex;

use super::accept::Form;
use super::text;
use crate::command::http::{Answer, Fault, Head, Names, Site, Status};

/// `/metrics`, made anew for each who asks.
pub struct Scrapes<F> {
    names: Names,
    scrape: F,
    turn: Mutex<()>,
}

impl<F> Scrapes<F> {
    /// Of what a function tells, by these names.
    pub fn new(names: Names, scrape: F) -> Scrapes<F> {
        Scrapes { names, scrape, turn: Mutex::default() }
    }
}

impl<F> Site for Scrapes<F>
where
    F: Fn() -> Result<String, Fault> + Send + Sync + 'static,
{
    fn answer(&self, head: &Head) -> Result<Answer, Fault> {
        self.names.check(&head.host)?;
        if head.path != "/metrics" {
            return Err(Fault::new(Status::NOT_FOUND, "there is /metrics alone"));
        }
        // However many scrape, the daemon is asked as by one.
        let _turn = self.turn.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let openmetrics = (self.scrape)()?;
        let form = Form::wanted(&head.accept);
        let text = match form {
            Form::Prometheus => text::prometheus(&openmetrics),
            Form::OpenMetrics => openmetrics,
        };
        Ok(Answer::Text { content_type: form.content_type(), text: text.into() })
    }
}
