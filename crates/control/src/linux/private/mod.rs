//! The private interface: how Linux's own packets come to culvert, and culvert's to Linux.
//!
//! Linux sends to it what goes to a protected prefix: a rule before those of others looks into
//! culvert's own table. What culvert writes to it Linux delivers or forwards, and never sends back:
//! the rule exempts packets that came in by it. Key exchange of this host bypasses the table.
//!
//! | Module      | What it knows                                                  |
//! |-------------|----------------------------------------------------------------|
//! | this one    | rules and routes as Linux takes them: netlink                  |
//! | `rules`     | which rules there are                                          |
//! | `marked`    | which marks packets have that policies protect                 |
//! | `own_table` | which routes are wanted, from policies and Linux's tables     |
//! | `linux_way` | what Linux would do if culvert were not there                  |
//! | `address`   | which address Linux would send from                            |
//!
//! The interface is a TUN device with offload headers: Linux hands over TCP segments of up to
//! 64 KiB, which culvert cuts, and takes coalesced ones back.
//!
//! | setting | why |
//! | --- | --- |
//! | `disable_xfrm` = 1 | the guard's block policies must not stop what goes to culvert (IPv4; IPv6 has no such switch, so the guard's rules exempt the interface by name) |
//! | `disable_policy` = 1 | what culvert has decrypted and judged is not judged again (IPv4) |
//! | beside the kernel: `forwarding` = 1, for IPv6 `force_forwarding` = 1 | packets of this host that are Linux's after all, while an SA crosses or the daemon hangs, come in by it and go on, also on a host that forwards nothing else |
//! | `rp_filter` = 0, `accept_local` = 1 | decrypted packets come from anywhere, ICMP errors from addresses of this host; the worker applies the same checks to cleartext from ports |
//! | `ip rule` 210: `not iif culvert0 lookup 219` | protected prefixes go to culvert, and what came from culvert never returns to it. 210 is before strongSwan's 220 |
//! | `ip rule` 210: `fwmark MARK lookup 218` for each mark of a policy | prefixes that policies with a mark protect, for packets with one |
//! | `ip rule` 209: `iif lo ipproto udp sport 500 goto 211`, also `dport`, and 4500; 211: `nop` | key exchange of this host goes by Linux's own tables |
//! | `ip rule` 209: `l3mdev goto 211`, beside a kernel that has VRFs | what is in a VRF stays with the kernel, by the VRF's own table |
//! | `ip rule` 209: `fwmark MARK goto 211` | cleartext that went back to its port is not led here again, nor what was led past a daemon that hangs |
//!
//! The worker's own look-ups leave out tables 218 and 219, and every route by the private interface in
//! whatever table, so a packet cannot be routed in a circle.
//!
//! A route's MTU is what fits the SAs behind it (`inner_mtus`), so that Linux's own packets fit, also where a
//! packet filter drops ICMP errors.
//!
//! A route's source address is the one that Linux would take without table 219. Where no policy takes
//! that one, it is the best that one does: the egress interface's before others, IPv4 primary before
//! secondary, IPv6 by RFC 6724. At most 256 routes inside one protected prefix have a source of their
//! own.
//!
//! Routes and rules have the routing protocol 219, by which the preload library hides them from
//! programs under `culvert exec`: an IKE daemon that looks for its peer finds what Linux would do
//! without culvert.

mod address;
mod linux_way;
mod marked;
mod own_table;
mod rules;
#[cfg(test)]
mod tests;
mod way;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use config::TunConfig;
use forward::SourceCheck;
use mirror::{
    Control, Error, Family, NextHop, Prefix, Route, RouteKind, Rule, Snapshot,
    set_interface_setting,
};
use policy::PolicyConfig;
use report::rule_text::title;
use tracing::{info, warn};
use xfrm::shim_protocol::ROUTE_PROTOCOL;

use self::linux_way::Linux;
use self::marked::{LedMark, Marked};
use self::own_table::{Entry, OwnTable};
use crate::linux::edge::Changes;
use crate::tunnels::Led;

pub use rules::is_ours;

