//! Algorithms that are taken only where the operator says so: DES, 3DES and MD5 (RFC 8221 §5, §6).

use crypto::Suite;
use xfrm::Refusal;

use super::errno::ENOSYS;

/// Refuses a suite with a weak algorithm, by its name, unless `crypto.allow_weak` is set.
///
/// # Errors
/// The suite has one, and it is not.
pub fn check(suite: Suite, allow_weak: bool) -> Result<(), Refusal> {
    let weak: Vec<&str> = suite.weaknesses().collect();
    if weak.is_empty() || allow_weak {
        return Ok(());
    }
    let text =
        format!("culvert: {} is weak and refused without crypto.allow_weak = true", weak.join("+"));
    Err(Refusal::new(ENOSYS, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weak_suites_need_leave() {
        let mut refused = 0;
        for suite in Suite::all() {
            assert_eq!(check(suite, true), Ok(()));
            let name = suite.to_string();
            let is_weak = ["des", "md5"].iter().any(|weak| name.contains(weak));
            match check(suite, false) {
                Ok(()) => assert!(!is_weak, "{name}"),
                Err(refusal) => {
                    assert!(is_weak && refusal.message.contains("crypto.allow_weak"), "{name}");
                    assert_eq!(refusal.errno, ENOSYS);
                    assert!(refusal.message.len() < 100, "fits NLMSGERR_ATTR_MSG");
                    refused += 1;
                }
            }
        }
        assert_eq!(refused, 50);
        let both = Suite::all().find(|suite| suite.to_string() == "3des-md5").unwrap();
        assert!(check(both, false).unwrap_err().message.contains("3DES+MD5"));
    }
}
