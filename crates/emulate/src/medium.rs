//! Facts about a range of a device, to predict the effect of a medium fault there.

/// Where the newest data in a range of a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// At least a part of the data is on the medium, or the range is too long to examine.
    OnMedium,
    /// All data is in the device's write buffer only. The destage of this data will repair a fault on the medium.
    InBuffer,
    /// The range contains no data.
    Nothing,
}

/// Facts about a range of a device, to predict the effect of a medium fault there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Medium {
    /// Location of the newest data in the range.
    pub held: Held,
    /// Whether the device is flash, with pages and erase blocks.
    pub has_pages: bool,
    /// Whether the device rebuilds an unreadable page from the page's parity stripe.
    pub is_rebuilt: bool,
}
