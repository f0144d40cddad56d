//! The data in a range of a device that a medium fault would affect.

/// Location of the newest data in a range of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The range is at least partly on the medium, or is too long to examine.
    OnMedium,
    /// The range is only in the device's write buffer. Its destage will repair a fault on the medium.
    InBuffer,
    /// The range contains no data.
    Nothing,
}

/// The data in a range of a device that a medium fault would affect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Medium {
    /// Location of the newest data in the range.
    pub held: Held,
    /// Whether the device is flash, with pages and erase blocks.
    pub has_pages: bool,
    /// Whether the device rebuilds an unreadable page from the page's parity stripe.
    pub is_rebuilt: bool,
}
