//! The files: edges `source target value`, changes `+ source target value` and `- source target`.

use std::collections::HashMap;
use std::fs;
use std::str::{FromStr, SplitAsciiWhitespace};

use crate::{Edge, Node};

/// What one change does to the collection of edges: edges with +1 or -1.
pub type Updates = Vec<(Edge, isize)>;

/// The edges at first, and the updates of every batch of changes.
pub struct Input {
    pub base: Vec<Edge>,
    pub batches: Vec<Updates>,
}

/// Reads both files; the batches have so many changes each as `counts` says.
///
/// There are no parallel edges: a later line for the same ends sets another value, and removing an
/// edge that is not there does nothing.
pub fn read(base: &str, changes: &str, counts: &[usize]) -> Result<Input, String> {
    let changes = lines(changes, change)?;
    // Only for these edges need their values be known when they go.
    let mut there: HashMap<(Node, Node), Option<u32>> =
        changes.iter().map(|&(ends, _)| (ends, None)).collect();
    let base = lines(base, edge)?;
    for &(source, (target, value)) in &base {
        if let Some(known) = there.get_mut(&(source, target)) {
            *known = Some(value);
        }
    }
    let mut rest = changes.into_iter();
    let batches = counts
        .iter()
        .map(|&count| {
            let mut updates = Updates::with_capacity(count);
            for ((source, target), value) in rest.by_ref().take(count) {
                let before = there.insert((source, target), value).flatten();
                updates.extend(before.map(|v| ((source, (target, v)), -1)));
                updates.extend(value.map(|v| ((source, (target, v)), 1)));
            }
            updates
        })
        .collect();
    Ok(Input { base, batches })
}

fn lines<R>(path: &str, parse: fn(&str) -> Option<R>) -> Result<Vec<R>, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let parsed = text.lines().enumerate().map(|(at, line)| {
        parse(line).ok_or_else(|| format!("{path}:{}: cannot be read: {line}", at + 1))
    });
    parsed.collect()
}

fn next<T: FromStr>(fields: &mut SplitAsciiWhitespace) -> Option<T> {
    fields.next()?.parse().ok()
}

fn edge(line: &str) -> Option<Edge> {
    let mut fields = line.split_ascii_whitespace();
    Some((next(&mut fields)?, (next(&mut fields)?, next(&mut fields)?)))
}

fn change(line: &str) -> Option<((Node, Node), Option<u32>)> {
    let mut fields = line.split_ascii_whitespace();
    let kind = fields.next()?;
    let ends = (next(&mut fields)?, next(&mut fields)?);
    match kind {
        "+" | "~" => Some((ends, Some(next(&mut fields)?))),
        "-" => Some((ends, None)),
        _ => None,
    }
}
