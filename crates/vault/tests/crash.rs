//! The vault's promises across a process that dies at any moment.
//!
//! The child is this test program itself, started again for one test with an environment variable
//! that says where its vault is, and killed with SIGKILL while it writes.

use std::collections::HashSet;
use std::env;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use vault::{Origin, Record, Vault, VaultError};

const VAULT: &str = "CULVERT_TEST_VAULT";
const OWNERS: u64 = 4;
const NUMBERS: usize = 11;

/// The writer: stores rising numbers, and records in the journal how far it got, both before it
/// counts further. Ends only when killed.
fn write_for_ever(dir: &Path) -> ! {
    let (mut vault, records) = Vault::open(dir).expect("the child opens the vault");
    let mut round = records
        .iter()
        .find(|r| r.key == b"round")
        .map_or(0, |r| u64::from_le_bytes(r.value[..8].try_into().expect("8 bytes")));
    let memory: Vec<_> = (0..OWNERS)
        .map(|owner| vault.live_numbers(owner, NUMBERS).expect("numbers of the child").memory)
        .collect();
    let mut is_ready = false;
    let padding = vec![0xaa; 3000];
    loop {
        for m in &memory {
            m.words()[0].store(round + 1, Relaxed);
        }
        round += 1;
        let mut value = round.to_le_bytes().to_vec();
        value.extend(&padding);
        vault.put(b"round", &value).expect("put");
        vault.put(&(round % 7).to_le_bytes(), &value[..16]).expect("put");
        vault.remove(&((round + 3) % 7).to_le_bytes()).expect("remove");
        // An owner that comes and goes, as SAs do.
        vault.live_numbers(1000 + round % 50, 40).expect("live numbers").memory.words()[1]
            .store(round, Relaxed);
        vault.release(1000 + (round + 25) % 50);
        // With the first round: a slow machine may kill it before there is a second one.
        if !core::mem::replace(&mut is_ready, true) {
            println!("ready");
        }
    }
}

/// Opens a vault that this process has just let go of. The child of another test, between fork and
/// exec, may hold on to it for a moment more.
fn reopen(dir: &Path) -> Result<(Vault, Vec<Record>), VaultError> {
    patiently(|| Vault::open(dir))
}

fn patiently<T>(open: impl Fn() -> Result<T, VaultError>) -> Result<T, VaultError> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match open() {
            Err(VaultError::InUse { .. }) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            other => return other,
        }
    }
}

fn start_writer(dir: &Path) -> Child {
    let mut child = Command::new(env::current_exe().expect("own path"))
        .args(["--exact", "the_child_of_the_crash_test", "--nocapture", "--test-threads=1"])
        .env(VAULT, dir)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the child starts");
    let out = BufReader::new(child.stdout.take().expect("piped"));
    assert!(out.lines().any(|l| l.expect("text").ends_with("ready")), "the child was not ready");
    child
}

#[test]
fn the_child_of_the_crash_test() {
    // Without the variable this is the ordinary run of all tests, which has no use for it.
    if let Some(dir) = env::var_os(VAULT) {
        write_for_ever(Path::new(&dir));
    }
}

#[test]
fn nothing_that_was_confirmed_is_lost_when_the_process_is_killed() {
    let parent = tempfile::tempdir().expect("scratch");
    let dir = parent.path().join("vault");
    let mut last_round = 0;
    for turn in 0..12u64 {
        let mut child = start_writer(&dir);
        std::thread::sleep(Duration::from_millis(3 + turn * turn % 17 * 4));
        assert!(matches!(Vault::open(&dir), Err(VaultError::InUse { .. })));
        child.kill().expect("killed");
        child.wait().expect("reaped");

        let (mut vault, records) = Vault::open(&dir).expect("opens after a kill");
        let round = &records.iter().find(|r| r.key == b"round").expect("was put").value;
        let round = u64::from_le_bytes(round[..8].try_into().expect("8 bytes"));
        assert!(round > last_round, "turn {turn}: {round} after {last_round}");
        last_round = round;
        for owner in 0..OWNERS {
            let grant = vault.live_numbers(owner, NUMBERS).expect("live numbers");
            assert_eq!(grant.origin, Origin::Kept);
            let number = grant.memory.words()[0].load(Relaxed);
            assert!(number >= round && number <= round + 1, "{number}, journal at {round}");
        }
        assert!(vault.sweep(&(0..OWNERS).collect::<HashSet<_>>()) <= 50);
    }
    let (vault, _) = Vault::open(&dir).expect("opens");
    vault.wipe().expect("wiped");
    assert!(!dir.exists());
}

