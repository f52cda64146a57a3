//! Config providers: `${file:PATH:KEY}`, `${directory:PATH:KEY}`, `${env:NAME}` (KIP-297 and later).
//!
//! As in MM2, `config.providers` names them and each name has a class. Values are filled in when
//! the file is read; for secrets the text is kept as written too, and filled in again at each login
//! and each reading of a key store, so that what was changed there is used without a restart.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zeroize::Zeroizing;

use super::problems::{Part, Problem};
use super::properties::{Document, Place};
use crate::client::{Provide, Provided};
use crate::model::Secret;

/// Kafka's package of providers.
const PACKAGE: &str = "org.apache.kafka.common.config.provider.";

/// Longest file that is read for one value.
const FILE_BYTES_MAX: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
    Env,
}

/// The class of each kind.
const CLASSES: [(&str, Kind); 3] = [
    ("FileConfigProvider", Kind::File),
    ("DirectoryConfigProvider", Kind::Directory),
    ("EnvVarConfigProvider", Kind::Env),
];

#[derive(Clone, Debug)]
struct Provider {
    kind: Kind,
    /// `allowed.paths`; empty for all (KIP-993).
    allowed: Vec<PathBuf>,
}

/// The providers of a file, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Providers(BTreeMap<String, Provider>);

/// A file's providers, and the values that they filled in as they were written.
#[derive(Debug, Default)]
pub(super) struct Filled {
    providers: Arc<Providers>,
    written: BTreeMap<Place, String>,
}

/// One `${name:path:key}` in a text.
struct Reference<'t> {
    /// Where it begins and ends, in bytes.
    range: std::ops::Range<usize>,
    name: &'t str,
    path: &'t str,
    key: &'t str,
}

impl Filled {
    /// The value of the entry whose key stands at `key`, to be looked up anew at each use.
    pub(super) fn provided(&self, key: Place, text: &str) -> Provided {
        match self.written.get(&key) {
            Some(written) => {
                Provided::by(written.trim(), Arc::clone(&self.providers) as Arc<dyn Provide>)
            }
            None => Provided::fixed(text),
        }
    }

    /// Whether any part of that value comes from the environment, which every process of the same
    /// user can read.
    pub(super) fn is_from_environment(&self, key: Place) -> bool {
        let Some(written) = self.written.get(&key) else { return false };
        let mut at = 0;
        while let Some(reference) = next_reference(written, at, &self.providers) {
            if self.providers.0.get(reference.name).is_some_and(|found| found.kind == Kind::Env) {
                return true;
            }
            at = reference.range.end;
        }
        false
    }
}

/// Fills in all values of `document`; what is wrong goes to `errors`.
pub(super) fn fill(document: &mut Document, errors: &mut Vec<Problem>) -> Filled {
    let providers = Arc::new(providers(document, errors));
    let mut filled = Filled { providers: Arc::clone(&providers), written: BTreeMap::new() };
    if providers.0.is_empty() {
        return filled;
    }
    for index in 0..document.entries.len() {
        let entry = &document.entries[index];
        if entry.key.as_str().starts_with("config.providers") {
            continue;
        }
        let text = entry.value.as_str();
        let Some(reference) = next_reference(text, 0, &providers) else { continue };
        match providers.fill(text) {
            Ok(value) => {
                filled.written.insert(entry.key.place(0), text.to_owned());
                let value = entry.value.replaced(value.reveal());
                document.entries[index].value = value;
            }
            Err(why) => {
                let start = text[..reference.range.start].chars().count();
                let length = text[reference.range].chars().count();
                let part = Part::Characters { start, length };
                errors.push(Problem::at(document, entry, part, why));
            }
        }
    }
    filled
}

fn providers(document: &Document, errors: &mut Vec<Problem>) -> Providers {
    let last = |key: &str| document.entries.iter().rev().find(|entry| entry.key.as_str() == key);
    let mut found = BTreeMap::new();
    let Some(names) = last("config.providers") else { return Providers::default() };
    for name in names.value.as_str().split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let key = format!("config.providers.{name}.class");
        let Some(class) = last(&key) else {
            let message = format!("the provider {name} has no class");
            let hint = format!("write `{key} = {PACKAGE}FileConfigProvider`");
            errors.push(Problem::at(document, names, Part::Value, message).hint(hint));
            continue;
        };
        let text = class.value.as_str().trim();
        let known = text.strip_prefix(PACKAGE);
        let Some((_, kind)) = CLASSES.iter().find(|(class, _)| known == Some(*class)) else {
            let names: Vec<&str> = CLASSES.iter().map(|(class, _)| *class).collect();
            let message = format!(
                "Java classes cannot be loaded here; known in {PACKAGE}: {}",
                names.join(", ")
            );
            errors.push(Problem::at(document, class, Part::Value, message));
            continue;
        };
        let allowed = last(&format!("config.providers.{name}.param.allowed.paths"));
        let allowed = allowed.map_or_else(Vec::new, |entry| {
            let paths = entry.value.as_str().split(',').map(str::trim);
            paths.filter(|path| !path.is_empty()).map(PathBuf::from).collect()
        });
        found.insert(name.to_owned(), Provider { kind: *kind, allowed });
    }
    Providers(found)
}

/// The next reference from byte `from` on to a provider that exists. As in Java, any other text
/// in `${..}` stays as it is.
fn next_reference<'t>(text: &'t str, from: usize, known: &Providers) -> Option<Reference<'t>> {
    let mut at = from;
    loop {
        let start = at + text[at..].find("${")?;
        let end = start + text[start..].find('}')?;
        at = start + 2;
        let Some((name, rest)) = text[start + 2..end].split_once(':') else { continue };
        if known.0.contains_key(name) {
            let (path, key) = rest.split_once(':').unwrap_or(("", rest));
            return Some(Reference { range: start..end + 1, name, path, key });
        }
    }
}

