//! Structures and numbers of the kernel's interface, as in `linux/ublk_cmd.h`. Bytes are laid out explicitly, in this
//! machine's byte order, so nothing depends on padding.

/// Commands of `/dev/ublk-control`, encoded as `_IOWR('u', number, struct ublksrv_ctrl_cmd)`. This one adds a
/// device.
pub(super) const ADD: u32 = control(0x04);
pub(super) const DELETE: u32 = control(0x05);
pub(super) const START: u32 = control(0x06);
pub(super) const STOP: u32 = control(0x07);
pub(super) const SET_PARAMETERS: u32 = control(0x08);
/// Commands of `/dev/ublkcN`, encoded as `_IOWR('u', number, struct ublksrv_io_cmd)`. This one fetches a
/// request.
pub(super) const FETCH: u32 = encoded(0x20, IO_COMMAND_BYTES);
pub(super) const COMMIT_AND_FETCH: u32 = encoded(0x21, IO_COMMAND_BYTES);

const CONTROL_COMMAND_BYTES: u32 = 32;
const IO_COMMAND_BYTES: u32 = 16;
pub(super) const DEVICE_BYTES: usize = 64;
/// Length of the used part of `struct ublk_params`, up to and including the discard parameters, bytes.
pub(super) const PARAMETERS_BYTES: usize = 60;
/// Length of an entry (`struct ublksrv_io_desc`) in the request table shared with the kernel, bytes.
pub(super) const REQUEST_BYTES: usize = 24;

/// Device flag: commands are encoded as ioctl numbers. With the next flag, [`USER_COPY`], data is transferred
/// by `pread` and `pwrite`.
const IOCTL_ENCODE: u64 = 1 << 6;
const USER_COPY: u64 = 1 << 7;

/// Returns the offset in the ublk character device at which the data of the request with this tag is read or
/// written: a fixed base, plus the tag in bits 25 to 40 and the queue number, here always 0, in the bits above.
pub(super) const fn bytes_at(tag: u16) -> u64 {
    0x8000_0000 + ((tag as u64) << 25)
}

/// Operation codes in requests from the kernel. This one is a read.
pub(super) const READ: u32 = 0;
pub(super) const WRITE: u32 = 1;
pub(super) const FLUSH: u32 = 2;
pub(super) const DISCARD: u32 = 3;
pub(super) const WRITE_ZEROES: u32 = 5;
/// Request flag: the write must be durable before it is acknowledged.
pub(super) const FUA: u32 = 1 << 13;

const SECTOR_BYTES: u64 = 512;

const fn control(number: u32) -> u32 {
    encoded(number, CONTROL_COMMAND_BYTES)
}

/// Computes the command number `_IOWR('u', number, …)`, whose argument has `bytes` bytes.
const fn encoded(number: u32, bytes: u32) -> u32 {
    (3 << 30) | (bytes << 16) | ((b'u' as u32) << 8) | number
}

/// Encodes `struct ublksrv_ctrl_cmd`, padded to the 80 command bytes of a 128-byte io_uring submission entry.
pub(super) fn control_command(device: u32, address: u64, len: usize, data: u64) -> [u8; 80] {
    let mut bytes = [0; 80];
    bytes[0..4].copy_from_slice(&device.to_ne_bytes());
    // No particular queue.
    bytes[4..6].copy_from_slice(&u16::MAX.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(len as u16).to_ne_bytes());
    bytes[8..16].copy_from_slice(&address.to_ne_bytes());
    bytes[16..24].copy_from_slice(&data.to_ne_bytes());
    bytes
}

/// Encodes `struct ublksrv_ctrl_dev_info` of a new device with one queue. The kernel chooses the device's number.
pub(super) fn device(depth: u16, request_bytes_max: u32) -> [u8; DEVICE_BYTES] {
    let mut bytes = [0; DEVICE_BYTES];
    bytes[0..2].copy_from_slice(&1_u16.to_ne_bytes());
    bytes[2..4].copy_from_slice(&depth.to_ne_bytes());
    bytes[8..12].copy_from_slice(&request_bytes_max.to_ne_bytes());
    bytes[12..16].copy_from_slice(&u32::MAX.to_ne_bytes());
    bytes[24..32].copy_from_slice(&(IOCTL_ENCODE | USER_COPY).to_ne_bytes());
    bytes
}

