//! The thread's side of nDPI: questions go out, answers come in, and nothing waits for either.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use apps::{AppId, Catalogue, Classifier, Verdict};
use ndpi::{Heard, Link};

use super::ndpi::{News, State};

// A flow's number is its place on both sides.
const _: () = assert!(apps::MOST_ASKED <= ndpi::MOST_FLOWS);

/// How often is looked for answers while some are to come.
const SOON: Duration = Duration::from_millis(2);

const NS_PER_MS: u64 = 1_000_000;

/// The queue to nDPI's process.
pub(super) struct Second {
    links: Receiver<Link>,
    link: Option<Link>,
    news: Arc<News>,
    /// Applications by the numbers of nDPI's protocols.
    applications: Vec<Option<AppId>>,
    begun: Instant,
}

impl Second {
    /// One that asks processes as they come.
    pub(super) fn new(links: Receiver<Link>, news: Arc<News>, catalogue: &Catalogue) -> Second {
        let names = (0..).map_while(|number| match number {
            0 => Some(None),
            _ => ndpi::application(number).map(Some),
        });
        let applications = names.map(|name| catalogue.find(name?)).collect();
        Second { links, link: None, news, applications, begun: Instant::now() }
    }

    /// Asks what the classifier wants to know, and takes the answers that there are. Verdicts go to `tell`.
    pub(super) fn consult(
        &mut self,
        classifier: &mut Classifier,
        packets_ns: u64,
        mut tell: impl FnMut(Verdict),
    ) {
        if let Ok(link) = self.links.try_recv() {
            self.link = Some(link);
        }
        let now_ns = self.begun.elapsed().as_nanos() as u64;
        while let Some(question) = classifier.question() {
            let (flow, is_last, packet) = (question.flow, question.is_last, &question.packet);
            let time_ms = question.now_ns / NS_PER_MS;
            let ask = |link: &mut Link| link.ask(now_ns, flow, is_last, time_ms, packet);
            if self.link.as_mut().is_some_and(ask) {
                self.news.asked.fetch_add(1, Relaxed);
            } else {
                self.news.unasked.fetch_add(1, Relaxed);
                classifier.answered(packets_ns, flow, None).map(&mut tell);
            }
        }
        while let Some(link) = &mut self.link {
            match link.next(now_ns) {
                Ok(None) => return,
                Ok(Some(Heard::Ready(version))) => {
                    self.news.state.store(Arc::new(State::Answers(version)));
                }
                Ok(Some(Heard::Flow { flow, protocol })) => {
                    let of = |number: u16| self.applications.get(usize::from(number)).copied();
                    let application = protocol.and_then(of).flatten();
                    classifier.answered(packets_ns, flow, application).map(&mut tell);
                }
                Err(broken) => {
                    self.link = None;
                    classifier.unanswered(packets_ns).into_iter().for_each(&mut tell);
                    self.news.state.store(Arc::new(State::Broken(broken)));
                }
            }
        }
    }

    /// How long may be waited for packets, if answers or a process are to come.
    pub(super) fn patience(&self, most: Duration) -> Duration {
        match &self.link {
            Some(link) if link.is_waiting() => most.min(SOON),
            _ => most,
        }
    }
}
