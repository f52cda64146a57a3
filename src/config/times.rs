//! Points in time and durations as people write them: ISO 8601, as far as Kafka's tools take it.

use std::time::Duration;

use crate::model::Timestamp;

const DAY_S: u64 = 86_400;

/// Milliseconds since 1970, or `2026-05-01T12:30:00Z`, `2026-05-01T12:30:00.250Z`, `2026-05-01`.
/// `None` for anything else, also for days that no calendar has.
pub(super) fn timestamp(text: &str) -> Option<Timestamp> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().map(Timestamp);
    }
    let (date, time) = match text.split_once('T') {
        Some((date, time)) => (date, time.strip_suffix('Z')?),
        None => (text, "00:00:00"),
    };
    let days = days_since_1970(fields(date, '-')?)?;
    let (time, millis) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = fields(time, ':')?;
    let fits = hour < 24 && minute < 60 && second < 60 && millis.len() <= 3;
    let millis: i64 = format!("{millis:0<3}").parse().ok().filter(|millis| fits && *millis >= 0)?;
    Some(Timestamp(((days * 24 + hour) * 60 + minute) * 60_000 + second * 1_000 + millis))
}

/// Three whole numbers.
fn fields(text: &str, between: char) -> Option<[i64; 3]> {
    let number = |field: &str| {
        field.bytes().all(|byte| byte.is_ascii_digit()).then(|| field.parse().ok()).flatten()
    };
    let all: Option<Vec<i64>> = text.split(between).map(number).collect();
    all?.try_into().ok()
}

/// Days between 1970-01-01 and a day of the Gregorian calendar from 1970 on.
fn days_since_1970([year, month, day]: [i64; 3]) -> Option<i64> {
    let leap = |year: i64| (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let of_month = |month: i64| match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap(year) => 29,
        2 => 28,
        _ => 31,
    };
    let there = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=of_month(month)).contains(&day);
    let years = (1970..year).map(|year| 365 + i64::from(leap(year))).sum::<i64>();
    there.then(|| years + (1..month).map(of_month).sum::<i64>() + day - 1)
}

/// `P7D`, `PT1H30M`, `P1DT12H`, `PT10.5S`: what `java.time.Duration` takes that is not negative.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let text = text.to_ascii_uppercase();
    let text = text.strip_prefix('P')?;
    let (days, times) = text.split_once('T').map_or((text, None), |(d, t)| (d, Some(t)));
    if days.is_empty() && times.is_none_or(str::is_empty) {
        return None;
    }
    let mut total = match days {
        "" => Duration::ZERO,
        days => {
            Duration::from_secs(days.strip_suffix('D')?.parse::<u64>().ok()?.checked_mul(DAY_S)?)
        }
    };
    let mut rest = times.unwrap_or_default();
    for (unit, seconds) in [('H', 3_600_u32), ('M', 60), ('S', 1)] {
        let Some((count, after)) = rest.split_once(unit) else { continue };
        let plain = !count.is_empty() && count.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let count: f64 =
            count.parse().ok().filter(|_| plain && (unit == 'S' || !count.contains('.')))?;
        let one = Duration::try_from_secs_f64(count * f64::from(seconds)).ok()?;
        total = total.checked_add(one)?;
        rest = after;
    }
    rest.is_empty().then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_milliseconds_or_utc() {
        for (text, expected) in [
            ("0", Some(0)),
            ("1714521600000", Some(1_714_521_600_000)),
            ("1970-01-01", Some(0)),
            ("1970-01-02T00:00:00Z", Some(86_400_000)),
            ("2024-05-01T00:00:00Z", Some(1_714_521_600_000)),
            ("2024-02-29T23:59:59.5Z", Some(1_709_251_199_500)),
            ("2026-05-01T12:30:00.250Z", Some(1_777_638_600_250)),
            ("2000-03-01", Some(951_868_800_000)),
            ("2023-02-29", None),
            ("2024-13-01", None),
            ("2024-05-01T24:00:00Z", None),
            ("2024-05-01T00:00:00", None),
            ("2024-05-01T00:00:00+02:00", None),
            ("-5", None),
            ("", None),
            ("yesterday", None),
        ] {
            assert_eq!(timestamp(text), expected.map(Timestamp), "{text}");
        }
    }

    #[test]
    fn durations_are_those_of_java() {
        let seconds = Duration::from_secs;
        for (text, expected) in [
            ("PT1H30M", Some(seconds(5_400))),
            ("P7D", Some(seconds(7 * DAY_S))),
            ("P1DT12H", Some(seconds(36 * 3_600))),
            ("pt10.5s", Some(Duration::from_millis(10_500))),
            ("PT0S", Some(Duration::ZERO)),
            ("P", None),
            ("PT", None),
            ("PT5", None),
            ("PT1M1H", None),
            ("PT1.5H", None),
            ("PT-5S", None),
            ("5m", None),
            ("P1W", None),
        ] {
            assert_eq!(duration(text), expected, "{text}");
        }
    }
}