/// Rules and routes that lead to the private interface.
pub struct Private {
    /// Set once somebody has deleted the interface: the daemon ends.
    pub is_gone: bool,
    config: TunConfig,
    ifindex: u32,
    control: Box<dyn Changes>,
    /// True if marks of packets can be told to culvert.
    has_marks: bool,
    /// True if Linux carries on with packets that culvert gives back to it.
    is_beside_kernel: bool,
    /// True if packets of VRFs are led past culvert's tables.
    are_vrfs_passed: bool,
    /// The marks of policies.
    marked: Marked,
    /// MTUs of the SAs behind protected destinations.
    mtus: Mtus,
    /// For packets without a mark, and for those with one.
    tables: [Table; 2],
}

/// The MTU of the routes to protected destinations, in bytes.
type Mtus = BTreeMap<Prefix, u32>;

/// A routing table of culvert's.
struct Table {
    number: u32,
    /// The wanted routes.
    wanted: OwnTable,
    /// The installed routes, and the MTU of each that has one.
    standing: BTreeMap<Prefix, (Entry, Option<u32>)>,
}

impl Table {
    fn new(number: u32, is_for_marks: bool) -> Table {
        Table { number, wanted: OwnTable::new(is_for_marks), standing: BTreeMap::new() }
    }
}

impl Private {
    /// Configures the existing interface, and adds the rules. `has_marks` says whether marks of packets
    /// can be told to culvert; where not, packets with a mark are left to Linux, and the guard stops
    /// those that a policy protects.
    ///
    /// Linux must not encrypt what leaves by it, nor judge again what comes from it; its packets
    /// come from anywhere, this host's own addresses included (ICMP errors to local programs).
    ///
    /// # Errors
    /// The request that the kernel refused.
    pub fn set_up(
        config: &TunConfig,
        ifindex: u32,
        has_marks: bool,
        is_beside_kernel: bool,
    ) -> Result<Private, Error> {
        let name = config.interface.as_str();
        for (setting, value) in
            [("disable_xfrm", 1), ("disable_policy", 1), ("rp_filter", 0), ("accept_local", 1)]
        {
            set_interface_setting(Family::V4, name, setting, value)?;
        }
        // A machine without IPv6 has none of these.
        for (setting, value) in [("disable_policy", 1), ("accept_ra", 0), ("addr_gen_mode", 1)] {
            if let Err(error) = set_interface_setting(Family::V6, name, setting, value) {
                warn!(%error, "IPv6 through the private interface may not work");
                break;
            }
        }
        if is_beside_kernel {
            have_linux_carry_on(name);
        }
        let mut control = Control::new()?;
        control.set_link_up(ifindex, true)?;
        Private::begin(config, ifindex, Box::new(control), has_marks, is_beside_kernel)
    }

    /// Adds the rules to an interface that is configured.
    ///
    /// # Errors
    /// The request that the kernel refused.
    pub fn begin(
        config: &TunConfig,
        ifindex: u32,
        mut control: Box<dyn Changes>,
        has_marks: bool,
        is_beside_kernel: bool,
    ) -> Result<Private, Error> {
        for rule in rules::all(config, &[], false) {
            // A killed daemon may have left it.
            match control.add_rule(&rule) {
                Err(error) if error.errno() != Some(EXISTS) => return Err(error),
                _ => {}
            }
        }
        Ok(Private {
            is_gone: false,
            config: config.clone(),
            ifindex,
            control,
            has_marks,
            is_beside_kernel,
            are_vrfs_passed: false,
            marked: Marked::default(),
            mtus: Mtus::new(),
            tables: [Table::new(config.table, false), Table::new(config.marked_table, true)],
        })
    }

