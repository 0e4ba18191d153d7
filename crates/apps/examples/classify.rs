//! Classifies packets from standard input, each behind its time in nanoseconds (8 bytes) and its length (4 bytes), little-endian;
//! prints the verdict on each flow as a line of JSON. `scripts/apps-judge` compares them with nDPI's.

use std::error::Error;
use std::io::{self, Read, Write};
use std::sync::Arc;

use apps::{Catalogue, Classifier, Hints, Verdict};

fn main() -> Result<(), Box<dyn Error>> {
    let catalogue = Arc::new(Catalogue::new(Vec::new())?);
    let hints = Arc::new(Hints::new(1 << 16));
    let mut classifier = Classifier::new(catalogue, hints, Vec::new());
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    let mut out = io::stdout().lock();
    let (mut rest, mut last_ns) = (bytes.as_slice(), 0);
    while let Some((time, after)) = rest.split_first_chunk::<8>() {
        let (len, after) = after.split_first_chunk::<4>().ok_or("a length is cut")?;
        let len = u32::from_le_bytes(*len) as usize;
        let (packet, after) = after.split_at_checked(len).ok_or("a packet is cut")?;
        (rest, last_ns) = (after, u64::from_le_bytes(*time));
        if let Some(verdict) = classifier.packet(last_ns, packet) {
            tell(&mut out, &classifier, &verdict)?;
        }
    }
    for verdict in classifier.finish(last_ns) {
        tell(&mut out, &classifier, &verdict)?;
    }
    Ok(())
}

/// Names and words have no character that JSON would escape.
fn tell(out: &mut impl Write, classifier: &Classifier, verdict: &Verdict) -> io::Result<()> {
    let Verdict { flow, client, application, host, known_by } = verdict;
    let server = flow.ends().iter().find(|end| *end != client).unwrap_or(client);
    let host = host.as_ref().map_or("null".to_owned(), |host| format!("\"{host}\""));
    writeln!(
        out,
        "{{\"protocol\": {}, \"client\": [\"{}\", {}], \"server\": [\"{}\", {}], \"application\": \"{}\", \
         \"host\": {host}, \"known_by\": \"{known_by}\"}}",
        flow.protocol,
        client.addr,
        client.port,
        server.addr,
        server.port,
        classifier.catalogue().name(*application),
    )
}
