//! SAs that are nearly what a policy asks for: why it has none all the same.

use std::net::IpAddr;

use policy::{PolicyConfig, SaConfig, Template};

use crate::texts::mode_text;

/// Each SA between the ends of a template that the template does not want, and why; `hosts` are the packet's, whose
/// addresses an SA in transport mode has.
pub fn near_misses<'a>(
    policy: &PolicyConfig,
    hosts: (IpAddr, IpAddr),
    sas: impl Iterator<Item = &'a SaConfig> + Clone,
) -> Vec<String> {
    let mut ends = hosts;
    let mut told = Vec::new();
    for template in &policy.templates {
        if template.mode.is_tunnel() {
            ends = (template.src, template.dst);
        }
        let between = sas.clone().filter(|sa| {
            let is_from = ends.0.is_unspecified() || sa.params.src == ends.0;
            is_from && sa.params.dst == ends.1
        });
        let misses: Vec<Option<String>> = between.map(|sa| miss(policy, template, sa)).collect();
        // Of a template that has its SA nothing is wanted.
        if misses.iter().all(Option::is_some) {
            told.extend(misses.into_iter().flatten());
        }
    }
    told.truncate(MOST_TOLD);
    told
}

/// Why an SA between the right ends is not what a template asks for; none if it is.
fn miss(policy: &PolicyConfig, template: &Template, sa: &SaConfig) -> Option<String> {
    let params = &sa.params;
    let mark = policy.mark.value & policy.mark.mask;
    let why = if params.protocol.number() != template.protocol {
        let (has, wants) = (params.protocol.number(), template.protocol);
        format!("its protocol is {has} and the template wants {wants}")
    } else if params.mode != template.mode {
        let (has, wants) = (mode_text(params.mode), mode_text(template.mode));
        format!("its mode is {has} and the template wants {wants}")
    } else if sa.reqid != template.reqid {
        format!("its reqid is {} and the template wants {}", sa.reqid, template.reqid)
    } else if template.spi != 0 && template.spi != params.spi {
        format!("the template wants the SPI {:#010x}", template.spi)
    } else if sa.if_id != policy.if_id {
        format!("its if_id is {:#x} and the policy's {:#x}", sa.if_id, policy.if_id)
    } else if !sa.mark.matches(mark) {
        let policy::Mark { value, mask } = sa.mark;
        format!("its mark is {value:#x}/{mask:#x} and the policy's {mark:#x}")
    } else {
        return None;
    };
    Some(format!("SA {:#010x} to {} is there, but {why}", params.spi, params.dst))
}

/// Most SAs that are told of.
const MOST_TOLD: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::testing::{self, HERE, THERE};
    use policy::{Direction, Mark};

    type Change = fn(&mut SaConfig);

    #[test]
    fn each_near_miss_says_what_is_wrong() {
        let policy = testing::policy(1, Direction::Out, (HERE, THERE), &[77]);
        let sa = |change: Change| {
            let mut sa = testing::config(0x101, (HERE, THERE), 77);
            change(&mut sa);
            sa
        };
        let cases: [(Change, &str); 5] = [
            (|sa| sa.reqid = 0, "its reqid is 0 and the template wants 77"),
            (
                |sa| sa.params.mode = esp::Mode::Transport,
                "its mode is transport and the template wants tunnel",
            ),
            (
                |sa| sa.params.protocol = esp::Protocol::Ah,
                "its protocol is 51 and the template wants 50",
            ),
            (
                |sa| sa.mark = Mark { value: 7, mask: 0xff },
                "its mark is 0x7/0xff and the policy's 0x0",
            ),
            (|sa| sa.if_id = 3, "its if_id is 0x3 and the policy's 0x0"),
        ];
        let hosts = ([10, 1, 0, 1].into(), [10, 2, 0, 1].into());
        for (change, why) in cases {
            let told = near_misses(&policy, hosts, [sa(change)].iter());
            assert_eq!(told, [format!("SA 0x00000101 to {THERE} is there, but {why}")]);
        }
        let others = [sa(|sa| sa.params.dst = [192, 0, 2, 99].into())];
        assert!(near_misses(&policy, hosts, others.iter()).is_empty(), "to another peer");
        let both = [sa(|_| {}), sa(|sa| sa.reqid = 0)];
        assert!(near_misses(&policy, hosts, both.iter()).is_empty(), "one is right");
    }
}