    /// Makes the routes follow all of the policies.
    pub fn follow<'a>(
        &mut self,
        policies: impl IntoIterator<Item = &'a PolicyConfig> + Clone,
        snapshot: &Snapshot,
        led: Led<'_>,
    ) {
        let before = self.marked.led();
        self.marked = Marked::of(policies.clone());
        self.lead(&before);
        let linux = self.linux(snapshot, led);
        self.each(|table| table.set(policies.clone(), &linux));
    }

    /// Follows a policy that was added, removed or replaced.
    pub fn change(
        &mut self,
        old: Option<&PolicyConfig>,
        new: Option<&PolicyConfig>,
        snapshot: &Snapshot,
        led: Led<'_>,
    ) {
        let before = self.marked.led();
        self.marked.change(old, new);
        self.lead(&before);
        let linux = self.linux(snapshot, led);
        self.each(|table| table.change(old, new, &linux));
    }

    /// Leads packets with the marks of policies to the table for marks, and those of `before` no longer.
    fn lead(&mut self, before: &[LedMark]) {
        let after = self.marked.led();
        if before == after || !self.has_marks {
            return;
        }
        let of = |led| rules::all(&self.config, led, self.are_vrfs_passed);
        self.replace_rules(&of(before), &of(&after));
    }

    /// Leads packets of VRFs past culvert's tables, or not.
    pub fn pass_vrfs(&mut self, are_passed: bool) {
        if self.are_vrfs_passed == are_passed {
            return;
        }
        let before = self.rules();
        self.are_vrfs_passed = are_passed;
        self.replace_rules(&before, &self.rules());
    }

    /// New rules come before old ones go.
    fn replace_rules(&mut self, before: &[Rule], after: &[Rule]) {
        for rule in after.iter().filter(|rule| !before.contains(rule)) {
            match self.control.add_rule(rule) {
                Err(error) if error.errno() != Some(EXISTS) => {
                    warn!(%error, rule = %title(rule), "a rule of culvert's is missing");
                }
                _ => {}
            }
        }
        for rule in before.iter().filter(|rule| !after.contains(rule)) {
            self.drop_rule(rule);
        }
    }

    /// Rules of all kinds.
    fn rules(&self) -> Vec<Rule> {
        let led = if self.has_marks { self.marked.led() } else { Vec::new() };
        rules::all(&self.config, &led, self.are_vrfs_passed)
    }

    fn drop_rule(&mut self, rule: &Rule) {
        match self.control.delete_rule(rule) {
            Err(error) if error.errno() != Some(NO_ENTRY) => warn!(%error, "rule not removed"),
            _ => {}
        }
    }

    /// Linux's routes to these destinations changed.
    pub fn follow_routes(
        &mut self,
        destinations: impl IntoIterator<Item = Prefix> + Clone,
        snapshot: &Snapshot,
        led: Led<'_>,
    ) {
        let linux = self.linux(snapshot, led);
        self.each(|table| table.routes_changed(destinations.clone(), &linux));
    }

    /// Sets the MTUs of the SAs behind these destinations, for Linux's own packets to fit.
    pub fn set_mtus(&mut self, changed: BTreeMap<Prefix, Option<u32>>) {
        for (dst, mtu) in &changed {
            match mtu {
                Some(mtu) => self.mtus.insert(*dst, *mtu),
                None => self.mtus.remove(dst),
            };
        }
        self.each(|table| changed.keys().flat_map(|dst| table.owned_by(*dst)).collect());
    }

    /// Changes what shall stand in each table, and makes it stand.
    fn each(&mut self, mut change: impl FnMut(&mut OwnTable) -> BTreeSet<Prefix>) {
        let Private { control, ifindex, has_marks, mtus, tables, .. } = self;
        for table in tables.iter_mut().take(if *has_marks { 2 } else { 1 }) {
            let changed = change(&mut table.wanted);
            table.carry_out((&mut **control, *ifindex), mtus, changed);
        }
    }

    fn linux<'s>(&self, snapshot: &'s Snapshot, led: Led<'s>) -> Linux<'s> {
        Linux::new(snapshot, self.config.rule_preference, ROUTE_PROTOCOL, self.ifindex, led)
    }

    /// Restores rules and routes that somebody removed, retries what failed, and removes what another
    /// run left.
    pub fn repair(&mut self, snapshot: &Snapshot) {
        if self.is_beside_kernel {
            // A write to `net.ipv4.ip_forward` sets it for every interface.
            have_linux_carry_on(&self.config.interface);
        }
        let rules = self.rules();
        let all = [Family::V4, Family::V6].into_iter().flat_map(|f| snapshot.rules(f));
        let passing = all.filter(|rule| rules::is_passing(rule, &self.config));
        let left: Vec<Rule> = passing.filter(|rule| !rules.contains(rule)).cloned().collect();
        left.iter().for_each(|rule| self.drop_rule(rule));
        for rule in rules {
            if !snapshot.rules(rule.family).any(|r| *r == rule) {
                let name = title(&rule);
                match self.control.add_rule(&rule) {
                    Ok(()) => {
                        warn!(rule = %name, "a rule of culvert's was gone, and is there again")
                    }
                    Err(error) if error.errno() == Some(EXISTS) => {}
                    Err(error) => warn!(%error, rule = %name, "a rule of culvert's is missing"),
                }
            }
        }
        let Private { control, ifindex, mtus, tables, .. } = self;
        for table in tables {
            table.repair((&mut **control, *ifindex), mtus, snapshot);
        }
    }

    /// Restores one route of a table of culvert's that somebody removed or replaced.
    pub fn repair_route(&mut self, number: u32, dst: Prefix, snapshot: &Snapshot) {
        let Private { control, ifindex, mtus, tables, .. } = self;
        let Some(table) = tables.iter_mut().find(|table| table.number == number) else { return };
        if !snapshot.routes_to(number, dst).any(|r| is_own_route(r, *ifindex))
            && table.standing.remove(&dst).is_some()
        {
            table.carry_out((&mut **control, *ifindex), mtus, [dst]);
        }
    }

    /// The destination of culvert's route by which Linux leads a packet here, if it does: of its own or forwarded,
    /// with this mark. `is_own_ike` says whether it is key exchange of this host.
    pub fn leads(&self, dst: IpAddr, mark: u32, is_own_ike: bool) -> Option<Prefix> {
        if is_own_ike || mark & self.config.mark != 0 {
            return None;
        }
        let led = self.marked.led();
        let is_led = |led: &LedMark| match led {
            LedMark::Mark(led) => led.matches(mark),
            LedMark::Any => mark != 0,
        };
        let are_asked = [true, self.has_marks && led.iter().any(is_led)];
        let tables = self.tables.iter().zip(are_asked).filter(|(_, is_asked)| *is_asked);
        tables.filter_map(|(table, _)| table.leads(dst)).next()
    }

    /// The private interface.
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Asks Linux to resolve or confirm a neighbour, and says whether it does.
    pub fn resolve(&mut self, ifindex: u32, ip: IpAddr) -> bool {
        let asked = self.control.resolve(ifindex, ip);
        if let Err(error) = &asked {
            tracing::debug!(%error, %ip, "neighbour not asked for");
        }
        asked.is_ok()
    }

    /// Removes the rules, and the routes that do not go with the interface.
    pub fn tear_down(&mut self) {
        // The rules to the tables first, and those that bypass them last.
        for rule in self.rules().into_iter().rev() {
            self.drop_rule(&rule);
        }
        for table in &self.tables {
            let thrown = table.standing.iter().filter(|(_, (entry, _))| *entry == Entry::Throw);
            thrown.for_each(|(dst, _)| table.take_away(&mut *self.control, self.ifindex, *dst));
        }
    }
}

