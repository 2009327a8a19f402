//! A graph that changes, in differential dataflow: seconds to each consistent answer.
//!
//! Its arguments are words `name=value`; they, the files and what is printed are described in
//! `benchmarks/streaming/__init__.py`.

mod input;
mod programs;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::rc::Rc;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use differential_dataflow::input::InputSession;
use timely::dataflow::ProbeHandle;

pub type Node = u32;
pub type Edge = (Node, (Node, u32));

/// What changed in the answer since it was last looked at: node, value, by how many.
type Changed = Rc<RefCell<Vec<((Node, u64), isize)>>>;

struct Job {
    program: String,
    input: input::Input,
    keep: Vec<bool>,
    out: String,
    origin: Node,
    iterations: u32,
    workers: usize,
    start: usize,
    seconds: f64,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Err(problem) = job(&words).and_then(run) {
        eprintln!("evolving-graphs: {problem}");
        std::process::exit(2);
    }
}

fn job(words: &[String]) -> Result<Job, String> {
    let pairs: HashMap<&str, &str> = words.iter().filter_map(|w| w.split_once('=')).collect();
    let text = |name: &str| pairs.get(name).copied().ok_or(format!("give {name}=..."));
    let program = text("program")?.to_string();
    if !["shortest_paths", "components", "pagerank"].contains(&program.as_str()) {
        return Err(format!("no program {program}"));
    }
    let batches = text("batches")?;
    let lines = fs::read_to_string(batches).map_err(|error| format!("{batches}: {error}"))?;
    let rows: Vec<(usize, usize)> = lines
        .lines()
        .map(|line| {
            let (count, keep) = line.split_once(' ').ok_or(format!("{batches}: {line}"))?;
            Ok((number(count)?, number(keep)?))
        })
        .collect::<Result<_, String>>()?;
    let counts: Vec<usize> = rows.iter().skip(1).map(|row| row.0).collect();
    Ok(Job {
        program,
        input: input::read(text("base")?, text("changes")?, &counts)?,
        keep: rows.iter().map(|row| row.1 == 1).collect(),
        out: text("out")?.to_string(),
        origin: number(text("origin")?)?,
        iterations: number(text("iterations")?)?,
        workers: number(text("workers")?)?,
        start: number(text("start")?)?,
        seconds: number(text("seconds")?)?,
    })
}

fn number<T: FromStr>(word: &str) -> Result<T, String> {
    word.parse()
        .map_err(|_| format!("{word}: not such a number as is wanted"))
}

fn run(job: Job) -> Result<(), String> {
    let config = timely::Config::process(job.workers);
    let barrier = Barrier::new(job.workers);
    let shared = Arc::new((job, barrier, AtomicBool::new(false)));
    timely::execute(config, move |worker| {
        let (job, barrier, late) = &*shared;
        let (index, peers) = (worker.index(), worker.peers());
        let mut input = InputSession::new();
        let mut roots = InputSession::new();
        let mut probe = ProbeHandle::new();
        let changed: Changed = Default::default();
        let seen = changed.clone();
        worker.dataflow::<u32, _, _>(|scope| {
            let edges = input.to_collection(scope);
            let roots = roots.to_collection(scope);
            match job.program.as_str() {
                "shortest_paths" => programs::shortest_paths(edges, roots),
                "components" => programs::components(edges),
                _ => programs::pagerank(job.iterations, edges),
            }
            .consolidate()
            .inspect(move |(row, _time, diff)| seen.borrow_mut().push((*row, *diff)))
            .probe_with(&mut probe);
        });
        if index == 0 {
            roots.insert(job.origin);
        }
        roots.close();
        let mut answer = HashMap::new();
        let mut clock = None;
        for batch in 0..=job.input.batches.len() {
            barrier.wait();
            let begin = Instant::now();
            if batch == 0 {
                for edge in job.input.base.iter().skip(index).step_by(peers) {
                    input.update(*edge, 1);
                }
            } else {
                let updates = &job.input.batches[batch - 1];
                for (edge, diff) in updates.iter().skip(index).step_by(peers) {
                    input.update(*edge, *diff);
                }
            }
            input.advance_to(batch as u32 + 1);
            input.flush();
            worker.step_while(|| probe.less_than(input.time()));
            let seconds = begin.elapsed().as_secs_f64();
            keep_up(&mut answer, &changed);
            if index == 0 {
                println!("{{\"batch\": {batch}, \"seconds\": {seconds}}}");
                if batch == job.start {
                    clock = Some(Instant::now());
                }
                let passed = clock.map_or(0.0, |from| from.elapsed().as_secs_f64());
                late.store(passed > job.seconds, Ordering::SeqCst);
            }
            barrier.wait(); // so that all know whether it is late
            let last = batch == job.input.batches.len() || late.load(Ordering::SeqCst);
            if job.keep[batch] || last {
                let path = format!("{}/answer-{batch}-{index}.txt", job.out);
                write(&path, &job.program, &answer).expect("the answer is written");
                barrier.wait();
                if index == 0 {
                    println!("{{\"kept\": {batch}}}");
                }
            }
            if last {
                break;
            }
        }
        input.close();
    })
    .map(|_| ())
}

fn keep_up(answer: &mut HashMap<(Node, u64), isize>, changed: &Changed) {
    for (row, diff) in changed.borrow_mut().drain(..) {
        let many = answer.entry(row).or_insert(0);
        *many += diff;
        if *many == 0 {
            answer.remove(&row);
        }
    }
}

fn write(path: &str, program: &str, answer: &HashMap<(Node, u64), isize>) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for ((node, value), many) in answer {
        if program == "pagerank" {
            writeln!(file, "{node} {many}")?;
        } else {
            assert_eq!(*many, 1, "one value for a node");
            writeln!(file, "{node} {value}")?;
        }
    }
    file.flush()
}