/// Number that the kernel assigned to the device, from its reply to [`ADD`].
pub(super) fn device_number(bytes: &[u8; DEVICE_BYTES]) -> u32 {
    u32::from_ne_bytes([bytes[12], bytes[13], bytes[14], bytes[15]])
}

/// Whether the kernel accepted the flag [`USER_COPY`], according to its reply to [`ADD`].
pub(super) fn copies(bytes: &[u8; DEVICE_BYTES]) -> bool {
    let flags: [u8; 8] = std::array::from_fn(|i| bytes[24 + i]);
    u64::from_ne_bytes(flags) & USER_COPY != 0
}

/// Encodes `struct ublk_params` with the basic and the discard parameters.
pub(super) fn parameters(
    size_bytes: u64,
    request_bytes_max: u32,
    properties: super::DeviceFlags,
) -> [u8; PARAMETERS_BYTES] {
    const BASIC_AND_DISCARD: u32 = 0b11;
    // Kernels flush devices that may have a volatile cache; a protected cache answers immediately.
    const VOLATILE_CACHE: u32 = 1 << 2;
    const FUA_ATTRIBUTE: u32 = 1 << 3;
    // Limit of one operation; the kernel splits longer ones.
    const DISCARD_SECTORS_MAX: u32 = 1 << 21;
    let attributes = u32::from(properties.read_only)
        | u32::from(properties.rotational) << 1
        | VOLATILE_CACHE
        | FUA_ATTRIBUTE;
    let mut bytes = [0; PARAMETERS_BYTES];
    let mut put = |at: usize, value: u32| {
        bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    };
    put(0, PARAMETERS_BYTES as u32);
    put(4, BASIC_AND_DISCARD);
    put(8, attributes);
    put(16, request_bytes_max / SECTOR_BYTES as u32);
    // Discards; their alignment stays 0.
    put(44, 4096);
    put(48, DISCARD_SECTORS_MAX);
    put(52, DISCARD_SECTORS_MAX);
    // Shifts of the logical and physical block size, and of the optimal and minimal request size.
    bytes[12..16].copy_from_slice(&[9, 12, 12, 12]);
    bytes[24..32].copy_from_slice(&(size_bytes / SECTOR_BYTES).to_ne_bytes());
    bytes[56..58].copy_from_slice(&1_u16.to_ne_bytes());
    bytes
}

/// Encodes `struct ublksrv_io_cmd` for queue 0, the only queue.
pub(super) fn io_command(tag: u16, result: i32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[2..4].copy_from_slice(&tag.to_ne_bytes());
    bytes[4..8].copy_from_slice(&result.to_ne_bytes());
    bytes
}

/// A request from the kernel to the block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) operation: u32,
    pub(super) fua: bool,
    pub(super) offset_bytes: u64,
    pub(super) len_bytes: u32,
}

/// Decodes a request from the kernel (`struct ublksrv_io_desc`).
pub(super) fn request(bytes: &[u8; REQUEST_BYTES]) -> Request {
    let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
    let start = u64::from_ne_bytes(std::array::from_fn(|i| bytes[8 + i]));
    Request {
        operation: word(0) & 0xFF,
        fua: word(0) & FUA != 0,
        // A flush has no position: its sector is all ones.
        offset_bytes: start.wrapping_mul(SECTOR_BYTES),
        len_bytes: word(4).saturating_mul(SECTOR_BYTES as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command numbers equal those that the kernel's C header defines.
    #[test]
    fn numbers_are_the_kernels() {
        assert_eq!(ADD, 0xC020_7504);
        assert_eq!(SET_PARAMETERS, 0xC020_7508);
        assert_eq!(FETCH, 0xC010_7520);
        assert_eq!(COMMIT_AND_FETCH, 0xC010_7521);
        assert_eq!(bytes_at(3), 0x8000_0000 + 3 * (32 << 20));
    }

    #[test]
    fn a_request_is_read() {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[0..4].copy_from_slice(&(WRITE | FUA).to_ne_bytes());
        bytes[4..8].copy_from_slice(&8_u32.to_ne_bytes());
        bytes[8..16].copy_from_slice(&(1_u64 << 33).to_ne_bytes());
        let read = request(&bytes);
        let expected =
            Request { operation: WRITE, fua: true, offset_bytes: 1 << 42, len_bytes: 4096 };
        assert_eq!(read, expected);
        bytes[0..4].copy_from_slice(&FLUSH.to_ne_bytes());
        bytes[8..16].fill(0xFF);
        assert_eq!(request(&bytes).operation, FLUSH);
    }
}
