//! The content of a range of a device, as a fault of the medium would hit it.

/// Where the newest data of a range of a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// At least partly on the medium, or unknown because the range is too long to check.
    OnMedium,
    /// Only in the device's write buffer. Writing it to the medium will repair the fault.
    InBuffer,
    /// Nowhere: the range holds no data.
    Nothing,
}

/// What a fault of the medium would hit in a range of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Medium {
    /// Where the newest data of the range is.
    pub held: Held,
    /// Whether the device is flash, with pages and erase blocks.
    pub has_pages: bool,
    /// Whether the device rebuilds an unreadable page from the page's parity stripe.
    pub is_rebuilt: bool,
}
