//! Rename rules: names on the target beyond MM2's policies (`topics.rename`).
//!
//! A rule gives one name for one name, or one prefix for one prefix, and the first that matches
//! counts. Rules of one flow never give the same name, so that a name leads back to at most one topic:
//! loop rules, checkpoints and translation back rest on that. What no rule matches is the replication
//! policy's to name; [`FlowNames`](super::FlowNames) puts both together.

use super::naming::ReplicationPolicy;
use crate::model::ClusterAlias;

/// Longest name of a topic that brokers take, in bytes (`Topic.MAX_NAME_LENGTH`).
pub(super) const NAME_BYTES_MAX: usize = 249;

/// One name, or all names that begin so.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Form {
    text: String,
    /// Any rest may follow.
    open: bool,
}

impl Form {
    fn new(written: &str) -> Self {
        match written.strip_suffix('*') {
            Some(start) => Self { text: start.to_owned(), open: true },
            None => Self { text: written.to_owned(), open: false },
        }
    }

    fn matches(&self, name: &str) -> bool {
        if self.open { name.starts_with(&self.text) } else { name == self.text }
    }

    /// Whether every name of `other` is one of these.
    fn covers(&self, other: &Self) -> bool {
        self.matches(&other.text) && (self.open || !other.open)
    }

    /// Whether a name can be of both.
    fn meets(&self, other: &Self) -> bool {
        self.covers(other) || other.covers(self)
    }
}

/// One rule: `orders:orders-eu`, or `payments.*:eu.payments.*`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rename {
    from: Form,
    to: Form,
}

impl Rename {
    /// What `name` becomes, if it is one that the rule is about.
    fn apply(&self, name: &str) -> Option<String> {
        swap(&self.from, &self.to, name)
    }

    /// What becomes `name`, if the rule can give that.
    fn undo(&self, name: &str) -> Option<String> {
        swap(&self.to, &self.from, name)
    }

    fn written(&self) -> String {
        let form = |form: &Form| format!("{}{}", form.text, if form.open { "*" } else { "" });
        format!("{}:{}", form(&self.from), form(&self.to))
    }
}

fn swap(here: &Form, there: &Form, name: &str) -> Option<String> {
    let rest = name.strip_prefix(here.text.as_str()).filter(|rest| here.open || rest.is_empty())?;
    Some(format!("{}{rest}", there.text))
}

/// What is wrong with one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenameError {
    /// The rule, from 0.
    pub rule: usize,
    /// Its first wrong character, from 0.
    pub at: usize,
    /// How many characters are wrong; at least 1.
    pub length: usize,
    /// As one line without a full stop.
    pub problem: String,
    /// What to write instead.
    pub hint: String,
}

/// The rules of one flow, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renames {
    rules: Vec<Rename>,
}

impl Renames {
    /// Reads rules as they are written, one an element.
    ///
    /// `policy` names the topics that no rule is about, under `source`.
    ///
    /// # Errors
    ///
    /// Every rule that cannot be kept, in order: one that is not `from:to`, with names that no broker
    /// takes or that are MM2's or Kafka's own, that can never apply, or that can give a name that
    /// another rule or the default policy gives, too.
    pub fn new<T: AsRef<str>>(
        written: &[T],
        policy: &ReplicationPolicy,
        source: &ClusterAlias,
    ) -> Result<Self, Vec<RenameError>> {
        let (mut renames, mut errors) = (Self::default(), Vec::new());
        for (rule, element) in written.iter().enumerate() {
            let judge = Judge { rule, text: element.as_ref(), policy, source };
            match judge.read().and_then(|read| judge.beside(read, &renames)) {
                Ok(read) => renames.rules.push(read),
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() { Ok(renames) } else { Err(errors) }
    }

    /// Whether there is no rule.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The first rule of `self` that can never apply because of what flows the other way, with the
    /// rule of `back` that stands in its way: whatever it is about, `back` gives that name, so it came
    /// from where it would go.
    #[must_use]
    pub fn undone_by(&self, back: &Self) -> Option<(usize, String)> {
        self.rules.iter().enumerate().find_map(|(index, rule)| {
            let giver = back.rules.iter().find(|other| other.to.covers(&rule.from))?;
            Some((index, giver.written()))
        })
    }

    /// The rules about a single topic, with its name.
    pub fn single_names(&self) -> impl Iterator<Item = (usize, &str)> {
        let all = self.rules.iter().enumerate().filter(|(_, rule)| !rule.from.open);
        all.map(|(index, rule)| (index, rule.from.text.as_str()))
    }

    /// The first rule that gives every name there is.
    #[must_use]
    pub fn gives_all(&self) -> Option<usize> {
        self.rules.iter().position(|rule| rule.to.open && rule.to.text.is_empty())
    }

    /// What the first rule that is about `name` makes of it.
    pub(super) fn apply(&self, name: &str) -> Option<String> {
        self.rules.iter().find_map(|rule| rule.apply(name))
    }

    /// Names that may have become `name`; only the first rule that matches one really does that.
    pub(super) fn undo(&self, name: &str) -> impl Iterator<Item = String> {
        self.rules.iter().filter_map(move |rule| rule.undo(name))
    }

    /// What the names begin with that the rule gives which gave `name`, if it is one of prefixes.
    pub(super) fn prefix(&self, name: &str) -> Option<&str> {
        let open = |rule: &&Rename| rule.to.open && !rule.to.text.is_empty();
        let rule = self.rules.iter().filter(open).find(|rule| rule.to.matches(name))?;
        Some(&rule.to.text)
    }
}

/// Judges one rule.
struct Judge<'a> {
    rule: usize,
    text: &'a str,
    policy: &'a ReplicationPolicy,
    source: &'a ClusterAlias,
}

impl Judge<'_> {
    fn error(&self, (at, length): (usize, usize), problem: String, hint: String) -> RenameError {
        RenameError { rule: self.rule, at, length: length.max(1), problem, hint }
    }

