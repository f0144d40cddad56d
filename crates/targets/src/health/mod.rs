//! Wear, temperature and age that a device reports: NVMe's SMART log, ATA's device statistics and SMART data. The
//! difference between the reports before and after a run shows how much of a device's life the run cost.
//!
//! The commands only read. They need rights that ordinary users lack (`CAP_SYS_ADMIN` for NVMe, `CAP_SYS_RAWIO` for
//! ATA), so health is usually missing; a run continues without it.

mod ata;
mod nvme;

use iodyno_units::human;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::error::TargetError;
use crate::inspect::BlockDevice;

/// A device's own health report. `None` means that the device does not report the value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Source of the report: `NVMe SMART log`, `ATA device statistics` or `ATA SMART data`; several sources are joined
    /// by ` and `.
    pub source: String,
    /// Percentage of the rated endurance used so far. Above 100 if the rating is exceeded; 255 means 255 or more.
    pub percentage_used: Option<u64>,
    /// Bytes written by hosts over the device's life.
    pub data_written_bytes: Option<u64>,
    /// Bytes read by hosts over the device's life.
    pub data_read_bytes: Option<u64>,
    /// Present temperature, in degrees Celsius.
    pub temperature_c: Option<i64>,
    pub power_on_hours: Option<u64>,
    /// Number of times that the device was powered on.
    pub power_cycles: Option<u64>,
    /// Number of power losses without a preceding shutdown command.
    pub unsafe_shutdowns: Option<u64>,
    /// Data errors that the device could not correct.
    pub media_errors: Option<u64>,
    /// Number of sectors that were replaced by spare ones.
    pub reallocated_sectors: Option<u64>,
    /// Spare capacity left, in per cent.
    pub available_spare: Option<u64>,
    /// Spare capacity below which the device warns, in per cent.
    pub available_spare_threshold: Option<u64>,
    /// NVMe's critical warning bits; 0 means no warning.
    pub critical_warning: Option<u64>,
    /// Minutes spent above the warning temperature.
    pub warning_temperature_minutes: Option<u64>,
}

impl Health {
    /// Rated endurance in bytes written: bytes written so far divided by the fraction of life used. `None` if less than
    /// 1 % is used or a value is not reported. Life used is a whole percentage, so at `p` % the relative error is about
    /// 1/`p`. Assumes constant write amplification.
    pub fn rated_endurance_bytes(&self) -> Option<u64> {
        let used = self.percentage_used.filter(|&used| used >= 1)?;
        let written = u128::from(self.data_written_bytes?);
        u64::try_from(written * 100 / u128::from(used)).ok()
    }

    /// Fraction of the rated endurance consumed by writing `bytes`, estimated as in
    /// [`rated_endurance_bytes`](Self::rated_endurance_bytes).
    pub fn endurance_share(&self, bytes: u64) -> Option<f64> {
        let rated = self.rated_endurance_bytes().filter(|&rated| rated > 0)?;
        Some(bytes as f64 / rated as f64)
    }

    /// Health problems of the device, as sentences; empty if there are none.
    pub fn warnings(&self) -> Vec<String> {
        const CRITICAL: [(u64, &str); 6] = [
            (0x01, "Its spare capacity is below the threshold."),
            (0x02, "Its temperature is outside its thresholds."),
            (0x04, "Its reliability is degraded."),
            (0x08, "Its medium has become read-only."),
            (0x10, "Its backup device for volatile memory has failed."),
            (0x20, "Its persistent memory region has become unreliable."),
        ];
        let bits = self.critical_warning.unwrap_or(0);
        let critical = CRITICAL.iter().filter(|(bit, _)| bits & bit != 0);
        let mut warnings: Vec<String> = critical.map(|(_, text)| (*text).to_owned()).collect();
        if let Some(used) = self.percentage_used.filter(|&used| used >= 100) {
            warnings.push(format!("It has used {used} % of its rated life."));
        }
        if let Some(errors) = self.media_errors.filter(|&errors| errors > 0) {
            let errors = human::counted(errors, "uncorrectable media error");
            warnings.push(format!("Its health log counts {errors}."));
        }
        warnings
    }
}

/// Reads a device's health. `device` is a physical disk ([`Inspection::physical`](crate::Inspection::physical)).
///
/// # Errors
/// [`TargetError::Unsupported`] for devices other than NVMe, ATA and SCSI; [`TargetError::Permission`] without the
/// rights; [`TargetError::Io`] when the command fails.
pub fn health(device: &BlockDevice) -> Result<Health, TargetError> {
    let path = device.node_path();
    let is_nvme = device.kernel_name.starts_with("nvme");
    if !is_nvme && !device.kernel_name.starts_with("sd") {
        return Err(TargetError::Unsupported {
            path: path.display().to_string(),
            problem: "it has no health log that iodyno can read.".to_owned(),
            help: "name an NVMe or ATA device.".to_owned(),
        });
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = rustix::fs::open(&path, flags, Mode::empty())
        .map_err(|errno| TargetError::from_errno("read its health log", &path, errno))?;
    let health = if is_nvme { nvme::read(&fd) } else { ata::read(&fd) };
    health.map_err(|errno| TargetError::from_errno("read its health log", &path, errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endurance_is_only_estimated_from_a_whole_per_cent() {
        let health = |percentage_used| Health {
            percentage_used,
            data_written_bytes: Some(30_000_000_000_000),
            ..Health::default()
        };
        assert_eq!(health(Some(5)).rated_endurance_bytes(), Some(600_000_000_000_000));
        assert_eq!(health(Some(0)).rated_endurance_bytes(), None);
        assert_eq!(health(None).rated_endurance_bytes(), None);
        assert_eq!(health(Some(5)).endurance_share(6_000_000_000_000), Some(0.01));
        assert_eq!(Health::default().endurance_share(1), None);
    }

    #[test]
    fn each_warning_is_reported() {
        let health = Health {
            critical_warning: Some(0x0A),
            percentage_used: Some(101),
            media_errors: Some(3),
            ..Health::default()
        };
        let warnings = health.warnings().join(" ");
        for word in ["temperature", "read-only", "101 %", "3 uncorrectable media errors"] {
            assert!(warnings.contains(word), "{warnings}");
        }
        assert!(Health::default().warnings().is_empty());
    }

    #[test]
    fn a_device_without_a_log_is_reported() {
        let tree = crate::inspect::fake::Tree::new();
        tree.disk("virtual/block/zram0", "253:0", 8);
        let device = BlockDevice::read(&tree.root(), "253:0".parse().unwrap()).unwrap();
        assert!(matches!(health(&device), Err(TargetError::Unsupported { .. })));
    }
}
