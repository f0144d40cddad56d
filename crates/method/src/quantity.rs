//! What a stage tracks, or holds under a ceiling.

use core::fmt;
use core::str::FromStr;

/// One figure of a cell, over all kinds of operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantity {
    /// Operations a second.
    Iops,
    /// Bytes read and written a second.
    Bandwidth,
    /// Mean latency, ns: response time in open loop, service time otherwise.
    Mean,
    /// Largest latency, ns.
    Max,
    /// The latency that this share of operations does not exceed, ns.
    Quantile(f64),
}

impl Quantity {
    /// Whether it is a time.
    pub const fn is_latency(self) -> bool {
        matches!(self, Self::Mean | Self::Max | Self::Quantile(_))
    }
}

impl FromStr for Quantity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is no quantity: use iops, bandwidth, mean, max, or a percentile such as p99 or p99.999"
            )
        };
        Ok(match text {
            "iops" => Self::Iops,
            "bandwidth" => Self::Bandwidth,
            "mean" => Self::Mean,
            "max" => Self::Max,
            _ => {
                let percent = text.strip_prefix('p').ok_or_else(wrong)?;
                let percent: f64 = percent.parse().map_err(|_| wrong())?;
                if !(0.0 < percent && percent < 100.0) {
                    return Err(wrong());
                }
                Self::Quantile(percent / 100.0)
            }
        })
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iops => f.write_str("iops"),
            Self::Bandwidth => f.write_str("bandwidth"),
            Self::Mean => f.write_str("mean"),
            Self::Max => f.write_str("max"),
            // Ten digits hide what the division by 100 left.
            Self::Quantile(q) => {
                let digits = format!("{:.8}", q * 100.0);
                write!(f, "p{}", digits.trim_end_matches('0').trim_end_matches('.'))
            }
        }
    }
}