    fn whole(&self, problem: String, hint: String) -> RenameError {
        self.error((0, self.text.chars().count()), problem, hint)
    }

    /// The rule by itself.
    fn read(&self) -> Result<Rename, RenameError> {
        let Some((from, to)) = self.text.split_once(':') else {
            return Err(self.whole(
                "not a rename rule: there is no colon".into(),
                "write from:to, as in orders:orders-eu or payments.*:eu.payments.*".into(),
            ));
        };
        let behind = from.chars().count() + 1;
        self.legal(from, 0)?;
        self.legal(to, behind)?;
        let (from, to) = (Form::new(from), Form::new(to));
        if from.open != to.open {
            return Err(self.whole(
                "one side of the rule ends in `*` and the other does not".into(),
                "end both in `*`, so that the rest of the name stays, or none".into(),
            ));
        }
        for (form, at) in [(&from, 0), (&to, behind)] {
            if let Some(why) = self.reserved(form) {
                let place = (at, form.text.chars().count() + usize::from(form.open));
                return Err(self.error(
                    place,
                    why,
                    "no rule renames such topics or makes them: choose another name".into(),
                ));
            }
        }
        // The identity policy gives whatever name a topic of the source has, so that only the
        // clusters tell whether one is given twice: see `FlowNames`.
        if let Some(prefix) = self.policy.replica_prefix(self.source)
            && to.text.starts_with(&prefix)
        {
            return Err(self.error(
                (behind, prefix.chars().count()),
                format!("names that begin with `{prefix}` are given by the replication policy"),
                "choose another beginning, or leave the rule out".into(),
            ));
        }
        Ok(Rename { from, to })
    }

    /// Whether a side is a name, or the beginning of one, that brokers take.
    fn legal(&self, side: &str, at: usize) -> Result<(), RenameError> {
        let name = side.strip_suffix('*').unwrap_or(side);
        let wrong = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
        if let Some((index, c)) = name.chars().enumerate().find(|(_, c)| wrong(*c)) {
            let (problem, hint) = if c == '*' {
                ("`*` stands only at the end of a name", "write a rule for each beginning")
            } else {
                ("a topic's name cannot hold this", "use letters, digits, `.`, `_` and `-`")
            };
            return Err(self.error((at + index, 1), problem.into(), hint.into()));
        }
        let place = (at, side.chars().count());
        if side.is_empty() || matches!(side, "." | "..") {
            let problem = format!("`{side}` is no name of a topic");
            return Err(self.error(place, problem, "write from:to, both of them names".into()));
        }
        if name.len() > NAME_BYTES_MAX {
            let problem = format!("{} bytes; brokers take {NAME_BYTES_MAX}", name.len());
            return Err(self.error(place, problem, "choose a shorter name".into()));
        }
        Ok(())
    }

    /// Whose the names are, if they are somebody's.
    fn reserved(&self, form: &Form) -> Option<String> {
        let name = &form.text;
        // All names that begin so; what a longer beginning makes is looked at name by name.
        let begins = ["__", ".", "mm2-"].iter().any(|start| name.starts_with(start));
        if begins || (!form.open && self.policy.internal().is_internal(name)) {
            Some(format!("`{name}` is a name of MirrorMaker 2's or Kafka's own"))
        } else if !form.open && self.policy.is_heartbeats(name) {
            Some(format!("`{name}` is a name of heartbeats"))
        } else {
            None
        }
    }

