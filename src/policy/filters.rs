//! Filters on names of topics, groups and topic configs.
//!
//! MM2 joins the elements of a list with `|` into ONE Java pattern, without groups around them.
//! So `(?i)` in one element holds for the later ones, and `\2` counts groups over all of them;
//! joining the same way keeps that.

use thiserror::Error;

use super::pattern::{Pattern, PatternError, StepLimit};

/// A list of patterns; an empty list matches nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameList {
    joined: Option<Pattern>,
    elements: Vec<String>,
}

/// Which element of a list is at fault, and where in it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{error}")]
pub struct NameListError {
    /// The element, from 0.
    pub element: usize,
    /// The problem; its place counts from the element's first character.
    pub error: PatternError,
}

impl NameList {
    /// Joins `elements` to one pattern.
    ///
    /// # Errors
    ///
    /// [`NameListError`] for the first element that cannot be honoured.
    pub fn new<T: AsRef<str>>(elements: &[T]) -> Result<Self, NameListError> {
        if elements.is_empty() {
            return Ok(Self::none());
        }
        let texts: Vec<&str> = elements.iter().map(AsRef::as_ref).collect();
        // `(a` and `b)` would join to one good pattern. MM2 takes it; nobody means it, and the
        // place of an error in the middle could not be told.
        let pattern = Pattern::new(&texts.join("|")).map_err(|error| locate(&texts, error))?;
        let elements = texts.into_iter().map(str::to_owned).collect();
        Ok(Self { joined: Some(pattern), elements })
    }

    /// A list that matches nothing.
    #[must_use]
    pub fn none() -> Self {
        Self { joined: None, elements: Vec::new() }
    }

    /// Whether the whole of `name` matches one of the elements.
    ///
    /// # Errors
    ///
    /// [`StepLimit`] if the match does not come to an end.
    pub fn matches(&self, name: &str) -> Result<bool, StepLimit> {
        self.joined.as_ref().map_or(Ok(false), |pattern| pattern.matches(name))
    }

    /// Elements that are plain names: what they name can be asked for, also where it is not listed.
    pub fn literals(&self) -> impl Iterator<Item = &str> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let all = self.elements.iter().map(String::as_str);
        all.filter(move |element| !element.is_empty() && element.chars().all(plain))
    }

    /// The joined pattern, if the list has elements.
    #[must_use]
    pub fn pattern(&self) -> Option<&Pattern> {
        self.joined.as_ref()
    }

    /// The elements of the list.
    #[must_use]
    pub fn elements(&self) -> &[String] {
        &self.elements
    }

    /// Those of `elements` that match none of `names`. One that means something only beside the
    /// others (`\2`), or whose match does not come to an end, is not among them.
    #[must_use]
    pub fn unmatched(elements: &[String], names: &[&str]) -> Vec<String> {
        let matches = |element: &String| {
            let Ok(pattern) = Pattern::new(element) else { return true };
            names.iter().any(|name| pattern.matches(name).unwrap_or(true))
        };
        elements.iter().filter(|element| !matches(element)).cloned().collect()
    }
}

/// Turns a place in the joined pattern into an element and a place in it.
fn locate(elements: &[&str], error: PatternError) -> NameListError {
    let mut start = 0;
    for (element, text) in elements.iter().enumerate() {
        let length = text.chars().count();
        if error.at <= start + length {
            let at = error.at - start;
            let error = PatternError { at, length: error.length.min(length.max(1)), ..error };
            return NameListError { element, error };
        }
        start += length + 1;
    }
    NameListError { element: elements.len() - 1, error }
}

/// Which topics the user wants (`topics`, `topics.exclude`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicFilter {
    /// Names wanted.
    pub include: NameList,
    /// Names not wanted; wins over `include`.
    pub exclude: NameList,
}

impl TopicFilter {
    /// Whether the filter lets `topic` through. Internal topics and cycles are another
    /// question; see [`FlowTopics`](super::FlowTopics).
    ///
    /// # Errors
    ///
    /// [`StepLimit`] if a match does not come to an end.
    pub fn accepts(&self, topic: &str) -> Result<bool, StepLimit> {
        Ok(self.include.matches(topic)? && !self.exclude.matches(topic)?)
    }
}

/// Which consumer groups the user wants (`groups`, `groups.exclude`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupFilter {
    /// Names wanted.
    pub include: NameList,
    /// Names not wanted; wins over `include`.
    pub exclude: NameList,
}

impl GroupFilter {
    /// Whether the filter lets `group` through.
    ///
    /// # Errors
    ///
    /// [`StepLimit`] if a match does not come to an end.
    pub fn accepts(&self, group: &str) -> Result<bool, StepLimit> {
        Ok(self.include.matches(group)? && !self.exclude.matches(group)?)
    }
}

/// Which topic configs are copied (`config.properties.exclude`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFilter {
    /// Names never copied.
    pub exclude: NameList,
}

impl ConfigFilter {
    /// Whether a config of this name is copied.
    ///
    /// # Errors
    ///
    /// [`StepLimit`] if a match does not come to an end.
    pub fn accepts(&self, config: &str) -> Result<bool, StepLimit> {
        Ok(!self.exclude.matches(config)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(elements: &[&str]) -> NameList {
        NameList::new(elements).unwrap()
    }

    #[test]
    fn an_empty_list_matches_nothing_not_even_the_empty_name() {
        assert_eq!(list(&[]).matches("a"), Ok(false));
        assert_eq!(list(&[]).matches(""), Ok(false));
    }

    #[test]
    fn the_exclude_list_wins() {
        let filter =
            TopicFilter { include: list(&[".*"]), exclude: list(&["mm2.*\\.internal", "__.*"]) };

        assert_eq!(filter.accepts("orders"), Ok(true));
        assert_eq!(filter.accepts("orders.internal"), Ok(true));
        assert_eq!(filter.accepts("mm2-configs.a.internal"), Ok(false));
        assert_eq!(filter.accepts("__consumer_offsets"), Ok(false));
    }

    #[test]
    fn elements_that_match_nothing_are_named() {
        let list = list(&["orders", "pay-[0-9]+", "typo\\.x"]);
        let unmatched = |names: &[&str]| NameList::unmatched(list.elements(), names);
        assert_eq!(unmatched(&["orders", "orders2", "pay-1", "pay-x"]), ["typo\\.x"]);
        assert_eq!(unmatched(&["pay-x"]).len(), 3);
        assert_eq!(unmatched(&["orders", "pay-7", "typo.x"]), Vec::<String>::new());
    }

    #[test]
    fn flags_and_group_numbers_run_on_over_the_elements() {
        let flags = list(&["(?i)a", "b"]);
        assert_eq!(flags.matches("B"), Ok(true));

        let groups = list(&["(x)y", "(z)\\2"]);
        assert_eq!(groups.matches("zz"), Ok(true));
    }

    #[test]
    fn an_anchored_element_stays_in_the_linear_engine() {
        let anchored = list(&["^test.*$", "^b$"]);

        assert_eq!(anchored.matches("test-1"), Ok(true));
        assert_eq!(anchored.pattern().unwrap().engine(), super::super::Engine::Linear);
    }

    #[test]
    fn an_error_names_the_element_and_the_place_in_it() {
        let refused = NameList::new(&["orders.*", "a[b", "c"]).unwrap_err();
        assert_eq!((refused.element, refused.error.at), (1, 1));

        let split = NameList::new(&["a{1", "3}"]).unwrap_err();
        assert_eq!((split.element, split.error.at), (0, 1));
        assert!(split.error.hint.unwrap().contains("comma"));
    }
}
