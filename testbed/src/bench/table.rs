//! Figures as people read them.

use super::measure::Row;
use super::{GIB, Tool, as_f64};

/// Prints rows under their headings, each column as wide as its widest cell.
pub(super) fn print<const N: usize>(headings: [&str; N], rows: &[[String; N]]) {
    let mut widths = headings.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |row: &[String; N]| {
        let padded: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        println!("| {} |", padded.join(" | "));
    };
    println!();
    line(&headings.map(String::from));
    println!("|{}|", widths.map(|width| "-".repeat(width + 2)).join("|"));
    rows.iter().for_each(line);
}

const HEADINGS: [&str; 13] = [
    "data",
    "tool",
    "CPU s/GiB stored",
    "after 1st record",
    "CPU s/GiB payload",
    "MB/s",
    "MB/s after 1st",
    "% of limit",
    "records/s",
    "peak MiB",
    "1st record s",
    "total s",
    "copy",
];

impl Row {
    fn cells(&self) -> [String; 13] {
        let stored = as_f64(self.data.stored_bytes);
        let payload = as_f64(self.data.payload_bytes);
        // Of the two processes of the limit only the speed counts.
        let cost = |text: String| if self.tool == Tool::Limit { "-".to_owned() } else { text };
        [
            self.data.shape.to_string(),
            self.tool.name().to_owned(),
            cost(format!("{:.2}", self.cpu_seconds / (stored / GIB))),
            cost(format!("{:.2}", (self.cpu_seconds - self.cpu_seconds_before) / (stored / GIB))),
            cost(format!("{:.2}", self.cpu_seconds / (payload / GIB))),
            format!("{:.1}", stored / 1e6 / self.total_seconds),
            format!("{:.1}", stored / 1e6 / self.copying_seconds()),
            self.percent_of_limit().map_or_else(|| "-".to_owned(), |p| format!("{p:.0}")),
            format!("{:.0}", as_f64(self.data.records) / self.total_seconds),
            cost(format!("{:.1}", as_f64(self.peak_rss_bytes) / 1_048_576.0)),
            cost(format!("{:.2}", self.first_seconds)),
            format!("{:.1}", self.total_seconds),
            self.verdict.to_owned(),
        ]
    }

    /// As soon as it is known.
    pub(super) fn line(&self) -> String {
        let cells = self.cells();
        let named: Vec<String> = HEADINGS
            .iter()
            .zip(&cells)
            .map(|(heading, cell)| format!("{heading}: {cell}"))
            .collect();
        named.join(", ")
    }
}

pub(super) fn print_rows(rows: &[Row]) {
    let cells: Vec<_> = rows.iter().map(Row::cells).collect();
    print(HEADINGS, &cells);
    let mut described: Vec<String> = Vec::new();
    for row in rows {
        let data = row.data;
        let text = format!(
            "{}: {} records in {} partitions, {:.2} GiB stored on the source, {:.2} GiB of payload",
            data.shape,
            data.records,
            data.shape.partitions(),
            as_f64(data.stored_bytes) / GIB,
            as_f64(data.payload_bytes) / GIB
        );
        if !described.contains(&text) {
            described.push(text);
        }
        if let (Tool::Limit, Some(limit)) = (row.tool, row.limit) {
            described.push(format!(
                "{}: the reading process got {:.0} MB/s, the writing one {:.0} MB/s, both at once",
                data.shape,
                limit.fetch_bytes_per_s / 1e6,
                limit.produce_bytes_per_s / 1e6
            ));
        }
    }
    println!(
        "\n{}\nMB/s and total count from the start of the process; 10^6 bytes as stored. The limit is the slower one of \
         a process that only reads the source and one that only writes a target; % of it counts after the 1st record.",
        described.join("\n")
    );
}