#[test]
fn a_copy_taken_at_any_moment_opens() {
    let parent = tempfile::tempdir().expect("scratch");
    let dir = parent.path().join("vault");
    let (mut vault, _) = Vault::open(&dir).expect("opens");
    for i in 0..20u64 {
        vault.put(&i.to_le_bytes(), &[7; 100]).expect("put");
        vault.live_numbers(i, NUMBERS).expect("live numbers").memory.words()[0].store(i, Relaxed);
        let copy = parent.path().join(format!("copy{i}"));
        std::fs::create_dir(&copy).expect("made");
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o700)).expect("private");
        for file in Vault::files(&dir).iter().filter(|f| f.exists()) {
            std::fs::copy(file, copy.join(file.file_name().expect("a name"))).expect("copied");
        }
        let (mut copied, records) = Vault::open(&copy).expect("the copy opens");
        assert_eq!(records.len() as u64, i + 1);
        let grant = copied.live_numbers(i, NUMBERS).expect("live numbers");
        assert_eq!((grant.origin, grant.memory.words()[0].load(Relaxed)), (Origin::Kept, i));
    }
}

#[test]
fn two_vaults_in_one_directory_are_refused() {
    let parent = tempfile::tempdir().expect("scratch");
    let dir = parent.path().join("vault");
    let (first, _) = Vault::open(&dir).expect("opens");
    let e = Vault::open(&dir).expect_err("refused");
    assert!(matches!(e, VaultError::InUse { .. }));
    assert!(e.to_string().contains(dir.to_str().expect("text")));
    drop(first);
    reopen(&dir).expect("free again");
}

#[test]
fn directory_and_files_are_private() {
    let parent = tempfile::tempdir().expect("scratch");
    let dir = parent.path().join("vault");
    let (mut vault, _) = Vault::open(&dir).expect("opens");
    vault.put(b"k", b"v").expect("put");
    vault.live_numbers(1, NUMBERS).expect("live numbers");
    let mode = |path: &Path| std::fs::metadata(path).expect("exists").permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    let [journal, _, live_numbers, _] = Vault::files(&dir);
    assert_eq!((mode(&journal), mode(&live_numbers)), (0o600, 0o600));
    // A daemon that is updated in place looks for these.
    assert_eq!((&journal, &live_numbers), (&dir.join("journal"), &dir.join("cells")));
    drop(vault);

    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o750)).expect("opened up");
    assert!(matches!(Vault::open(&dir), Err(VaultError::NotPrivate { .. })));
    let link = parent.path().join("link");
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o700)).expect("closed again");
    std::os::unix::fs::symlink(&dir, &link).expect("linked");
    assert!(matches!(Vault::open(&link), Err(VaultError::NotPrivate { .. })));
    assert!(matches!(Vault::open(&journal), Err(VaultError::NotPrivate { .. })));
}

#[test]
fn damage_is_an_error_that_names_the_file() {
    let parent = tempfile::tempdir().expect("scratch");
    let dir = parent.path().join("vault");
    let (mut vault, _) = Vault::open(&dir).expect("opens");
    vault.put(b"key", b"a value").expect("put");
    drop(vault);
    let [journal, ..] = Vault::files(&dir);
    let mut bytes = std::fs::read(&journal).expect("read");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&journal, &bytes).expect("written");
    let e = reopen(&dir).expect_err("damaged");
    assert!(matches!(e, VaultError::DamagedJournal { .. }));
    assert!(e.to_string().contains("journal: damaged: wrong checksum"), "{e}");
}

#[test]
fn a_vault_of_another_boot_is_discarded_keys_and_numbers_alike() {
    let parent = tempfile::tempdir().expect("scratch");
    let dir = parent.path().join("vault");
    let (mut vault, _) = Vault::open_in_boot(&dir, "first").expect("opens");
    assert!(!vault.has_discarded(), "there was none");
    vault.put(b"sa", b"the key").expect("put");
    vault.live_numbers(1, NUMBERS).expect("live numbers");
    drop(vault);
    let [journal, ..] = Vault::files(&dir);
    let open = std::fs::File::open(&journal).expect("is there");
    let (mut vault, records) = patiently(|| Vault::open_in_boot(&dir, "second")).expect("opens");
    assert!(vault.has_discarded() && records.is_empty());
    assert_eq!(vault.live_numbers(1, NUMBERS).expect("live numbers").origin, Origin::New);
    let mut bytes = Vec::new();
    (&open).read_to_end(&mut bytes).expect("read");
    assert!(
        !bytes.is_empty() && bytes.iter().all(|byte| *byte == 0),
        "overwritten, not only removed"
    );
    vault.put(b"sa", b"another key").expect("put");
    drop(vault);
    let (vault, records) = patiently(|| Vault::open_in_boot(&dir, "second")).expect("opens");
    assert!(!vault.has_discarded());
    assert_eq!(records.len(), 1);
    drop(vault);
    // A disk that has lost the note.
    std::fs::write(dir.join("boot"), "sec").expect("torn");
    let (vault, records) = patiently(|| Vault::open_in_boot(&dir, "second")).expect("opens");
    assert!(vault.has_discarded() && records.is_empty());
}

