//! What the accelerators do while a loader is measured, through NVIDIA's management library where there is one.

use nvml_wrapper::Nvml;
use serde::{Deserialize, Serialize};

use crate::median;

/// All accelerators of a machine together, over a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gpus {
    /// How many there are.
    pub count: u32,
    /// The share of the time that they computed.
    pub busy: f64,
    /// The most memory in use.
    pub peak_mb: f64,
}

/// One look: the share of the time, and megabytes in use.
pub(crate) type Look = (f64, f64);

/// The library, if there is one and it finds something.
pub(crate) struct Watch {
    library: Nvml,
    count: u32,
}

impl Watch {
    pub(crate) fn find() -> Option<Self> {
        let library = Nvml::init().ok()?;
        let count = library.device_count().ok().filter(|count| *count > 0)?;
        Some(Self { library, count })
    }

    pub(crate) fn look(&self) -> Look {
        let devices = (0..self.count).filter_map(|index| self.library.device_by_index(index).ok());
        let (mut busy, mut used) = (0.0, 0.0);
        for device in devices {
            busy += device.utilization_rates().map_or(0.0, |rates| f64::from(rates.gpu) / 100.0);
            used += device.memory_info().map_or(0.0, |memory| memory.used as f64 / 1e6);
        }
        (busy / f64::from(self.count), used)
    }

    pub(crate) fn summary(&self, looks: &[Look]) -> Gpus {
        summary(self.count, looks)
    }
}

fn summary(count: u32, looks: &[Look]) -> Gpus {
    let busy: Vec<f64> = looks.iter().map(|look| look.0).collect();
    Gpus { count, busy: median(&busy), peak_mb: looks.iter().map(|look| look.1).fold(0.0, f64::max) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_a_median_and_a_peak() {
        let gpus = summary(2, &[(0.2, 100.0), (0.9, 300.0), (0.8, 200.0)]);
        assert_eq!(gpus, Gpus { count: 2, busy: 0.8, peak_mb: 300.0 });
        assert_eq!(summary(1, &[]), Gpus { count: 1, busy: 0.0, peak_mb: 0.0 });
    }
}
