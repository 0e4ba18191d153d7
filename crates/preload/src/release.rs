//! The kernel's release as an IKE daemon hears it.
//!
//! charon asks `uname` what XFRM can: from 6.2 on it takes an SA's last use from `XFRMA_LASTUSED`, from
//! 6.10 on it sends SA directions. It talks to culvert's databases, which can that under any kernel, so
//! it hears at least the release whose XFRM they are like. The kernel's own is told behind it.

/// The release whose XFRM the databases are like: directions (6.10) and SAs for CPUs (6.13), but no
/// IP-TFS (6.14).
const LIKE: (u32, u32) = (6, 13);

/// Release that an IKE daemon is told in the place of an older one. `None` where the kernel's own
/// is as new.
///
/// At most `room` bytes.
pub(crate) fn raised(release: &[u8], room: usize) -> Option<Vec<u8>> {
    let own = numbers(release)?;
    if own >= LIKE {
        return None;
    }
    let mut raised = format!("{}.{}.0-culvert-on-", LIKE.0, LIKE.1).into_bytes();
    raised.extend_from_slice(release);
    raised.truncate(room);
    Some(raised)
}

/// The first two numbers of a release.
fn numbers(release: &[u8]) -> Option<(u32, u32)> {
    let mut numbers = release.split(|byte| !byte.is_ascii_digit());
    let mut next = || core::str::from_utf8(numbers.next()?).ok()?.parse().ok();
    Some((next()?, next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(release: &str) -> String {
        let raised = raised(release.as_bytes(), 64).unwrap_or_else(|| release.into());
        String::from_utf8(raised).expect("text")
    }

    #[test]
    fn older_kernels_are_raised_and_newer_ones_are_not() {
        assert_eq!(told("6.1.0-18-amd64"), "6.13.0-culvert-on-6.1.0-18-amd64");
        assert_eq!(told("2.6.78"), "6.13.0-culvert-on-2.6.78");
        assert_eq!(told("6.12"), "6.13.0-culvert-on-6.12");
        for same in ["6.13.0", "6.18.44-x", "7.2", "10.0-rc1", "strange", "", "6", "6.x"] {
            assert_eq!(told(same), same);
        }
    }

    #[test]
    fn it_fits() {
        let raised = raised(&b"5.4.".repeat(40), 64);
        assert_eq!(raised.expect("it is old").len(), 64);
    }
}
