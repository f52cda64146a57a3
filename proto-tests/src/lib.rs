//! Shared readers for the tests of this package.