#[test]
fn a_value_is_gone_from_the_file_when_the_call_returns_that_made_it_void() {
    let parent = tempfile::tempdir().expect("scratch");
    let dir = parent.path().join("vault");
    let (mut vault, _) = Vault::open(&dir).expect("opens");
    let [journal, ..] = Vault::files(&dir);
    let has = |value: &[u8]| {
        std::fs::read(&journal).expect("read").windows(value.len()).any(|part| part == value)
    };
    vault.put(b"a", b"first secret of a").expect("put");
    vault.put(b"b", b"the secret of b").expect("put");
    assert!(has(b"first secret of a") && has(b"the secret of b"));
    vault.put(b"a", b"second secret of a").expect("put");
    assert!(!has(b"first secret of a"));
    vault.remove(b"b").expect("removed");
    assert!(!has(b"the secret of b") && has(b"second secret of a"));
    drop(vault);

    // A process that died before it had overwritten: the next one does.
    let bytes = std::fs::read(&journal).expect("read");
    let at = bytes.windows(18).position(|part| part == b"second secret of a").expect("is there");
    let (mut vault, _) = reopen(&dir).expect("opens");
    vault.remove(b"a").expect("removed");
    drop(vault);
    for left in [18, 5] {
        let mut torn = std::fs::read(&journal).expect("read");
        torn[at + 18 - left..at + 18].copy_from_slice(&b"second secret of a"[18 - left..]);
        std::fs::write(&journal, &torn).expect("written");
        assert!(has(&b"second secret of a"[18 - left..]));
        let (vault, records) = reopen(&dir).expect("opens");
        assert!(records.is_empty());
        assert!(!has(&b"second secret of a"[18 - left..]));
        drop(vault);
    }
}

#[test]
fn a_journal_that_was_compacted_or_wiped_is_all_zeros() {
    let parent = tempfile::tempdir().expect("scratch");
    let dir = parent.path().join("vault");
    let (mut vault, _) = Vault::open(&dir).expect("opens");
    let [journal, ..] = Vault::files(&dir);
    let is_zero = |file: &std::fs::File| {
        let mut bytes = Vec::new();
        (&*file).read_to_end(&mut bytes).expect("read");
        assert!(!bytes.is_empty());
        bytes.iter().all(|byte| *byte == 0)
    };
    vault.put(b"kept", b"a secret").expect("put");
    let first = std::fs::File::open(&journal).expect("is there");
    let big = vec![7; 300_000];
    for _ in 0..8 {
        vault.put(b"big", &big).expect("put");
    }
    assert!(first.metadata().expect("read").nlink() == 0, "not compacted");
    assert!(is_zero(&first));
    let second = std::fs::File::open(&journal).expect("is there");
    vault.wipe().expect("wiped");
    assert!(is_zero(&second));
}

#[test]
fn live_numbers_outlive_a_wiped_vault_and_its_other_files_stay() {
    let parent = tempfile::tempdir().expect("scratch");
    let dir = parent.path().join("vault");
    let (mut vault, _) = Vault::open(&dir).expect("opens");
    let memory = vault.live_numbers(1, NUMBERS).expect("live numbers").memory;
    std::fs::write(dir.join("pid"), "1").expect("written");
    vault.wipe().expect("wiped");
    memory.words()[0].store(1, Relaxed);
    assert_eq!(memory.words()[0].load(Relaxed), 1);
    assert_eq!(std::fs::read_dir(&dir).expect("still there").count(), 1);
    let (mut vault, records) = reopen(&dir).expect("opens anew");
    assert!(records.is_empty());
    assert_eq!(vault.live_numbers(1, NUMBERS).expect("live numbers").origin, Origin::New);
}
