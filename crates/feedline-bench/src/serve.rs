//! The contestant that this program itself is: the engine, without Python, asked as all others are.

use std::{
    fs,
    io::{self, Write},
    time::Duration,
};

use serde::Deserialize;
use serde_json::json;

use crate::{
    engine::delay::Delay,
    request::{Epoch, Job, Measurement, Point, Used},
};

#[derive(Deserialize)]
struct Asked {
    #[serde(flatten)]
    job: Job,
    #[serde(flatten)]
    point: Point,
}

/// Answers one request with lines of JSON.
pub fn serve(request: &str, out: &mut dyn Write) -> io::Result<()> {
    let result =
        serde_json::from_str(request).map_err(|error| error.to_string()).and_then(|asked| measure(&asked));
    let line = match result {
        Ok(measurement) => {
            let mut line = serde_json::to_value(measurement)?;
            line["event"] = "result".into();
            line
        }
        Err(message) => json!({"event": "error", "message": message}),
    };
    writeln!(out, "{line}")
}

fn measure(asked: &Asked) -> Result<Measurement, String> {
    let Asked { job, point } = asked;
    if job.study != "delay" {
        return Err(format!("the engine alone has no {}", job.study));
    }
    if point.step != "none" {
        return Err("the engine alone has no step".to_owned());
    }
    let study = Delay {
        wait: Duration::from_millis(10),
        shape: if job.variant == "small" { vec![4] } else { vec![3, 224, 224] },
        batch: point.batch,
        batches: job.batches.unwrap_or(10_000_usize.div_ceil(point.batch)),
        workers: vec![],
        repeats: 1,
    };
    let mut measurement = Measurement::default();
    let before = used();
    for _ in 0..job.epochs.max(1) {
        let measured = study.one(point.workers, |_| {}).map_err(|error| error.to_string())?;
        let row = study.shape.iter().product::<usize>() * 4 + 8;
        let items = (study.batch * study.batches) as u64;
        measurement.epochs.push(Epoch {
            total_s: measured.total.as_secs_f64(),
            started_s: 0.0,
            first_s: measured.first_batch.as_secs_f64(),
            items,
            bytes: items * row as u64,
            waits_ms: measured.waits.iter().map(|wait| wait.as_secs_f64() * 1e3).collect(),
            steps_ms: vec![],
        });
    }
    let after = used();
    measurement.seconds = measurement.epochs.iter().map(|epoch| epoch.total_s).sum();
    measurement.process_cpu_s = after.cpu_s;
    measurement.used =
        Used { cpu_s: after.cpu_s - before.cpu_s, faults: after.faults - before.faults, ..after };
    Ok(measurement)
}

/// What this process has used so far.
fn used() -> Used {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields are counted from the one after the name, which is the third.
    let fields: Vec<f64> = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.split_whitespace().map(|word| word.parse().unwrap_or(0.0)).collect())
        .unwrap_or_default();
    let field = |number: usize| fields.get(number - 3).copied().unwrap_or(0.0);
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    Used { cpu_s: (field(14) + field(15)) / ticks, faults: field(10), switches: 0.0, read_mb: 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(request: &serde_json::Value) -> serde_json::Value {
        let mut out = Vec::new();
        serve(&request.to_string(), &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    fn request(study: &str) -> serde_json::Value {
        json!({
            "study": study, "variant": "small", "scale": "smoke", "batches": 3, "epochs": 2, "shuffle": false,
            "data": null, "contestant": "engine", "workers": 4, "batch": 8, "prefetch": null, "pin": false,
            "step": "none", "cache": "", "mode": "measure", "reference": null
        })
    }

    #[test]
    fn a_request_is_measured_and_a_wrong_one_is_an_error_line() {
        let line = answer(&request("delay"));
        assert_eq!(line["event"], "result");
        let measurement: Measurement = serde_json::from_value(line).unwrap();
        assert_eq!((measurement.epochs.len(), measurement.items()), (2, 48));
        assert_eq!(measurement.epochs[0].waits_ms.len(), 3);
        assert!(measurement.items_per_second() > 0.0);
        assert_eq!(answer(&request("text"))["event"], "error");
        assert_eq!(answer(&json!({}))["event"], "error");
    }
}