impl Provide for Providers {
    fn fill(&self, text: &str) -> Result<Secret, String> {
        let mut out = Zeroizing::new(String::with_capacity(text.len()));
        let mut at = 0;
        while let Some(reference) = next_reference(text, at, self) {
            out.push_str(&text[at..reference.range.start]);
            out.push_str(&self.look_up(&reference)?);
            at = reference.range.end;
        }
        out.push_str(&text[at..]);
        Ok(Secret::new(out.as_str()))
    }
}

impl Providers {
    fn look_up(&self, reference: &Reference<'_>) -> Result<Zeroizing<String>, String> {
        let Reference { name, path, key, .. } = *reference;
        let Some(provider) = self.0.get(name) else {
            return Err(format!("there is no provider {name}"));
        };
        match provider.kind {
            Kind::Env => std::env::var(key)
                .map(Zeroizing::new)
                .map_err(|_| format!("the environment has no variable {key}")),
            Kind::File => {
                let bytes = provider.read(Path::new(path))?;
                let document = Document::parse(&bytes);
                let entry = document.entries.iter().rev().find(|e| e.key.as_str() == key);
                entry
                    .map(|entry| Zeroizing::new(entry.value.as_str().to_owned()))
                    .ok_or_else(|| format!("{path} has no key {key}"))
            }
            Kind::Directory => {
                if key.contains('/') || key == ".." {
                    return Err(format!("{key} is no file of {path}"));
                }
                let bytes = provider.read(&Path::new(path).join(key))?;
                String::from_utf8(bytes.to_vec())
                    .map(Zeroizing::new)
                    .map_err(|_| format!("{path}/{key} is no text"))
            }
        }
    }
}

impl Provider {
    fn read(&self, path: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
        let shown = path.display();
        let inside = |allowed: &PathBuf| path.starts_with(allowed);
        let climbs = path.components().any(|part| part.as_os_str() == "..");
        if !self.allowed.is_empty() && (climbs || !self.allowed.iter().any(inside)) {
            return Err(format!("{shown} is outside of the provider's allowed.paths"));
        }
        let length = fs::metadata(path).map_err(|error| format!("{shown}: {error}"))?.len();
        if length > FILE_BYTES_MAX {
            return Err(format!("{shown}: {length} bytes are too many for a value"));
        }
        fs::read(path).map(Zeroizing::new).map_err(|error| format!("{shown}: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASS: &str = "config.providers = f, d, e\n\
        config.providers.f.class = org.apache.kafka.common.config.provider.FileConfigProvider\n\
        config.providers.d.class = org.apache.kafka.common.config.provider.DirectoryConfigProvider\n\
        config.providers.e.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider\n";

    fn filled(lines: &str) -> (Document, Filled, Vec<String>) {
        let mut document = Document::parse(format!("{CLASS}{lines}").as_bytes());
        let mut errors = Vec::new();
        let filled = fill(&mut document, &mut errors);
        (document, filled, errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn values_come_from_files_directories_and_the_environment_and_are_read_again() {
        let dir = std::env::temp_dir().join(format!("heliograph-providers-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("secrets"), "user = mirror\npass = one\n").unwrap();
        let shown = dir.display();
        let (document, filled, errors) = filled(&format!(
            "a = x ${{f:{shown}/secrets:pass}} ${{other:y}} ${{d:{shown}:secrets}}\n\
             b = ${{e:PATH}}\n"
        ));

        assert!(errors.is_empty(), "{errors:?}");
        let a = &document.entries[4];
        assert_eq!(a.value.as_str(), "x one ${other:y} user = mirror\npass = one\n");
        assert!(!document.entries[5].value.as_str().is_empty());

        let provided = filled.provided(a.key.place(0), "never");
        fs::write(dir.join("secrets"), "pass = two\n").unwrap();
        assert!(provided.get().unwrap().reveal().starts_with("x two ${other:y}"));
        fs::remove_dir_all(&dir).unwrap();
        assert!(provided.get().unwrap_err().contains("secrets"));
    }

    #[test]
    fn what_cannot_be_found_is_an_error_at_its_place() {
        let (_, _, errors) = filled("a = x ${e:NO_SUCH_VARIABLE_HERE}\n");

        assert!(errors[0].contains("line 5, column 7"), "{}", errors[0]);
        assert!(errors[0].contains("no variable NO_SUCH_VARIABLE_HERE"), "{}", errors[0]);
    }

    #[test]
    fn a_provider_without_a_class_or_with_an_unknown_one_is_an_error() {
        let mut errors = Vec::new();
        let file = "config.providers = a, b\nconfig.providers.b.class = com.example.Vault\n";
        fill(&mut Document::parse(file.as_bytes()), &mut errors);

        assert_eq!(errors.len(), 2);
        assert!(errors[1].message.contains("FileConfigProvider"));
    }

    #[test]
    fn files_outside_of_the_allowed_paths_are_not_read() {
        for path in ["/etc/passwd", "/allowed/../etc/passwd"] {
            let (_, _, errors) = filled(&format!(
                "config.providers.f.param.allowed.paths = /allowed\na = ${{f:{path}:x}}\n"
            ));
            assert!(errors[0].contains("allowed.paths"), "{}", errors[0]);
        }
    }
}