/// Lets Linux send on what comes in by the private interface: packets of this host among them, which are
/// forwarded then.
fn have_linux_carry_on(interface: &str) {
    if let Err(error) = set_interface_setting(Family::V4, interface, "forwarding", 1) {
        warn!(%error, "packets of this host may be lost when an SA goes from or to the kernel");
    }
    // Linux 6.17; before that `net.ipv6.conf.all.forwarding` alone counts, which is the operator's.
    let _ = set_interface_setting(Family::V6, interface, "force_forwarding", 1);
}

impl Table {
    /// Installs or removes the routes to these destinations.
    fn carry_out(
        &mut self,
        (control, ifindex): (&mut dyn Changes, u32),
        mtus: &Mtus,
        changed: impl IntoIterator<Item = Prefix>,
    ) {
        for dst in changed {
            let wanted = self.entry(dst, mtus);
            if self.standing.get(&dst).copied() == wanted {
                continue;
            }
            let Some((entry, mtu)) = wanted else {
                self.standing.remove(&dst);
                self.take_away(control, ifindex, dst);
                continue;
            };
            let route = Route { mtu, ..self.route(ifindex, dst, entry) };
            match control.replace_route(&route) {
                Ok(()) => {
                    match entry {
                        Entry::Culvert(src) => {
                            info!(
                                prefix = %show(dst), src = src.map(display), mtu,
                                "local traffic to it goes to culvert"
                            );
                        }
                        Entry::Throw => {
                            info!(prefix = %show(dst), "Linux's own tables decide about it");
                        }
                    }
                    self.standing.insert(dst, (entry, mtu));
                }
                Err(error) => match entry {
                    Entry::Culvert(Some(src)) => warn!(
                        %error, prefix = %show(dst), %src,
                        "Linux refuses the route by which this host's own packets come to culvert, as it does where the \
                         source is no address of this host any more; give the address back (ip address add), or load the \
                         connection with another one: culvert tries again"
                    ),
                    _ => warn!(
                        %error, prefix = %show(dst),
                        "Linux refuses the route by which this host's own packets come to culvert; it is tried again"
                    ),
                },
            }
        }
        for dst in self.wanted.take_crowded() {
            warn!(
                prefix = %show(dst),
                "Linux has more routes inside than culvert follows; local traffic there may take \
                 the source address of the whole prefix"
            );
        }
    }

