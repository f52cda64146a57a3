//! A properties file says here what it says to Java.
//!
//! `vectors/Properties.java` asked Java; `vectors/properties.json` holds its answers.

use heliograph::config::properties::Document;
use serde_json::Value;

struct JavaFile {
    file: String,
    /// Keys and values by turns, as UTF-16; `None` if Java refuses the file.
    puts: Option<Vec<Vec<u16>>>,
}

fn vectors() -> Vec<JavaFile> {
    let json: Value =
        serde_json::from_str(include_str!("../vectors/properties.json")).expect("JSON");
    let unit = |unit: &Value| unit.as_u64().and_then(|unit| unit.try_into().ok()).expect("unit");
    let units = |text: &Value| text.as_array().expect("text").iter().map(unit).collect();
    let files = json["files"].as_array().expect("files");
    files
        .iter()
        .map(|entry| JavaFile {
            file: entry["file"].as_str().expect("file").to_owned(),
            puts: entry["puts"].as_array().map(|puts| puts.iter().map(units).collect()),
        })
        .collect()
}

/// The file's bytes: each character of the vectors is one byte.
fn bytes(file: &str) -> Vec<u8> {
    file.chars().map(|c| u8::try_from(u32::from(c)).expect("ISO-8859-1")).collect()
}

fn ours(file: &str) -> Option<Vec<Vec<u16>>> {
    let document = Document::parse(&bytes(file));
    document.errors.is_empty().then(|| {
        let texts = document.entries.iter().flat_map(|entry| [&entry.key, &entry.value]);
        texts.map(|text| text.as_str().encode_utf16().collect()).collect()
    })
}

#[test]
fn every_file_says_the_same_as_in_java() {
    let mut wrong = Vec::new();
    let (mut accepted, mut refused) = (0, 0);

    for java in vectors() {
        match &java.puts {
            Some(puts) => {
                // Half a character cannot be held as text here, so it is refused.
                let whole = puts.iter().all(|units| String::from_utf16(units).is_ok());
                let expected = whole.then(|| puts.clone());
                let ours = ours(&java.file);
                if ours != expected {
                    wrong.push(format!("{:?}: Java {expected:?}, we {ours:?}", java.file));
                }
                accepted += 1;
            }
            None => {
                if let Some(ours) = ours(&java.file) {
                    wrong.push(format!("{:?}: Java refuses it, we {ours:?}", java.file));
                }
                refused += 1;
            }
        }
    }

    assert!(wrong.is_empty(), "{} disagreements:\n{}", wrong.len(), wrong.join("\n"));
    assert!(accepted > 400 && refused > 100, "{accepted} accepted, {refused} refused");
}

/// Negative control: the comparison notices a trailing blank that got lost.
#[test]
fn the_comparison_notices_a_lost_blank() {
    let java = vectors().into_iter().find(|java| java.file == "a=b ").expect("listed");

    assert_ne!(ours("a=b"), java.puts);
}

#[test]
fn every_character_stands_where_the_file_has_it_or_an_escape_of_it() {
    for java in vectors() {
        let document = Document::parse(&bytes(&java.file));
        for entry in &document.entries {
            for text in [&entry.key, &entry.value] {
                for (index, c) in text.as_str().chars().enumerate() {
                    let place = text.place(index);
                    let line = document.line(place.line);
                    let column = usize::try_from(place.column).expect("a small file") - 1;
                    let found = line.chars().nth(column);
                    assert!(
                        found == Some(c) || found == Some('\\'),
                        "{:?}: {c:?} at {place:?}, which holds {found:?}",
                        java.file
                    );
                }
            }
        }
    }
}