    /// The rule beside those before it.
    fn beside(&self, rule: Rename, before: &Renames) -> Result<Rename, RenameError> {
        let from = (0, self.text.split(':').next().map_or(1, |from| from.chars().count()));
        let to = (from.1 + 1, self.text.chars().count().saturating_sub(from.1 + 1));
        for earlier in &before.rules {
            if earlier.from.covers(&rule.from) {
                return Err(self.error(
                    from,
                    format!("never applies: `{}` stands before it", earlier.written()),
                    "the first rule that matches counts: write the narrower one first".into(),
                ));
            }
            if earlier.to.meets(&rule.to) {
                return Err(self.error(
                    to,
                    format!("can give a name that `{}` gives, too", earlier.written()),
                    "two topics would be merged: let the rules' names begin differently".into(),
                ));
            }
        }
        Ok(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::super::PolicyKind;
    use super::*;

    fn read(kind: PolicyKind, rules: &[&str]) -> Result<Renames, Vec<RenameError>> {
        let source = ClusterAlias::new("A");
        Renames::new(rules, &ReplicationPolicy::new(kind, ".", Some(source.clone())), &source)
    }

    fn good(rules: &[&str]) -> Renames {
        read(PolicyKind::Identity, rules).unwrap()
    }

    #[test]
    fn the_first_rule_that_matches_counts() {
        let rules = good(&["orders:orders-eu", "team.eu.*:eu.*", "team.*:world.*", "*:rest-*"]);
        for (name, renamed) in [
            ("orders", "orders-eu"),
            ("orders2", "rest-orders2"),
            ("team.eu.x", "eu.x"),
            ("team.x", "world.x"),
            ("team", "rest-team"),
        ] {
            assert_eq!(rules.apply(name).as_deref(), Some(renamed), "{name}");
            assert!(rules.undo(renamed).any(|before| before == name), "{name}");
        }
        assert_eq!(good(&["a:b"]).apply("b"), None);
        let stripped = good(&["team.*:*"]);
        assert_eq!(stripped.apply("team.x").as_deref(), Some("x"));
        assert_eq!(stripped.apply("x"), None);
        assert_eq!(good(&["a:b", "b:a"]).apply("b").as_deref(), Some("a"), "two may change places");
    }

    #[test]
    fn a_rule_that_cannot_be_kept_is_refused_at_its_place() {
        let long = format!("a:{}", "x".repeat(250));
        for (rules, at, length, words) in [
            (&["orders"][..], 0, 6, "no colon"),
            (&["a:b:c"], 3, 1, "cannot hold"),
            (&["a:b c"], 3, 1, "cannot hold"),
            (&["a*b:c*"], 1, 1, "only at the end"),
            (&["a.*:b"], 0, 5, "one side"),
            (&["a:"], 2, 1, "no name"),
            (&[":b"], 0, 1, "no name"),
            (&["a:.."], 2, 2, "no name"),
            (&[long.as_str()], 2, 250, "250 bytes"),
            (&["__x:y"], 0, 3, "own"),
            (&["x.*:mm2-*"], 4, 5, "own"),
            (&["x:a.checkpoints.internal"], 2, 22, "own"),
            (&["heartbeats:x"], 0, 10, "heartbeats"),
            (&["*:x-*", "orders:orders-eu"], 0, 6, "never applies: `*:x-*`"),
            (&["a:x", "a:y"], 0, 1, "never applies"),
            (&["a:x", "b:x"], 2, 1, "`a:x` gives, too"),
            (&["a:x.y", "b.*:x.*"], 4, 3, "gives, too"),
            (&["b.*:x.*", "a:x.y"], 2, 3, "gives, too"),
            (&["b.*:x.*", "a.*:x.y.*"], 4, 5, "gives, too"),
            (&["a.*:*", "b:c"], 2, 1, "gives, too"),
        ] {
            let errors = read(PolicyKind::Identity, rules).unwrap_err();
            let [error] = errors.as_slice() else { panic!("{rules:?}: {errors:?}") };
            assert_eq!(error.rule, rules.len() - 1, "{rules:?}");
            assert_eq!((error.at, error.length), (at, length), "{rules:?}: {error:?}");
            assert!(error.problem.contains(words), "{rules:?}: {}", error.problem);
            assert!(!error.hint.is_empty());
        }
        assert_eq!(read(PolicyKind::Identity, &["a", "b", "c:d"]).unwrap_err().len(), 2);
    }

    #[test]
    fn names_that_the_default_policy_gives_are_no_rule_s() {
        let errors = read(PolicyKind::Default, &["orders:A.payments"]).unwrap_err();
        assert_eq!((errors[0].at, errors[0].length), (7, 2));
        assert!(read(PolicyKind::Default, &["orders:Apayments", "x:B.y"]).is_ok());
        assert!(read(PolicyKind::Identity, &["orders:A.payments"]).is_ok());
    }

    #[test]
    fn a_rule_about_names_that_the_way_back_gives_never_applies() {
        let undone = |there: &[&str], back: &[&str]| good(there).undone_by(&good(back));
        assert_eq!(
            undone(&["orders:orders"], &["orders:orders"]),
            Some((0, "orders:orders".into()))
        );
        assert_eq!(undone(&["x:y", "eu-a.*:b.*"], &["*:eu-*"]), Some((1, "*:eu-*".into())));
        assert_eq!(undone(&["orders:orders-eu"], &["orders:orders-us"]), None);
        assert_eq!(undone(&["*:b-*"], &["*:a-*"]), None, "others than those begin so");
        assert_eq!(good(&["a:b"]).gives_all(), None);
        assert_eq!(good(&["a.*:*"]).gives_all(), Some(0));
    }
}
