//! Sets of characters, as Java's character classes denote them.
//!
//! A class is worked out to its code points here, so what is handed to the matching engine
//! needs no flag and no class syntax, of which no two dialects agree.

/// Largest code point.
const LAST: u32 = 0x10_FFFF;

/// Code points that are no characters; text never holds them.
const SURROGATES: (u32, u32) = (0xD800, 0xDFFF);

/// Characters as sorted, disjoint, inclusive ranges of code points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CharSet(Vec<(u32, u32)>);

impl CharSet {
    pub(super) fn of(ranges: &[(char, char)]) -> Self {
        Self(ranges.iter().map(|&(from, to)| (from.into(), to.into())).collect()).normal()
    }

    pub(super) fn single(c: char) -> Self {
        Self(vec![(c.into(), c.into())])
    }

    pub(super) fn empty() -> Self {
        Self(Vec::new())
    }

    pub(super) fn union(mut self, other: &Self) -> Self {
        self.0.extend_from_slice(&other.0);
        self.normal()
    }

    pub(super) fn intersect(self, other: &Self) -> Self {
        self.complement().union(&other.clone().complement()).complement()
    }

    pub(super) fn complement(self) -> Self {
        let mut gaps = Vec::with_capacity(self.0.len() + 1);
        let mut next = 0;
        for (from, to) in self.0 {
            if from > next {
                gaps.push((next, from - 1));
            }
            next = to + 1;
        }
        if next <= LAST {
            gaps.push((next, LAST));
        }
        Self(gaps)
    }

    /// Adds the other case of each ASCII letter. Java's `(?i)` without `u` knows no more.
    pub(super) fn fold_ascii_case(self) -> Self {
        let mut folded = self.0.clone();
        for (from, to) in &self.0 {
            for (first, last, other) in [(0x41, 0x5A, 0x61), (0x61, 0x7A, 0x41)] {
                let (low, high) = ((*from).max(first), (*to).min(last));
                if low <= high {
                    folded.push((low - first + other, high - first + other));
                }
            }
        }
        Self(folded).normal()
    }

    /// The ranges as characters, surrogates left out.
    pub(super) fn ranges(&self) -> Vec<(char, char)> {
        let mut ranges = Vec::with_capacity(self.0.len());
        for &(from, to) in &self.0 {
            for (low, high) in [(from, to.min(SURROGATES.0 - 1)), (from.max(SURROGATES.1 + 1), to)]
            {
                if low <= high
                    && let (Some(low), Some(high)) = (char::from_u32(low), char::from_u32(high))
                {
                    ranges.push((low, high));
                }
            }
        }
        ranges
    }

    fn normal(mut self) -> Self {
        self.0.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(self.0.len());
        for (from, to) in self.0 {
            match merged.last_mut() {
                Some(last) if from <= last.1.saturating_add(1) => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        Self(merged)
    }
}

/// `\d`: ASCII only, as in Java.
pub(super) fn digits() -> CharSet {
    CharSet::of(&[('0', '9')])
}

/// `\w`: ASCII only, as in Java.
pub(super) fn word() -> CharSet {
    CharSet::of(&[('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_')])
}

/// `\s`: ASCII only, as in Java; a vertical tab is one.
pub(super) fn space() -> CharSet {
    CharSet::of(&[('\t', '\r'), (' ', ' ')])
}

/// `\h`.
pub(super) fn horizontal_space() -> CharSet {
    CharSet::of(&[
        ('\t', '\t'),
        (' ', ' '),
        ('\u{a0}', '\u{a0}'),
        ('\u{1680}', '\u{1680}'),
        ('\u{180e}', '\u{180e}'),
        ('\u{2000}', '\u{200a}'),
        ('\u{202f}', '\u{202f}'),
        ('\u{205f}', '\u{205f}'),
        ('\u{3000}', '\u{3000}'),
    ])
}

/// `\v`: a class in Java, where other dialects mean one character.
pub(super) fn vertical_space() -> CharSet {
    CharSet::of(&[('\n', '\r'), ('\u{85}', '\u{85}'), ('\u{2028}', '\u{2029}')])
}

/// What `.` does not match and `$` may stand before, unless flag `d` leaves only `\n`.
pub(super) fn line_terminators() -> CharSet {
    CharSet::of(&[('\n', '\n'), ('\r', '\r'), ('\u{85}', '\u{85}'), ('\u{2028}', '\u{2029}')])
}

/// The `\p{..}` names that mean ASCII in Java. Case of the names counts.
pub(super) fn posix(name: &str) -> Option<CharSet> {
    Some(match name {
        "Lower" => CharSet::of(&[('a', 'z')]),
        "Upper" => CharSet::of(&[('A', 'Z')]),
        "ASCII" => CharSet::of(&[('\0', '\u{7f}')]),
        "Alpha" => CharSet::of(&[('a', 'z'), ('A', 'Z')]),
        "Digit" => digits(),
        "Alnum" => CharSet::of(&[('a', 'z'), ('A', 'Z'), ('0', '9')]),
        "Punct" => CharSet::of(&[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')]),
        "Graph" => CharSet::of(&[('!', '~')]),
        "Print" => CharSet::of(&[(' ', '~')]),
        "Blank" => CharSet::of(&[(' ', ' '), ('\t', '\t')]),
        "Cntrl" => CharSet::of(&[('\0', '\u{1f}'), ('\u{7f}', '\u{7f}')]),
        "XDigit" => CharSet::of(&[('0', '9'), ('a', 'f'), ('A', 'F')]),
        "Space" => space(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complement_and_intersection_follow_set_algebra() {
        let letters = CharSet::of(&[('a', 'z')]);
        let vowels = CharSet::of(&[('a', 'a'), ('e', 'e')]);

        assert_eq!(letters.clone().complement().complement(), letters);
        assert_eq!(letters.clone().intersect(&vowels), vowels);
        assert_eq!(letters.intersect(&vowels.complement()).ranges(), [('b', 'd'), ('f', 'z')]);
        assert_eq!(CharSet::empty().complement().complement(), CharSet::empty());
    }

    #[test]
    fn surrogates_are_never_handed_out() {
        assert_eq!(
            CharSet::empty().complement().ranges(),
            [('\0', '\u{d7ff}'), ('\u{e000}', '\u{10ffff}')]
        );
    }

    #[test]
    fn case_folding_touches_ascii_letters_only() {
        let mixed = CharSet::of(&[('Y', 'b'), ('\u{e9}', '\u{e9}')]).fold_ascii_case();

        assert_eq!(mixed.ranges(), [('A', 'B'), ('Y', 'b'), ('y', 'z'), ('\u{e9}', '\u{e9}')]);
    }
}