    /// The destination of the route that a packet takes, if that leads here.
    fn leads(&self, dst: IpAddr) -> Option<Prefix> {
        let around = self.standing.iter().filter(|(prefix, _)| prefix.contains(dst));
        let (prefix, (entry, _)) = around.max_by_key(|(prefix, _)| prefix.len)?;
        matches!(entry, Entry::Culvert(_)).then_some(*prefix)
    }

    /// Restores what somebody removed, and removes what another run left.
    fn repair(
        &mut self,
        (control, ifindex): (&mut dyn Changes, u32),
        mtus: &Mtus,
        snapshot: &Snapshot,
    ) {
        let own = snapshot.routes_of(self.number).filter(|r| is_own_route(r, ifindex));
        let there: BTreeSet<Prefix> = own.map(|r| r.dst).collect();
        self.standing.retain(|prefix, _| there.contains(prefix));
        let wanted = self.wanted.entries().map(|(dst, _)| dst);
        let is_missing = |dst: &Prefix| self.standing.get(dst).copied() != self.entry(*dst, mtus);
        let missing: Vec<Prefix> = wanted.filter(is_missing).collect();
        self.carry_out((&mut *control, ifindex), mtus, missing);
        for dst in there {
            if self.wanted.entry(dst).is_none() {
                self.take_away(control, ifindex, dst);
            }
        }
    }

    /// The route wanted to a destination, with its MTU if it has one.
    fn entry(&self, dst: Prefix, mtus: &Mtus) -> Option<(Entry, Option<u32>)> {
        let entry = self.wanted.entry(dst)?;
        let owner = || self.wanted.owner_of(dst);
        let mtu = match entry {
            Entry::Culvert(_) => owner().and_then(|owner| mtus.get(&owner).copied()),
            Entry::Throw => None,
        };
        Some((entry, mtu))
    }

    fn take_away(&self, control: &mut dyn Changes, ifindex: u32, dst: Prefix) {
        let mut route = self.route(ifindex, dst, Entry::Culvert(None));
        // Linux takes this for a route of any kind.
        route.next_hops.clear();
        route.scope = 255;
        route.kind = RouteKind::Other(0);
        match control.delete_route(&route) {
            Err(error) if error.errno() != Some(NO_SUCH) => warn!(%error, "route not removed"),
            _ => {}
        }
    }

    fn route(&self, ifindex: u32, dst: Prefix, entry: Entry) -> Route {
        let mut route = Route::new(dst, NextHop::new(ifindex, None));
        route.table = self.number;
        route.protocol = ROUTE_PROTOCOL;
        // With scope link, Linux would look up the gateways of new routes by it.
        route.scope = 0;
        match entry {
            Entry::Culvert(src) => route.prefsrc = src,
            Entry::Throw => {
                route.kind = RouteKind::Throw;
                route.next_hops.clear();
            }
        }
        route
    }
}

/// True if a route is culvert's, and leads to the private interface or past the table.
fn is_own_route(route: &Route, ifindex: u32) -> bool {
    let leads_here = || route.next_hops.iter().any(|hop| hop.ifindex == ifindex);
    route.protocol == ROUTE_PROTOCOL && (route.kind == RouteKind::Throw || leads_here())
}

/// The reverse path filter of an interface: the larger of its own setting and that of `all`, as
/// Linux takes it. Read when something changes in Linux's tables, and on SIGHUP.
pub fn source_check(interface: &str) -> SourceCheck {
    let setting = |name| mirror::interface_setting(Family::V4, name, "rp_filter").unwrap_or(0);
    match setting("all").max(setting(interface)) {
        0 => SourceCheck::Off,
        1 => SourceCheck::Strict,
        _ => SourceCheck::Loose,
    }
}

/// `EEXIST`, `ENOENT`, `ESRCH`.
const EXISTS: i32 = 17;
const NO_ENTRY: i32 = 2;
const NO_SUCH: i32 = 3;

fn show(prefix: Prefix) -> String {
    format!("{}/{}", prefix.addr, prefix.len)
}
