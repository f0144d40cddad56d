//! What a range of a device holds, as a fault of the medium meets it.

/// The newest data of a range of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Some of it is on the medium, or may be: the range is too long to tell.
    OnMedium,
    /// In the device's write buffer alone. Landing repairs the place.
    InBuffer,
    /// There is none.
    Nothing,
}

/// A range of a device, as a fault of the medium meets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Medium {
    /// Its newest data.
    pub held: Held,
    /// It is flash, of pages and erase blocks.
    pub has_pages: bool,
    /// The device rebuilds a page that it can't read from the page's parity stripe.
    pub is_rebuilt: bool,
}
