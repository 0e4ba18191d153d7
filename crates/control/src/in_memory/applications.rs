//! The thread that recognises applications comes and goes, and nothing else with it.

use std::time::{Duration, Instant};

use super::Plane;

const CONFIG: &str = "name = \"apps\"\n[applications]\nenabled = true\n[[application]]\nname = \"erp\"\ndomains = [\"erp.example\"]\n";

/// True if workers are told of an application.
fn knows(plane: &Plane, name: &str) -> bool {
    let topology = plane.daemon.crew.tables.topology.load();
    topology.applications.as_ref().is_some_and(|apps| apps.catalogue().find(name).is_some())
}

#[test]
fn a_thread_that_has_ended_is_told_of_and_begun_anew() {
    let mut plane = Plane::start(CONFIG);
    plane.settle();
    assert!(knows(&plane, "erp"));
    assert_eq!(plane.daemon.crew.recognition.warning(), None);
    plane.daemon.crew.recognition.end_thread();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !plane.daemon.crew.recognition.has_ended() {
        assert!(Instant::now() < deadline, "it goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(plane.daemon.crew.recognition.warning().is_some());
    plane.round();
    assert!(plane.daemon.crew.workers.dead().is_none(), "workers go on");
    // With the next retry.
    plane.now = plane.now.after(Duration::from_secs(11));
    plane.settle();
    assert_eq!(plane.daemon.crew.recognition.warning(), None);
    assert!(knows(&plane, "erp") && !plane.daemon.crew.recognition.has_ended());
}

#[test]
fn a_reload_follows_applications() {
    let mut plane = Plane::start(CONFIG);
    plane.settle();
    std::fs::write(&plane.config, CONFIG.replace("erp", "shop")).expect("a file");
    plane.daemon.reload(plane.now);
    plane.settle();
    assert!(knows(&plane, "shop") && !knows(&plane, "erp"));
    std::fs::write(&plane.config, "name = \"apps\"\n").expect("a file");
    plane.daemon.reload(plane.now);
    plane.settle();
    assert!(plane.daemon.crew.tables.topology.load().applications.is_none());
    assert!(!plane.daemon.crew.recognition.report(0).enabled);
}
